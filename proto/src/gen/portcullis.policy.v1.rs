//! Package `portcullis.policy.v1`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// From client to server.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DestinationRequest {
    /// Exactly one is set.
    #[prost(oneof = "destination_request::Kind", tags = "1, 2, 3")]
    pub kind: ::core::option::Option<destination_request::Kind>,
}
/// Nested message and enum types in `DestinationRequest`.
pub mod destination_request {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// The client's identification. The first message of the stream, and only there.
        #[prost(message, tag = "1")]
        Begin(super::Begin),
        /// Asks for a destination.
        #[prost(message, tag = "2")]
        Lookup(super::Lookup),
        /// Ends a lookup.
        #[prost(message, tag = "3")]
        Release(super::Release),
    }
}
/// The workload that the connections are made by. Its node decides which endpoints it may use.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Begin {
    /// The workload's token, which its injector gave it. Opaque to the client.
    #[prost(string, tag = "1")]
    pub workload: ::prost::alloc::string::String,
    /// Name and version of the client, for logs.
    #[prost(string, tag = "2")]
    pub client: ::prost::alloc::string::String,
}
/// Asks what an address and port lead to.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Lookup {
    /// Number of the lookup, which the client chooses: not 0, and not in use on this stream.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// The address: 4 or 16 bytes in network order.
    #[prost(bytes = "vec", tag = "2")]
    pub address: ::prost::alloc::vec::Vec<u8>,
    /// The port, 1 to 65535.
    #[prost(uint32, tag = "3")]
    pub port: u32,
}
/// Ends a lookup. Its number may be used again after the server's Released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Release {
    /// Number of the lookup.
    #[prost(uint32, tag = "1")]
    pub id: u32,
}
/// From server to client.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DestinationResponse {
    /// Number of the lookup. Encoded after the kind, because the kind is shared by many clients.
    #[prost(uint32, tag = "16")]
    pub id: u32,
    /// Exactly one is set.
    #[prost(oneof = "destination_response::Kind", tags = "1, 2, 3, 4, 5")]
    pub kind: ::core::option::Option<destination_response::Kind>,
}
/// Nested message and enum types in `DestinationResponse`.
pub mod destination_response {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// The answer, complete.
        #[prost(message, tag = "1")]
        Found(super::Found),
        /// More endpoints of the answer that was begun by the last Found or Changed with `more`.
        #[prost(message, tag = "2")]
        More(super::Endpoints),
        /// What differs from the last complete answer.
        #[prost(message, tag = "3")]
        Changed(super::Changed),
        /// The lookup was refused; the answers before it are not confirmed any more.
        #[prost(message, tag = "4")]
        Refused(super::Refused),
        /// The lookup has ended, as the client asked.
        #[prost(message, tag = "5")]
        Released(super::Released),
    }
}
/// What an address and port lead to.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Found {
    /// The endpoints.
    #[prost(message, optional, tag = "6")]
    pub endpoints: ::core::option::Option<Endpoints>,
    /// Exactly one is set.
    #[prost(oneof = "found::Kind", tags = "1, 2, 3, 4, 5")]
    pub kind: ::core::option::Option<found::Kind>,
}
/// Nested message and enum types in `Found`.
pub mod found {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Nobody is known to hold the address.
        #[prost(message, tag = "1")]
        Nobody(super::Nobody),
        /// A node.
        #[prost(message, tag = "2")]
        Node(super::NodeAddress),
        /// A Service that does not declare the port.
        #[prost(message, tag = "3")]
        UndeclaredPort(super::Service),
        /// A port of a Service.
        #[prost(message, tag = "4")]
        Service(super::Service),
        /// A workload: exactly one endpoint.
        #[prost(message, tag = "5")]
        Workload(super::WorkloadAddress),
    }
}
/// Nobody is known to hold the address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Nobody {}
/// The address of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NodeAddress {}
/// The address of a pod or of a machine outside the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WorkloadAddress {}
/// A Service.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Service {
    /// Namespace.
    #[prost(string, tag = "1")]
    pub namespace: ::prost::alloc::string::String,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: ::prost::alloc::string::String,
    /// The port.
    #[prost(uint32, tag = "3")]
    pub port: u32,
    /// Time for which a client keeps its endpoint; absent: each connection chooses anew.
    #[prost(message, optional, tag = "4")]
    pub affinity: ::core::option::Option<::prost_types::Duration>,
}
/// Endpoints, at most 500 in a message.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Endpoints {
    /// Added, or replaced by address.
    #[prost(message, repeated, tag = "1")]
    pub endpoints: ::prost::alloc::vec::Vec<Endpoint>,
    /// True if the answer is not complete: another `more` of the same lookup follows. The client goes by
    /// its last complete answer until then.
    #[prost(bool, tag = "2")]
    pub more: bool,
}
/// What differs from the last complete answer.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Changed {
    /// Added, or replaced by address.
    #[prost(message, optional, tag = "1")]
    pub endpoints: ::core::option::Option<Endpoints>,
    /// Removed.
    #[prost(message, repeated, tag = "2")]
    pub removed: ::prost::alloc::vec::Vec<EndpointAddress>,
}
/// The address of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct EndpointAddress {
    /// The address: 4 or 16 bytes in network order.
    #[prost(bytes = "vec", tag = "1")]
    pub address: ::prost::alloc::vec::Vec<u8>,
    /// The port, 1 to 65535.
    #[prost(uint32, tag = "2")]
    pub port: u32,
}
/// One address that serves.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Endpoint {
    /// Its address.
    #[prost(message, optional, tag = "1")]
    pub address: ::core::option::Option<EndpointAddress>,
    /// The owner in metrics and logs, such as `deployment/web`; empty: not known.
    #[prost(string, tag = "2")]
    pub owner: ::prost::alloc::string::String,
    /// The namespace of its workload; empty: not known.
    #[prost(string, tag = "3")]
    pub namespace: ::prost::alloc::string::String,
    /// How it is reached. Exactly one is set.
    #[prost(oneof = "endpoint::Mesh", tags = "4, 5")]
    pub mesh: ::core::option::Option<endpoint::Mesh>,
}
/// Nested message and enum types in `Endpoint`.
pub mod endpoint {
    /// How it is reached. Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Mesh {
        /// In mesh TLS, and never otherwise.
        #[prost(message, tag = "4")]
        Meshed(super::Meshed),
        /// In plaintext.
        #[prost(enumeration = "super::PlaintextReason", tag = "5")]
        Plaintext(i32),
    }
}
/// The sidecar of an endpoint in the mesh.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Meshed {
    /// The identity that it must present.
    #[prost(string, tag = "1")]
    pub identity: ::prost::alloc::string::String,
    /// The server name (SNI) that the client sends.
    #[prost(string, tag = "2")]
    pub server_name: ::prost::alloc::string::String,
    /// The port of the sidecar itself, which reads a transport header; 0: it has none.
    #[prost(uint32, tag = "3")]
    pub inbound_port: u32,
    /// True if the workload's port is opaque: the connection goes to `inbound_port`.
    #[prost(bool, tag = "4")]
    pub opaque: bool,
}
/// A lookup that is not answered.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Refused {
    /// The reason, for people.
    #[prost(string, tag = "1")]
    pub reason: ::prost::alloc::string::String,
}
/// The lookup has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Released {}
/// The reasons for plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PlaintextReason {
    /// Not allowed.
    Unspecified = 0,
    /// The endpoint has no sidecar.
    Unmeshed = 1,
    /// The endpoint's sidecar skips the port.
    Skipped = 2,
    /// The endpoint has the sidecar of another mesh.
    ForeignMesh = 3,
    /// The endpoint is the API server, which is in no mesh.
    ApiServer = 4,
}
impl PlaintextReason {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "PLAINTEXT_REASON_UNSPECIFIED",
            Self::Unmeshed => "PLAINTEXT_REASON_UNMESHED",
            Self::Skipped => "PLAINTEXT_REASON_SKIPPED",
            Self::ForeignMesh => "PLAINTEXT_REASON_FOREIGN_MESH",
            Self::ApiServer => "PLAINTEXT_REASON_API_SERVER",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PLAINTEXT_REASON_UNSPECIFIED" => Some(Self::Unspecified),
            "PLAINTEXT_REASON_UNMESHED" => Some(Self::Unmeshed),
            "PLAINTEXT_REASON_SKIPPED" => Some(Self::Skipped),
            "PLAINTEXT_REASON_FOREIGN_MESH" => Some(Self::ForeignMesh),
            "PLAINTEXT_REASON_API_SERVER" => Some(Self::ApiServer),
            _ => None,
        }
    }
}
/// Generated client implementations.
pub mod destination_discovery_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Says what the destinations of a workload's connections are.
    #[derive(Debug, Clone)]
    pub struct DestinationDiscoveryClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> DestinationDiscoveryClient<T>
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
        ) -> DestinationDiscoveryClient<InterceptedService<T, F>>
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
            DestinationDiscoveryClient::new(InterceptedService::new(inner, interceptor))
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
        /// One stream per workload, for all of its destinations. The client sends Begin first, then Lookup
        /// and Release in any order. The server answers each lookup, and again whenever the answer changes.
        pub async fn watch(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::DestinationRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::DestinationResponse>>,
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
                "/portcullis.policy.v1.DestinationDiscovery/Watch",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("portcullis.policy.v1.DestinationDiscovery", "Watch"),
                );
            self.inner.streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod destination_discovery_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with DestinationDiscoveryServer.
    #[async_trait]
    pub trait DestinationDiscovery: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the Watch method.
        type WatchStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::DestinationResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// One stream per workload, for all of its destinations. The client sends Begin first, then Lookup
        /// and Release in any order. The server answers each lookup, and again whenever the answer changes.
        async fn watch(
            &self,
            request: tonic::Request<tonic::Streaming<super::DestinationRequest>>,
        ) -> std::result::Result<tonic::Response<Self::WatchStream>, tonic::Status>;
    }
    /// Says what the destinations of a workload's connections are.
    #[derive(Debug)]
    pub struct DestinationDiscoveryServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> DestinationDiscoveryServer<T> {
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
    for DestinationDiscoveryServer<T>
    where
        T: DestinationDiscovery,
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
                "/portcullis.policy.v1.DestinationDiscovery/Watch" => {
                    #[allow(non_camel_case_types)]
                    struct WatchSvc<T: DestinationDiscovery>(pub Arc<T>);
                    impl<
                        T: DestinationDiscovery,
                    > tonic::server::StreamingService<super::DestinationRequest>
                    for WatchSvc<T> {
                        type Response = super::DestinationResponse;
                        type ResponseStream = T::WatchStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::DestinationRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as DestinationDiscovery>::watch(&inner, request).await
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
                        let res = grpc.streaming(method, req).await;
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
    impl<T> Clone for DestinationDiscoveryServer<T> {
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
    pub const SERVICE_NAME: &str = "portcullis.policy.v1.DestinationDiscovery";
    impl<T> tonic::server::NamedService for DestinationDiscoveryServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// An object that contributed to a policy.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ObjectRef {
    /// API group; empty for the core group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Kind in its own spelling.
    #[prost(string, tag = "2")]
    pub kind: ::prost::alloc::string::String,
    /// Namespace; empty for cluster-scoped objects.
    #[prost(string, tag = "3")]
    pub namespace: ::prost::alloc::string::String,
    /// Name.
    #[prost(string, tag = "4")]
    pub name: ::prost::alloc::string::String,
}
/// The source of a grant, a limit or a filter.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Source {
    /// Exactly one is set.
    #[prost(oneof = "source::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<source::Kind>,
}
/// Nested message and enum types in `Source`.
pub mod source {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// An object that a user wrote.
        #[prost(message, tag = "1")]
        Object(super::ObjectRef),
        /// Something built in, by name: a default policy, `probe`, `localhost`.
        #[prost(string, tag = "2")]
        Default(::prost::alloc::string::String),
    }
}
/// Nothing to say besides that it was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Unit {}
/// A block of addresses.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Network {
    /// Any address of the block: 4 bytes for IPv4, 16 for IPv6, most significant first.
    #[prost(bytes = "vec", tag = "1")]
    pub address: ::prost::alloc::vec::Vec<u8>,
    /// Bits that count; at most 32 or 128.
    #[prost(uint32, tag = "2")]
    pub prefix_length: u32,
}
/// A block with exceptions: a client must be inside it and inside no exception.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NetworkMatch {
    /// Blocks that are left out.
    #[prost(message, repeated, tag = "3")]
    pub exceptions: ::prost::alloc::vec::Vec<Network>,
    /// Exactly one is set.
    #[prost(oneof = "network_match::Term", tags = "1, 2")]
    pub term: ::core::option::Option<network_match::Term>,
}
/// Nested message and enum types in `NetworkMatch`.
pub mod network_match {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Term {
        /// A literal block.
        #[prost(message, tag = "1")]
        Net(super::Network),
        /// A block by name.
        #[prost(enumeration = "super::NetworkSymbol", tag = "2")]
        Symbol(i32),
    }
}
/// A pattern over verified identities.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IdentityMatch {
    /// Exactly one is set.
    #[prost(oneof = "identity_match::Kind", tags = "1, 2, 3")]
    pub kind: ::core::option::Option<identity_match::Kind>,
}
/// Nested message and enum types in `IdentityMatch`.
pub mod identity_match {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Any verified identity, SPIFFE included.
        #[prost(message, tag = "1")]
        Any(super::Unit),
        /// Exactly this name.
        #[prost(string, tag = "2")]
        Exact(::prost::alloc::string::String),
        /// DNS names that end in `.` and this text.
        #[prost(string, tag = "3")]
        Suffix(::prost::alloc::string::String),
    }
}
/// A condition on one path segment: the text that a path parameter captured. A segment that is absent
/// or empty meets neither operator. Nor does any of a path that two parsers could read differently.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SegmentCondition {
    /// The name of the parameter, for explanation only.
    #[prost(string, tag = "1")]
    pub parameter: ::prost::alloc::string::String,
    /// The place of the segment, counted from 0 behind the leading `/`.
    #[prost(uint32, tag = "2")]
    pub place: u32,
    /// The operator.
    #[prost(enumeration = "SegmentOperator", tag = "3")]
    pub operator: i32,
    /// The texts, in the form in which paths are compared.
    #[prost(string, repeated, tag = "4")]
    pub values: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// One condition of a grant.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Condition {
    /// The object that set it.
    #[prost(message, optional, tag = "1")]
    pub source: ::core::option::Option<Source>,
    /// The predicate. Exactly one is set.
    #[prost(oneof = "condition::Test", tags = "2, 3, 4, 5, 6")]
    pub test: ::core::option::Option<condition::Test>,
}
/// Nested message and enum types in `Condition`.
pub mod condition {
    /// Alternatives over the client's address; an empty list holds for nobody.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Networks {
        /// Any of these.
        #[prost(message, repeated, tag = "1")]
        pub networks: ::prost::alloc::vec::Vec<super::NetworkMatch>,
    }
    /// Alternatives over the client's identity; an empty list holds for nobody.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Identities {
        /// Any of these.
        #[prost(message, repeated, tag = "1")]
        pub identities: ::prost::alloc::vec::Vec<super::IdentityMatch>,
    }
    /// The predicate. Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Test {
        /// The client's address.
        #[prost(message, tag = "2")]
        Network(Networks),
        /// Mesh TLS was terminated by the proxy; the client need not have an identity.
        #[prost(message, tag = "3")]
        MeshTls(super::Unit),
        /// Mesh TLS was terminated by the proxy and the client proved one of these identities.
        #[prost(message, tag = "4")]
        Identity(Identities),
        /// The connection carries TLS that is passed through unread.
        #[prost(message, tag = "5")]
        TlsPassthrough(super::Unit),
        /// The request meets a condition on a path segment; no connection does. Needs the feature
        /// `captures`.
        #[prost(message, tag = "6")]
        Segment(super::SegmentCondition),
    }
}
/// One grant.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Authorization {
    /// Its key within the policy of one port. Not 0. The same key may stand for another grant in the
    /// policy of another port or client.
    #[prost(fixed64, tag = "1")]
    pub key: u64,
    /// The object that grants.
    #[prost(message, optional, tag = "2")]
    pub source: ::core::option::Option<Source>,
    /// True if permits by this grant are logged as audited.
    #[prost(bool, tag = "5")]
    pub audit: bool,
    /// The predicate. Exactly one is set.
    #[prost(oneof = "authorization::Requirement", tags = "3, 4")]
    pub requirement: ::core::option::Option<authorization::Requirement>,
}
/// Nested message and enum types in `Authorization`.
pub mod authorization {
    /// A conjunction; an empty list holds for nobody.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Conditions {
        /// All must hold.
        #[prost(message, repeated, tag = "1")]
        pub conditions: ::prost::alloc::vec::Vec<super::Condition>,
    }
    /// The predicate. Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Requirement {
        /// Nothing.
        #[prost(message, tag = "3")]
        Nothing(super::Unit),
        /// Conditions.
        #[prost(message, tag = "4")]
        All(Conditions),
    }
}
/// A grant that resolved to nothing; for explanation only.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Withheld {
    /// The object that would have granted.
    #[prost(message, optional, tag = "1")]
    pub source: ::core::option::Option<ObjectRef>,
    /// The reason, for people.
    #[prost(string, tag = "2")]
    pub reason: ::prost::alloc::string::String,
}
/// One segment of a path pattern.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Segment {
    /// Exactly one is set.
    #[prost(oneof = "segment::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<segment::Kind>,
}
/// Nested message and enum types in `Segment`.
pub mod segment {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Exactly this text; empty only as the last segment.
        #[prost(string, tag = "1")]
        Literal(::prost::alloc::string::String),
        /// Any one non-empty segment, captured under this name.
        #[prost(string, tag = "2")]
        Parameter(::prost::alloc::string::String),
    }
}
/// A pattern over canonical paths.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PathPattern {
    /// Exactly one is set.
    #[prost(oneof = "path_pattern::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<path_pattern::Kind>,
}
/// Nested message and enum types in `PathPattern`.
pub mod path_pattern {
    /// Segment by segment, after the leading `/`.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Segments {
        /// The segments.
        #[prost(message, repeated, tag = "1")]
        pub segments: ::prost::alloc::vec::Vec<super::Segment>,
        /// True if any number of further segments may follow.
        #[prost(bool, tag = "2")]
        pub rest: bool,
    }
    /// Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// Segment by segment.
        #[prost(message, tag = "1")]
        Segments(Segments),
        /// The whole path matches; without anchors, which are implied.
        #[prost(string, tag = "2")]
        Regex(::prost::alloc::string::String),
    }
}
/// A predicate over a value.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ValueMatch {
    /// Exactly one is set.
    #[prost(oneof = "value_match::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<value_match::Kind>,
}
/// Nested message and enum types in `ValueMatch`.
pub mod value_match {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Exactly these bytes.
        #[prost(bytes, tag = "1")]
        Exact(::prost::alloc::vec::Vec<u8>),
        /// The whole value matches; without anchors, which are implied.
        #[prost(string, tag = "2")]
        Regex(::prost::alloc::string::String),
    }
}
/// A predicate over a header. Of several lines of that name all must match; where only some do,
/// the request is denied.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HeaderMatch {
    /// Name, lower-case.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// The predicate over each line.
    #[prost(message, optional, tag = "2")]
    pub value: ::core::option::Option<ValueMatch>,
}
/// A predicate over a query parameter, after form decoding. Repeated ones are judged like headers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct QueryMatch {
    /// Name, decoded.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// The predicate over each value.
    #[prost(message, optional, tag = "2")]
    pub value: ::core::option::Option<ValueMatch>,
}
/// A conjunction over one request.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RequestMatch {
    /// The path; must be present.
    #[prost(message, optional, tag = "1")]
    pub path: ::core::option::Option<PathPattern>,
    /// The method; absent: any.
    #[prost(string, optional, tag = "2")]
    pub method: ::core::option::Option<::prost::alloc::string::String>,
    /// Headers; all must match.
    #[prost(message, repeated, tag = "3")]
    pub headers: ::prost::alloc::vec::Vec<HeaderMatch>,
    /// Query parameters; all must match.
    #[prost(message, repeated, tag = "4")]
    pub query: ::prost::alloc::vec::Vec<QueryMatch>,
}
/// A pattern over canonical hosts.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HostPattern {
    /// Exactly one is set.
    #[prost(oneof = "host_pattern::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<host_pattern::Kind>,
}
/// Nested message and enum types in `HostPattern`.
pub mod host_pattern {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Exactly this name, lower-case, without a trailing dot.
        #[prost(string, tag = "1")]
        Exact(::prost::alloc::string::String),
        /// Names that end in `.` and this text.
        #[prost(string, tag = "2")]
        Suffix(::prost::alloc::string::String),
    }
}
/// One header field.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HeaderField {
    /// Name, lower-case.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: ::prost::alloc::vec::Vec<u8>,
}
/// Changes to headers: first add, then set, then remove.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HeaderChange {
    /// Appended.
    #[prost(message, repeated, tag = "1")]
    pub add: ::prost::alloc::vec::Vec<HeaderField>,
    /// Put in place of all of that name.
    #[prost(message, repeated, tag = "2")]
    pub set: ::prost::alloc::vec::Vec<HeaderField>,
    /// Names removed.
    #[prost(string, repeated, tag = "3")]
    pub remove: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Answers with a redirect.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Redirect {
    /// `http` or `https`; absent: as requested.
    #[prost(string, optional, tag = "1")]
    pub scheme: ::core::option::Option<::prost::alloc::string::String>,
    /// Host; absent: as requested.
    #[prost(string, optional, tag = "2")]
    pub host: ::core::option::Option<::prost::alloc::string::String>,
    /// Port; absent: as requested, or the scheme's own where host or scheme changed.
    #[prost(uint32, optional, tag = "3")]
    pub port: ::core::option::Option<u32>,
    /// HTTP status, 300 to 399.
    #[prost(uint32, tag = "6")]
    pub status: u32,
    /// Path; unset: as requested.
    #[prost(oneof = "redirect::Path", tags = "4, 5")]
    pub path: ::core::option::Option<redirect::Path>,
}
/// Nested message and enum types in `Redirect`.
pub mod redirect {
    /// Path; unset: as requested.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Path {
        /// The whole path becomes this.
        #[prost(string, tag = "4")]
        FullPath(::prost::alloc::string::String),
        /// The prefix that matched becomes this.
        #[prost(string, tag = "5")]
        Prefix(::prost::alloc::string::String),
    }
}
/// Answers with a failure.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Failure {
    /// HTTP status, 100 to 599.
    #[prost(uint32, tag = "1")]
    pub status: u32,
    /// gRPC status, 0 to 16.
    #[prost(uint32, tag = "2")]
    pub grpc_status: u32,
    /// Message for the caller.
    #[prost(string, tag = "3")]
    pub message: ::prost::alloc::string::String,
    /// Share of the requests that fail: so many
    #[prost(uint32, tag = "4")]
    pub numerator: u32,
    /// of so many; not 0.
    #[prost(uint32, tag = "5")]
    pub denominator: u32,
    /// True if it stands for a rewrite without which no request may be forwarded.
    #[prost(bool, tag = "6")]
    pub required: bool,
}
/// A condition on a header of a request as it was received. `host` means the canonical host.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HeaderCondition {
    /// Name, lower-case.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Exactly one is set.
    #[prost(oneof = "header_condition::Operator", tags = "2, 3, 4, 5")]
    pub operator: ::core::option::Option<header_condition::Operator>,
}
/// Nested message and enum types in `HeaderCondition`.
pub mod header_condition {
    /// Texts.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Values {
        /// Any of these.
        #[prost(string, repeated, tag = "1")]
        pub values: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    }
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Operator {
        /// A line of the header is one of these.
        #[prost(message, tag = "2")]
        AnyOf(Values),
        /// No line of the header is one of these, or there is none.
        #[prost(message, tag = "3")]
        NoneOf(Values),
        /// There is a line.
        #[prost(message, tag = "4")]
        Exists(super::Unit),
        /// There is no line.
        #[prost(message, tag = "5")]
        DoesNotExist(super::Unit),
    }
}
/// A condition of an effect.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct EffectCondition {
    /// Exactly one is set.
    #[prost(oneof = "effect_condition::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<effect_condition::Kind>,
}
/// Nested message and enum types in `EffectCondition`.
pub mod effect_condition {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// On a path segment.
        #[prost(message, tag = "1")]
        Segment(super::SegmentCondition),
        /// On a header.
        #[prost(message, tag = "2")]
        Header(super::HeaderCondition),
    }
}
/// Bounds on parts of an exchange; the smallest of several counts. None is zero.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Timeouts {
    /// The requests that they apply to: those that meet every condition.
    #[prost(message, repeated, tag = "1")]
    pub when: ::prost::alloc::vec::Vec<SegmentCondition>,
    /// From the arrival of the request's head to the end that `streams` says; absent: no bound.
    #[prost(message, optional, tag = "2")]
    pub request: ::core::option::Option<::prost_types::Duration>,
    /// From the end of the request to the head of the response; absent: no bound.
    #[prost(message, optional, tag = "3")]
    pub response: ::core::option::Option<::prost_types::Duration>,
    /// Without a frame of either body; absent: no bound.
    #[prost(message, optional, tag = "4")]
    pub idle: ::core::option::Option<::prost_types::Duration>,
    /// The end of the bound on the request.
    #[prost(enumeration = "Streams", tag = "5")]
    pub streams: i32,
}
/// Rewrites headers of the request: first clear, then set, then add. Conditions look at the request as
/// it was received, before any effect.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HeaderRewrite {
    /// The requests that it applies to: those that meet every condition.
    #[prost(message, repeated, tag = "1")]
    pub when: ::prost::alloc::vec::Vec<EffectCondition>,
    /// Names removed.
    #[prost(string, repeated, tag = "2")]
    pub clear: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Put in place of all of that name.
    #[prost(message, repeated, tag = "3")]
    pub set: ::prost::alloc::vec::Vec<HeaderField>,
    /// Appended.
    #[prost(message, repeated, tag = "4")]
    pub add: ::prost::alloc::vec::Vec<HeaderField>,
    /// True if a request must not be forwarded without it.
    #[prost(bool, tag = "5")]
    pub required: bool,
}
/// A filter on permitted requests.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Effect {
    /// The object that configures it.
    #[prost(message, optional, tag = "1")]
    pub source: ::core::option::Option<Source>,
    /// Exactly one is set.
    #[prost(oneof = "effect::Kind", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub kind: ::core::option::Option<effect::Kind>,
}
/// Nested message and enum types in `Effect`.
pub mod effect {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// Changes headers of the request.
        #[prost(message, tag = "2")]
        RequestHeaders(super::HeaderChange),
        /// Changes headers of the response.
        #[prost(message, tag = "3")]
        ResponseHeaders(super::HeaderChange),
        /// Answers with a redirect.
        #[prost(message, tag = "4")]
        Redirect(super::Redirect),
        /// Answers with a failure.
        #[prost(message, tag = "5")]
        Failure(super::Failure),
        /// Bounds the time until the response is complete; the smallest of several counts.
        #[prost(message, tag = "6")]
        Timeout(::prost_types::Duration),
        /// Bounds parts of the exchange. Needs the feature `timeout-policies`.
        #[prost(message, tag = "7")]
        Timeouts(super::Timeouts),
        /// Rewrites headers of the request. Needs the feature `header-rewrites`, or `required-rewrites` if
        /// it is required.
        #[prost(message, tag = "8")]
        Rewrite(super::HeaderRewrite),
    }
}
/// The origin of a route.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Origin {
    /// Exactly one is set.
    #[prost(oneof = "origin::Kind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub kind: ::core::option::Option<origin::Kind>,
}
/// Nested message and enum types in `Origin`.
pub mod origin {
    /// A chain of objects.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Objects {
        /// Outermost first; never empty.
        #[prost(message, repeated, tag = "1")]
        pub chain: ::prost::alloc::vec::Vec<super::ObjectRef>,
    }
    /// A path of a host that was handed down a chain of objects.
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct DelegatedPath {
        /// The root first; the last one holds the rule. Never empty.
        #[prost(message, repeated, tag = "1")]
        pub chain: ::prost::alloc::vec::Vec<super::ObjectRef>,
        /// The path that the rule governs, with everything below it; begins with `/`.
        #[prost(string, tag = "2")]
        pub prefix: ::prost::alloc::string::String,
    }
    /// Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// The objects that produced it.
        #[prost(message, tag = "1")]
        Objects(Objects),
        /// The route that a port without routes of its own gets.
        #[prost(message, tag = "2")]
        Default(super::Unit),
        /// The route for kubelet probes.
        #[prost(message, tag = "3")]
        Probe(super::Unit),
        /// A route that refuses what must not be matched by anything else.
        #[prost(message, tag = "4")]
        Guard(super::Unit),
        /// A route that only denies, with this reason (see PortHeader.deny).
        #[prost(string, tag = "5")]
        Deny(::prost::alloc::string::String),
        /// The path arrived: the route's grants decide.
        #[prost(message, tag = "6")]
        Delegated(DelegatedPath),
        /// The path did not arrive: the route denies what it matches as `not_delegated`. Grants, its own and
        /// the port's, do not count.
        #[prost(message, tag = "7")]
        Undelegated(DelegatedPath),
        /// An object with a match that cannot be read. The route denies what it matches as `route_invalid`,
        /// before every other route and whatever table the host names, but on no host whose most specific
        /// table denies what it does not match as `not_delegated`. Grants, its own and the port's, do not count.
        #[prost(message, tag = "8")]
        Unreadable(super::ObjectRef),
    }
}
/// One rule of a route: it applies when any of its matches does.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Rule {
    /// Alternatives; empty: every request.
    #[prost(message, repeated, tag = "1")]
    pub matches: ::prost::alloc::vec::Vec<RequestMatch>,
    /// Filters on the requests that it permits, in order.
    #[prost(message, repeated, tag = "2")]
    pub effects: ::prost::alloc::vec::Vec<Effect>,
}
/// A route: its requests, and the clients that may send them.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Route {
    /// Its key within the policy of one port. Not 0.
    #[prost(fixed64, tag = "1")]
    pub key: u64,
    /// Its origin. Several routes of a port have the same one where one object has other matches on some of
    /// its hosts; their keys differ.
    #[prost(message, optional, tag = "2")]
    pub origin: ::core::option::Option<Origin>,
    /// The API that it came from.
    #[prost(enumeration = "RouteKind", tag = "3")]
    pub kind: i32,
    /// Creation time, seconds since 1970-01-01T00:00:00Z; absent: not known, which sorts last.
    #[prost(int64, optional, tag = "4")]
    pub created: ::core::option::Option<i64>,
    /// Hosts it applies to; empty: every host, and requests without one.
    #[prost(message, repeated, tag = "5")]
    pub hosts: ::prost::alloc::vec::Vec<HostPattern>,
    /// Its rules; empty: it matches nothing.
    #[prost(message, repeated, tag = "6")]
    pub rules: ::prost::alloc::vec::Vec<Rule>,
    /// Keys of its own grants, in the order they are tried.
    #[prost(fixed64, repeated, tag = "7")]
    pub authorizations: ::prost::alloc::vec::Vec<u64>,
    /// True if the port's grants count too, after its own.
    #[prost(bool, tag = "8")]
    pub inherits_server: bool,
    /// Grants on it that resolved to nothing.
    #[prost(message, repeated, tag = "9")]
    pub withheld: ::prost::alloc::vec::Vec<Withheld>,
    /// Its name among the routes of its origin, for people and metrics: its path as an author wrote it.
    /// Decides nothing; absent: it has none.
    #[prost(string, optional, tag = "10")]
    pub label: ::core::option::Option<::prost::alloc::string::String>,
}
/// The protocol of connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Protocol {
    /// Exactly one is set.
    #[prost(oneof = "protocol::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: ::core::option::Option<protocol::Kind>,
}
/// Nested message and enum types in `Protocol`.
pub mod protocol {
    /// HTTP if the first bytes say so, else bytes.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Detect {
        /// The time to wait for the first bytes; must be present.
        #[prost(message, optional, tag = "1")]
        pub timeout: ::core::option::Option<::prost_types::Duration>,
    }
    /// Exactly one is set.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Found out per connection.
        #[prost(message, tag = "1")]
        Detect(Detect),
        /// HTTP/1.
        #[prost(message, tag = "2")]
        Http1(super::Unit),
        /// HTTP/2.
        #[prost(message, tag = "3")]
        Http2(super::Unit),
        /// gRPC over HTTP/2.
        #[prost(message, tag = "4")]
        Grpc(super::Unit),
        /// Bytes; TLS is not looked for.
        #[prost(message, tag = "5")]
        Opaque(super::Unit),
        /// TLS that the workload terminates.
        #[prost(message, tag = "6")]
        Tls(super::Unit),
    }
}
/// The result if no rule matches.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Unmatched {
    /// Exactly one is set.
    #[prost(oneof = "unmatched::Kind", tags = "1, 2, 3, 4")]
    pub kind: ::core::option::Option<unmatched::Kind>,
}
/// Nested message and enum types in `Unmatched`.
pub mod unmatched {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Decided by the port's grants alone.
        #[prost(message, tag = "1")]
        DefaultRoute(super::Unit),
        /// Answered 404.
        #[prost(message, tag = "2")]
        NotFound(super::Unit),
        /// Refused with this reason (see PortHeader.deny).
        #[prost(string, tag = "3")]
        Deny(::prost::alloc::string::String),
        /// The next less specific host is searched.
        #[prost(message, tag = "4")]
        FallThrough(super::Unit),
    }
}
/// The result if no rule of a host matches.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HostRule {
    /// The host.
    #[prost(message, optional, tag = "1")]
    pub host: ::core::option::Option<HostPattern>,
    /// The result.
    #[prost(message, optional, tag = "2")]
    pub unmatched: ::core::option::Option<Unmatched>,
}
/// Exemptions, which are permitted before routes are evaluated.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Exemption {
    /// The exempted requests; absent: connections that are not HTTP.
    #[prost(message, optional, tag = "1")]
    pub request: ::core::option::Option<RequestMatch>,
    /// Key of the grant that must hold.
    #[prost(fixed64, tag = "2")]
    pub authorization: u64,
}
/// A rate limit, kept by each proxy for itself.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RateLimit {
    /// The object that sets it.
    #[prost(message, optional, tag = "1")]
    pub source: ::core::option::Option<Source>,
    /// Requests per second of all clients; absent: unlimited. Not 0.
    #[prost(uint32, optional, tag = "2")]
    pub total: ::core::option::Option<u32>,
    /// Requests per second of each client; absent: unlimited. Not 0.
    #[prost(uint32, optional, tag = "3")]
    pub identity: ::core::option::Option<u32>,
    /// The first that names a client counts.
    #[prost(message, repeated, tag = "4")]
    pub overrides: ::prost::alloc::vec::Vec<rate_limit::Override>,
    /// Every request is refused as `rate_limit_invalid`, because the object is invalid and no number of it
    /// can be read. Needs the feature `refusing-limits`.
    #[prost(bool, tag = "5")]
    pub refuses: bool,
}
/// Nested message and enum types in `RateLimit`.
pub mod rate_limit {
    /// A rate for named clients, in place of `identity`.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Override {
        /// Requests per second of all of them together; not 0.
        #[prost(uint32, tag = "1")]
        pub requests_per_second: u32,
        /// Exact identities.
        #[prost(string, repeated, tag = "2")]
        pub clients: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    }
}
/// The owner of a port.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Owner {
    /// Exactly one is set.
    #[prost(oneof = "owner::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<owner::Kind>,
}
/// Nested message and enum types in `Owner`.
pub mod owner {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// The Server that owns the port.
        #[prost(message, tag = "1")]
        Server(super::ObjectRef),
        /// No Server owns it; the default policy of this name holds.
        #[prost(string, tag = "2")]
        Default(::prost::alloc::string::String),
    }
}
/// Everything about a port besides its grants and routes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PortHeader {
    /// The owner of the port.
    #[prost(message, optional, tag = "1")]
    pub owner: ::core::option::Option<Owner>,
    /// The protocol of connections.
    #[prost(message, optional, tag = "2")]
    pub protocol: ::core::option::Option<Protocol>,
    /// If present, the whole port is refused and nothing else counts. A stable reason, as in logs
    /// and metrics: `no_route`, `unauthorized`, `server_invalid`, `proxy_unsupported` and so on.
    #[prost(string, optional, tag = "3")]
    pub deny: ::core::option::Option<::prost::alloc::string::String>,
    /// The handling of ambiguous targets.
    #[prost(enumeration = "PathHandling", tag = "4")]
    pub paths: i32,
    /// Exemptions, which are permitted before routes are evaluated.
    #[prost(message, repeated, tag = "5")]
    pub exemptions: ::prost::alloc::vec::Vec<Exemption>,
    /// Limit on requests; absent: none.
    #[prost(message, optional, tag = "6")]
    pub rate_limit: ::core::option::Option<RateLimit>,
    /// Effects on every permitted request, after those of its rule.
    #[prost(message, repeated, tag = "7")]
    pub effects: ::prost::alloc::vec::Vec<Effect>,
    /// Grants on the port that resolved to nothing.
    #[prost(message, repeated, tag = "8")]
    pub withheld: ::prost::alloc::vec::Vec<Withheld>,
    /// Hosts that have a table of their own, in ascending order.
    #[prost(message, repeated, tag = "9")]
    pub hosts: ::prost::alloc::vec::Vec<HostRule>,
    /// The result if nothing matches at all.
    #[prost(message, optional, tag = "10")]
    pub otherwise: ::core::option::Option<Unmatched>,
    /// Requests do not carry what the proxy knows of their connection: l5d-client-id,
    /// l5d-connection-secure and forwarded. What a client says in the first two is taken out all the same.
    #[prost(bool, tag = "11")]
    pub no_informational_headers: bool,
    /// An HTTP/1 connection to the application is used again after requests without a body alone, because
    /// the application may take a body that it leaves unread for the next request. Needs the feature
    /// `reuse-without-body`.
    #[prost(bool, tag = "12")]
    pub reuse_without_body: bool,
}
/// Facts that differ per workload and are therefore not part of its ports' policies.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Facts {
    /// The workload's own addresses, 4 or 16 bytes each. Empty: not known.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub pod_addresses: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
    /// The networks of NODE_LOCAL. Empty: it matches no client.
    #[prost(message, repeated, tag = "2")]
    pub node_local: ::prost::alloc::vec::Vec<Network>,
    /// The networks of CLUSTER. Empty: it matches no client.
    #[prost(message, repeated, tag = "3")]
    pub cluster: ::prost::alloc::vec::Vec<Network>,
    /// The first addresses of the node's pod networks, 4 or 16 bytes each. NODE_LOCAL stands for those of
    /// them, too, that are a default gateway of the workload itself: there the node has them, elsewhere any
    /// pod may. A client that cannot tell leaves them out.
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub pod_gateways: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
    /// Log settings of the workload's proxy. Absent: as it was started.
    #[prost(message, optional, tag = "5")]
    pub logs: ::core::option::Option<Logs>,
}
/// Log settings of a running proxy. Unset fields keep the values that the proxy was started with. No
/// decision depends on it, so that a client which does not know it, or cannot read a value, goes on
/// without.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Logs {
    /// A filter of log lines, as the crate `tracing-subscriber` reads it. Empty: not set.
    #[prost(string, tag = "1")]
    pub filter: ::prost::alloc::string::String,
    /// The access log.
    #[prost(enumeration = "AccessLogs", tag = "2")]
    pub access_log: i32,
}
/// A block that each workload resolves by its own facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum NetworkSymbol {
    /// Not allowed.
    Unspecified = 0,
    /// The addresses that the workload's own node sends probes from.
    NodeLocal = 1,
    /// The cluster's networks.
    Cluster = 2,
}
impl NetworkSymbol {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "NETWORK_SYMBOL_UNSPECIFIED",
            Self::NodeLocal => "NETWORK_SYMBOL_NODE_LOCAL",
            Self::Cluster => "NETWORK_SYMBOL_CLUSTER",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "NETWORK_SYMBOL_UNSPECIFIED" => Some(Self::Unspecified),
            "NETWORK_SYMBOL_NODE_LOCAL" => Some(Self::NodeLocal),
            "NETWORK_SYMBOL_CLUSTER" => Some(Self::Cluster),
            _ => None,
        }
    }
}
/// The operator of a condition on a path segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SegmentOperator {
    /// Not allowed.
    Unspecified = 0,
    /// The segment is one of the texts.
    In = 1,
    /// The segment is none of the texts.
    NotIn = 2,
}
impl SegmentOperator {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "SEGMENT_OPERATOR_UNSPECIFIED",
            Self::In => "SEGMENT_OPERATOR_IN",
            Self::NotIn => "SEGMENT_OPERATOR_NOT_IN",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SEGMENT_OPERATOR_UNSPECIFIED" => Some(Self::Unspecified),
            "SEGMENT_OPERATOR_IN" => Some(Self::In),
            "SEGMENT_OPERATOR_NOT_IN" => Some(Self::NotIn),
            _ => None,
        }
    }
}
/// The part of an exchange that a bound on a request covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Streams {
    /// Not allowed.
    Unspecified = 0,
    /// Up to the end of the response.
    Bounded = 1,
    /// Up to the head of the response: a stream may take any time.
    Unbounded = 2,
}
impl Streams {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "STREAMS_UNSPECIFIED",
            Self::Bounded => "STREAMS_BOUNDED",
            Self::Unbounded => "STREAMS_UNBOUNDED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "STREAMS_UNSPECIFIED" => Some(Self::Unspecified),
            "STREAMS_BOUNDED" => Some(Self::Bounded),
            "STREAMS_UNBOUNDED" => Some(Self::Unbounded),
            _ => None,
        }
    }
}
/// The API that a route came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum RouteKind {
    /// Not allowed.
    Unspecified = 0,
    /// HTTPRoute, and everything built in.
    Http = 1,
    /// GRPCRoute.
    Grpc = 2,
}
impl RouteKind {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "ROUTE_KIND_UNSPECIFIED",
            Self::Http => "ROUTE_KIND_HTTP",
            Self::Grpc => "ROUTE_KIND_GRPC",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ROUTE_KIND_UNSPECIFIED" => Some(Self::Unspecified),
            "ROUTE_KIND_HTTP" => Some(Self::Http),
            "ROUTE_KIND_GRPC" => Some(Self::Grpc),
            _ => None,
        }
    }
}
/// The handling of ambiguous request targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PathHandling {
    /// Not allowed.
    Unspecified = 0,
    /// One canonical form is matched and forwarded; ambiguous targets are refused.
    Canonical = 1,
    /// Paths are matched and forwarded as received.
    Raw = 2,
}
impl PathHandling {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "PATH_HANDLING_UNSPECIFIED",
            Self::Canonical => "PATH_HANDLING_CANONICAL",
            Self::Raw => "PATH_HANDLING_RAW",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PATH_HANDLING_UNSPECIFIED" => Some(Self::Unspecified),
            "PATH_HANDLING_CANONICAL" => Some(Self::Canonical),
            "PATH_HANDLING_RAW" => Some(Self::Raw),
            _ => None,
        }
    }
}
/// The format of a proxy's access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum AccessLogs {
    /// Not set.
    Unspecified = 0,
    /// None.
    Off = 1,
    /// One line per request, like Apache's common log.
    Apache = 2,
    /// One JSON object per request.
    Json = 3,
}
impl AccessLogs {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "ACCESS_LOGS_UNSPECIFIED",
            Self::Off => "ACCESS_LOGS_OFF",
            Self::Apache => "ACCESS_LOGS_APACHE",
            Self::Json => "ACCESS_LOGS_JSON",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ACCESS_LOGS_UNSPECIFIED" => Some(Self::Unspecified),
            "ACCESS_LOGS_OFF" => Some(Self::Off),
            "ACCESS_LOGS_APACHE" => Some(Self::Apache),
            "ACCESS_LOGS_JSON" => Some(Self::Json),
            _ => None,
        }
    }
}
/// From client to server.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchRequest {
    /// Exactly one is set.
    #[prost(oneof = "watch_request::Kind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub kind: ::core::option::Option<watch_request::Kind>,
}
/// Nested message and enum types in `WatchRequest`.
pub mod watch_request {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// The client's identification. The first message of the stream, and only there.
        #[prost(message, tag = "1")]
        Hello(super::Hello),
        /// Asks for further ports.
        #[prost(message, tag = "2")]
        Subscribe(super::Subscribe),
        /// Cancels requested ports.
        #[prost(message, tag = "3")]
        Unsubscribe(super::Unsubscribe),
        /// Says that a revision is in force.
        #[prost(message, tag = "4")]
        Ack(super::Ack),
        /// Says that a revision was refused.
        #[prost(message, tag = "5")]
        Nack(super::Nack),
        /// Asks for the full state of a port.
        #[prost(message, tag = "6")]
        Resync(super::Resync),
        /// What the client refused. Only where the last Workload has `takes_refusals`.
        #[prost(message, tag = "7")]
        Refusals(super::Refusals),
    }
}
/// The client's workload, features and current state.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Hello {
    /// The workload's token, which its injector gave it. Opaque to the client.
    #[prost(string, tag = "1")]
    pub workload: ::prost::alloc::string::String,
    /// The features that the client can enforce, by name.
    #[prost(string, repeated, tag = "2")]
    pub features: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// The revisions that the client enforces, so that it never gets an older one.
    #[prost(message, repeated, tag = "3")]
    pub applied: ::prost::alloc::vec::Vec<PortRevision>,
    /// Name and version of the client, for logs.
    #[prost(string, tag = "4")]
    pub client: ::prost::alloc::string::String,
    /// The revision of the Workload that the client enforces at the moment, as it was received; absent:
    /// it has none. As with `applied`, the client never gets an older Workload.
    #[prost(message, optional, tag = "5")]
    pub workload_revision: ::core::option::Option<Revision>,
}
/// A port and what is in force on it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PortRevision {
    /// The port.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// Its revision.
    #[prost(message, optional, tag = "2")]
    pub revision: ::core::option::Option<Revision>,
}
/// Asks for the policy of ports that the workload does not declare. Declared ports come unasked.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Subscribe {
    /// The ports, 1 to 65535.
    #[prost(uint32, repeated, tag = "1")]
    pub ports: ::prost::alloc::vec::Vec<u32>,
}
/// Gives up ports that were subscribed to. Declared ports keep coming.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Unsubscribe {
    /// The ports.
    #[prost(uint32, repeated, tag = "1")]
    pub ports: ::prost::alloc::vec::Vec<u32>,
}
/// The update of this revision is in force: every new request and connection on that port is decided
/// by it. Sent only then, once per update.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Ack {
    /// The port.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// The revision as it was received.
    #[prost(message, optional, tag = "2")]
    pub revision: ::core::option::Option<Revision>,
}
/// The update of this revision was refused. What was in force before stays in force.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Nack {
    /// The port; 0: the workload was refused.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// The revision as it was received; absent for the workload.
    #[prost(message, optional, tag = "2")]
    pub revision: ::core::option::Option<Revision>,
    /// The reason, for people.
    #[prost(string, tag = "3")]
    pub reason: ::prost::alloc::string::String,
    /// Where in the update, for example `routes\[2\].rules\[0\].matches\[1\].path.regex`; empty: as a whole.
    #[prost(string, tag = "4")]
    pub field_path: ::prost::alloc::string::String,
}
/// An update did not build on what the client has. The server sends the full state of the port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Resync {
    /// The port.
    #[prost(uint32, tag = "1")]
    pub port: u32,
}
/// The refusals of a client that are the most frequent; it takes the place of the one before.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Refusals {
    /// Groups of refusals, the one of most refusals first. At most 8.
    #[prost(message, repeated, tag = "1")]
    pub groups: ::prost::alloc::vec::Vec<RefusalGroup>,
}
/// Refusals of one client of the workload, or of the workload's own connections, for one reason.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RefusalGroup {
    /// The id of the client's record.
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    /// The identity or the network of the client, as text; of own connections the Service, as
    /// `NAME.NAMESPACE`, or the network that was dialled.
    #[prost(string, tag = "2")]
    pub subject: ::prost::alloc::string::String,
    /// True if the connections are the workload's own.
    #[prost(bool, tag = "3")]
    pub outbound: bool,
    /// True if connections were refused, false if requests were.
    #[prost(bool, tag = "4")]
    pub connection: bool,
    /// The port of the workload; of own connections the one that was dialled.
    #[prost(uint32, tag = "5")]
    pub port: u32,
    /// The reason, as logs name it.
    #[prost(string, tag = "6")]
    pub reason: ::prost::alloc::string::String,
    /// The route that took the requests, as `Kind namespace/name`; empty: none.
    #[prost(string, tag = "7")]
    pub route: ::prost::alloc::string::String,
    /// Number of refusals.
    #[prost(uint64, tag = "8")]
    pub count: u64,
    /// Milliseconds since the last one.
    #[prost(uint64, tag = "9")]
    pub age_ms: u64,
}
/// The state of the cluster that a policy was made from.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Revision {
    /// The numbering that `versions` belongs to. Revisions of different epochs are not comparable.
    #[prost(string, tag = "1")]
    pub epoch: ::prost::alloc::string::String,
    /// Hash of the policy as sent to clients with this client's features.
    #[prost(fixed64, tag = "2")]
    pub content: u64,
    /// Per kind (`group/kind`), the resource version of the last event that changed this policy.
    #[prost(btree_map = "string, uint64", tag = "3")]
    pub versions: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        u64,
    >,
}
/// From server to client.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchResponse {
    /// Exactly one is set.
    #[prost(oneof = "watch_response::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<watch_response::Kind>,
}
/// Nested message and enum types in `WatchResponse`.
pub mod watch_response {
    /// Exactly one is set.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// The workload. First on the stream, and again when it changes.
        #[prost(message, tag = "1")]
        Workload(super::Workload),
        /// The policy of a port, whole or in part.
        #[prost(message, tag = "2")]
        Port(super::PortUpdate),
    }
}
/// The workload as a whole.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Workload {
    /// Its name, for logs.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// The networks of its symbols.
    #[prost(message, optional, tag = "2")]
    pub facts: ::core::option::Option<Facts>,
    /// The ports it declares, ascending. A client is ready once it has policy for all of them.
    #[prost(uint32, repeated, tag = "3")]
    pub declared_ports: ::prost::alloc::vec::Vec<u32>,
    /// The policy of all other ports.
    #[prost(enumeration = "Undeclared", tag = "4")]
    pub undeclared: i32,
    /// The state of the cluster that the workload was made from; `content` is 0. Absent: the server
    /// does not say (an older version).
    #[prost(message, optional, tag = "5")]
    pub revision: ::core::option::Option<Revision>,
    /// True if the server takes Refusals.
    #[prost(bool, tag = "6")]
    pub takes_refusals: bool,
}
/// A list of keys, given by what changed in the middle of it. For a list sent in full, both counts
/// are 0.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct KeyList {
    /// So many keys from the start of the old list stay,
    #[prost(uint32, tag = "1")]
    pub keep_first: u32,
    /// then come these,
    #[prost(fixed64, repeated, tag = "2")]
    pub keys: ::prost::alloc::vec::Vec<u64>,
    /// then so many keys from the end of the old list.
    #[prost(uint32, tag = "3")]
    pub keep_last: u32,
}
/// The policy of a port, whole or as a change of what the client has. It is applied whole or not at
/// all.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PortUpdate {
    /// The port.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// The revision of the client after it applied this.
    #[prost(message, optional, tag = "2")]
    pub revision: ::core::option::Option<Revision>,
    /// The content of the revision that this changes; absent: this is the full state and replaces
    /// everything.
    #[prost(fixed64, optional, tag = "3")]
    pub base: ::core::option::Option<u64>,
    /// Features that the whole policy needs, by name. A client that does not know one refuses the
    /// update.
    #[prost(string, repeated, tag = "4")]
    pub required_features: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Everything besides grants and routes; absent in a change: as before.
    #[prost(message, optional, tag = "5")]
    pub header: ::core::option::Option<PortHeader>,
    /// Grants that are new or changed, ascending by key.
    #[prost(message, repeated, tag = "6")]
    pub authorizations: ::prost::alloc::vec::Vec<Authorization>,
    /// Keys of grants that are gone.
    #[prost(fixed64, repeated, tag = "7")]
    pub removed_authorizations: ::prost::alloc::vec::Vec<u64>,
    /// The port's own grants, in the order they are tried; absent in a change: as before.
    #[prost(message, optional, tag = "8")]
    pub server_authorizations: ::core::option::Option<KeyList>,
    /// Routes that are new or changed, ascending by key.
    #[prost(message, repeated, tag = "9")]
    pub routes: ::prost::alloc::vec::Vec<Route>,
    /// Keys of routes that are gone.
    #[prost(fixed64, repeated, tag = "10")]
    pub removed_routes: ::prost::alloc::vec::Vec<u64>,
    /// All routes in their order; absent in a change: as before.
    #[prost(message, optional, tag = "11")]
    pub route_order: ::core::option::Option<KeyList>,
}
/// The policy of undeclared ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Undeclared {
    /// Not allowed.
    Unspecified = 0,
    /// The workload's default policy; the client subscribes to such a port to get it.
    Default = 1,
    /// Connections are refused as `port_undeclared`.
    Deny = 2,
}
impl Undeclared {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "UNDECLARED_UNSPECIFIED",
            Self::Default => "UNDECLARED_DEFAULT",
            Self::Deny => "UNDECLARED_DENY",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "UNDECLARED_UNSPECIFIED" => Some(Self::Unspecified),
            "UNDECLARED_DEFAULT" => Some(Self::Default),
            "UNDECLARED_DENY" => Some(Self::Deny),
            _ => None,
        }
    }
}
/// Generated client implementations.
pub mod policy_discovery_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Gives out the policy of whole workloads.
    #[derive(Debug, Clone)]
    pub struct PolicyDiscoveryClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> PolicyDiscoveryClient<T>
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
        ) -> PolicyDiscoveryClient<InterceptedService<T, F>>
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
            PolicyDiscoveryClient::new(InterceptedService::new(inner, interceptor))
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
        /// One stream per workload. The client sends Hello first, then whatever it likes in any order.
        /// The server answers with the workload and the policy of every port that the workload declares
        /// or the client subscribed to, and again whenever one of them changes.
        pub async fn watch(
            &mut self,
            request: impl tonic::IntoStreamingRequest<Message = super::WatchRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchResponse>>,
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
                "/portcullis.policy.v1.PolicyDiscovery/Watch",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("portcullis.policy.v1.PolicyDiscovery", "Watch"),
                );
            self.inner.streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod policy_discovery_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with PolicyDiscoveryServer.
    #[async_trait]
    pub trait PolicyDiscovery: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the Watch method.
        type WatchStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::WatchResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// One stream per workload. The client sends Hello first, then whatever it likes in any order.
        /// The server answers with the workload and the policy of every port that the workload declares
        /// or the client subscribed to, and again whenever one of them changes.
        async fn watch(
            &self,
            request: tonic::Request<tonic::Streaming<super::WatchRequest>>,
        ) -> std::result::Result<tonic::Response<Self::WatchStream>, tonic::Status>;
    }
    /// Gives out the policy of whole workloads.
    #[derive(Debug)]
    pub struct PolicyDiscoveryServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> PolicyDiscoveryServer<T> {
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
    impl<T, B> tonic::codegen::Service<http::Request<B>> for PolicyDiscoveryServer<T>
    where
        T: PolicyDiscovery,
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
                "/portcullis.policy.v1.PolicyDiscovery/Watch" => {
                    #[allow(non_camel_case_types)]
                    struct WatchSvc<T: PolicyDiscovery>(pub Arc<T>);
                    impl<
                        T: PolicyDiscovery,
                    > tonic::server::StreamingService<super::WatchRequest>
                    for WatchSvc<T> {
                        type Response = super::WatchResponse;
                        type ResponseStream = T::WatchStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::WatchRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as PolicyDiscovery>::watch(&inner, request).await
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
                        let res = grpc.streaming(method, req).await;
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
    impl<T> Clone for PolicyDiscoveryServer<T> {
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
    pub const SERVICE_NAME: &str = "portcullis.policy.v1.PolicyDiscovery";
    impl<T> tonic::server::NamedService for PolicyDiscoveryServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Asks for refusals.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeniedRequest {
    /// Only those of workloads of this namespace; empty: of all.
    #[prost(string, tag = "1")]
    pub namespace: ::prost::alloc::string::String,
    /// The most rows of the answer, 1 to 1000; 0: 100.
    #[prost(uint32, tag = "2")]
    pub limit: u32,
}
/// Refusals, by workload, the one of most refusals first.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeniedResponse {
    /// The rows.
    #[prost(message, repeated, tag = "1")]
    pub rows: ::prost::alloc::vec::Vec<DeniedRow>,
    /// Number of further rows.
    #[prost(uint64, tag = "2")]
    pub more: u64,
    /// Number of clients that said what they refuse.
    #[prost(uint64, tag = "3")]
    pub clients: u64,
    /// Number of clients, of workloads of all namespaces, whose refusals found no room.
    #[prost(uint64, tag = "4")]
    pub left_out: u64,
}
/// Equal refusals of the pods of one owner.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeniedRow {
    /// Namespace of the workload.
    #[prost(string, tag = "1")]
    pub namespace: ::prost::alloc::string::String,
    /// The owner of the pods, such as `deployment/web`, or the workload's own name.
    #[prost(string, tag = "2")]
    pub workload: ::prost::alloc::string::String,
    /// A refusal of the group; `count` is the sum, `age_ms` and `id` are of the latest.
    #[prost(message, optional, tag = "3")]
    pub group: ::core::option::Option<RefusalGroup>,
    /// Number of pods.
    #[prost(uint64, tag = "4")]
    pub pods: u64,
}
/// Asks for what is in force.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct InForceRequest {
    /// Name of the replica that asks, for logs.
    #[prost(string, tag = "1")]
    pub replica: ::prost::alloc::string::String,
}
/// Changes since the last message. The first ones carry everything, in as many messages as that
/// takes; an empty message says that nothing changed.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InForceUpdate {
    /// Policies that came into force, or changed.
    #[prost(message, repeated, tag = "1")]
    pub set: ::prost::alloc::vec::Vec<PortInForce>,
    /// Policies that no client of this replica has in force any more.
    #[prost(message, repeated, tag = "2")]
    pub gone: ::prost::alloc::vec::Vec<PortKey>,
    /// Name of the replica that answers.
    #[prost(string, tag = "3")]
    pub replica: ::prost::alloc::string::String,
    /// More follows at once; until then this says nothing about what it does not name.
    #[prost(bool, tag = "4")]
    pub more: bool,
    /// Parts that clients of this replica are not sent because they could not enforce them, of each
    /// object that asks for it and of which that changed.
    #[prost(message, repeated, tag = "5")]
    pub unsent: ::prost::alloc::vec::Vec<ObjectUnsent>,
}
/// Parts of one object that clients are not sent that watch a policy now.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ObjectUnsent {
    /// API group of the object.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Its kind.
    #[prost(string, tag = "2")]
    pub kind: ::prost::alloc::string::String,
    /// Its namespace.
    #[prost(string, tag = "3")]
    pub namespace: ::prost::alloc::string::String,
    /// Its name.
    #[prost(string, tag = "4")]
    pub name: ::prost::alloc::string::String,
    /// Denials sent to such clients in its place, in words. Both lists empty: nothing any more.
    #[prost(string, repeated, tag = "5")]
    pub denied: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Parts omitted for such clients, in words.
    #[prost(string, repeated, tag = "6")]
    pub left_out: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// A port of a workload.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PortKey {
    /// Namespace of the workload.
    #[prost(string, tag = "1")]
    pub namespace: ::prost::alloc::string::String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub workload: ::prost::alloc::string::String,
    /// True if it is an ExternalWorkload.
    #[prost(bool, tag = "3")]
    pub external: bool,
    /// The port.
    #[prost(uint32, tag = "4")]
    pub port: u32,
}
/// The policy in force on a port.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PortInForce {
    /// The port.
    #[prost(message, optional, tag = "1")]
    pub key: ::core::option::Option<PortKey>,
    /// Hash of the policy that every client of this replica that answers for the port has in force: of
    /// the policy as published, before it was encoded for the client, so that replicas of one build
    /// agree. 0: some of them has none, or could not be sent all of it.
    #[prost(fixed64, tag = "2")]
    pub content: u64,
    /// The reason why the newest update was refused; empty if it was not.
    #[prost(string, tag = "3")]
    pub refused: ::prost::alloc::string::String,
    /// Milliseconds since this came to be so.
    #[prost(uint32, tag = "4")]
    pub age_ms: u32,
}
/// Asks for objects.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ObjectsRequest {
    /// Only those of this namespace; empty: of all.
    #[prost(string, tag = "1")]
    pub namespace: ::prost::alloc::string::String,
}
/// Every object there is to tell of, by group, kind, namespace and name.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ObjectsResponse {
    /// The objects.
    #[prost(message, repeated, tag = "1")]
    pub objects: ::prost::alloc::vec::Vec<ObjectStatus>,
    /// Limitations of the replica that responds, in words; empty if there are none.
    #[prost(string, repeated, tag = "2")]
    pub missing: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// One object.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ObjectStatus {
    /// API group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Kind.
    #[prost(string, tag = "2")]
    pub kind: ::prost::alloc::string::String,
    /// Namespace.
    #[prost(string, tag = "3")]
    pub namespace: ::prost::alloc::string::String,
    /// Name.
    #[prost(string, tag = "4")]
    pub name: ::prost::alloc::string::String,
    /// The generation that this is about; 0 if it has none.
    #[prost(int64, tag = "5")]
    pub generation: i64,
    /// Its conditions.
    #[prost(message, repeated, tag = "6")]
    pub conditions: ::prost::alloc::vec::Vec<ObjectCondition>,
    /// On how many proxies its current effect is in force. Absent: it cannot be said.
    #[prost(message, optional, tag = "7")]
    pub programmed: ::core::option::Option<Programmed>,
}
/// A count of proxies.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Programmed {
    /// Proxies that have the current effect in force.
    #[prost(uint64, tag = "1")]
    pub in_force: u64,
    /// Running pods with a proxy that depend on the object, connected or not.
    #[prost(uint64, tag = "2")]
    pub concerned: u64,
    /// Proxies that refused the newest update, of those concerned.
    #[prost(uint64, tag = "3")]
    pub refused: u64,
    /// True, False or Unknown, as in the condition Programmed. Empty: the controller is of a version
    /// that does not say.
    #[prost(string, tag = "4")]
    pub status: ::prost::alloc::string::String,
    /// The reason, for programs.
    #[prost(string, tag = "5")]
    pub reason: ::prost::alloc::string::String,
    /// The message, for people: selected or targeted objects that are missing, pods without a sidecar.
    #[prost(string, tag = "6")]
    pub message: ::prost::alloc::string::String,
}
/// One condition.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ObjectCondition {
    /// Accepted, ResolvedRefs, …
    #[prost(string, tag = "1")]
    pub r#type: ::prost::alloc::string::String,
    /// True if it holds.
    #[prost(bool, tag = "2")]
    pub status: bool,
    /// The reason, for programs.
    #[prost(string, tag = "3")]
    pub reason: ::prost::alloc::string::String,
    /// The reason, for people.
    #[prost(string, tag = "4")]
    pub message: ::prost::alloc::string::String,
    /// The parent or target that it is about, as `Kind namespace/name`; empty: the object as a whole.
    #[prost(string, tag = "5")]
    pub parent: ::prost::alloc::string::String,
    /// The section of the parent, if the reference names one.
    #[prost(string, tag = "6")]
    pub section: ::prost::alloc::string::String,
}
/// Generated client implementations.
pub mod policy_report_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Returns the policies in force and the conditions of every object.
    #[derive(Debug, Clone)]
    pub struct PolicyReportClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> PolicyReportClient<T>
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
        ) -> PolicyReportClient<InterceptedService<T, F>>
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
            PolicyReportClient::new(InterceptedService::new(inner, interceptor))
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
        /// Policies in force on the clients of this replica, and every change of them. Open to the
        /// controller's own identity only: replicas add up what they hear from each other.
        pub async fn in_force(
            &mut self,
            request: impl tonic::IntoRequest<super::InForceRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::InForceUpdate>>,
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
                "/portcullis.policy.v1.PolicyReport/InForce",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("portcullis.policy.v1.PolicyReport", "InForce"));
            self.inner.server_streaming(req, path, codec).await
        }
        /// Every policy object with its conditions. Open to viewers.
        pub async fn objects(
            &mut self,
            request: impl tonic::IntoRequest<super::ObjectsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ObjectsResponse>,
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
                "/portcullis.policy.v1.PolicyReport/Objects",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("portcullis.policy.v1.PolicyReport", "Objects"));
            self.inner.unary(req, path, codec).await
        }
        /// The most frequent refusals of the clients that are connected to this replica. Open to viewers.
        pub async fn denied(
            &mut self,
            request: impl tonic::IntoRequest<super::DeniedRequest>,
        ) -> std::result::Result<tonic::Response<super::DeniedResponse>, tonic::Status> {
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
                "/portcullis.policy.v1.PolicyReport/Denied",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("portcullis.policy.v1.PolicyReport", "Denied"));
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod policy_report_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with PolicyReportServer.
    #[async_trait]
    pub trait PolicyReport: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the InForce method.
        type InForceStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::InForceUpdate, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Policies in force on the clients of this replica, and every change of them. Open to the
        /// controller's own identity only: replicas add up what they hear from each other.
        async fn in_force(
            &self,
            request: tonic::Request<super::InForceRequest>,
        ) -> std::result::Result<tonic::Response<Self::InForceStream>, tonic::Status>;
        /// Every policy object with its conditions. Open to viewers.
        async fn objects(
            &self,
            request: tonic::Request<super::ObjectsRequest>,
        ) -> std::result::Result<tonic::Response<super::ObjectsResponse>, tonic::Status>;
        /// The most frequent refusals of the clients that are connected to this replica. Open to viewers.
        async fn denied(
            &self,
            request: tonic::Request<super::DeniedRequest>,
        ) -> std::result::Result<tonic::Response<super::DeniedResponse>, tonic::Status>;
    }
    /// Returns the policies in force and the conditions of every object.
    #[derive(Debug)]
    pub struct PolicyReportServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> PolicyReportServer<T> {
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
    impl<T, B> tonic::codegen::Service<http::Request<B>> for PolicyReportServer<T>
    where
        T: PolicyReport,
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
                "/portcullis.policy.v1.PolicyReport/InForce" => {
                    #[allow(non_camel_case_types)]
                    struct InForceSvc<T: PolicyReport>(pub Arc<T>);
                    impl<
                        T: PolicyReport,
                    > tonic::server::ServerStreamingService<super::InForceRequest>
                    for InForceSvc<T> {
                        type Response = super::InForceUpdate;
                        type ResponseStream = T::InForceStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::InForceRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as PolicyReport>::in_force(&inner, request).await
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
                        let method = InForceSvc(inner);
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
                "/portcullis.policy.v1.PolicyReport/Objects" => {
                    #[allow(non_camel_case_types)]
                    struct ObjectsSvc<T: PolicyReport>(pub Arc<T>);
                    impl<
                        T: PolicyReport,
                    > tonic::server::UnaryService<super::ObjectsRequest>
                    for ObjectsSvc<T> {
                        type Response = super::ObjectsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ObjectsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as PolicyReport>::objects(&inner, request).await
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
                        let method = ObjectsSvc(inner);
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
                "/portcullis.policy.v1.PolicyReport/Denied" => {
                    #[allow(non_camel_case_types)]
                    struct DeniedSvc<T: PolicyReport>(pub Arc<T>);
                    impl<
                        T: PolicyReport,
                    > tonic::server::UnaryService<super::DeniedRequest>
                    for DeniedSvc<T> {
                        type Response = super::DeniedResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::DeniedRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as PolicyReport>::denied(&inner, request).await
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
                        let method = DeniedSvc(inner);
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
    impl<T> Clone for PolicyReportServer<T> {
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
    pub const SERVICE_NAME: &str = "portcullis.policy.v1.PolicyReport";
    impl<T> tonic::server::NamedService for PolicyReportServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
