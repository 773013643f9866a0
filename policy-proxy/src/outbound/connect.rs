//! Connects to an endpoint by its carrier.

use super::carrier::{Carrier, MeshCarrier};
use super::clients::{ClientError, MeshClients};
use super::server_io::ServerIo;
use super::settings::OutboundSettings;
use crate::source_ports;
use policy_proto::transport::{self, Header};
use policy_tls::identity::Proof;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// A connection to an endpoint.
#[derive(Debug)]
pub struct Carried {
    /// Its bytes.
    pub io: ServerIo,
    /// The certificate chain by which the endpoint proved its identity; absent in plaintext.
    pub proof: Option<Arc<Proof>>,
}

/// The reason for which an endpoint could not be connected to.
#[derive(Debug)]
pub enum AttemptError {
    /// It does not accept connections, or not in time.
    Connect(io::Error),
    /// It did not prove its identity.
    Identity {
        /// The failure, for people.
        error: String,
        /// The names of the certificate that it presented instead of the expected one.
        presented: Vec<String>,
    },
    /// There is no usable certificate of our own.
    NoIdentity(ClientError),
}

/// Bytes of TLS records that are buffered in each direction.
const TLS_BUFFER: usize = 64 * 1024;
/// Time without a byte after which a peer is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Time between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer after which the peer is gone.
const KEEPALIVE_RETRIES: u32 = 3;

/// Connects to an endpoint.
///
/// # Errors
/// [`AttemptError`]: it cannot be reached, or is not who it should be.
pub async fn connect(
    carrier: &Carrier,
    clients: &MeshClients,
    settings: &OutboundSettings,
) -> Result<Carried, AttemptError> {
    match carrier {
        Carrier::Plaintext { address, .. } => {
            let stream = endpoint(*address, settings).await?;
            Ok(Carried { io: ServerIo::Plain(stream), proof: None })
        }
        Carrier::Mesh(mesh) => {
            let stream = endpoint(mesh.address, settings).await?;
            tls(mesh, stream, clients, settings.handshake).await
        }
    }
}

/// Connects to the address that the application dialled.
///
/// # Errors
/// It does not accept the connection in time.
pub async fn connect_straight(
    address: SocketAddr,
    settings: &OutboundSettings,
) -> Result<Carried, AttemptError> {
    let connecting = connect_from(settings.source, address);
    let stream = tcp(connecting, settings, settings.connect_straight).await?;
    Ok(Carried { io: ServerIo::Plain(stream), proof: None })
}

/// Connects to an endpoint, which many connections may lead to.
async fn endpoint(
    address: SocketAddr,
    settings: &OutboundSettings,
) -> Result<TcpStream, AttemptError> {
    match settings.source {
        None => tcp(source_ports::connect(address), settings, settings.connect).await,
        source => tcp(connect_from(source, address), settings, settings.connect).await,
    }
}

async fn tcp(
    connecting: impl Future<Output = io::Result<TcpStream>>,
    settings: &OutboundSettings,
    bound: Duration,
) -> Result<TcpStream, AttemptError> {
    let connected = timeout(bound, connecting).await;
    let stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let stream = stream.map_err(AttemptError::Connect)?;
    let socket = SockRef::from(&stream);
    // A socket without these options works; a peer that vanishes is noticed later.
    let _ = socket.set_tcp_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(settings.user_timeout));
    Ok(stream)
}

async fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let same_family = |own: &IpAddr| own.is_ipv4() == address.is_ipv4();
    let Some(source) = source.filter(same_family) else { return TcpStream::connect(address).await };
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(address).await
}

async fn tls(
    mesh: &MeshCarrier,
    stream: TcpStream,
    clients: &MeshClients,
    bound: Duration,
) -> Result<Carried, AttemptError> {
    let client =
        clients.client(&mesh.identity, mesh.header.is_some()).map_err(AttemptError::NoIdentity)?;
    let name = ServerName::try_from(mesh.server_name.to_string())
        .map_err(|_| refused(format!("`{}` is not a server name", mesh.server_name)))?;
    let header = mesh.header.map(header);
    let connector = TlsConnector::from(Arc::clone(&client.config));
    let handshake = connector.connect_with(name, stream, |connection| {
        connection.set_buffer_limit(Some(TLS_BUFFER));
        if let Some(header) = &header {
            // Kept until the handshake is done: the header is sent with our Finished. Writing to
            // this buffer fails only beyond its bound.
            let _ = connection.writer().write_all(header);
        }
    });
    let stream = match timeout(bound, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(handshake_error(&error)),
        Err(_) => return Err(refused("the TLS handshake took too long".to_owned())),
    };
    let proof = Proof::of_server(&client.own, stream.get_ref().1.peer_certificates());
    Ok(Carried { io: ServerIo::Tls(Box::new(stream)), proof })
}

fn header(port: NonZeroU16) -> Vec<u8> {
    transport::encode(&Header { port, name: None, session: None })
}

fn refused(error: String) -> AttemptError {
    AttemptError::Identity { error, presented: Vec::new() }
}

fn handshake_error(error: &io::Error) -> AttemptError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        })) => AttemptError::Identity {
            error: "wrong identity".to_owned(),
            presented: presented.clone(),
        },
        Some(cause) => refused(cause.to_string()),
        // The peer ended the connection in the middle.
        None => refused(error.to_string()),
    }
}
