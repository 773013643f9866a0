//! Listening ports of proxies.

use anyhow::bail;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Listening ports of a running proxy.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// HTTP/1.1.
    pub http1: SocketAddr,
    /// HTTP/2.
    pub http2: SocketAddr,
    /// gRPC.
    pub grpc: SocketAddr,
    /// Raw TCP.
    pub raw: SocketAddr,
    /// HTTP/1.1 under mutual TLS.
    pub tls1: SocketAddr,
    /// HTTP/2 under mutual TLS.
    pub tls2: SocketAddr,
    /// Raw TCP under mutual TLS.
    pub raw_tls: SocketAddr,
    /// HTTP/1.1 that leaves in mutual TLS.
    pub out_http: SocketAddr,
    /// Raw TCP that leaves in mutual TLS.
    pub out_raw: SocketAddr,
    /// HTTP/1.1 where nothing but `/zz/` is let through.
    pub routed: SocketAddr,
    /// HTTP/1.1 where callers without a certificate are refused.
    pub meshed: SocketAddr,
}

impl Ports {
    pub(super) fn free() -> anyhow::Result<Self> {
        Ok(Self {
            http1: free()?,
            http2: free()?,
            grpc: free()?,
            raw: free()?,
            tls1: free()?,
            tls2: free()?,
            raw_tls: free()?,
            out_http: free()?,
            out_raw: free()?,
            routed: free()?,
            meshed: free()?,
        })
    }
}

/// A loopback address that nobody listens on, outside of the ports that connections are opened from.
pub fn free() -> anyhow::Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Measurements that run at a time begin at different places.
    let base = u16::try_from(std::process::id() % 8000)?;
    for _ in 0..10_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (base + step) % 12_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port is free")
}
