//! `/probe/tcp/<port>`: probes if the application accepts connections. The proxy's listener would
//! answer the kubelet's own TCP probe behind the redirect, so that the injector rewrites it to
//! this.

use super::answer::{refuse, text};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Connects to `port` of the pod's own `address`, as the kubelet's probe would have.
pub(super) async fn connect(
    address: Option<IpAddr>,
    port: NonZeroU16,
    bound: Duration,
) -> Response<Full<Bytes>> {
    let Some(address) = address else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the pod's address is not known");
    };
    let address = SocketAddr::new(address, port.get());
    match timeout(bound, TcpStream::connect(address)).await {
        Ok(Ok(_)) => text(StatusCode::OK, "ok\n"),
        Ok(Err(error)) => failed(address, &words(&error)),
        Err(_) => failed(address, &format!("no answer within {} ms", bound.as_millis())),
    }
}

fn failed(address: SocketAddr, why: &str) -> Response<Full<Bytes>> {
    refuse(StatusCode::SERVICE_UNAVAILABLE, &format!("{address}: {why}"))
}

fn words(error: &io::Error) -> String {
    let refused = error.kind() == io::ErrorKind::ConnectionRefused;
    if refused { "connection refused".to_owned() } else { error.to_string() }
}
