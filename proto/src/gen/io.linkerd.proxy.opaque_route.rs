//! Package `io.linkerd.proxy.opaque_route`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// The route is invalid: connections fail.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Invalid {
    /// The reason.
    #[prost(string, tag = "1")]
    pub message: ::prost::alloc::string::String,
}
/// Connections are refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Forbidden {}
