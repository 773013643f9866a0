//! A connection that speaks HTTP/2.

use super::keep_alive::ClientPinger;
use super::portions::{PortionedStream, ReadState};
use super::request_body::{Intake, RequestBody, joined};
use super::respond::respond;
use super::settings::Http2Settings;
use crate::listener::ListenerStream;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::RecvStream;
use h2::server::{Connection, Handshake, SendResponse};
use http::{Request, Response};
use http_body::Body;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower::{Service, ServiceExt};

/// Most requests that are taken from a client while it does not take its answers. Each answer lies in h2
/// until then.
const MAX_UNTAKEN: usize = 16;

/// The end of a connection before its time.
#[derive(Debug, thiserror::Error)]
pub enum Http2Error {
    /// The client, or the library, ended it.
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    /// The client has shown no life in time.
    #[error("the client does not answer")]
    Silent,
}

/// A connection whose requests a service answers, each in a task of its own. Completes when it has ended.
pub struct Http2Connection<S> {
    open: ConnectionPhase,
    service: S,
    intakes: FuturesUnordered<Intake>,
    state: Arc<ReadState>,
    keep_alive: ClientPinger,
    is_ending: bool,
    /// Requests since the client stopped taking what is written.
    untaken: usize,
}

enum ConnectionPhase {
    Handshake(Pin<Box<Handshake<PortionedStream, Bytes>>>),
    Open(Box<Connection<PortionedStream, Bytes>>),
}

impl<S> std::fmt::Debug for Http2Connection<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2Connection").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<S> Http2Connection<S> {
    /// Begins to serve a connection.
    pub fn new(stream: ListenerStream, settings: &Http2Settings, service: S) -> Self {
        let state = Arc::<ReadState>::default();
        let keep_alive = ClientPinger::new(settings, state.clone());
        let portioned = PortionedStream::new(stream, state.clone());
        let handshake = settings.builder().handshake(portioned);
        let open = ConnectionPhase::Handshake(Box::pin(handshake));
        let (intakes, is_ending, untaken) = (FuturesUnordered::new(), false, 0);
        Self { open, service, intakes, state, keep_alive, is_ending, untaken }
    }

    /// Asks the client to end the connection after the streams that are open.
    pub fn end_gracefully(&mut self) {
        self.is_ending = true;
        if let ConnectionPhase::Open(connection) = &mut self.open {
            connection.graceful_shutdown();
        }
    }
}

impl<S, B> Http2Connection<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        loop {
            match &mut self.open {
                ConnectionPhase::Handshake(handshake) => {
                    let mut connection = ready!(handshake.as_mut().poll(cx))?;
                    self.keep_alive.begin(connection.ping_pong());
                    if self.is_ending {
                        connection.graceful_shutdown();
                    }
                    self.open = ConnectionPhase::Open(Box::new(connection));
                }
                ConnectionPhase::Open(connection) => match ready!(connection.poll_accept(cx)) {
                    Some(accepted) => {
                        let (request, response) = accepted?;
                        self.accepted(request, response);
                    }
                    None => return Poll::Ready(Ok(())),
                },
            }
        }
    }

    fn accepted(&mut self, request: Request<RecvStream>, response: SendResponse<Bytes>) {
        self.untaken = self.untaken.saturating_add(1);
        let (head, body) = request.into_parts();
        let (intake, body) = joined(body);
        self.intakes.push(intake);
        let answering = self.service.clone().oneshot(Request::from_parts(head, body));
        let answering = async { answering.await.unwrap_or_else(|never| match never {}) };
        tokio::spawn(async move {
            if let Err(error) = respond(answering, response).await {
                tracing::debug!(%error, "response ended");
            }
        });
    }
}

impl<S, B> Future for Http2Connection<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Unpin
        + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Output = Result<(), Http2Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !this.state.is_blocked() {
            this.untaken = 0;
        }
        let is_paused = this.untaken >= MAX_UNTAKEN;
        if is_paused {
            this.state.pause();
        } else {
            this.state.permit();
        }
        let ended = this.poll_accept(cx);
        if is_paused && !this.state.is_blocked() {
            cx.waker().wake_by_ref();
        }
        // Before another portion is read, whose frames would come on top of these.
        while let Poll::Ready(Some(())) = this.intakes.poll_next_unpin(cx) {}
        if let Poll::Ready(ended) = ended {
            return Poll::Ready(ended.map_err(Http2Error::from));
        }
        if this.keep_alive.poll(cx).is_ready() {
            return Poll::Ready(Err(Http2Error::Silent));
        }
        Poll::Pending
    }
}
