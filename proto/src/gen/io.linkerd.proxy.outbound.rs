//! Package `io.linkerd.proxy.outbound`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// A client and its destination.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TrafficSpec {
    /// The client's workload, as its injector wrote it.
    #[prost(string, tag = "1")]
    pub source_workload: ::prost::alloc::string::String,
    /// Exactly one must be set.
    #[prost(oneof = "traffic_spec::Target", tags = "2, 3")]
    pub target: ::core::option::Option<traffic_spec::Target>,
}
/// Nested message and enum types in `TrafficSpec`.
pub mod traffic_spec {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Target {
        /// The address that the application dialled.
        #[prost(message, tag = "2")]
        Addr(super::super::net::TcpAddress),
        /// The name that the application asked for.
        #[prost(string, tag = "3")]
        Authority(::prost::alloc::string::String),
    }
}
/// The outbound policy of a destination.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OutboundPolicy {
    /// What is done with its connections. Must be present.
    #[prost(message, optional, tag = "1")]
    pub protocol: ::core::option::Option<ProxyProtocol>,
    /// The object that the destination stands for. Must be present.
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
}
/// The protocol of a destination, and the routes that go with it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ProxyProtocol {
    /// Exactly one must be set.
    #[prost(oneof = "proxy_protocol::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: ::core::option::Option<proxy_protocol::Kind>,
}
/// Nested message and enum types in `ProxyProtocol`.
pub mod proxy_protocol {
    /// Found out per connection. All of its parts must be present.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Detect {
        /// Time to find out.
        #[prost(message, optional, tag = "1")]
        pub timeout: ::core::option::Option<::prost_types::Duration>,
        /// For what is not HTTP.
        #[prost(message, optional, tag = "2")]
        pub opaque: ::core::option::Option<Opaque>,
        /// For HTTP/1.
        #[prost(message, optional, tag = "3")]
        pub http1: ::core::option::Option<Http1>,
        /// For HTTP/2.
        #[prost(message, optional, tag = "4")]
        pub http2: ::core::option::Option<Http2>,
    }
    /// Bytes.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Opaque {
        /// At most one.
        #[prost(message, repeated, tag = "1")]
        pub routes: ::prost::alloc::vec::Vec<super::OpaqueRoute>,
    }
    /// HTTP/1.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Http1 {
        /// In any order.
        #[prost(message, repeated, tag = "1")]
        pub routes: ::prost::alloc::vec::Vec<super::HttpRoute>,
        /// When an endpoint is left alone; absent: never.
        #[prost(message, optional, tag = "2")]
        pub failure_accrual: ::core::option::Option<super::FailureAccrual>,
    }
    /// HTTP/2.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Http2 {
        /// In any order.
        #[prost(message, repeated, tag = "1")]
        pub routes: ::prost::alloc::vec::Vec<super::HttpRoute>,
        /// When an endpoint is left alone; absent: never.
        #[prost(message, optional, tag = "2")]
        pub failure_accrual: ::core::option::Option<super::FailureAccrual>,
    }
    /// gRPC.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Grpc {
        /// In any order.
        #[prost(message, repeated, tag = "1")]
        pub routes: ::prost::alloc::vec::Vec<super::GrpcRoute>,
        /// When an endpoint is left alone; absent: never.
        #[prost(message, optional, tag = "2")]
        pub failure_accrual: ::core::option::Option<super::FailureAccrual>,
    }
    /// TLS passed through.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Tls {
        /// In any order.
        #[prost(message, repeated, tag = "1")]
        pub routes: ::prost::alloc::vec::Vec<super::TlsRoute>,
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// Found out per connection.
        #[prost(message, tag = "1")]
        Detect(Detect),
        /// Bytes.
        #[prost(message, tag = "2")]
        Opaque(Opaque),
        /// HTTP/1.
        #[prost(message, tag = "3")]
        Http1(Http1),
        /// HTTP/2.
        #[prost(message, tag = "4")]
        Http2(Http2),
        /// gRPC.
        #[prost(message, tag = "5")]
        Grpc(Grpc),
        /// TLS passed through.
        #[prost(message, tag = "6")]
        Tls(Tls),
    }
}
/// A route of HTTP requests.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HttpRoute {
    /// The route's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Hosts it applies to; empty: all.
    #[prost(message, repeated, tag = "2")]
    pub hosts: ::prost::alloc::vec::Vec<super::http_route::HostMatch>,
    /// Its rules; at least one.
    #[prost(message, repeated, tag = "3")]
    pub rules: ::prost::alloc::vec::Vec<http_route::Rule>,
}
/// Nested message and enum types in `HttpRoute`.
pub mod http_route {
    /// One alternative of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Rule {
        /// Any of these; empty: every request.
        #[prost(message, repeated, tag = "1")]
        pub matches: ::prost::alloc::vec::Vec<super::super::http_route::HttpRouteMatch>,
        /// Done to requests, in order.
        #[prost(message, repeated, tag = "2")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
        /// The backends.
        #[prost(message, optional, tag = "3")]
        pub backends: ::core::option::Option<Distribution>,
        /// As `timeouts.response`, for older clients.
        #[deprecated]
        #[prost(message, optional, tag = "4")]
        pub request_timeout: ::core::option::Option<::prost_types::Duration>,
        /// Time limits.
        #[prost(message, optional, tag = "5")]
        pub timeouts: ::core::option::Option<super::super::http_route::Timeouts>,
        /// Retries; absent: none.
        #[prost(message, optional, tag = "6")]
        pub retry: ::core::option::Option<Retry>,
        /// True if headers of requests may change time limits and retries.
        #[prost(bool, tag = "7")]
        pub allow_l5d_request_headers: bool,
    }
    /// Something done to a request.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Filter {
        /// Exactly one must be set.
        #[prost(oneof = "filter::Kind", tags = "1, 2, 3, 4")]
        pub kind: ::core::option::Option<filter::Kind>,
    }
    /// Nested message and enum types in `Filter`.
    pub mod filter {
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Kind {
            /// Answers with a failure.
            #[prost(message, tag = "1")]
            FailureInjector(super::super::super::http_route::HttpFailureInjector),
            /// Changes headers of the request.
            #[prost(message, tag = "2")]
            RequestHeaderModifier(
                super::super::super::http_route::RequestHeaderModifier,
            ),
            /// Answers with a redirect.
            #[prost(message, tag = "3")]
            Redirect(super::super::super::http_route::RequestRedirect),
            /// Changes headers of the response.
            #[prost(message, tag = "4")]
            ResponseHeaderModifier(
                super::super::super::http_route::ResponseHeaderModifier,
            ),
        }
    }
    /// The backends of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Distribution {
        /// Exactly one must be set.
        #[prost(oneof = "distribution::Kind", tags = "1, 2, 3")]
        pub kind: ::core::option::Option<distribution::Kind>,
    }
    /// Nested message and enum types in `Distribution`.
    pub mod distribution {
        /// None: everything fails.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct Empty {}
        /// The first backend that is available.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct FirstAvailable {
            /// In order of preference.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::RouteBackend>,
        }
        /// One of the backends, by weight.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct RandomAvailable {
            /// In no order.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::WeightedRouteBackend>,
        }
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Kind {
            /// None: everything fails.
            #[prost(message, tag = "1")]
            Empty(Empty),
            /// The first backend that is available.
            #[prost(message, tag = "2")]
            FirstAvailable(FirstAvailable),
            /// One of the backends, by weight.
            #[prost(message, tag = "3")]
            RandomAvailable(RandomAvailable),
        }
    }
    /// Retries.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Retry {
        /// Most of one request.
        #[prost(uint32, tag = "1")]
        pub max_retries: u32,
        /// Largest body that is kept for them, in bytes.
        #[prost(uint32, tag = "2")]
        pub max_request_bytes: u32,
        /// The responses that are retried. Must be present, even if it names none.
        #[prost(message, optional, tag = "3")]
        pub conditions: ::core::option::Option<retry::Conditions>,
        /// Time limit of each try.
        #[prost(message, optional, tag = "4")]
        pub timeout: ::core::option::Option<::prost_types::Duration>,
        /// Pauses between tries.
        #[prost(message, optional, tag = "5")]
        pub backoff: ::core::option::Option<super::ExponentialBackoff>,
    }
    /// Nested message and enum types in `Retry`.
    pub mod retry {
        /// Responses that are retried.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct Conditions {
            /// Any of these.
            #[prost(message, repeated, tag = "1")]
            pub status_ranges: ::prost::alloc::vec::Vec<conditions::StatusRange>,
        }
        /// Nested message and enum types in `Conditions`.
        pub mod conditions {
            /// A range of HTTP statuses.
            #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
            pub struct StatusRange {
                /// The first.
                #[prost(uint32, tag = "1")]
                pub start: u32,
                /// The last.
                #[prost(uint32, tag = "2")]
                pub end: u32,
            }
        }
    }
    /// A backend of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct RouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<super::Backend>,
        /// Done to its requests, in order.
        #[prost(message, repeated, tag = "3")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
        /// Not used by clients any more.
        #[deprecated]
        #[prost(message, optional, tag = "4")]
        pub request_timeout: ::core::option::Option<::prost_types::Duration>,
    }
    /// A backend with its weight.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct WeightedRouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<RouteBackend>,
        /// Its share beside that of the others.
        #[prost(uint32, tag = "2")]
        pub weight: u32,
    }
}
/// A route of gRPC calls.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GrpcRoute {
    /// The route's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Hosts it applies to; empty: all.
    #[prost(message, repeated, tag = "2")]
    pub hosts: ::prost::alloc::vec::Vec<super::http_route::HostMatch>,
    /// Its rules; at least one.
    #[prost(message, repeated, tag = "3")]
    pub rules: ::prost::alloc::vec::Vec<grpc_route::Rule>,
}
/// Nested message and enum types in `GrpcRoute`.
pub mod grpc_route {
    /// One alternative of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Rule {
        /// Any of these; empty: every request.
        #[prost(message, repeated, tag = "1")]
        pub matches: ::prost::alloc::vec::Vec<super::super::grpc_route::GrpcRouteMatch>,
        /// Done to requests, in order.
        #[prost(message, repeated, tag = "2")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
        /// The backends.
        #[prost(message, optional, tag = "3")]
        pub backends: ::core::option::Option<Distribution>,
        /// As `timeouts.response`, for older clients.
        #[deprecated]
        #[prost(message, optional, tag = "4")]
        pub request_timeout: ::core::option::Option<::prost_types::Duration>,
        /// Time limits.
        #[prost(message, optional, tag = "5")]
        pub timeouts: ::core::option::Option<super::super::http_route::Timeouts>,
        /// Retries; absent: none.
        #[prost(message, optional, tag = "6")]
        pub retry: ::core::option::Option<Retry>,
        /// True if headers of requests may change time limits and retries.
        #[prost(bool, tag = "7")]
        pub allow_l5d_request_headers: bool,
    }
    /// Something done to a request.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Filter {
        /// Exactly one must be set.
        #[prost(oneof = "filter::Kind", tags = "1, 2")]
        pub kind: ::core::option::Option<filter::Kind>,
    }
    /// Nested message and enum types in `Filter`.
    pub mod filter {
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Kind {
            /// Answers with a failure.
            #[prost(message, tag = "1")]
            FailureInjector(super::super::super::grpc_route::GrpcFailureInjector),
            /// Changes headers.
            #[prost(message, tag = "2")]
            RequestHeaderModifier(
                super::super::super::http_route::RequestHeaderModifier,
            ),
        }
    }
    /// The backends of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Distribution {
        /// Exactly one must be set.
        #[prost(oneof = "distribution::Kind", tags = "1, 2, 3")]
        pub kind: ::core::option::Option<distribution::Kind>,
    }
    /// Nested message and enum types in `Distribution`.
    pub mod distribution {
        /// None: everything fails.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct Empty {}
        /// The first backend that is available.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct FirstAvailable {
            /// In order of preference.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::RouteBackend>,
        }
        /// One of the backends, by weight.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct RandomAvailable {
            /// In no order.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::WeightedRouteBackend>,
        }
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Kind {
            /// None: everything fails.
            #[prost(message, tag = "1")]
            Empty(Empty),
            /// The first backend that is available.
            #[prost(message, tag = "2")]
            FirstAvailable(FirstAvailable),
            /// One of the backends, by weight.
            #[prost(message, tag = "3")]
            RandomAvailable(RandomAvailable),
        }
    }
    /// Retries.
    #[derive(Clone, Copy, PartialEq, ::prost::Message)]
    pub struct Retry {
        /// Most of one request.
        #[prost(uint32, tag = "1")]
        pub max_retries: u32,
        /// Largest body that is kept for them, in bytes.
        #[prost(uint32, tag = "2")]
        pub max_request_bytes: u32,
        /// The responses that are retried. Must be present, even if it names none.
        #[prost(message, optional, tag = "3")]
        pub conditions: ::core::option::Option<retry::Conditions>,
        /// Time limit of each try.
        #[prost(message, optional, tag = "4")]
        pub timeout: ::core::option::Option<::prost_types::Duration>,
        /// Pauses between tries.
        #[prost(message, optional, tag = "5")]
        pub backoff: ::core::option::Option<super::ExponentialBackoff>,
    }
    /// Nested message and enum types in `Retry`.
    pub mod retry {
        /// Responses that are retried, by gRPC status. The second name is misspelt as it is published.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct Conditions {
            /// CANCELLED.
            #[prost(bool, tag = "1")]
            pub cancelled: bool,
            /// DEADLINE_EXCEEDED.
            #[prost(bool, tag = "4")]
            pub deadine_exceeded: bool,
            /// RESOURCE_EXHAUSTED.
            #[prost(bool, tag = "8")]
            pub resource_exhausted: bool,
            /// INTERNAL.
            #[prost(bool, tag = "13")]
            pub internal: bool,
            /// UNAVAILABLE.
            #[prost(bool, tag = "14")]
            pub unavailable: bool,
        }
    }
    /// A backend of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct RouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<super::Backend>,
        /// Done to its requests, in order.
        #[prost(message, repeated, tag = "3")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
        /// Not used by clients any more.
        #[deprecated]
        #[prost(message, optional, tag = "4")]
        pub request_timeout: ::core::option::Option<::prost_types::Duration>,
    }
    /// A backend with its weight.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct WeightedRouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<RouteBackend>,
        /// Its share beside that of the others.
        #[prost(uint32, tag = "2")]
        pub weight: u32,
    }
}
/// A route of connections carried as bytes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OpaqueRoute {
    /// The route's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Its rules; at least one.
    #[prost(message, repeated, tag = "3")]
    pub rules: ::prost::alloc::vec::Vec<opaque_route::Rule>,
}
/// Nested message and enum types in `OpaqueRoute`.
pub mod opaque_route {
    /// The one alternative of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Rule {
        /// The backends.
        #[prost(message, optional, tag = "1")]
        pub backends: ::core::option::Option<Distribution>,
        /// Done to connections, in order.
        #[prost(message, repeated, tag = "2")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
    }
    /// Something done to a connection.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Filter {
        /// Exactly one must be set.
        #[prost(oneof = "filter::Kind", tags = "1, 2")]
        pub kind: ::core::option::Option<filter::Kind>,
    }
    /// Nested message and enum types in `Filter`.
    pub mod filter {
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
        pub enum Kind {
            /// The route is invalid.
            #[prost(message, tag = "1")]
            Invalid(super::super::super::opaque_route::Invalid),
            /// It is refused.
            #[prost(message, tag = "2")]
            Forbidden(super::super::super::opaque_route::Forbidden),
        }
    }
    /// The backends of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Distribution {
        /// Exactly one must be set.
        #[prost(oneof = "distribution::Kind", tags = "1, 2, 3")]
        pub kind: ::core::option::Option<distribution::Kind>,
    }
    /// Nested message and enum types in `Distribution`.
    pub mod distribution {
        /// None: everything fails.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct Empty {}
        /// The first backend that is available.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct FirstAvailable {
            /// In order of preference.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::RouteBackend>,
        }
        /// One of the backends, by weight.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct RandomAvailable {
            /// In no order.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::WeightedRouteBackend>,
        }
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Kind {
            /// None: everything fails.
            #[prost(message, tag = "1")]
            Empty(Empty),
            /// The first backend that is available.
            #[prost(message, tag = "2")]
            FirstAvailable(FirstAvailable),
            /// One of the backends, by weight.
            #[prost(message, tag = "3")]
            RandomAvailable(RandomAvailable),
        }
    }
    /// A backend of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct RouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<super::Backend>,
        /// Done to its connections, in order.
        #[prost(message, repeated, tag = "3")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
    }
    /// A backend with its weight.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct WeightedRouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<RouteBackend>,
        /// Its share beside that of the others.
        #[prost(uint32, tag = "2")]
        pub weight: u32,
    }
}
/// A route of TLS connections that are passed through.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TlsRoute {
    /// The route's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Server names (SNI) it applies to; empty: all.
    #[prost(message, repeated, tag = "2")]
    pub snis: ::prost::alloc::vec::Vec<super::tls_route::SniMatch>,
    /// Its rules; at least one.
    #[prost(message, repeated, tag = "3")]
    pub rules: ::prost::alloc::vec::Vec<tls_route::Rule>,
}
/// Nested message and enum types in `TlsRoute`.
pub mod tls_route {
    /// The one alternative of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Rule {
        /// The backends.
        #[prost(message, optional, tag = "1")]
        pub backends: ::core::option::Option<Distribution>,
        /// Done to connections, in order.
        #[prost(message, repeated, tag = "2")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
    }
    /// Something done to a connection.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Filter {
        /// Exactly one must be set.
        #[prost(oneof = "filter::Kind", tags = "1, 2")]
        pub kind: ::core::option::Option<filter::Kind>,
    }
    /// Nested message and enum types in `Filter`.
    pub mod filter {
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
        pub enum Kind {
            /// The route is invalid.
            #[prost(message, tag = "1")]
            Invalid(super::super::super::opaque_route::Invalid),
            /// It is refused.
            #[prost(message, tag = "2")]
            Forbidden(super::super::super::opaque_route::Forbidden),
        }
    }
    /// The backends of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Distribution {
        /// Exactly one must be set.
        #[prost(oneof = "distribution::Kind", tags = "1, 2, 3")]
        pub kind: ::core::option::Option<distribution::Kind>,
    }
    /// Nested message and enum types in `Distribution`.
    pub mod distribution {
        /// None: everything fails.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct Empty {}
        /// The first backend that is available.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct FirstAvailable {
            /// In order of preference.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::RouteBackend>,
        }
        /// One of the backends, by weight.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct RandomAvailable {
            /// In no order.
            #[prost(message, repeated, tag = "1")]
            pub backends: ::prost::alloc::vec::Vec<super::WeightedRouteBackend>,
        }
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Kind {
            /// None: everything fails.
            #[prost(message, tag = "1")]
            Empty(Empty),
            /// The first backend that is available.
            #[prost(message, tag = "2")]
            FirstAvailable(FirstAvailable),
            /// One of the backends, by weight.
            #[prost(message, tag = "3")]
            RandomAvailable(RandomAvailable),
        }
    }
    /// A backend of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct RouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<super::Backend>,
        /// Done to its connections, in order.
        #[prost(message, repeated, tag = "3")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
    }
    /// A backend with its weight.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct WeightedRouteBackend {
        /// The backend.
        #[prost(message, optional, tag = "1")]
        pub backend: ::core::option::Option<RouteBackend>,
        /// Its share beside that of the others.
        #[prost(uint32, tag = "2")]
        pub weight: u32,
    }
}
/// A place where connections go.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Backend {
    /// The backend's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Requests that wait. Must be present.
    #[prost(message, optional, tag = "4")]
    pub queue: ::core::option::Option<Queue>,
    /// Exactly one must be set.
    #[prost(oneof = "backend::Kind", tags = "2, 3")]
    pub kind: ::core::option::Option<backend::Kind>,
}
/// Nested message and enum types in `Backend`.
pub mod backend {
    /// A way to find endpoints.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct EndpointDiscovery {
        /// Exactly one must be set.
        #[prost(oneof = "endpoint_discovery::Kind", tags = "1")]
        pub kind: ::core::option::Option<endpoint_discovery::Kind>,
    }
    /// Nested message and enum types in `EndpointDiscovery`.
    pub mod endpoint_discovery {
        /// A name for the service `Destination`.
        #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct DestinationGet {
            /// The path of the lookup: a name and a port.
            #[prost(string, tag = "1")]
            pub path: ::prost::alloc::string::String,
        }
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
        pub enum Kind {
            /// By the service `Destination`.
            #[prost(message, tag = "1")]
            Dst(DestinationGet),
        }
    }
    /// Endpoints that share the load: the better one of two chosen at random.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct BalanceP2c {
        /// The endpoints. Must be present.
        #[prost(message, optional, tag = "1")]
        pub discovery: ::core::option::Option<EndpointDiscovery>,
        /// Exactly one must be set.
        #[prost(oneof = "balance_p2c::Load", tags = "2, 3")]
        pub load: ::core::option::Option<balance_p2c::Load>,
    }
    /// Nested message and enum types in `BalanceP2c`.
    pub mod balance_p2c {
        /// Load by response times that count less with age.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct PeakEwma {
            /// Response time of an endpoint without any.
            #[prost(message, optional, tag = "1")]
            pub default_rtt: ::core::option::Option<::prost_types::Duration>,
            /// Time in which they fade.
            #[prost(message, optional, tag = "2")]
            pub decay: ::core::option::Option<::prost_types::Duration>,
        }
        /// The same, with a penalty for refusals.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct PenaltyPeakEwma {
            /// Response time of an endpoint without any.
            #[prost(message, optional, tag = "1")]
            pub default_rtt: ::core::option::Option<::prost_types::Duration>,
            /// Time in which they fade.
            #[prost(message, optional, tag = "2")]
            pub decay: ::core::option::Option<::prost_types::Duration>,
            /// The penalty of a refusal.
            #[prost(message, optional, tag = "3")]
            pub penalty: ::core::option::Option<::prost_types::Duration>,
            /// Longest Retry-After that is believed.
            #[prost(message, optional, tag = "4")]
            pub max_retry_after: ::core::option::Option<::prost_types::Duration>,
            /// Time in which penalties fade.
            #[prost(message, optional, tag = "5")]
            pub penalty_decay: ::core::option::Option<::prost_types::Duration>,
        }
        /// Exactly one must be set.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
        pub enum Load {
            /// By response times.
            #[prost(message, tag = "2")]
            PeakEwma(PeakEwma),
            /// By response times and refusals.
            #[prost(message, tag = "3")]
            PenaltyPeakEwma(PenaltyPeakEwma),
        }
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// One endpoint.
        #[prost(message, tag = "2")]
        Forward(super::super::destination::WeightedAddr),
        /// Several.
        #[prost(message, tag = "3")]
        Balancer(BalanceP2c),
    }
}
/// Requests that wait for a backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Queue {
    /// Most of them.
    #[prost(uint32, tag = "1")]
    pub capacity: u32,
    /// Time without an endpoint after which they fail.
    #[prost(message, optional, tag = "2")]
    pub failfast_timeout: ::core::option::Option<::prost_types::Duration>,
}
/// When an endpoint that fails is left alone. A bound of 0 is none.
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct FailureAccrual {
    /// The endpoints that are kept nevertheless.
    #[prost(message, optional, tag = "3")]
    pub ejection: ::core::option::Option<EjectionConfig>,
    /// Exactly one must be set.
    #[prost(oneof = "failure_accrual::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<failure_accrual::Kind>,
}
/// Nested message and enum types in `FailureAccrual`.
pub mod failure_accrual {
    /// By failures in a row.
    #[derive(Clone, Copy, PartialEq, ::prost::Message)]
    pub struct ConsecutiveFailures {
        /// Most of them.
        #[prost(uint32, tag = "1")]
        pub max_failures: u32,
        /// Pauses before the endpoint is tried again. Must be present.
        #[prost(message, optional, tag = "2")]
        pub backoff: ::core::option::Option<super::ExponentialBackoff>,
    }
    /// By failures in a row, or by the share of successes.
    #[derive(Clone, Copy, PartialEq, ::prost::Message)]
    pub struct Unified {
        /// Least share of successes, 0 to 1.
        #[prost(double, tag = "1")]
        pub success_rate_threshold: f64,
        /// Time in which old ones fade.
        #[prost(message, optional, tag = "2")]
        pub decay: ::core::option::Option<::prost_types::Duration>,
        /// Requests before the share counts.
        #[prost(uint32, tag = "3")]
        pub min_requests: u32,
        /// Most failures in a row.
        #[prost(uint32, tag = "4")]
        pub max_consecutive_failures: u32,
        /// Pauses before the endpoint is tried again. Must be present.
        #[prost(message, optional, tag = "5")]
        pub backoff: ::core::option::Option<super::ExponentialBackoff>,
    }
    /// Exactly one must be set.
    #[derive(Clone, Copy, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// By failures in a row.
        #[prost(message, tag = "1")]
        ConsecutiveFailures(ConsecutiveFailures),
        /// By failures in a row, or by the share of successes.
        #[prost(message, tag = "2")]
        Unified(Unified),
    }
}
/// The endpoints that are kept although they fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct EjectionConfig {
    /// Least number of them; 0: none.
    #[prost(uint32, tag = "1")]
    pub min_ready_endpoints: u32,
}
/// Pauses that grow.
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct ExponentialBackoff {
    /// The first.
    #[prost(message, optional, tag = "1")]
    pub min_backoff: ::core::option::Option<::prost_types::Duration>,
    /// The longest; not less than the first.
    #[prost(message, optional, tag = "2")]
    pub max_backoff: ::core::option::Option<::prost_types::Duration>,
    /// Share of a pause that is added at random, 0 or more.
    #[prost(float, tag = "3")]
    pub jitter_ratio: f32,
    /// True: a Retry-After of the response is the first pause, within the bounds above.
    #[prost(bool, tag = "4")]
    pub respect_retry_after_hint: bool,
}
/// Generated client implementations.
pub mod outbound_policies_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Serves the outbound policy of a destination.
    #[derive(Debug, Clone)]
    pub struct OutboundPoliciesClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> OutboundPoliciesClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> OutboundPoliciesClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            OutboundPoliciesClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Returns the policy.
        pub async fn get(
            &mut self,
            request: impl tonic::IntoRequest<super::TrafficSpec>,
        ) -> std::result::Result<tonic::Response<super::OutboundPolicy>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/io.linkerd.proxy.outbound.OutboundPolicies/Get",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("io.linkerd.proxy.outbound.OutboundPolicies", "Get"),
                );
            self.inner.unary(req, path, codec).await
        }
        /// Sends the policy, and again whenever it changes.
        pub async fn watch(
            &mut self,
            request: impl tonic::IntoRequest<super::TrafficSpec>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::OutboundPolicy>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/io.linkerd.proxy.outbound.OutboundPolicies/Watch",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "io.linkerd.proxy.outbound.OutboundPolicies",
                        "Watch",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod outbound_policies_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with OutboundPoliciesServer.
    #[async_trait]
    pub trait OutboundPolicies: std::marker::Send + std::marker::Sync + 'static {
        /// Returns the policy.
        async fn get(
            &self,
            request: tonic::Request<super::TrafficSpec>,
        ) -> std::result::Result<tonic::Response<super::OutboundPolicy>, tonic::Status>;
        /// Server streaming response type for the Watch method.
        type WatchStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::OutboundPolicy, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Sends the policy, and again whenever it changes.
        async fn watch(
            &self,
            request: tonic::Request<super::TrafficSpec>,
        ) -> std::result::Result<tonic::Response<Self::WatchStream>, tonic::Status>;
    }
    /// Serves the outbound policy of a destination.
    #[derive(Debug)]
    pub struct OutboundPoliciesServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> OutboundPoliciesServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for OutboundPoliciesServer<T>
    where
        T: OutboundPolicies,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/io.linkerd.proxy.outbound.OutboundPolicies/Get" => {
                    #[allow(non_camel_case_types)]
                    struct GetSvc<T: OutboundPolicies>(pub Arc<T>);
                    impl<
                        T: OutboundPolicies,
                    > tonic::server::UnaryService<super::TrafficSpec> for GetSvc<T> {
                        type Response = super::OutboundPolicy;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::TrafficSpec>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as OutboundPolicies>::get(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/io.linkerd.proxy.outbound.OutboundPolicies/Watch" => {
                    #[allow(non_camel_case_types)]
                    struct WatchSvc<T: OutboundPolicies>(pub Arc<T>);
                    impl<
                        T: OutboundPolicies,
                    > tonic::server::ServerStreamingService<super::TrafficSpec>
                    for WatchSvc<T> {
                        type Response = super::OutboundPolicy;
                        type ResponseStream = T::WatchStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::TrafficSpec>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as OutboundPolicies>::watch(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = WatchSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for OutboundPoliciesServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "io.linkerd.proxy.outbound.OutboundPolicies";
    impl<T> tonic::server::NamedService for OutboundPoliciesServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
