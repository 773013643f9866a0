//! The sidecar on real sockets, with a policy store filled by hand.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

mod grpc;
mod hostile;
mod http1;
mod http2;
mod layer;
mod opaque;
mod revocation;
mod support;
mod tls;
