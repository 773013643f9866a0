//! Packages `io.linkerd.proxy.*`: the messages of Linkerd's proxies and controllers.
#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_docs,
    unreachable_pub,
    reason = "generated"
)]

#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.destination.rs"]
pub mod destination;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.grpc_route.rs"]
pub mod grpc_route;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.http_route.rs"]
pub mod http_route;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.http_types.rs"]
pub mod http_types;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.identity.rs"]
pub mod identity;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.inbound.rs"]
pub mod inbound;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.meta.rs"]
pub mod meta;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.net.rs"]
pub mod net;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.opaque_route.rs"]
pub mod opaque_route;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.outbound.rs"]
pub mod outbound;
#[rustfmt::skip]
#[path = "gen/io.linkerd.proxy.tls_route.rs"]
pub mod tls_route;
