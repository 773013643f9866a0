//! HTTP clients that keep one connection, over any stream: TCP, TLS, a pipe.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::error::Error;
use tokio::io::{AsyncRead, AsyncWrite};

/// An HTTP/1.1 connection over the stream. It ends when its sender is dropped; an upgrade outlives it.
pub async fn http1_client<S, B>(stream: S) -> http1::SendRequest<B>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let shake = http1::handshake(TokioIo::new(stream));
    let (sender, connection) = shake.await.expect("an HTTP/1.1 connection");
    tokio::spawn(connection.with_upgrades());
    sender
}

/// An HTTP/2 connection over the stream, with prior knowledge. Its senders can be cloned, one for
/// each stream.
pub async fn http2_client<S, B>(stream: S) -> http2::SendRequest<B>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let shake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = shake.await.expect("an HTTP/2 connection");
    tokio::spawn(connection);
    sender
}

/// A response with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status of the head.
    pub status: StatusCode,
    /// The header fields of the head.
    pub headers: HeaderMap,
    /// The body. Empty if there is none.
    pub body: Bytes,
    /// The trailer fields. Empty if there are none.
    pub trailers: HeaderMap,
}

impl Answer {
    /// Reads the response to its end.
    pub async fn whole(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body");
        let trailers = body.trailers().cloned().unwrap_or_default();
        Self { status: head.status, headers: head.headers, body: body.to_bytes(), trailers }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The gRPC status: of the trailers, or of the head of an answer that has nothing else.
    pub fn grpc_status(&self) -> Option<u16> {
        let value = self.trailers.get("grpc-status").or_else(|| self.headers.get("grpc-status"))?;
        value.to_str().ok()?.parse().ok()
    }
}
