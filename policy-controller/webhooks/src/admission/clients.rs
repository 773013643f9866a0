//! Client networks that connections and reviews are counted by, and those whose reviews were
//! answered.
//!
//! API servers do not authenticate to webhooks, so the address is the only criterion. A well-formed
//! review adds little, because any client can post one: answered networks get a reserve, never a
//! precedence over all others.

use parking_lot::Mutex;
use policy_server::{ClientNetwork, SharedCapacity};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which an answered network may use the reserve. The API server of a quiet cluster sends
/// reviews less often, and then counts as a stranger until its next review is answered.
const RETENTION: Duration = Duration::from_secs(600);

/// Maximum number of remembered networks.
const MAX_NETWORKS: usize = 1024;

/// Networks whose reviews were recently answered. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct AnsweredNetworks(Arc<Mutex<HashMap<ClientNetwork, Instant>>>);

impl AnsweredNetworks {
    /// Records that a well-formed review of `network` was answered.
    pub(super) fn remember(&self, network: ClientNetwork, now: Instant) {
        let mut answered = self.0.lock();
        if answered.len() >= MAX_NETWORKS && !answered.contains_key(&network) {
            answered.retain(|_, last| is_recent(*last, now));
            let oldest =
                answered.iter().min_by_key(|(_, last)| **last).map(|(network, _)| *network);
            if let Some(oldest) = oldest.filter(|_| answered.len() >= MAX_NETWORKS) {
                answered.remove(&oldest);
            }
        }
        answered.insert(network, now);
    }

    /// Keeps half of `capacity` for clients of these networks.
    pub(super) fn reserve(&self, capacity: SharedCapacity) -> SharedCapacity {
        let answered = self.clone();
        capacity.with_known(move |peer| {
            answered.contains(ClientNetwork::of(peer.address), Instant::now())
        })
    }

    /// True if a review of `network` was recently answered.
    pub(super) fn contains(&self, network: ClientNetwork, now: Instant) -> bool {
        self.0.lock().get(&network).is_some_and(|last| is_recent(*last, now))
    }
}

fn is_recent(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) < RETENTION
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn network(text: &str) -> ClientNetwork {
        ClientNetwork::of(text.parse().unwrap())
    }

    #[test]
    fn an_answered_network_is_forgotten_in_time_and_their_number_is_bounded() {
        let (answered, start) = (AnsweredNetworks::default(), Instant::now());
        answered.remember(network("10.0.0.1"), start);
        assert!(answered.contains(network("10.0.0.1"), start + Duration::from_secs(599)));
        assert!(!answered.contains(network("10.0.0.1"), start + Duration::from_secs(600)));
        assert!(!answered.contains(network("10.0.0.2"), start));
        for n in 0..u32::try_from(MAX_NETWORKS).unwrap() {
            let now = start + Duration::from_millis(u64::from(n) + 1);
            answered.remember(ClientNetwork::of(IpAddr::from((n + (11 << 24)).to_be_bytes())), now);
        }
        assert_eq!(answered.0.lock().len(), MAX_NETWORKS);
        let now = start + Duration::from_secs(2);
        assert!(!answered.contains(network("10.0.0.1"), now), "the oldest made room");
        assert!(answered.contains(network("11.0.0.1"), now));
    }
}
