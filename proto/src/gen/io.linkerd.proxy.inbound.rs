//! Package `io.linkerd.proxy.inbound`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// Names a port of a workload.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PortSpec {
    /// The workload's token, which its injector gave it.
    #[prost(string, tag = "1")]
    pub workload: ::prost::alloc::string::String,
    /// The port, 1 to 65535.
    #[prost(uint32, tag = "2")]
    pub port: u32,
}
/// Everything in force on one port.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Server {
    /// The protocol of connections. Must be present.
    #[prost(message, optional, tag = "1")]
    pub protocol: ::core::option::Option<ProxyProtocol>,
    /// The addresses the workload is reached at. Empty: not known.
    #[prost(message, repeated, tag = "2")]
    pub server_ips: ::prost::alloc::vec::Vec<super::net::IpAddress>,
    /// Grants for every connection, and for every request besides its route's own.
    #[prost(message, repeated, tag = "3")]
    pub authorizations: ::prost::alloc::vec::Vec<Authz>,
    /// `group`, `kind` and `name` of what owns the port.
    #[prost(btree_map = "string, string", tag = "4")]
    pub labels: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
}
/// The protocol of connections.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ProxyProtocol {
    /// Exactly one must be set.
    #[prost(oneof = "proxy_protocol::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: ::core::option::Option<proxy_protocol::Kind>,
}
/// Nested message and enum types in `ProxyProtocol`.
pub mod proxy_protocol {
    /// HTTP if the first bytes say so, else bytes.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Detect {
        /// The time to wait for the first bytes. Must be present.
        #[prost(message, optional, tag = "1")]
        pub timeout: ::core::option::Option<::prost_types::Duration>,
        /// Routes of requests. Empty: one that matches all and grants nothing of its own.
        #[prost(message, repeated, tag = "3")]
        pub http_routes: ::prost::alloc::vec::Vec<super::HttpRoute>,
        /// Limit on requests; absent: none.
        #[prost(message, optional, tag = "4")]
        pub http_local_rate_limit: ::core::option::Option<super::HttpLocalRateLimit>,
    }
    /// Bytes.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Opaque {}
    /// TLS that the workload terminates.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Tls {}
    /// HTTP/1.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Http1 {
        /// Routes of requests. Empty: one that matches all and grants nothing of its own.
        #[prost(message, repeated, tag = "2")]
        pub routes: ::prost::alloc::vec::Vec<super::HttpRoute>,
        /// Limit on requests; absent: none.
        #[prost(message, optional, tag = "3")]
        pub local_rate_limit: ::core::option::Option<super::HttpLocalRateLimit>,
    }
    /// HTTP/2.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Http2 {
        /// Routes of requests. Empty: one that matches all and grants nothing of its own.
        #[prost(message, repeated, tag = "2")]
        pub routes: ::prost::alloc::vec::Vec<super::HttpRoute>,
        /// Limit on requests; absent: none.
        #[prost(message, optional, tag = "3")]
        pub local_rate_limit: ::core::option::Option<super::HttpLocalRateLimit>,
    }
    /// gRPC over HTTP/2.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Grpc {
        /// Routes of calls. Empty: one that matches all and grants nothing of its own.
        #[prost(message, repeated, tag = "2")]
        pub routes: ::prost::alloc::vec::Vec<super::GrpcRoute>,
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
        /// TLS passed through.
        #[prost(message, tag = "3")]
        Tls(Tls),
        /// HTTP/1.
        #[prost(message, tag = "4")]
        Http1(Http1),
        /// HTTP/2.
        #[prost(message, tag = "5")]
        Http2(Http2),
        /// gRPC.
        #[prost(message, tag = "6")]
        Grpc(Grpc),
    }
}
/// A grant: it holds if the client's address is in a network and its identity is accepted.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Authz {
    /// The networks of the client. Never empty.
    #[prost(message, repeated, tag = "1")]
    pub networks: ::prost::alloc::vec::Vec<Network>,
    /// The authentication of the client. Must be present.
    #[prost(message, optional, tag = "2")]
    pub authentication: ::core::option::Option<Authn>,
    /// `group`, `kind` and `name` of the granting object; replaced by `metadata`, still sent.
    #[prost(btree_map = "string, string", tag = "3")]
    pub labels: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    /// The granting object.
    #[prost(message, optional, tag = "4")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
}
/// A block of addresses with exceptions.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Network {
    /// The block.
    #[prost(message, optional, tag = "1")]
    pub net: ::core::option::Option<super::net::IpNetwork>,
    /// Blocks inside it that are left out.
    #[prost(message, repeated, tag = "2")]
    pub except: ::prost::alloc::vec::Vec<super::net::IpNetwork>,
}
/// The authentication of a client.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Authn {
    /// Exactly one must be set.
    #[prost(oneof = "authn::Permit", tags = "1, 2")]
    pub permit: ::core::option::Option<authn::Permit>,
}
/// Nested message and enum types in `Authn`.
pub mod authn {
    /// No authentication is required.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct PermitUnauthenticated {}
    /// Mesh TLS is required.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct PermitMeshTls {
        /// Exactly one must be set.
        #[prost(oneof = "permit_mesh_tls::Clients", tags = "1, 2")]
        pub clients: ::core::option::Option<permit_mesh_tls::Clients>,
    }
    /// Nested message and enum types in `PermitMeshTLS`.
    pub mod permit_mesh_tls {
        /// Named clients.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct PermitClientIdentities {
            /// Exact names.
            #[prost(message, repeated, tag = "1")]
            pub identities: ::prost::alloc::vec::Vec<super::super::Identity>,
            /// Ends of names.
            #[prost(message, repeated, tag = "2")]
            pub suffixes: ::prost::alloc::vec::Vec<super::super::IdentitySuffix>,
        }
        /// Exactly one must be set.
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum Clients {
            /// Any client of the mesh, with or without an identity.
            #[prost(message, tag = "1")]
            Unauthenticated(super::PermitUnauthenticated),
            /// These.
            #[prost(message, tag = "2")]
            Identities(PermitClientIdentities),
        }
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Permit {
        /// Anybody.
        #[prost(message, tag = "1")]
        Unauthenticated(PermitUnauthenticated),
        /// Clients of the mesh.
        #[prost(message, tag = "2")]
        MeshTls(PermitMeshTls),
    }
}
/// A client's identity.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Identity {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
}
/// The end of a client's identity.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IdentitySuffix {
    /// Labels in order. Empty: every identity that is a DNS name.
    #[prost(string, repeated, tag = "1")]
    pub parts: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// A route of HTTP requests, with its grants.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HttpRoute {
    /// The route's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Hosts it applies to; empty: all.
    #[prost(message, repeated, tag = "2")]
    pub hosts: ::prost::alloc::vec::Vec<super::http_route::HostMatch>,
    /// Its own grants, tried before the Server's.
    #[prost(message, repeated, tag = "3")]
    pub authorizations: ::prost::alloc::vec::Vec<Authz>,
    /// Its rules.
    #[prost(message, repeated, tag = "4")]
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
        /// Done to permitted requests, in order.
        #[prost(message, repeated, tag = "2")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
    }
    /// Something done to a permitted request.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Filter {
        /// Exactly one must be set.
        #[prost(oneof = "filter::Kind", tags = "1, 2, 3")]
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
            /// Changes headers.
            #[prost(message, tag = "2")]
            RequestHeaderModifier(
                super::super::super::http_route::RequestHeaderModifier,
            ),
            /// Answers with a redirect.
            #[prost(message, tag = "3")]
            Redirect(super::super::super::http_route::RequestRedirect),
        }
    }
}
/// A route of gRPC calls, with its grants.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GrpcRoute {
    /// The route's object. Must be present.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// Hosts it applies to; empty: all.
    #[prost(message, repeated, tag = "2")]
    pub hosts: ::prost::alloc::vec::Vec<super::http_route::HostMatch>,
    /// Its own grants, tried before the Server's.
    #[prost(message, repeated, tag = "3")]
    pub authorizations: ::prost::alloc::vec::Vec<Authz>,
    /// Its rules.
    #[prost(message, repeated, tag = "4")]
    pub rules: ::prost::alloc::vec::Vec<grpc_route::Rule>,
}
/// Nested message and enum types in `GrpcRoute`.
pub mod grpc_route {
    /// One alternative of a route.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Rule {
        /// Any of these; empty: every call.
        #[prost(message, repeated, tag = "1")]
        pub matches: ::prost::alloc::vec::Vec<super::super::grpc_route::GrpcRouteMatch>,
        /// Done to permitted calls, in order.
        #[prost(message, repeated, tag = "2")]
        pub filters: ::prost::alloc::vec::Vec<Filter>,
    }
    /// Something done to a permitted call.
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
}
/// A limit on requests, kept by each proxy for itself.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HttpLocalRateLimit {
    /// The object that sets it.
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<super::meta::Metadata>,
    /// All clients together.
    #[prost(message, optional, tag = "2")]
    pub total: ::core::option::Option<http_local_rate_limit::Limit>,
    /// Each client.
    #[prost(message, optional, tag = "3")]
    pub identity: ::core::option::Option<http_local_rate_limit::Limit>,
    /// In place of `identity` for the clients named.
    #[prost(message, repeated, tag = "4")]
    pub overrides: ::prost::alloc::vec::Vec<http_local_rate_limit::Override>,
}
/// Nested message and enum types in `HttpLocalRateLimit`.
pub mod http_local_rate_limit {
    /// A rate.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Limit {
        /// Requests per second; 0: no limit.
        #[prost(uint32, tag = "1")]
        pub requests_per_second: u32,
    }
    /// A rate for named clients.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Override {
        /// Their rate together.
        #[prost(message, optional, tag = "1")]
        pub limit: ::core::option::Option<Limit>,
        /// Their identities.
        #[prost(message, optional, tag = "2")]
        pub clients: ::core::option::Option<r#override::ClientIdentities>,
    }
    /// Nested message and enum types in `Override`.
    pub mod r#override {
        /// Named clients.
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct ClientIdentities {
            /// Exact names.
            #[prost(message, repeated, tag = "1")]
            pub identities: ::prost::alloc::vec::Vec<super::super::Identity>,
        }
    }
}
/// Generated client implementations.
pub mod inbound_server_policies_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Gives out the policy of one port of one workload.
    #[derive(Debug, Clone)]
    pub struct InboundServerPoliciesClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> InboundServerPoliciesClient<T>
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
        ) -> InboundServerPoliciesClient<InterceptedService<T, F>>
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
            InboundServerPoliciesClient::new(InterceptedService::new(inner, interceptor))
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
        /// The policy in force now.
        pub async fn get_port(
            &mut self,
            request: impl tonic::IntoRequest<super::PortSpec>,
        ) -> std::result::Result<tonic::Response<super::Server>, tonic::Status> {
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
                "/io.linkerd.proxy.inbound.InboundServerPolicies/GetPort",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "io.linkerd.proxy.inbound.InboundServerPolicies",
                        "GetPort",
                    ),
                );
            self.inner.unary(req, path, codec).await
        }
        /// The policy in force now, and again after each change.
        pub async fn watch_port(
            &mut self,
            request: impl tonic::IntoRequest<super::PortSpec>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::Server>>,
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
                "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "io.linkerd.proxy.inbound.InboundServerPolicies",
                        "WatchPort",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod inbound_server_policies_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with InboundServerPoliciesServer.
    #[async_trait]
    pub trait InboundServerPolicies: std::marker::Send + std::marker::Sync + 'static {
        /// The policy in force now.
        async fn get_port(
            &self,
            request: tonic::Request<super::PortSpec>,
        ) -> std::result::Result<tonic::Response<super::Server>, tonic::Status>;
        /// Server streaming response type for the WatchPort method.
        type WatchPortStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::Server, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// The policy in force now, and again after each change.
        async fn watch_port(
            &self,
            request: tonic::Request<super::PortSpec>,
        ) -> std::result::Result<tonic::Response<Self::WatchPortStream>, tonic::Status>;
    }
    /// Gives out the policy of one port of one workload.
    #[derive(Debug)]
    pub struct InboundServerPoliciesServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> InboundServerPoliciesServer<T> {
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
    impl<T, B> tonic::codegen::Service<http::Request<B>>
    for InboundServerPoliciesServer<T>
    where
        T: InboundServerPolicies,
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
                "/io.linkerd.proxy.inbound.InboundServerPolicies/GetPort" => {
                    #[allow(non_camel_case_types)]
                    struct GetPortSvc<T: InboundServerPolicies>(pub Arc<T>);
                    impl<
                        T: InboundServerPolicies,
                    > tonic::server::UnaryService<super::PortSpec> for GetPortSvc<T> {
                        type Response = super::Server;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::PortSpec>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as InboundServerPolicies>::get_port(&inner, request)
                                    .await
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
                        let method = GetPortSvc(inner);
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
                "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort" => {
                    #[allow(non_camel_case_types)]
                    struct WatchPortSvc<T: InboundServerPolicies>(pub Arc<T>);
                    impl<
                        T: InboundServerPolicies,
                    > tonic::server::ServerStreamingService<super::PortSpec>
                    for WatchPortSvc<T> {
                        type Response = super::Server;
                        type ResponseStream = T::WatchPortStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::PortSpec>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as InboundServerPolicies>::watch_port(&inner, request)
                                    .await
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
                        let method = WatchPortSvc(inner);
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
    impl<T> Clone for InboundServerPoliciesServer<T> {
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
    pub const SERVICE_NAME: &str = "io.linkerd.proxy.inbound.InboundServerPolicies";
    impl<T> tonic::server::NamedService for InboundServerPoliciesServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
