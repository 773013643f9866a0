//! What a watch knows of one port.

use crate::publish::PortPolicy;
use crate::serve::applied::Refused;
use crate::serve::metrics::OpenGauge;
use crate::serve::native::Encoding;
use policy_core::{Revision, ServerPolicy};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Updates of one port whose acknowledgement is still waited for, at most. A client that falls
/// further behind is only asked about the newest.
const MAX_IN_FLIGHT: usize = 8;

/// One watched port.
pub(super) struct Port {
    /// Tells this watch of the port from an earlier one.
    pub(super) opened: u64,
    /// When it was asked for.
    pub(super) since: Instant,
    pub(super) policy: watch::Receiver<Arc<PortPolicy>>,
    pub(super) subscribed: bool,
    pub(super) due: bool,
    /// What the client applied before and this replica must have seen before it sends anything.
    pub(super) hold: Option<Hold>,
    /// Content that the client has by its own account, before anything was sent.
    pub(super) claims: Option<u64>,
    pub(super) sent: Option<Sent>,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) in_force: Option<(Arc<ServerPolicy>, Revision)>,
    pub(super) refused: Option<Refused>,
    /// Whether the client ever answered.
    pub(super) answered: bool,
}

/// A wait for this replica to catch up.
pub(super) struct Hold {
    pub(super) until: Revision,
    pub(super) lists: u64,
    pub(super) _gauge: OpenGauge,
}

/// What was sent last; the next change builds on it.
pub(super) struct Sent {
    pub(super) encoding: Arc<Encoding>,
    pub(super) revision: Revision,
}

/// An update that waits for its answer.
pub(super) struct InFlight {
    pub(super) policy: Arc<ServerPolicy>,
    pub(super) revision: Revision,
    /// When the client could first have got it.
    pub(super) since: Instant,
}

impl Port {
    /// A port of which nothing was sent.
    pub(super) fn new(
        opened: u64,
        policy: watch::Receiver<Arc<PortPolicy>>,
        subscribed: bool,
        hold: Option<Hold>,
        claims: Option<u64>,
    ) -> Self {
        Self {
            opened,
            since: Instant::now(),
            policy,
            subscribed,
            due: true,
            hold,
            claims,
            sent: None,
            in_flight: VecDeque::new(),
            in_force: None,
            refused: None,
            answered: false,
        }
    }

    /// Whether something is to be sent, and may be.
    pub(super) fn is_due(&self) -> bool {
        self.due && self.hold.is_none()
    }

    /// Notes that `encoding` of `policy` was sent as `revision`.
    pub(super) fn note_sent(
        &mut self,
        policy: &PortPolicy,
        encoding: Arc<Encoding>,
        revision: Revision,
    ) {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            self.in_flight.pop_front();
        }
        // A client that connects later is not late: its time counts from the first it could get.
        let since = policy.published.max(self.since);
        let policy = policy.policy.clone();
        self.in_flight.push_back(InFlight { policy, revision: revision.clone(), since });
        self.sent = Some(Sent { encoding, revision });
        self.claims = None;
    }

    /// The update that an answer is about; those before it are superseded by it. `None`: of an
    /// update long superseded.
    pub(super) fn answered(&mut self, revision: &Revision) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|sent| sent.revision == *revision)?;
        self.in_flight.drain(..=at).next_back()
    }
}
