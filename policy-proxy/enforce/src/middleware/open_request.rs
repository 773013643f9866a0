//! A permitted request while it is open, and what ends it early: a change of policy, or a bound.

use super::timer::{Progress, Timer};
use crate::respond::{Answer, Fault};
use http::Response;
use policy_core::{DecisionId, Denied};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// An open request: it is decided on again whenever the policy changes.
pub trait OpenRequest {
    /// Returns the reason if permission was revoked by now. Wakes nobody: an application that answers at
    /// once needs no subscription to changes of policy.
    fn revoked(&mut self) -> Option<Denied>;

    /// Returns the reason if permission was revoked. Else wakes `cx` when it is.
    fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Option<Denied>;

    /// Returns the id of the record of a revocation, if it is recorded.
    fn refusal(&self) -> Option<DecisionId>;

    /// Records the response's head. The request arrived at `started`; the application took `waited`
    /// of the time since.
    fn begun<B>(&mut self, response: &Response<B>, started: Instant, waited: Duration);

    /// Returns the parts of the exchange that are over, for the bounds on it.
    fn progress(&self) -> Progress;

    /// Records the end of the response; `broken`: it is incomplete.
    fn ended(&mut self, broken: bool);
}

/// An open request with the timer of its bounds.
#[derive(Debug)]
pub struct TimedRequest<O> {
    /// The open request.
    pub open: O,
    /// `None` if nothing bounds it.
    timer: Option<Pin<Box<Timer>>>,
}

impl<O: OpenRequest> TimedRequest<O> {
    pub(super) fn new(open: O, timer: Option<Pin<Box<Timer>>>) -> Self {
        Self { open, timer }
    }

    /// Returns true if a bound may end the request.
    pub fn is_timed(&self) -> bool {
        self.timer.is_some()
    }

    /// Returns the response if the request has to end now. Else wakes `cx` when it has to.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        if let Some(reason) = self.open.poll_revoked(cx) {
            return Some(Answer::Denied(reason));
        }
        self.poll_timeout(cx)
    }

    /// Returns the response if a bound is exceeded. Else wakes `cx` when one may be.
    pub fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        let timer = self.timer.as_mut()?;
        let exceeded = timer.as_mut().poll(cx, || self.open.progress())?;
        Some(Answer::Upstream(Fault::Timeout(exceeded)))
    }

    /// Polls the application for its response. `Err`: the request has to end first. A response that
    /// is ready when a bound is exceeded is in time.
    pub fn poll_answer<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Answer>> {
        if let Some(reason) = self.open.revoked() {
            return Poll::Ready(Err(Answer::Denied(reason)));
        }
        let late = self.poll_timeout(cx);
        if let Poll::Ready(answer) = poll(cx) {
            return Poll::Ready(Ok(answer));
        }
        let revoked = self.open.poll_revoked(cx).map(Answer::Denied);
        revoked.or(late).map_or(Poll::Pending, |answer| Poll::Ready(Err(answer)))
    }

    /// Polls the application for a part of its response. `Err`: the request has to end before any
    /// part.
    pub fn poll_part<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Answer>> {
        let ended = self.open.revoked().map(Answer::Denied);
        if let Some(answer) = ended.or_else(|| self.poll_timeout(cx)) {
            return Poll::Ready(Err(answer));
        }
        match poll(cx) {
            Poll::Ready(part) => Poll::Ready(Ok(part)),
            Poll::Pending => match self.open.poll_revoked(cx) {
                Some(reason) => Poll::Ready(Err(Answer::Denied(reason))),
                None => Poll::Pending,
            },
        }
    }

    /// Records the response's head, as [`OpenRequest::begun`], and ends the bounds on it.
    pub(super) fn answered<B>(
        &mut self,
        response: &Response<B>,
        started: Instant,
        waited: Duration,
    ) {
        self.open.begun(response, started, waited);
        self.timer = self.timer.take().and_then(Timer::answered);
    }

    /// Splits a request whose connection switched protocols: its timer bounds the time without a byte.
    pub fn into_switched(self) -> (O, Option<Pin<Box<Timer>>>) {
        (self.open, self.timer.and_then(Timer::switched))
    }
}
