//! Log lines of connections that are refused and endpoints that fail: one of each reason per interval.

use super::plan::Refusal;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Bounds the lines.
#[derive(Debug, Default)]
pub struct RefusalLog {
    /// Of refused connections and of failed attempts, by reason.
    reasons: [[Mutex<LineState>; Refusal::ALL.len()]; 2],
}

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A connection that was refused.
    Connection,
    /// An endpoint that could not be reached.
    Endpoint,
}

#[derive(Debug, Default)]
struct LineState {
    next: Option<Instant>,
    suppressed: u64,
}

impl RefusalLog {
    /// Returns the number of lines that were left out since the last, if this one is to be written.
    pub fn admit(&self, subject: Subject, reason: Refusal, now: Instant) -> Option<u64> {
        let mut state = self.reasons.get(subject as usize)?.get(reason as usize)?.lock();
        if state.next.is_some_and(|next| now < next) {
            state.suppressed = state.suppressed.saturating_add(1);
            return None;
        }
        state.next = now.checked_add(INTERVAL);
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// Time between two lines of one reason.
const INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;

    #[test]
    fn one_line_of_each_reason_is_written_per_interval() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        for reason in Refusal::ALL {
            for subject in [Subject::Connection, Subject::Endpoint] {
                assert_eq!(log.admit(subject, reason, start), Some(0), "{reason:?}");
                assert_eq!(log.admit(subject, reason, start + INTERVAL / 2), None);
                assert_eq!(log.admit(subject, reason, start + INTERVAL), Some(1));
            }
        }
    }
}
