//! Connects, sends the request and waits for the response.

use super::client_request::ClientRequest;
use super::client_response::ClientResponse;
use super::error::RequestError;
use super::exchange;
use super::url::Protocol;
use policy_proto::transport::{self, Header, Session};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// Sends one request on its own connection and returns the response.
pub async fn send(client_request: &ClientRequest) -> Result<ClientResponse, RequestError> {
    let bound = client_request.timeout;
    let started = Instant::now();
    let mut response = tokio::time::timeout(bound, perform(client_request))
        .await
        .map_err(|_| RequestError::Timeout { address: client_request.address, bound })??;
    response.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(response)
}

async fn perform(client_request: &ClientRequest) -> Result<ClientResponse, RequestError> {
    let stream = connect(client_request.address, client_request.from).await?;
    let local = stream.local_addr().ok();
    let mut response = match &client_request.tls {
        None => exchange::run(client_request, stream).await?,
        Some(tls) => {
            let address = client_request.address;
            let handshake = |error| RequestError::Handshake { address, error };
            let mut config = tls
                .credentials
                .client_config()
                .map_err(|error| handshake(std::io::Error::other(error)))?;
            if client_request.direct.is_some() {
                Arc::make_mut(&mut config).alpn_protocols = vec![transport::ALPN.to_vec()];
            }
            let mut stream = tokio_rustls::TlsConnector::from(config)
                .connect(tls.server_name.clone(), stream)
                .await
                .map_err(handshake)?;
            if let Some(port) = client_request.direct {
                if stream.get_ref().1.alpn_protocol() != Some(transport::ALPN) {
                    return Err(RequestError::NotDirect { address });
                }
                let header = Header { port, name: None, session: session(client_request.protocol) };
                let closed = |error: std::io::Error| RequestError::Closed {
                    address,
                    error: error.to_string(),
                };
                stream.write_all(&transport::encode(&header)).await.map_err(closed)?;
            }
            exchange::run(client_request, stream).await?
        }
    };
    response.local = local;
    Ok(response)
}

/// Session protocol of the transport header.
fn session(protocol: Protocol) -> Option<Session> {
    match protocol {
        Protocol::Http1 => Some(Session::Http1),
        Protocol::Http2 | Protocol::Grpc => Some(Session::Http2),
        Protocol::Tcp => None,
    }
}

/// Connects to `address`, from `from` if given.
pub async fn connect(address: SocketAddr, from: Option<IpAddr>) -> Result<TcpStream, RequestError> {
    let failed = |error| RequestError::Connect { address, error };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(failed)?;
    if let Some(from) = from {
        let local = SocketAddr::new(from, 0);
        socket.bind(local).map_err(|error| RequestError::From { from, error })?;
    }
    let stream = socket.connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}
