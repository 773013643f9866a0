//! Package `io.linkerd.proxy.destination`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// A lookup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetDestination {
    /// Not used.
    #[prost(string, tag = "1")]
    pub scheme: ::prost::alloc::string::String,
    /// A name or an address, and a port after a colon.
    #[prost(string, tag = "2")]
    pub path: ::prost::alloc::string::String,
    /// JSON that the client was given when its pod was made: its namespace, node and pod.
    #[prost(string, tag = "3")]
    pub context_token: ::prost::alloc::string::String,
}
/// A change of the endpoints of a name. The first one stands for everything before it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Update {
    /// Exactly one must be set.
    #[prost(oneof = "update::Update", tags = "1, 2, 3")]
    pub update: ::core::option::Option<update::Update>,
}
/// Nested message and enum types in `Update`.
pub mod update {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Update {
        /// Added, or replaced by address.
        #[prost(message, tag = "1")]
        Add(super::WeightedAddrSet),
        /// Removed.
        #[prost(message, tag = "2")]
        Remove(super::AddrSet),
        /// All removed.
        #[prost(message, tag = "3")]
        NoEndpoints(super::NoEndpoints),
    }
}
/// Addresses.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AddrSet {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub addrs: ::prost::alloc::vec::Vec<super::net::TcpAddress>,
}
/// Endpoints.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WeightedAddrSet {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub addrs: ::prost::alloc::vec::Vec<WeightedAddr>,
    /// Labels of metrics about each of them.
    #[prost(btree_map = "string, string", tag = "2")]
    pub metric_labels: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
}
/// An endpoint.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WeightedAddr {
    /// Its address. Must be present.
    #[prost(message, optional, tag = "1")]
    pub addr: ::core::option::Option<super::net::TcpAddress>,
    /// Its share of the connections beside that of others; 10000 is usual.
    #[prost(uint32, tag = "3")]
    pub weight: u32,
    /// Labels of metrics about it.
    #[prost(btree_map = "string, string", tag = "4")]
    pub metric_labels: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    /// The identity that it must present; absent: it is reached in plaintext.
    #[prost(message, optional, tag = "5")]
    pub tls_identity: ::core::option::Option<TlsIdentity>,
    /// The protocols that it is known to understand.
    #[prost(message, optional, tag = "6")]
    pub protocol_hint: ::core::option::Option<ProtocolHint>,
    /// The authority of requests to it, in place of the client's.
    #[prost(message, optional, tag = "7")]
    pub authority_override: ::core::option::Option<AuthorityOverride>,
    /// Settings of HTTP/2 connections to it.
    #[prost(message, optional, tag = "8")]
    pub http2: ::core::option::Option<Http2ClientParams>,
    /// Its object.
    #[prost(message, optional, tag = "9")]
    pub resource_ref: ::core::option::Option<super::meta::Metadata>,
}
/// The identity of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TlsIdentity {
    /// The server name (SNI) to send; absent: the DNS name above. A URI is not used without it.
    #[prost(message, optional, tag = "4")]
    pub server_name: ::core::option::Option<tls_identity::DnsLikeIdentity>,
    /// Exactly one must be set.
    #[prost(oneof = "tls_identity::Strategy", tags = "1, 3")]
    pub strategy: ::core::option::Option<tls_identity::Strategy>,
}
/// Nested message and enum types in `TlsIdentity`.
pub mod tls_identity {
    /// A DNS name.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct DnsLikeIdentity {
        /// The name.
        #[prost(string, tag = "1")]
        pub name: ::prost::alloc::string::String,
    }
    /// A URI.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct UriLikeIdentity {
        /// The URI.
        #[prost(string, tag = "1")]
        pub uri: ::prost::alloc::string::String,
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Strategy {
        /// A DNS name in the certificate.
        #[prost(message, tag = "1")]
        DnsLikeIdentity(DnsLikeIdentity),
        /// A URI in the certificate.
        #[prost(message, tag = "3")]
        UriLikeIdentity(UriLikeIdentity),
    }
}
/// The authority of requests to an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AuthorityOverride {
    /// The authority.
    #[prost(string, tag = "1")]
    pub authority_override: ::prost::alloc::string::String,
}
/// A name without endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NoEndpoints {
    /// True if the name exists.
    #[prost(bool, tag = "1")]
    pub exists: bool,
}
/// The protocols that an endpoint is known to understand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProtocolHint {
    /// The connection goes to the sidecar's own port, with a transport header; absent: to the address
    /// above.
    #[prost(message, optional, tag = "2")]
    pub opaque_transport: ::core::option::Option<protocol_hint::OpaqueTransport>,
    /// At most one is set.
    #[prost(oneof = "protocol_hint::Protocol", tags = "1, 3")]
    pub protocol: ::core::option::Option<protocol_hint::Protocol>,
}
/// Nested message and enum types in `ProtocolHint`.
pub mod protocol_hint {
    /// HTTP/2, and HTTP/1 carried in it.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct H2 {}
    /// Bytes.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Opaque {}
    /// A sidecar's own port.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct OpaqueTransport {
        /// The port, 1 to 65535.
        #[prost(uint32, tag = "1")]
        pub inbound_port: u32,
    }
    /// At most one is set.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Protocol {
        /// HTTP/2, and HTTP/1 carried in it.
        #[prost(message, tag = "1")]
        H2(H2),
        /// Bytes, whatever they look like.
        #[prost(message, tag = "3")]
        Opaque(Opaque),
    }
}
/// Settings of HTTP/2 connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Http2ClientParams {
    /// Flow control.
    #[prost(message, optional, tag = "1")]
    pub flow_control: ::core::option::Option<http2_client_params::FlowControl>,
    /// Pings; absent: none.
    #[prost(message, optional, tag = "2")]
    pub keep_alive: ::core::option::Option<http2_client_params::KeepAlive>,
    /// Settings of the client's library.
    #[prost(message, optional, tag = "3")]
    pub internals: ::core::option::Option<http2_client_params::Internals>,
}
/// Nested message and enum types in `Http2ClientParams`.
pub mod http2_client_params {
    /// Flow control.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct FlowControl {
        /// Window of a connection, in bytes.
        #[prost(uint32, tag = "1")]
        pub initial_connection_window_size: u32,
        /// Window of a stream, in bytes.
        #[prost(uint32, tag = "2")]
        pub initial_stream_window_size: u32,
        /// True: windows follow the connection's bandwidth and delay.
        #[prost(bool, tag = "3")]
        pub adaptive_flow_control: bool,
    }
    /// Pings.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct KeepAlive {
        /// Time between two.
        #[prost(message, optional, tag = "1")]
        pub interval: ::core::option::Option<::prost_types::Duration>,
        /// Time within which one must be answered.
        #[prost(message, optional, tag = "2")]
        pub timeout: ::core::option::Option<::prost_types::Duration>,
        /// True: also without any stream.
        #[prost(bool, tag = "3")]
        pub while_idle: bool,
    }
    /// Settings of the client's library.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Internals {
        /// Streams that are reset and still remembered.
        #[prost(uint32, tag = "1")]
        pub max_concurrent_reset_streams: u32,
        /// Largest frame, in bytes.
        #[prost(uint32, tag = "2")]
        pub max_frame_size: u32,
        /// Largest buffer of a stream, in bytes.
        #[prost(uint32, tag = "3")]
        pub max_send_buf_size: u32,
    }
}
/// What an address or name stands for.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DestinationProfile {
    /// The routes of a ServiceProfile; the first that matches counts.
    #[prost(message, repeated, tag = "1")]
    pub routes: ::prost::alloc::vec::Vec<Route>,
    /// The retries that those routes may make together.
    #[prost(message, optional, tag = "2")]
    pub retry_budget: ::core::option::Option<RetryBudget>,
    /// Destinations in place of the one that was asked for; empty: none.
    #[prost(message, repeated, tag = "3")]
    pub dst_overrides: ::prost::alloc::vec::Vec<WeightedDst>,
    /// True if connections are carried as bytes, and the routes are not used.
    #[prost(bool, tag = "4")]
    pub opaque_protocol: bool,
    /// The Service's name, without port; empty: not a Service.
    #[prost(string, tag = "5")]
    pub fully_qualified_name: ::prost::alloc::string::String,
    /// The one endpoint that the address stands for; absent: not a known endpoint.
    #[prost(message, optional, tag = "6")]
    pub endpoint: ::core::option::Option<WeightedAddr>,
    /// The object that the address stands for.
    #[prost(message, optional, tag = "7")]
    pub parent_ref: ::core::option::Option<super::meta::Metadata>,
    /// The ServiceProfile.
    #[prost(message, optional, tag = "8")]
    pub profile_ref: ::core::option::Option<super::meta::Metadata>,
}
/// A route of a ServiceProfile.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Route {
    /// The requests that it is for.
    #[prost(message, optional, tag = "1")]
    pub condition: ::core::option::Option<RequestMatch>,
    /// Classes of responses; the first that matches counts, without one it is a success.
    #[prost(message, repeated, tag = "2")]
    pub response_classes: ::prost::alloc::vec::Vec<ResponseClass>,
    /// Labels of metrics about its requests.
    #[prost(btree_map = "string, string", tag = "3")]
    pub metrics_labels: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    /// True if its failed requests may be sent again.
    #[prost(bool, tag = "4")]
    pub is_retryable: bool,
    /// Time limit of a request with its retries.
    #[prost(message, optional, tag = "5")]
    pub timeout: ::core::option::Option<::prost_types::Duration>,
}
/// A bound on retries.
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct RetryBudget {
    /// Retries for each request.
    #[prost(float, tag = "1")]
    pub retry_ratio: f32,
    /// Retries per second that are always permitted.
    #[prost(uint32, tag = "2")]
    pub min_retries_per_second: u32,
    /// Time for which a request counts.
    #[prost(message, optional, tag = "3")]
    pub ttl: ::core::option::Option<::prost_types::Duration>,
}
/// A class of responses.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ResponseClass {
    /// The responses that it is for.
    #[prost(message, optional, tag = "1")]
    pub condition: ::core::option::Option<ResponseMatch>,
    /// True if they are failures.
    #[prost(bool, tag = "2")]
    pub is_failure: bool,
}
/// A predicate over a request.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RequestMatch {
    /// Exactly one must be set.
    #[prost(oneof = "request_match::Match", tags = "1, 2, 3, 4, 5")]
    pub r#match: ::core::option::Option<request_match::Match>,
}
/// Nested message and enum types in `RequestMatch`.
pub mod request_match {
    /// Several predicates.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Seq {
        /// In order.
        #[prost(message, repeated, tag = "1")]
        pub matches: ::prost::alloc::vec::Vec<super::RequestMatch>,
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Match {
        /// Each of these.
        #[prost(message, tag = "1")]
        All(Seq),
        /// One of these.
        #[prost(message, tag = "2")]
        Any(Seq),
        /// The opposite of this.
        #[prost(message, tag = "3")]
        Not(::prost::alloc::boxed::Box<super::RequestMatch>),
        /// The path.
        #[prost(message, tag = "4")]
        Path(super::PathMatch),
        /// The method.
        #[prost(message, tag = "5")]
        Method(super::super::http_types::HttpMethod),
    }
}
/// A predicate over a path.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PathMatch {
    /// The whole path matches this expression.
    #[prost(string, tag = "1")]
    pub regex: ::prost::alloc::string::String,
}
/// A predicate over a response.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ResponseMatch {
    /// Exactly one must be set.
    #[prost(oneof = "response_match::Match", tags = "1, 2, 3, 4")]
    pub r#match: ::core::option::Option<response_match::Match>,
}
/// Nested message and enum types in `ResponseMatch`.
pub mod response_match {
    /// Several predicates.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Seq {
        /// In order.
        #[prost(message, repeated, tag = "1")]
        pub matches: ::prost::alloc::vec::Vec<super::ResponseMatch>,
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Match {
        /// Each of these.
        #[prost(message, tag = "1")]
        All(Seq),
        /// One of these.
        #[prost(message, tag = "2")]
        Any(Seq),
        /// The opposite of this.
        #[prost(message, tag = "3")]
        Not(::prost::alloc::boxed::Box<super::ResponseMatch>),
        /// The status.
        #[prost(message, tag = "4")]
        Status(super::HttpStatusRange),
    }
}
/// A range of HTTP statuses; a bound of 0 is the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HttpStatusRange {
    /// The first.
    #[prost(uint32, tag = "1")]
    pub min: u32,
    /// The last.
    #[prost(uint32, tag = "2")]
    pub max: u32,
}
/// A destination among others.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WeightedDst {
    /// The name to look up.
    #[prost(string, tag = "1")]
    pub authority: ::prost::alloc::string::String,
    /// Its share beside that of the others.
    #[prost(uint32, tag = "2")]
    pub weight: u32,
    /// Its object.
    #[prost(message, optional, tag = "3")]
    pub backend_ref: ::core::option::Option<super::meta::Metadata>,
}
/// Generated client implementations.
pub mod destination_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Says where a name leads, and what an address stands for.
    #[derive(Debug, Clone)]
    pub struct DestinationClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> DestinationClient<T>
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
        ) -> DestinationClient<InterceptedService<T, F>>
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
            DestinationClient::new(InterceptedService::new(inner, interceptor))
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
        /// Follows the endpoints of a name.
        pub async fn get(
            &mut self,
            request: impl tonic::IntoRequest<super::GetDestination>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::Update>>,
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
                "/io.linkerd.proxy.destination.Destination/Get",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("io.linkerd.proxy.destination.Destination", "Get"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Follows what an address or name stands for.
        pub async fn get_profile(
            &mut self,
            request: impl tonic::IntoRequest<super::GetDestination>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::DestinationProfile>>,
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
                "/io.linkerd.proxy.destination.Destination/GetProfile",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "io.linkerd.proxy.destination.Destination",
                        "GetProfile",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod destination_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with DestinationServer.
    #[async_trait]
    pub trait Destination: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the Get method.
        type GetStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::Update, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Follows the endpoints of a name.
        async fn get(
            &self,
            request: tonic::Request<super::GetDestination>,
        ) -> std::result::Result<tonic::Response<Self::GetStream>, tonic::Status>;
        /// Server streaming response type for the GetProfile method.
        type GetProfileStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::DestinationProfile, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Follows what an address or name stands for.
        async fn get_profile(
            &self,
            request: tonic::Request<super::GetDestination>,
        ) -> std::result::Result<tonic::Response<Self::GetProfileStream>, tonic::Status>;
    }
    /// Says where a name leads, and what an address stands for.
    #[derive(Debug)]
    pub struct DestinationServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> DestinationServer<T> {
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
    impl<T, B> tonic::codegen::Service<http::Request<B>> for DestinationServer<T>
    where
        T: Destination,
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
                "/io.linkerd.proxy.destination.Destination/Get" => {
                    #[allow(non_camel_case_types)]
                    struct GetSvc<T: Destination>(pub Arc<T>);
                    impl<
                        T: Destination,
                    > tonic::server::ServerStreamingService<super::GetDestination>
                    for GetSvc<T> {
                        type Response = super::Update;
                        type ResponseStream = T::GetStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetDestination>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as Destination>::get(&inner, request).await
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
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/io.linkerd.proxy.destination.Destination/GetProfile" => {
                    #[allow(non_camel_case_types)]
                    struct GetProfileSvc<T: Destination>(pub Arc<T>);
                    impl<
                        T: Destination,
                    > tonic::server::ServerStreamingService<super::GetDestination>
                    for GetProfileSvc<T> {
                        type Response = super::DestinationProfile;
                        type ResponseStream = T::GetProfileStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetDestination>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as Destination>::get_profile(&inner, request).await
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
                        let method = GetProfileSvc(inner);
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
    impl<T> Clone for DestinationServer<T> {
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
    pub const SERVICE_NAME: &str = "io.linkerd.proxy.destination.Destination";
    impl<T> tonic::server::NamedService for DestinationServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
