//! Package `io.linkerd.proxy.tls_route`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// A server name (SNI) that a route applies to.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SniMatch {
    /// Exactly one must be set.
    #[prost(oneof = "sni_match::Match", tags = "1, 2")]
    pub r#match: ::core::option::Option<sni_match::Match>,
}
/// Nested message and enum types in `SniMatch`.
pub mod sni_match {
    /// The end of a name; at least one more label must stand before it.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Suffix {
        /// Labels from the last to the first: `*.example.com` is \[`com`, `example`\].
        #[prost(string, repeated, tag = "1")]
        pub reverse_labels: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Match {
        /// This name.
        #[prost(string, tag = "1")]
        Exact(::prost::alloc::string::String),
        /// Names below this one.
        #[prost(message, tag = "2")]
        Suffix(Suffix),
    }
}
