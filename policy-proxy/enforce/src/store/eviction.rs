//! Eviction of undeclared ports.
//!
//! Ports on which something permitted is open stay. The others are attributed to the client network
//! that used them first. The network with the most ports loses one, so that an unauthorized client
//! that scans all ports evicts only its own.

use foldhash::HashMap;
use policy_server::ClientNetwork;
use std::num::NonZeroU16;
use std::time::Duration;
use tokio::time::Instant;

/// A port on which nothing permitted is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) port: NonZeroU16,
    /// Network that used the port first; `None` for the proxy itself.
    pub(super) network: Option<ClientNetwork>,
    pub(super) since: Instant,
}

/// Returns the port to evict for one of `requester`: the oldest of the network that has the most,
/// if that still leaves it as many as `requester` then has. Else the oldest of those that exceed
/// [`MIN_AGE`] and whose network has no fewer than `requester`; `None` if there is none.
pub(super) fn select(
    candidates: &[Candidate],
    requester: Option<ClientNetwork>,
    now: Instant,
) -> Option<NonZeroU16> {
    let mut shares: HashMap<Option<ClientNetwork>, usize> = HashMap::default();
    for port in candidates {
        let share = shares.entry(port.network).or_default();
        *share = share.saturating_add(1);
    }
    let share = |network| shares.get(&network).copied().unwrap_or_default();
    let own = share(requester);
    let (mut most, mut late): (Option<(usize, &Candidate)>, Option<&Candidate>) = (None, None);
    for port in candidates {
        let held = share(port.network);
        if held > own.saturating_add(1)
            && most.is_none_or(|(share, oldest)| {
                held > share || (held == share && port.since < oldest.since)
            })
        {
            most = Some((held, port));
        }
        let had_its_time = now.saturating_duration_since(port.since) >= MIN_AGE;
        if held >= own && had_its_time && late.is_none_or(|oldest| port.since < oldest.since) {
            late = Some(port);
        }
    }
    most.map(|(_, port)| port).or(late).map(|port| port.port)
}

/// Minimum time for a port to get a policy and a permitted connection, so that a port scan cannot
/// turn every connection into a subscription.
pub(super) const MIN_AGE: Duration = Duration::from_secs(5);

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    fn network(text: &str) -> Option<ClientNetwork> {
        Some(ClientNetwork::of(text.parse().unwrap()))
    }

    /// Returns ports from 1 on, each a second younger than the one before it, the first of this
    /// age.
    fn held(by: &[&str], age: u64) -> (Vec<Candidate>, Instant) {
        let begun = Instant::now();
        let ports = by.iter().zip(1..).map(|(address, number)| Candidate {
            port: NonZeroU16::new(number).unwrap(),
            network: network(address),
            since: begun + Duration::from_secs(number.into()),
        });
        (ports.collect(), begun + Duration::from_secs(1 + age))
    }

    #[track_caller]
    fn check(by: &[&str], age: u64, requester: &str, want: Option<u16>) {
        let (candidates, now) = held(by, age);
        let port = select(&candidates, network(requester), now).map(NonZeroU16::get);
        assert_eq!(port, want, "{by:?} for {requester}");
    }

    #[test]
    fn who_has_the_most_gives_its_oldest() {
        check(&["10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"], 3, "10.0.0.9", Some(2));
        check(&["10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"], 3, "10.0.0.2", Some(2));
        check(&["2001:db8::1", "2001:db8::2"], 1, "10.0.0.9", Some(1));
    }

    #[test]
    fn who_has_the_most_itself_waits_until_one_of_its_own_had_its_time() {
        let by = ["10.0.0.2", "10.0.0.1", "10.0.0.1"];
        check(&by, 4, "10.0.0.1", None);
        check(&by, 5, "10.0.0.1", None);
        check(&by, 6, "10.0.0.1", Some(2));
    }

    #[test]
    fn among_equals_the_oldest_that_had_its_time_gives_way() {
        let by = ["10.0.0.1", "10.0.0.2"];
        check(&by, 4, "10.0.0.9", None);
        check(&by, 5, "10.0.0.9", Some(1));
        check(&[], 5, "10.0.0.9", None);
    }
}
