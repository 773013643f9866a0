//! Log lines about denials and audited permits, rate-limited.

mod digest;
mod line;
mod rate;

use super::client_key::ClientKey;
use super::decisions::Decisions;
use super::request_info::DecisionInfo;
use super::request_line::RequestLine;
use digest::{DecisionKind, Digest, DueLines};
use parking_lot::Mutex;
use policy_core::DecisionId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logs denials and audited permits: the first per client, port and reason at once, then once per
/// interval the number of repeats. At most ten lines a second, of which five are reserved for
/// clients with an identity, plus one about suppressed lines.
///
/// Clients without an identity count by their /24 or /64. Memory is bounded; a permit that is not
/// audited costs one comparison.
#[derive(Debug)]
pub struct Notices {
    workload: Arc<str>,
    digest: Mutex<Digest>,
    /// `None`: nothing is recorded.
    decisions: Option<Arc<Decisions>>,
}

impl Notices {
    /// Interval of the repeat counts. 256 kinds at four lines a second take that long.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    /// Creates the log of decisions of `workload`.
    pub fn new(workload: &str, interval: Duration) -> Self {
        Self {
            workload: workload.into(),
            digest: Mutex::new(Digest::new(interval)),
            decisions: None,
        }
    }

    /// Records what is logged in `decisions`, too.
    #[must_use]
    pub fn with_decisions(mut self, decisions: Arc<Decisions>) -> Self {
        self.decisions = Some(decisions);
        self
    }

    /// Returns the record of what is logged.
    pub fn decisions(&self) -> Option<&Arc<Decisions>> {
        self.decisions.as_ref()
    }

    /// Logs and records a decision about a request, or about a connection if there is none. Returns
    /// the id of its record, if it has one.
    #[inline]
    pub fn log(
        &self,
        decided: &mut DecisionInfo<'_>,
        request: Option<RequestLine<'_>>,
        now: Instant,
    ) -> Option<DecisionId> {
        if !decided.decision.as_ref().is_ok_and(|permit| !permit.is_audited()) {
            self.log_line(decided, request, now);
        }
        decided.id
    }

    #[cold]
    fn log_line(
        &self,
        decided: &mut DecisionInfo<'_>,
        request: Option<RequestLine<'_>>,
        now: Instant,
    ) {
        let reason = decided.decision.as_ref().err().map(|denial| denial.reason);
        let kind = DecisionKind { port: decided.port, reason, connection: request.is_none() };
        let client = ClientKey::of(decided.peer);
        decided.id = self
            .decisions
            .as_ref()
            .and_then(|decisions| decisions.inbound(&client, decided, request.as_ref(), now));
        let (first, due) = {
            let mut digest = self.digest.lock();
            let due = digest.tick(now);
            (digest.admit(client, decided.peer.ip(), kind, now), due)
        };
        line::due(&self.workload, &due);
        if first {
            line::first(&decided.record(&self.workload, None), request);
        }
    }

    /// Logs what is due. Has to be called once a second if clients may stop sending.
    pub fn tick(&self, now: Instant) {
        let due: DueLines = self.digest.lock().tick(now);
        line::due(&self.workload, &due);
    }
}

/// Logs the pending counts.
impl Drop for Notices {
    fn drop(&mut self) {
        let due = self.digest.get_mut().end(Instant::now());
        line::due(&self.workload, &due);
    }
}
