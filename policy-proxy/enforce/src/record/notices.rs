//! Lines about refusals and audited permits, in the log of whoever enforces.

mod digest;
mod line;
mod rate;

pub use line::RequestLine;

use super::request_info::DecisionInfo;
use digest::{ClientKey, DecisionKind, Digest, DueLines};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Says what was denied and what was let through for the log's sake alone (audited): the first per client,
/// port and reason at once, then once per interval how many more there were. At most ten lines a second,
/// of which five are kept for clients with an identity, and one about what was left out.
///
/// Clients without an identity count by their /24 or /64. Bounded in memory; a permit that is not audited
/// costs a comparison.
#[derive(Debug)]
pub struct Notices {
    workload: Arc<str>,
    digest: Mutex<Digest>,
}

impl Notices {
    /// How often numbers are said. 256 kinds at four lines a second take as long.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    /// Notices about what `workload` is asked.
    pub fn new(workload: &str, interval: Duration) -> Self {
        Self { workload: workload.into(), digest: Mutex::new(Digest::new(interval)) }
    }

    /// Takes note of a decision about a request, or about a connection if there is none.
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

    /// Lets time pass. To be called once a second where clients may fall silent.
    pub fn tick(&self, now: Instant) {
        let due: DueLines = self.digest.lock().tick(now);
        line::due(&self.workload, &due);
    }
}

/// What was counted is said before it is forgotten.
impl Drop for Notices {
    fn drop(&mut self) {
        let due = self.digest.get_mut().end(Instant::now());
        line::due(&self.workload, &due);
    }
}
