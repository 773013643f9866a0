//! The response body that the layer watches.

use super::connection::LayerConnection;
use crate::middleware::exchange::Exchange;
use crate::middleware::pipeline::{OpenRequest, PermittedRequest, TimedRequest};
use crate::middleware::timer::Progress;
use crate::record::{DecisionInfo, RequestLine};
use crate::request_snapshot::RequestSnapshot;
use crate::respond::{self, Answer, Exceeded, Fault, ResponseFormat};
use crate::store::ActivePolicy;
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use policy_core::{DecisionId, Denial, Denied};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;

/// Error of a response body.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Error of a response body that policy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndedByPolicy {
    /// Its permission was revoked.
    #[error("ended by policy: {}", .0.as_str())]
    Denied(Denied),
    /// It exceeded a bound.
    #[error("ended by policy: {}", .0.as_str())]
    Timeout(Exceeded),
}

/// Decides on an open request again whenever the policy changes.
pub(super) struct Watch {
    connection: Option<Arc<LayerConnection>>,
    snapshot: Box<RequestSnapshot>,
    /// The generation of the policy that last permitted the request.
    generation: u64,
    /// Wakes the request when the policy changes. Absent until the application is waited for.
    changed: Option<WatchStream<u64>>,
    /// The exchange and the policy that counts it. `None` after the response began, because a long
    /// response would keep that policy alive.
    counted: Option<(Exchange, Arc<ActivePolicy>)>,
    /// The last frame of the response, or its head, where time without one is bounded.
    last_frame: Option<Instant>,
}

impl OpenRequest for Box<Watch> {
    fn revoked(&mut self) -> Option<Denied> {
        let Some(connection) = &self.connection else { return Some(Denied::Revoked) };
        let live = connection.shared.handle.live();
        let policy = live.in_force().ok();
        if policy.is_some_and(|policy| policy.generation == self.generation) {
            return None;
        }
        match (self.snapshot.review(&live, &connection.peer), policy) {
            (Ok(_), Some(policy)) => {
                self.generation = policy.generation;
                None
            }
            (Ok(_) | Err(_), _) => {
                drop(live);
                self.notice();
                Some(Denied::Revoked)
            }
        }
    }

    fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Option<Denied> {
        loop {
            if self.changed.is_none()
                && let Some(connection) = &self.connection
            {
                // Before the policy is compared, so that no change is missed.
                let changes = connection.shared.handle.changed();
                self.changed = Some(WatchStream::from_changes(changes));
            }
            if let Some(reason) = self.revoked() {
                return Some(reason);
            }
            let changed = self.changed.as_mut().map(|changed| Pin::new(changed).poll_next(cx));
            if !matches!(changed, Some(Poll::Ready(Some(_)))) {
                return None;
            }
        }
    }

    /// The layer keeps no record: no tool can ask it.
    fn refusal(&self) -> Option<DecisionId> {
        None
    }

    /// Counts the whole response; the layer does not see its body.
    fn begun<B>(&mut self, response: &Response<B>, _: Instant, _: Duration) {
        let Some((mut exchange, policy)) = self.counted.take() else { return };
        if exchange.progress().last_frame.is_some() {
            self.last_frame = Some(Instant::now());
        }
        exchange.begun(response);
        if let Some(series) = policy.counters.series(WORKER, exchange.series) {
            exchange.ended(series, false);
        }
    }

    /// The layer sees neither the end of the request nor its frames.
    fn progress(&self) -> Progress {
        Progress { request_ended: None, last_frame: self.last_frame }
    }

    fn ended(&mut self, _: bool) {
        // Counted with its head.
    }
}

impl Watch {
    pub(super) fn new(
        connection: Option<Arc<LayerConnection>>,
        permitted: PermittedRequest,
    ) -> Self {
        let PermittedRequest { snapshot, permit: _, policy, exchange } = permitted;
        let generation = policy.generation;
        let counted = Some((exchange, policy));
        Self { connection, snapshot, generation, changed: None, counted, last_frame: None }
    }

    /// Records a frame of the response.
    fn touch(&mut self) {
        if let Some(at) = &mut self.last_frame {
            *at = Instant::now();
        }
    }

    /// Logs that the request's permission was revoked.
    fn notice(&self) {
        let Some(connection) = &self.connection else { return };
        let LayerConnection { shared, peer, informed: _ } = &**connection;
        let (at, port) = (SystemTime::now(), shared.handle.port());
        let decision = Err(Denial { reason: Denied::Revoked, route: None });
        let (method, path) = (self.snapshot.method(), self.snapshot.target());
        let line = RequestLine { method, host: self.snapshot.authority(), path, canonical: false };
        let mut decided = DecisionInfo { at, port, peer, policy: None, decision, id: None };
        shared.notices.log(&mut decided, Some(line), Instant::now());
    }
}

/// All threads of the server share the layer and count as one worker.
pub(super) const WORKER: usize = 0;

pin_project! {
    /// The server's body while it is permitted, or a local text.
    pub struct PolicyBody<R> {
        #[pin]
        state: BodyState<R>,
    }
}

pin_project! {
    #[project = BodyProjection]
    enum BodyState<R> {
        Inner {
            #[pin]
            inner: R,
            // `None` once the body has ended.
            watch: Option<TimedRequest<Box<Watch>>>,
            format: ResponseFormat,
        },
        Text { text: Bytes },
    }
}

impl<R> PolicyBody<R> {
    /// Creates the server's body, watched by `watch`.
    pub(super) fn open(
        inner: R,
        watch: Option<TimedRequest<Box<Watch>>>,
        format: ResponseFormat,
    ) -> Self {
        Self { state: BodyState::Inner { inner, watch, format } }
    }

    /// Creates a local body.
    pub(super) fn text(text: Bytes) -> Self {
        Self { state: BodyState::Text { text } }
    }
}

/// An empty body: middleware around the layer answers with it (timeouts and CORS of tower-http).
impl<R> Default for PolicyBody<R> {
    fn default() -> Self {
        Self::text(Bytes::new())
    }
}

impl<R> std::fmt::Debug for PolicyBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyBody").finish_non_exhaustive()
    }
}

impl<R> Body for PolicyBody<R>
where
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let ended = match self.as_mut().project().state.project() {
            BodyProjection::Text { text } if text.is_empty() => return Poll::Ready(None),
            BodyProjection::Text { text } => {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(text)))));
            }
            BodyProjection::Inner { inner, watch, format } => {
                let Some(open) = watch else { return Poll::Ready(None) };
                match ready!(open.poll_part(cx, |cx| inner.poll_frame(cx))) {
                    Err(answer) => (answer, *format),
                    Ok(frame) => {
                        open.open.touch();
                        if frame.is_none() {
                            *watch = None;
                        }
                        return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
                    }
                }
            }
        };
        let (answer, format) = ended;
        self.set(PolicyBody::text(Bytes::new()));
        if format.is_grpc() {
            return Poll::Ready(Some(Ok(Frame::trailers(respond::trailers(&answer, &format)))));
        }
        let error = match answer {
            Answer::Upstream(Fault::Timeout(exceeded)) => EndedByPolicy::Timeout(exceeded),
            Answer::Denied(reason) => EndedByPolicy::Denied(reason),
            // None of these ends a body.
            Answer::Limited(_)
            | Answer::Redirect { .. }
            | Answer::InvalidRedirect
            | Answer::Failure { .. }
            | Answer::Gateway
            | Answer::Overloaded
            | Answer::HeadTooLarge
            | Answer::BadBody
            | Answer::Upstream(_) => EndedByPolicy::Denied(Denied::Revoked),
        };
        Poll::Ready(Some(Err(Box::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            BodyState::Inner { inner, watch, .. } => watch.is_none() || inner.is_end_stream(),
            BodyState::Text { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            BodyState::Inner { inner, .. } => inner.size_hint(),
            BodyState::Text { text } => {
                SizeHint::with_exact(u64::try_from(text.len()).unwrap_or(u64::MAX))
            }
        }
    }
}
