//! A stream of answers. The next is made when its client can take it, so that a slow client skips
//! states.

use super::follow::{Follower, refusal};
use super::view::View;
use crate::serve::authz::WatchGrant;
use crate::serve::codec::Payload;
use crate::serve::metrics::Call;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use policy_core::Destination;
use policy_server::AllowancePermit;
use std::collections::VecDeque;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

/// An open stream.
#[derive(Debug)]
pub(super) struct AnswerStream {
    follower: Follower,
    view: View,
    /// Messages of the last answer that are not sent yet.
    pending: VecDeque<Bytes>,
    /// True if the client was last told that nobody has the address.
    told_of_nobody: bool,
    lease: Lease,
    call: Call,
    /// True once the stream has sent its final status.
    ended: bool,
}

/// The conditions under which a stream stays open.
#[derive(Debug)]
pub(super) struct Lease {
    /// Cancelled when the connection is to end.
    ending: CancellationToken,
    grant: WatchGrant,
    _held: AllowancePermit,
}

impl Lease {
    /// The lease of a stream that `grant` authorizes, on a connection that `ending` ends.
    pub(super) fn new(ending: CancellationToken, grant: WatchGrant, held: AllowancePermit) -> Self {
        Self { ending, grant, _held: held }
    }
}

impl AnswerStream {
    /// Opens a stream with its first answer.
    pub(super) async fn open(
        follower: Follower,
        view: View,
        lease: Lease,
        call: Call,
    ) -> Result<Box<Self>, Status> {
        let pending = VecDeque::new();
        // A future that holds a stream stores it more than once; a box is only a pointer.
        let (told_of_nobody, ended) = (false, false);
        let opened = Self { follower, view, pending, told_of_nobody, lease, call, ended };
        let mut answers = Box::new(opened);
        match answers.answer().await {
            Ok(()) => Ok(answers),
            Err(status) => {
                answers.call.end(status.code());
                Err(status)
            }
        }
    }

    /// The only message of a stream that is no stream.
    pub(super) fn only(mut self: Box<Self>) -> Result<Payload, Status> {
        let message = self.pending.pop_front().map(Payload::shared);
        let message = message.ok_or_else(|| {
            Status::unavailable("the pod is not known yet").because(StatusReason::PodNotKnown)
        });
        self.call.end(message.as_ref().map_or_else(Status::code, |_| Code::Ok));
        message
    }

    /// The next message; `None` ends the stream with OK.
    pub(super) async fn next(mut self: Box<Self>) -> Option<(Result<Payload, Status>, Box<Self>)> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(message) = self.pending.pop_front() {
                self.call.sent();
                return Some((Ok(Payload::shared(message)), self));
            }
            match self.changed().await {
                Ok(true) => {}
                Ok(false) => {
                    self.call.end(Code::Ok);
                    return None;
                }
                Err(status) => return Some(self.end(status)),
            }
            if let Err(status) = self.answer().await {
                return Some(self.end(status));
            }
        }
    }

    /// Makes the messages of the newest answer. That nobody has the address may not hold any more
    /// where a slice calls it a pod's: the client has to ask anew, and waits. Any other answer stays.
    async fn answer(&mut self) -> Result<(), Status> {
        let now = self.follower.read().await.map_err(refusal)?;
        if now.is_pending {
            let status = || {
                Status::unavailable("a pod has the address that is not known yet")
                    .because(StatusReason::PodNotKnown)
            };
            return if self.told_of_nobody { Err(status()) } else { Ok(()) };
        }
        self.told_of_nobody = now.destination == Destination::Unknown;
        self.pending = self.view.messages(&now)?.into();
        Ok(())
    }

    /// Waits for a change; false: the controller or the connection is to end.
    async fn changed(&mut self) -> Result<bool, Status> {
        tokio::select! {
            // The end of the stream goes before further messages.
            biased;
            () = self.lease.ending.cancelled() => Ok(false),
            status = self.lease.grant.revoked() => Err(status),
            there = self.follower.changed() => there.map_err(refusal),
        }
    }

    fn end(mut self: Box<Self>, status: Status) -> (Result<Payload, Status>, Box<Self>) {
        self.call.end(status.code());
        self.ended = true;
        (Err(status), self)
    }
}
