//! A client that keeps one connection and asks on it for as long as the test lasts.

use crate::world::{GRPC, HTTP};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use policy_testkit::{Answer, http1_client, http2_client, soon};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};

/// Protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http1,
    Http2,
    Grpc,
}

impl Kind {
    /// The pod's port for it.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Http1 | Self::Http2 => HTTP,
            Self::Grpc => GRPC,
        }
    }

    /// The code of an answer by the application.
    pub(crate) fn allowed(self) -> u16 {
        match self {
            Self::Http1 | Self::Http2 => 200,
            Self::Grpc => 0,
        }
    }

    /// The code of a refusal.
    pub(crate) fn denied(self) -> u16 {
        match self {
            Self::Http1 | Self::Http2 => 403,
            Self::Grpc => 7,
        }
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection. A request on a connection that was closed panics: nothing here reconnects.
pub(crate) struct Client {
    kind: Kind,
    sender: Sender,
}

impl Client {
    pub(crate) async fn new<S>(stream: S, kind: Kind) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let sender = match kind {
            Kind::Http1 => Sender::Http1(soon(Box::pin(http1_client(stream))).await),
            Kind::Http2 | Kind::Grpc => Sender::Http2(soon(Box::pin(http2_client(stream))).await),
        };
        Self { kind, sender }
    }

    /// A `GET`, or a gRPC call with an empty message.
    pub(crate) fn request(&self, path: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match self.kind {
            Kind::Http1 => request.uri(path).header("host", "web").body(Full::default()),
            Kind::Http2 => request.uri(format!("http://web{path}")).body(Full::default()),
            Kind::Grpc => request
                .uri(format!("http://web{path}"))
                .method(Method::POST)
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Full::new(Bytes::from_static(&[0; 5]))),
        }
        .unwrap()
    }

    /// The head of the answer; its body follows.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let answer = match &mut self.sender {
            Sender::Http1(sender) => {
                soon(sender.ready()).await.expect("the connection is open");
                soon(sender.send_request(request)).await
            }
            Sender::Http2(sender) => soon(sender.send_request(request)).await,
        };
        answer.expect("the connection is open")
    }

    /// The code of the answer to a request for `path`.
    pub(crate) async fn ask(&mut self, path: &str) -> u16 {
        let request = self.request(path, &[]);
        let answer = soon(Answer::whole(self.send(request).await)).await;
        match self.kind {
            Kind::Http1 | Kind::Http2 => answer.status.as_u16(),
            Kind::Grpc => answer.grpc_status().expect("a gRPC status"),
        }
    }

    /// Asks until the answer is `expected`; any other answer on the way is `before`. How long it took.
    pub(crate) async fn turns(&mut self, path: &str, before: u16, expected: u16) -> Duration {
        let begun = Instant::now();
        loop {
            let code = self.ask(path).await;
            if code == expected {
                return begun.elapsed();
            }
            assert_eq!(code, before, "neither of {before} and {expected}");
            assert!(begun.elapsed() < crate::world::PATIENCE, "still {before}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
