//! State of one port of a watch.

use super::hold::Hold;
use crate::serve::applied::{OmissionGuard, Rejection};
use crate::serve::encodings::Encoding;
use policy_core::{Revision, ServerPolicy};
use policy_engine::latest::Latest;
use policy_engine::publish::PortPolicy;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Most unacknowledged updates tracked per port. Of a client that falls further behind, only the
/// newest are tracked.
const MAX_IN_FLIGHT: usize = 8;

/// A watched port.
pub(super) struct Port {
    /// Time at which it was opened.
    pub(super) since: Instant,
    pub(super) policy: Latest<Arc<PortPolicy>>,
    pub(super) subscribed: bool,
    pub(super) due: bool,
    /// The wait for the revision that the client has. Nothing is sent before.
    pub(super) hold: Option<Hold>,
    /// Revision that the client reports to have, before anything was sent.
    pub(super) reported: Option<Revision>,
    pub(super) sent: Option<LastSent>,
    /// Reports to status the parts of the policy that the client is not sent.
    pub(super) omission_guard: Option<OmissionGuard>,
    pub(super) in_flight: VecDeque<PendingUpdate>,
    pub(super) in_force: Option<(Arc<ServerPolicy>, Arc<Revision>)>,
    /// Hash by which it is counted (`Encoding::acknowledged`).
    pub(super) content: u64,
    /// The refusal of the newest update that was refused, with that update's number; none once a
    /// later one is in force.
    pub(super) refused: Option<(u64, Rejection)>,
    /// Number of updates sent.
    sent_count: u64,
    /// True once the client has acknowledged or refused an update.
    pub(super) answered: bool,
}

/// The update sent last; the next change builds on it.
pub(super) struct LastSent {
    pub(super) encoding: Arc<Encoding>,
    pub(super) revision: Arc<Revision>,
}

/// An update that waits for its answer.
pub(super) struct PendingUpdate {
    /// Counts the port's updates.
    pub(super) number: u64,
    pub(super) policy: Arc<ServerPolicy>,
    pub(super) revision: Arc<Revision>,
    /// Hash by which its acknowledgement is counted (`Encoding::acknowledged`).
    pub(super) content: u64,
    /// Earliest time at which the client could have received it.
    pub(super) since: Instant,
}

impl Port {
    /// A port of which nothing was sent.
    pub(super) fn new(
        policy: Latest<Arc<PortPolicy>>,
        subscribed: bool,
        hold: Option<Hold>,
        reported: Option<Revision>,
    ) -> Self {
        Self {
            since: Instant::now(),
            policy,
            subscribed,
            due: true,
            hold,
            reported,
            sent: None,
            omission_guard: None,
            in_flight: VecDeque::new(),
            in_force: None,
            content: 0,
            refused: None,
            sent_count: 0,
            answered: false,
        }
    }

    /// Has the policy sent in full, because the client has nothing that a change could build on.
    pub(super) fn restart(&mut self) {
        self.sent = None;
        self.reported = None;
        self.due = true;
    }

    /// True if an update is to be sent and may be.
    pub(super) fn is_due(&self) -> bool {
        self.due && self.hold.is_none()
    }

    /// Notes that `encoding` of `policy` was sent as `revision`.
    pub(super) fn note_sent(
        &mut self,
        policy: &PortPolicy,
        encoding: Arc<Encoding>,
        revision: Arc<Revision>,
    ) {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            self.in_flight.pop_front();
        }
        // A client that connects later is not late: its time counts from the first it could get.
        let since = policy.published.max(self.since);
        let content = encoding.acknowledged(policy.revision.content);
        let policy = policy.policy.clone();
        self.sent_count = self.sent_count.wrapping_add(1);
        let number = self.sent_count;
        let update = PendingUpdate { number, policy, revision: revision.clone(), content, since };
        self.in_flight.push_back(update);
        self.sent = Some(LastSent { encoding, revision });
        self.reported = None;
    }

    /// Takes the update that an acknowledgement is about; those before it are superseded by it.
    /// `None`: of an update long superseded.
    pub(super) fn acknowledged(&mut self, revision: &Revision) -> Option<PendingUpdate> {
        let at = self.in_flight.iter().position(|sent| *sent.revision == *revision)?;
        let sent = self.in_flight.drain(..=at).next_back();
        if self.in_flight.is_empty() {
            // Mostly nothing is in flight, and then it takes no room.
            self.in_flight = VecDeque::new();
        }
        sent
    }

    /// Takes the update that a refusal is about. Those before it may still be acknowledged: what was
    /// in force before a refusal stays.
    pub(super) fn nacked(&mut self, revision: &Revision) -> Option<PendingUpdate> {
        let at = self.in_flight.iter().position(|sent| *sent.revision == *revision)?;
        self.in_flight.remove(at)
    }
}
