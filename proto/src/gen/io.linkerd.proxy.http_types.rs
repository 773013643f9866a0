//! Package `io.linkerd.proxy.http_types`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// An HTTP method.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HttpMethod {
    /// Exactly one must be set.
    #[prost(oneof = "http_method::Type", tags = "1, 2")]
    pub r#type: ::core::option::Option<http_method::Type>,
}
/// Nested message and enum types in `HttpMethod`.
pub mod http_method {
    /// The methods that have a number.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum Registered {
        /// GET.
        Get = 0,
        /// POST.
        Post = 1,
        /// PUT.
        Put = 2,
        /// DELETE.
        Delete = 3,
        /// PATCH.
        Patch = 4,
        /// OPTIONS.
        Options = 5,
        /// CONNECT.
        Connect = 6,
        /// HEAD.
        Head = 7,
        /// TRACE.
        Trace = 8,
    }
    impl Registered {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Get => "GET",
                Self::Post => "POST",
                Self::Put => "PUT",
                Self::Delete => "DELETE",
                Self::Patch => "PATCH",
                Self::Options => "OPTIONS",
                Self::Connect => "CONNECT",
                Self::Head => "HEAD",
                Self::Trace => "TRACE",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "GET" => Some(Self::Get),
                "POST" => Some(Self::Post),
                "PUT" => Some(Self::Put),
                "DELETE" => Some(Self::Delete),
                "PATCH" => Some(Self::Patch),
                "OPTIONS" => Some(Self::Options),
                "CONNECT" => Some(Self::Connect),
                "HEAD" => Some(Self::Head),
                "TRACE" => Some(Self::Trace),
                _ => None,
            }
        }
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Type {
        /// By number.
        #[prost(enumeration = "Registered", tag = "1")]
        Registered(i32),
        /// By name.
        #[prost(string, tag = "2")]
        Unregistered(::prost::alloc::string::String),
    }
}
/// A URI scheme.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Scheme {
    /// Exactly one must be set.
    #[prost(oneof = "scheme::Type", tags = "1, 2")]
    pub r#type: ::core::option::Option<scheme::Type>,
}
/// Nested message and enum types in `Scheme`.
pub mod scheme {
    /// The schemes that have a number.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum Registered {
        /// http.
        Http = 0,
        /// https.
        Https = 1,
    }
    impl Registered {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Http => "HTTP",
                Self::Https => "HTTPS",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "HTTP" => Some(Self::Http),
                "HTTPS" => Some(Self::Https),
                _ => None,
            }
        }
    }
    /// Exactly one must be set.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Type {
        /// By number.
        #[prost(enumeration = "Registered", tag = "1")]
        Registered(i32),
        /// By name.
        #[prost(string, tag = "2")]
        Unregistered(::prost::alloc::string::String),
    }
}
/// A list of header fields; a name may repeat.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Headers {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub headers: ::prost::alloc::vec::Vec<headers::Header>,
}
/// Nested message and enum types in `Headers`.
pub mod headers {
    /// One header field.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Header {
        /// Name, lower-case.
        #[prost(string, tag = "1")]
        pub name: ::prost::alloc::string::String,
        /// Value, any bytes that HTTP allows.
        #[prost(bytes = "vec", tag = "2")]
        pub value: ::prost::alloc::vec::Vec<u8>,
    }
}
