//! Echo server: a small application that answers with what it received. Examples, tests and
//! `portcullis up` run it behind a sidecar.
//!
//! One port speaks HTTP/1.1, HTTP/2 with prior knowledge, gRPC and raw TCP; the first bytes tell
//! which (see [`sniff`]). HTTP requests are answered with JSON ([`http::ReceivedRequest`]) and can
//! change the response with headers ([`http::ResponseOptions`]). gRPC calls get their own messages
//! back with trailers; other bytes come back as they are.

mod connection;
mod grpc;
pub mod http;
mod serve;
pub mod sniff;

pub use connection::{Counters, EchoOptions};
pub use serve::{EchoServer, serve, server_config, start};
