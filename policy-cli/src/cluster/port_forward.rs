//! Connections to a port of a pod through the API server's port-forward.

use super::api_error::{is_forbidden, message};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Error reported by the kubelet, which arrives on a separate stream.
type Failure = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Time to wait for the kubelet's error after the data stream has ended.
const WORDS: Duration = Duration::from_millis(200);

/// Opens a forwarded connection.
///
/// # Errors
/// The API server refuses, or provides no stream. `PermissionDenied` names the missing permission.
pub(crate) async fn plain(pods: &Api<Pod>, pod: &str, port: u16) -> io::Result<DuplexStream> {
    open(pods, pod, port).await.map(|(stream, _)| stream)
}

/// Opens a forwarded TLS connection.
///
/// # Errors
/// The API server refuses, provides no stream, or the handshake fails. The message contains the
/// missing permission or the kubelet's error.
pub(crate) async fn tls(
    pods: &Api<Pod>,
    pod: &str,
    port: u16,
    tls: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> io::Result<TlsStream<DuplexStream>> {
    let (stream, mut failure) = open(pods, pod, port).await?;
    // The kubelet reports errors on a separate stream; the data stream merely ends.
    let handshake = TlsConnector::from(tls).connect(name, stream);
    tokio::pin!(handshake);
    tokio::select! {
        biased;
        connected = &mut handshake => match connected {
            Ok(connected) => Ok(connected),
            Err(error) => {
                let kubelet_error = tokio::time::timeout(WORDS, failure).await;
                let kubelet_error = kubelet_error.ok().flatten().map(|kubelet_error| format!(" ({})", kubelet_error.trim()));
                Err(io::Error::other(format!("TLS: {error}{}", kubelet_error.unwrap_or_default())))
            }
        },
        Some(kubelet_error) = &mut failure => {
            Err(io::Error::other(format!("port-forward: {}", kubelet_error.trim())))
        }
    }
}

async fn open(pods: &Api<Pod>, pod: &str, port: u16) -> io::Result<(DuplexStream, Failure)> {
    let refused = |error: kube::Error| {
        let message = message(&error);
        if is_forbidden(&error) {
            let right = "it needs the rights to create and get pods/portforward there";
            let message = format!("port-forward: {message}; {right}");
            return io::Error::new(io::ErrorKind::PermissionDenied, message);
        }
        io::Error::other(format!("port-forward: {message}"))
    };
    let mut forwarder = pods.portforward(pod, &[port]).await.map_err(refused)?;
    let broken = || io::Error::other("port-forward: the API server gave no stream");
    let stream = forwarder.take_stream(port).ok_or_else(broken)?;
    let failure = forwarder.take_error(port).ok_or_else(broken)?;
    Ok((stream, Box::pin(failure)))
}
