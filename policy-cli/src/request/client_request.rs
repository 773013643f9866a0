//! Request of the client.

use super::identity::Credentials;
use super::url::Protocol;
use bytes::Bytes;
use http::{HeaderMap, Method};
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

/// A request.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Address to connect to.
    pub address: SocketAddr,
    /// Source address of the connection; absent: the system chooses.
    pub from: Option<IpAddr>,
    /// TLS; absent: plaintext.
    pub tls: Option<Tls>,
    /// The direct path: `address` is a sidecar's own port, and this is the workload's port. Needs
    /// TLS with an identity. Absent: an ordinary connection.
    pub direct: Option<NonZeroU16>,
    /// Protocol.
    pub protocol: Protocol,
    /// HTTP method; gRPC calls are always `POST`.
    pub method: Method,
    /// `Host` or `:authority`.
    pub host: String,
    /// Path and query, sent as they are; for gRPC `/service/method`.
    pub path: String,
    /// Further headers, sent as they are.
    pub headers: HeaderMap,
    /// Request body, gRPC message without its length prefix, or the bytes of a raw connection.
    pub body: Bytes,
    /// Timeout from connecting to the end of the response.
    pub timeout: Duration,
}

/// TLS of a request.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The client's credentials and trust roots.
    pub credentials: Credentials,
    /// Name for SNI, which the server must prove.
    pub server_name: ServerName<'static>,
}

impl ClientRequest {
    /// Returns a plaintext `GET` over HTTP/1.1 with a timeout of ten seconds.
    pub fn get(address: SocketAddr, path: &str) -> Self {
        Self {
            address,
            from: None,
            tls: None,
            direct: None,
            protocol: Protocol::Http1,
            method: Method::GET,
            host: address.to_string(),
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(10),
        }
    }

    /// Returns a plaintext gRPC call of `/service/method` with an empty message.
    pub fn grpc(address: SocketAddr, path: &str) -> Self {
        Self { protocol: Protocol::Grpc, method: Method::POST, ..Self::get(address, path) }
    }

    /// Returns a plaintext raw connection that sends one line and expects it back.
    pub fn tcp(address: SocketAddr) -> Self {
        let body = Bytes::from_static(b"portcullis\n");
        Self { protocol: Protocol::Tcp, body, ..Self::get(address, "") }
    }
}
