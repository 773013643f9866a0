//! Connections, under TLS or not.

use crate::job::Job;
use anyhow::Context;
use policy_bench::load::Protocol;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

/// A connection of either kind.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Stream of a connection, plain or TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + 'static> Stream for T {}

/// Opens a connection as the load asks for it.
pub(crate) async fn connect(job: &Job) -> anyhow::Result<Connection> {
    let number = job.opened();
    let load = &job.load;
    let target = load.target;
    let stream = if load.sources > 1 {
        let last = number % u64::from(load.sources) + 1;
        let source = Ipv4Addr::new(127, 0, 0, u8::try_from(last).unwrap_or(1));
        let socket = TcpSocket::new_v4()?;
        // Ports of connections that the other side closed are free again.
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::new(IpAddr::V4(source), 0))?;
        socket.connect(target).await
    } else {
        TcpStream::connect(target).await
    };
    let stream = stream.with_context(|| format!("connect to {target}"))?;
    stream.set_nodelay(true)?;
    let Some(tls) = &job.tls else { return Ok(Connection::Plain(stream)) };
    let name = ServerName::try_from(load.server_name.clone())?;
    let alpn = match load.protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 | Protocol::Grpc | Protocol::GrpcStream => vec![b"h2".to_vec()],
        Protocol::Echo | Protocol::Download | Protocol::Upload => Vec::new(),
    };
    let stream = tls.with_alpn(alpn).connect(name, stream).await.context("TLS handshake")?;
    Ok(Connection::Tls(Box::new(stream)))
}
