//! `policy-proxy redirect` with nft and iptables in network namespaces.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod capture;
mod carried;
mod gateway;
mod outbound;
mod proxy;
mod refused;
mod rules;
mod sidecar;
mod source_ports;
mod support;
mod tool;
