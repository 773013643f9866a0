//! A stream that is held, and counted as such, and the lists that end it.

use crate::serve::core::Core;
use crate::serve::metrics::GaugeGuard;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::Revision;
use policy_engine::hold;
use policy_engine::publish::SourceProgress;
use policy_server::Peer;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;
use tonic::Status;

/// A wait for this replica to catch up.
pub(crate) struct Hold {
    wait: hold::Hold,
    _gauge: Option<GaugeGuard>,
}

impl Hold {
    /// Creates the wait of a client that has `applied` in force, starting from `seen`. A list has
    /// been requested.
    pub(crate) fn new(
        applied: &Revision,
        seen: &SourceProgress,
        gauge: Option<GaugeGuard>,
    ) -> Self {
        Self { wait: hold::Hold::new(applied, seen), _gauge: gauge }
    }

    /// True once this replica has caught up.
    pub(crate) fn has_ended(&self, seen: &SourceProgress) -> bool {
        self.wait.has_ended(seen)
    }

    /// True if one more list is needed; true once for each that ended.
    pub(crate) fn asks_again(&mut self, seen: &SourceProgress) -> bool {
        self.wait.asks_again(seen)
    }
}

/// Longest silence of a stream because its workload is held.
pub(crate) struct HoldTimeout(Pin<Box<Sleep>>);

impl HoldTimeout {
    /// Starts the timeout.
    pub(crate) fn new(time: Duration) -> Self {
        Self(Box::pin(tokio::time::sleep(time)))
    }

    /// The status that ends the stream once the timeout has elapsed; pending for ever without one.
    pub(crate) fn poll_end(timeout: &mut Option<Self>, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(Self(sleep)) = timeout else { return Poll::Pending };
        sleep.as_mut().poll(cx).map(|()| {
            let why = "this replica lags behind the workload that the client has: another replica may \
                       be current";
            Status::unavailable(why).because(StatusReason::ReplicaLags)
        })
    }
}

/// Requests for lists by the holds of one stream.
#[derive(Debug)]
pub(crate) struct ListRequests {
    peer: Peer,
    /// Number of completed lists when the last one was requested.
    requested_at: Option<u64>,
    /// True if a list is to be requested as soon as the peer's limit allows.
    pending: bool,
}

impl ListRequests {
    /// Creates the state of a stream of `peer`, without any request.
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, requested_at: None, pending: false }
    }

    /// Returns the client.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// True if a list could not be requested yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Requests a list, unless none has completed since the last request: the end of that one is the
    /// time to request again.
    pub(crate) fn request(&mut self, core: &Core, seen: &SourceProgress) {
        if self.requested_at == Some(seen.lists) {
            return;
        }
        self.pending = !core.list_for(&self.peer);
        if !self.pending {
            self.requested_at = Some(seen.lists);
        }
    }
}
