//! Log lines about denials and audited permits, rate-limited.

mod digest;
mod line;
mod rate;

pub use line::RequestLine;

use super::request_info::DecisionInfo;
use digest::{ClientKey, DecisionKind, Digest, DueLines};
use parking_lot::Mutex;
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
}

impl Notices {
    /// Interval of the repeat counts. 256 kinds at four lines a second take that long.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    /// Creates the log of decisions of `workload`.
    pub fn new(workload: &str, interval: Duration) -> Self {
        Self { workload: workload.into(), digest: Mutex::new(Digest::new(interval)) }
    }

    /// Logs a decision about a request, or about a connection if there is none.
    #[inline]
    pub fn log(&self, decided: &DecisionInfo<'_>, request: Option<RequestLine<'_>>, now: Instant) {
        if !decided.decision.as_ref().is_ok_and(|permit| !permit.is_audited()) {
            self.log_line(decided, request, now);
        }
    }

    #[cold]
    fn log_line(&self, decided: &DecisionInfo<'_>, request: Option<RequestLine<'_>>, now: Instant) {
        let reason = decided.decision.as_ref().err().map(|denial| denial.reason);
        let kind = DecisionKind { port: decided.port, reason, connection: request.is_none() };
        let client = ClientKey::of(decided.peer);
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
