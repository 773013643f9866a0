//! Connects, asks and waits for the answer.

use super::answer::Answer;
use super::error::Failed;
use super::exchange;
use super::question::Question;
use super::target::Protocol;
use policy_proto::transport::{self, Header, Session};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// Asks one question on a connection of its own and reports the answer.
pub async fn send(question: &Question) -> Result<Answer, Failed> {
    let bound = question.timeout;
    let started = Instant::now();
    let mut answer = tokio::time::timeout(bound, ask(question))
        .await
        .map_err(|_| Failed::Timeout { address: question.address, bound })??;
    answer.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(answer)
}

async fn ask(question: &Question) -> Result<Answer, Failed> {
    let stream = connect(question.address, question.from).await?;
    let local = stream.local_addr().ok();
    let mut answer = match &question.tls {
        None => exchange::run(question, stream).await?,
        Some(tls) => {
            let address = question.address;
            let handshake = |error| Failed::Handshake { address, error };
            let mut config = tls
                .credentials
                .client_config()
                .map_err(|error| handshake(std::io::Error::other(error)))?;
            if question.direct.is_some() {
                Arc::make_mut(&mut config).alpn_protocols = vec![transport::ALPN.to_vec()];
            }
            let mut stream = tokio_rustls::TlsConnector::from(config)
                .connect(tls.server_name.clone(), stream)
                .await
                .map_err(handshake)?;
            if let Some(port) = question.direct {
                if stream.get_ref().1.alpn_protocol() != Some(transport::ALPN) {
                    return Err(Failed::NotDirect { address });
                }
                let header = Header { port, name: None, session: session(question.protocol) };
                let closed =
                    |error: std::io::Error| Failed::Closed { address, error: error.to_string() };
                stream.write_all(&transport::encode(&header)).await.map_err(closed)?;
            }
            exchange::run(question, stream).await?
        }
    };
    answer.local = local;
    Ok(answer)
}

/// What the transport header says is spoken.
fn session(protocol: Protocol) -> Option<Session> {
    match protocol {
        Protocol::Http1 => Some(Session::Http1),
        Protocol::Http2 | Protocol::Grpc => Some(Session::Http2),
        Protocol::Tcp => None,
    }
}

/// Connects to `address`, from `from` if given.
pub async fn connect(address: SocketAddr, from: Option<IpAddr>) -> Result<TcpStream, Failed> {
    let failed = |error| Failed::Connect { address, error };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(failed)?;
    if let Some(from) = from {
        let local = SocketAddr::new(from, 0);
        socket.bind(local).map_err(|error| Failed::From { from, error })?;
    }
    let stream = socket.connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}
