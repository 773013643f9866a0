//! Package `io.linkerd.proxy.http_route`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// A host that a route applies to.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HostMatch {
    /// Exactly one must be set.
    #[prost(oneof = "host_match::Match", tags = "1, 2")]
    pub r#match: ::core::option::Option<host_match::Match>,
}
/// Nested message and enum types in `HostMatch`.
pub mod host_match {
    /// The end of a host name; at least one more label must stand before it.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Suffix {
        /// Labels from the last to the first: `*.example.com` is \[`com`, `example`\].
        #[prost(string, repeated, tag = "1")]
        pub reverse_labels: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Match {
        /// This host.
        #[prost(string, tag = "1")]
        Exact(::prost::alloc::string::String),
        /// Hosts below this one.
        #[prost(message, tag = "2")]
        Suffix(Suffix),
    }
}
/// A conjunction: absent parts match everything.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HttpRouteMatch {
    /// The path.
    #[prost(message, optional, tag = "1")]
    pub path: ::core::option::Option<PathMatch>,
    /// Headers, all of which must match.
    #[prost(message, repeated, tag = "2")]
    pub headers: ::prost::alloc::vec::Vec<HeaderMatch>,
    /// Query parameters, all of which must match.
    #[prost(message, repeated, tag = "3")]
    pub query_params: ::prost::alloc::vec::Vec<QueryParamMatch>,
    /// The method.
    #[prost(message, optional, tag = "4")]
    pub method: ::core::option::Option<super::http_types::HttpMethod>,
}
/// A predicate over a path.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PathMatch {
    /// Exactly one must be set.
    #[prost(oneof = "path_match::Kind", tags = "1, 2, 3")]
    pub kind: ::core::option::Option<path_match::Kind>,
}
/// Nested message and enum types in `PathMatch`.
pub mod path_match {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// This path.
        #[prost(string, tag = "1")]
        Exact(::prost::alloc::string::String),
        /// This path and everything below it, by whole segments.
        #[prost(string, tag = "2")]
        Prefix(::prost::alloc::string::String),
        /// The whole path matches this expression.
        #[prost(string, tag = "3")]
        Regex(::prost::alloc::string::String),
    }
}
/// A predicate over a header.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HeaderMatch {
    /// Name, lower-case.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Exactly one must be set.
    #[prost(oneof = "header_match::Value", tags = "2, 3")]
    pub value: ::core::option::Option<header_match::Value>,
}
/// Nested message and enum types in `HeaderMatch`.
pub mod header_match {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Value {
        /// These bytes.
        #[prost(bytes, tag = "2")]
        Exact(::prost::alloc::vec::Vec<u8>),
        /// The whole value matches this expression.
        #[prost(string, tag = "3")]
        Regex(::prost::alloc::string::String),
    }
}
/// A predicate over a query parameter.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct QueryParamMatch {
    /// Name, decoded.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Exactly one must be set.
    #[prost(oneof = "query_param_match::Value", tags = "2, 3")]
    pub value: ::core::option::Option<query_param_match::Value>,
}
/// Nested message and enum types in `QueryParamMatch`.
pub mod query_param_match {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Value {
        /// This value, decoded.
        #[prost(string, tag = "2")]
        Exact(::prost::alloc::string::String),
        /// The whole decoded value matches this expression.
        #[prost(string, tag = "3")]
        Regex(::prost::alloc::string::String),
    }
}
/// Changes to the headers of a request: first add, then set, then remove.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RequestHeaderModifier {
    /// Appended.
    #[prost(message, optional, tag = "1")]
    pub add: ::core::option::Option<super::http_types::Headers>,
    /// Put in place of all of that name.
    #[prost(message, optional, tag = "2")]
    pub set: ::core::option::Option<super::http_types::Headers>,
    /// Names removed.
    #[prost(string, repeated, tag = "3")]
    pub remove: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Changes to the headers of a response: first add, then set, then remove.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ResponseHeaderModifier {
    /// Appended.
    #[prost(message, optional, tag = "1")]
    pub add: ::core::option::Option<super::http_types::Headers>,
    /// Put in place of all of that name.
    #[prost(message, optional, tag = "2")]
    pub set: ::core::option::Option<super::http_types::Headers>,
    /// Names removed.
    #[prost(string, repeated, tag = "3")]
    pub remove: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Answers with a redirect.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RequestRedirect {
    /// New scheme; absent: as requested.
    #[prost(message, optional, tag = "1")]
    pub scheme: ::core::option::Option<super::http_types::Scheme>,
    /// New host; empty: as requested.
    #[prost(string, tag = "2")]
    pub host: ::prost::alloc::string::String,
    /// New path; absent: as requested.
    #[prost(message, optional, tag = "3")]
    pub path: ::core::option::Option<PathModifier>,
    /// New port; 0: as requested.
    #[prost(uint32, tag = "4")]
    pub port: u32,
    /// HTTP status; 0: 301.
    #[prost(uint32, tag = "5")]
    pub status: u32,
}
/// A change of a path.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PathModifier {
    /// Exactly one must be set.
    #[prost(oneof = "path_modifier::Replace", tags = "1, 2")]
    pub replace: ::core::option::Option<path_modifier::Replace>,
}
/// Nested message and enum types in `PathModifier`.
pub mod path_modifier {
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Replace {
        /// The whole path becomes this.
        #[prost(string, tag = "1")]
        Full(::prost::alloc::string::String),
        /// The prefix that matched becomes this.
        #[prost(string, tag = "2")]
        Prefix(::prost::alloc::string::String),
    }
}
/// Answers with a failure.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HttpFailureInjector {
    /// HTTP status.
    #[prost(uint32, tag = "1")]
    pub status: u32,
    /// Message for the caller.
    #[prost(string, tag = "2")]
    pub message: ::prost::alloc::string::String,
    /// Share of the requests that fail; absent: all.
    #[prost(message, optional, tag = "3")]
    pub ratio: ::core::option::Option<Ratio>,
}
/// A share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Ratio {
    /// Part.
    #[prost(uint32, tag = "1")]
    pub numerator: u32,
    /// Whole; not 0.
    #[prost(uint32, tag = "2")]
    pub denominator: u32,
}
/// Time limits; not used by inbound policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Timeouts {
    /// Until the response is complete.
    #[prost(message, optional, tag = "1")]
    pub response: ::core::option::Option<::prost_types::Duration>,
    /// Until request and response are complete.
    #[prost(message, optional, tag = "2")]
    pub request: ::core::option::Option<::prost_types::Duration>,
    /// Without any byte in either direction.
    #[prost(message, optional, tag = "3")]
    pub idle: ::core::option::Option<::prost_types::Duration>,
}
