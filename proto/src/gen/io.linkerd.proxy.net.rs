//! Package `io.linkerd.proxy.net`. Generated from the `.proto` files beside this crate by
//! `cargo run -p xtask -- gen`; changes here are lost. @generated

/// An IPv4 or IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IpAddress {
    /// Exactly one must be set.
    #[prost(oneof = "ip_address::Ip", tags = "1, 2")]
    pub ip: ::core::option::Option<ip_address::Ip>,
}
/// Nested message and enum types in `IPAddress`.
pub mod ip_address {
    /// Exactly one must be set.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Ip {
        /// The address as a number; the first octet is the most significant byte.
        #[prost(fixed32, tag = "1")]
        Ipv4(u32),
        /// An IPv6 address in two halves.
        #[prost(message, tag = "2")]
        Ipv6(super::IPv6),
    }
}
/// The 128 bits of an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IPv6 {
    /// The first four groups, most significant first.
    #[prost(fixed64, tag = "1")]
    pub first: u64,
    /// The last four groups.
    #[prost(fixed64, tag = "2")]
    pub last: u64,
}
/// A block of addresses. Bits beyond the prefix need not be zero and mean nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IpNetwork {
    /// Any address of the block.
    #[prost(message, optional, tag = "1")]
    pub ip: ::core::option::Option<IpAddress>,
    /// Bits that count: 0 to 32 for IPv4, 0 to 128 for IPv6.
    #[prost(uint32, tag = "2")]
    pub prefix_len: u32,
}
/// An address and a TCP port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TcpAddress {
    /// The address.
    #[prost(message, optional, tag = "1")]
    pub ip: ::core::option::Option<IpAddress>,
    /// The port, 1 to 65535.
    #[prost(uint32, tag = "2")]
    pub port: u32,
}
