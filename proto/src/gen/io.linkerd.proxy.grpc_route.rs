//! Package `io.linkerd.proxy.grpc_route`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// A conjunction over one call.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GrpcRouteMatch {
    /// Service and method. Must be present, even if it asks for nothing.
    #[prost(message, optional, tag = "1")]
    pub rpc: ::core::option::Option<GrpcRpcMatch>,
    /// Headers, all of which must match.
    #[prost(message, repeated, tag = "2")]
    pub headers: ::prost::alloc::vec::Vec<super::http_route::HeaderMatch>,
}
/// The calls that match.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GrpcRpcMatch {
    /// Fully qualified service name; empty: any.
    #[prost(string, tag = "1")]
    pub service: ::prost::alloc::string::String,
    /// Method name; empty: any.
    #[prost(string, tag = "2")]
    pub method: ::prost::alloc::string::String,
}
/// Answers with a failure.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GrpcFailureInjector {
    /// gRPC status code.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Message for the caller.
    #[prost(string, tag = "2")]
    pub message: ::prost::alloc::string::String,
    /// Share of the calls that fail; absent: all.
    #[prost(message, optional, tag = "3")]
    pub ratio: ::core::option::Option<super::http_route::Ratio>,
}
