//! Package `transport.l5d.io`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// The destination of the connection, and its protocol.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Header {
    /// The workload's port, 1 to 65535. Where a name is given, the port of what it names.
    #[prost(int32, tag = "1")]
    pub port: i32,
    /// A destination beyond this workload, for gateways. Empty: this workload.
    #[prost(string, tag = "2")]
    pub name: ::prost::alloc::string::String,
    /// The protocol after this header. Absent, or without a kind: not known.
    #[prost(message, optional, tag = "3")]
    pub session_protocol: ::core::option::Option<SessionProtocol>,
}
/// An application protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SessionProtocol {
    /// Exactly one is set, or none.
    #[prost(oneof = "session_protocol::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<session_protocol::Kind>,
}
/// Nested message and enum types in `SessionProtocol`.
pub mod session_protocol {
    /// HTTP/1.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Http1 {}
    /// HTTP/2 with prior knowledge.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Http2 {}
    /// Exactly one is set, or none.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// HTTP/1.
        #[prost(message, tag = "1")]
        Http1(Http1),
        /// HTTP/2.
        #[prost(message, tag = "2")]
        Http2(Http2),
    }
}
