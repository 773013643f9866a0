//! Limits of log lines that clients can cause at will.

use crate::allowance::Peer;
use crate::limit::{Limit, Limiter};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lines of one client with one message: in a row, and the time after which there is one more.
const OF_CLIENT: (u32, Duration) = (5, Duration::from_secs(10));

/// Lines of all clients with all messages.
const OF_ALL: (u32, Duration) = (50, Duration::from_millis(200));

/// Decides which lines that clients cause are written.
#[derive(Debug)]
pub struct ClientLines {
    clients: Limit<(Peer, &'static str)>,
    all: Mutex<Limiter>,
    left_out: AtomicU64,
}

impl Default for ClientLines {
    fn default() -> Self {
        let limiter = |(burst, interval)| Limiter::every(interval, burst);
        Self {
            // Made-up addresses silence nobody: lines of all clients have a bound.
            clients: Limit::of(limiter(OF_CLIENT)).forgetting(),
            all: Mutex::new(limiter(OF_ALL)),
            left_out: AtomicU64::new(0),
        }
    }
}

impl ClientLines {
    /// Returns the number of lines that were left out since the last one that was written, if this
    /// line is written now.
    pub fn admit(&self, peer: &Peer, message: &'static str) -> Option<u64> {
        self.admit_at(peer, message, Instant::now())
    }

    fn admit_at(&self, peer: &Peer, message: &'static str, now: Instant) -> Option<u64> {
        // The client's share first, so that one client does not use up that of all.
        let is_admitted =
            self.clients.take(&(peer.clone(), message), now) && self.all.lock().take(now).is_ok();
        if !is_admitted {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_client_writes_a_few_lines_and_others_are_not_silenced_by_it() {
        let (lines, now) = (ClientLines::default(), Instant::now());
        let peer = |n: u8| Peer::at([10, 0, 0, n].into());
        let counted = Cell::new(0);
        let written = |from: u8, message| {
            let admitted = (0..1000).filter_map(|_| lines.admit_at(&peer(from), message, now));
            admitted.inspect(|left_out| counted.set(counted.get() + left_out)).count()
        };
        assert_eq!((written(1, "refused"), written(1, "late"), written(2, "refused")), (5, 5, 5));
        let all: usize = (3..200).map(|from| written(from, "refused")).sum();
        assert_eq!(all, 35, "fifty in all");
        let later = now + Duration::from_secs(10);
        let left_out = lines.admit_at(&peer(1), "refused", later);
        let left_out = left_out.map(|left_out| left_out + counted.get());
        assert_eq!(left_out, Some(200 * 1000 - 50), "what was left out is counted");
        assert_eq!(lines.admit_at(&peer(2), "refused", later), Some(0));
    }

    #[test]
    fn clients_at_made_up_addresses_silence_no_other() {
        let (lines, now) = (ClientLines::default(), Instant::now());
        let peer = |n: u32| Peer::at(n.to_be_bytes().into());
        let written = (0..20_000).filter(|n| lines.admit_at(&peer(*n), "refused", now).is_some());
        assert_eq!(written.count(), 50);
        let later = now + Duration::from_secs(1);
        assert!(lines.admit_at(&peer(20_000), "refused", later).is_some());
    }
}
