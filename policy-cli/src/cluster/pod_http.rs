//! HTTP requests to a pod: through a port-forward, which arrives on the pod's loopback, or else
//! through the API server's proxy, which arrives from the API server's address.

use super::port_forward;
use super::{Cluster, error_chain};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Timeout of each of the two ways.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest body that is read, in bytes: a pod may answer what it likes, and several are asked at once.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Response of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodResponse {
    /// HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) text: String,
}

/// Error of a request to a pod for which both ways failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRequestError {
    /// Errors of both ways.
    pub(crate) message: String,
    /// True if the port-forward was refused because of a missing permission.
    pub(crate) forbidden: bool,
}

/// Requests `path` from a port of a pod, given as `(namespace, name)`.
///
/// # Errors
/// Both ways fail.
pub(crate) async fn get(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    port: u16,
    path: &str,
) -> Result<PodResponse, PodRequestError> {
    let forwarded =
        tokio::time::timeout(PATIENCE, forwarded(cluster, (namespace, name), port, path));
    let refused = match forwarded.await {
        Ok(Ok(response)) => return Ok(response),
        Ok(Err(refused)) => refused,
        Err(_) => PodRequestError::failed("port-forward: no response within 10 s"),
    };
    let also = |proxy: &str| PodRequestError {
        message: format!("{}; proxy: {proxy}", refused.message),
        forbidden: refused.forbidden,
    };
    let proxied = tokio::time::timeout(PATIENCE, proxied(cluster, (namespace, name), port, path));
    match proxied.await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(message)) => Err(also(&message)),
        Err(_) => Err(also("no response within 10 s")),
    }
}

impl PodRequestError {
    fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), forbidden: false }
    }
}

async fn forwarded(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    port: u16,
    path: &str,
) -> Result<PodResponse, PodRequestError> {
    let message = |error: &dyn std::error::Error| PodRequestError::failed(error_chain(error));
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), namespace);
    let stream = port_forward::plain(&pods, name, port).await.map_err(|error| PodRequestError {
        forbidden: error.kind() == io::ErrorKind::PermissionDenied,
        ..message(&error)
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|error| message(&error))?;
    let request = Request::get(path)
        .header(header::HOST, "localhost")
        .body(Empty::new())
        .map_err(|error| message(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| message(&error))?;
        let status = response.status().as_u16();
        let text = text(response.into_body()).await.map_err(PodRequestError::failed)?;
        Ok(PodResponse { status, text })
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        response = &mut exchange => response,
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(message(&error)),
        },
    }
}

/// Reads a body of at most [`MAX_BODY`] bytes.
async fn text<B>(body: B) -> Result<String, String>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let body = Limited::new(body, MAX_BODY).collect().await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => format!("its answer has more than {MAX_BODY} bytes"),
        false => error_chain(&*error),
    })?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

async fn proxied(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    port: u16,
    path: &str,
) -> Result<PodResponse, String> {
    let uri = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy{path}");
    let request = Request::get(uri).body(kube::client::Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let response = cluster.client.send(request).await.map_err(|error| error_chain(&error))?;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE);
    // This project's ports answer in plain text: JSON comes from the API server itself.
    let own = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let text = text(response.into_body()).await?;
    if own {
        let status: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let message = status.as_ref().and_then(|status| status.get("message")?.as_str());
        return Err(message.unwrap_or(&text).to_owned());
    }
    Ok(PodResponse { status, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    #[tokio::test]
    async fn a_pod_cannot_answer_more_than_is_read() {
        let answer = |length: usize| text(Full::new(Bytes::from(vec![b'a'; length])));
        assert_eq!(answer(MAX_BODY).await.map(|text| text.len()), Ok(MAX_BODY));
        let error = answer(MAX_BODY.saturating_add(1)).await.unwrap_err();
        assert_eq!(error, "its answer has more than 16777216 bytes");
    }
}
