//! The answers of a watch, which count for its client until they are dropped. A session may end before its
//! client takes the end of its stream; until then the stream takes room.

use futures_util::stream::Stream;
use policy_server::AllowancePermit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A stream of answers that holds the room of its watch.
#[derive(Debug)]
pub(super) struct CountedStream<S> {
    answers: S,
    /// Shared with the task of the session, which may outlive the stream for a moment.
    _held: Arc<AllowancePermit>,
}

impl<S> CountedStream<S> {
    pub(super) fn new(answers: S, held: Arc<AllowancePermit>) -> Self {
        Self { answers, _held: held }
    }
}

impl<S: Stream + Unpin> Stream for CountedStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        Pin::new(&mut self.answers).poll_next(cx)
    }
}
