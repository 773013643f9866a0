//! A client that asks one thing, with or without a mesh identity, from a chosen address.
//!
//! [`send`] reports what the server answered, whatever it was; only a question that got no answer
//! is an error ([`Failed`]).

pub(crate) mod answer;
mod exchange;
pub mod identity;
pub mod target;

pub use answer::{Answer, Outcome};
pub use identity::{Credentials, CredentialsError};
pub use target::{Protocol, Target, TargetError};

use bytes::Bytes;
use http::{HeaderMap, Method};
use policy_proto::transport::{self, Header, Session};
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// One question.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where to connect.
    pub address: SocketAddr,
    /// Source address of the connection; absent: the system chooses.
    pub from: Option<IpAddr>,
    /// TLS; absent: plaintext.
    pub tls: Option<Tls>,
    /// The direct path: `address` is a sidecar's own port, and this is the workload's port that is
    /// meant. Needs TLS with an identity. Absent: an ordinary connection.
    pub direct: Option<NonZeroU16>,
    /// What is spoken.
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
    /// Bound on everything from connecting to the end of the answer.
    pub timeout: Duration,
}

/// How TLS is spoken.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Who we are and whom we trust.
    pub credentials: Credentials,
    /// Name sent as SNI, which the server must prove.
    pub server_name: ServerName<'static>,
}

impl Question {
    /// A plaintext `GET /` over HTTP/1.1 with a bound of ten seconds.
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

    /// A plaintext gRPC call of `/service/method` with an empty message.
    pub fn grpc(address: SocketAddr, path: &str) -> Self {
        Self { protocol: Protocol::Grpc, method: Method::POST, ..Self::get(address, path) }
    }

    /// A plaintext raw connection that sends one line and wants it back.
    pub fn tcp(address: SocketAddr) -> Self {
        let body = Bytes::from_static(b"portcullis\n");
        Self { protocol: Protocol::Tcp, body, ..Self::get(address, "") }
    }
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The source address is not one of this machine's.
    #[error("cannot send from `{from}`: {error}")]
    From {
        /// The address asked for.
        from: IpAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// Nothing accepts connections there.
    #[error("cannot connect to `{address}`: {error}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// The TLS handshake did not complete.
    #[error("TLS handshake with `{address}` failed: {error}")]
    Handshake {
        /// With whom.
        address: SocketAddr,
        /// What the TLS library says.
        error: std::io::Error,
    },
    /// On the direct path, a server that does not negotiate the transport header.
    #[error("`{address}` is no sidecar's own port: it does not negotiate the transport header")]
    NotDirect {
        /// Who answered.
        address: SocketAddr,
    },
    /// The connection ended before an answer was complete.
    #[error("`{address}` closed the connection without an answer: {error}")]
    Closed {
        /// Who closed it.
        address: SocketAddr,
        /// What the HTTP library or the system says.
        error: String,
    },
    /// The question cannot be written as asked.
    #[error("cannot send the request: {0}")]
    Unsendable(String),
    /// Not complete within the bound.
    #[error("no complete answer from `{address}` within {} ms", .bound.as_millis())]
    Timeout {
        /// From whom.
        address: SocketAddr,
        /// The bound.
        bound: Duration,
    },
}

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
