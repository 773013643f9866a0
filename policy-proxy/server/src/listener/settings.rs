//! Settings of a listener.

use crate::capacity::SharedCapacity;
use std::time::Duration;

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    /// Room for connections, one unit each.
    pub connections: SharedCapacity,
    /// Room for connections of clients that have proved an identity; absent: they stay where they
    /// are.
    pub proved: Option<SharedCapacity>,
    /// Timeout of the first byte.
    pub first_byte: Duration,
    /// Timeout of a handshake, from the first byte, turn included.
    pub handshake: Duration,
    /// Turns of handshakes.
    pub turns: HandshakeTurns,
    /// Time after the handshake in which a client uses its connection for the first time; absent:
    /// any.
    pub first_use: Option<Duration>,
    /// Age at which a connection ends, varied by up to a fifth either way; absent: none.
    pub age: Option<Duration>,
}

/// Turns in which handshakes are made, fair to client networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeTurns {
    /// Handshakes with a turn at once. More would only share the processor: of thousands of clients
    /// that come together each would be done when all are, after it has given up.
    pub at_once: usize,
    /// Time for which a handshake keeps its turn. A slower client continues without, so that silent
    /// clients delay nobody. Zero: for the key exchange alone.
    pub kept: Duration,
    /// Longest wait for a turn. A client that is refused comes back after its back-off, and no work
    /// is done for one that has given up.
    pub wait: Duration,
}

/// Returns `age` varied by up to a fifth either way by `random`, so that connections made together
/// do not end together.
pub(super) fn jittered(age: Duration, random: u64) -> Duration {
    // 0 to 400 thousandths, plus 800: a factor of 0.8 to 1.2.
    let thousandths = u32::try_from(random % 401).unwrap_or(200).saturating_add(800);
    age.checked_div(1000).unwrap_or(age).saturating_mul(thousandths)
}

/// Returns a number that differs from call to call. Not for secrets.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_fifth_and_varies() {
        let age = Duration::from_secs(1000);
        let ages: std::collections::BTreeSet<_> =
            (0..200).map(|_| jittered(age, random())).collect();
        assert!(ages.len() > 20, "{} different ages", ages.len());
        assert!(ages.iter().all(|a| (800..=1200).contains(&a.as_secs())), "{ages:?}");
        assert_eq!(jittered(age, 0), Duration::from_secs(800));
        assert_eq!(jittered(age, 400), Duration::from_secs(1200));
    }
}
