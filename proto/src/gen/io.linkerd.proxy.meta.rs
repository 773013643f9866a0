//! Package `io.linkerd.proxy.meta`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// The origin of a route, an authorization or a limit.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Metadata {
    /// Exactly one must be set.
    #[prost(oneof = "metadata::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<metadata::Kind>,
}
/// Nested message and enum types in `Metadata`.
pub mod metadata {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// Something built in, by name: a default policy, `default`, `probe`.
        #[prost(string, tag = "1")]
        Default(::prost::alloc::string::String),
        /// A Kubernetes object.
        #[prost(message, tag = "2")]
        Resource(super::Resource),
    }
}
/// A Kubernetes object, or a part of one.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Resource {
    /// API group; empty for the core group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Kind. Lower-case for servers and authorizations, as written for routes and rate limits.
    #[prost(string, tag = "2")]
    pub kind: ::prost::alloc::string::String,
    /// Name.
    #[prost(string, tag = "3")]
    pub name: ::prost::alloc::string::String,
    /// Namespace; empty in inbound policy.
    #[prost(string, tag = "4")]
    pub namespace: ::prost::alloc::string::String,
    /// A named section of the object; empty: the whole object.
    #[prost(string, tag = "5")]
    pub section: ::prost::alloc::string::String,
    /// A port of the object; 0: the whole object.
    #[prost(uint32, tag = "6")]
    pub port: u32,
}
