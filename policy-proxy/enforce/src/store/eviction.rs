//! Which port that nothing declares makes room for another one.
//!
//! Ports on which something permitted is open stay. Of the others, each client network is answered for
//! those that it was the first to use: room is taken from the network that has the most, so that a
//! client without rights that knocks on every port keeps nobody's port but its own from having a policy.

use foldhash::HashMap;
use policy_server::ClientNetwork;
use std::num::NonZeroU16;
use std::time::Duration;
use tokio::time::Instant;

/// A port on which nothing permitted is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) port: NonZeroU16,
    /// Who used it first; none: we ourselves.
    pub(super) network: Option<ClientNetwork>,
    pub(super) since: Instant,
}

/// The port that makes room for one of `requester`: the oldest of the network that has the most, where
/// that leaves it at least as many as `requester` then has. Else the oldest that had its time, of those
/// who have no fewer than `requester`; none if there is none.
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

/// A port has so long to get a policy and a permitted connection, so that a scan of ports cannot turn
/// every connection into a subscription.
pub(super) const MIN_AGE: Duration = Duration::from_secs(5);

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    fn network(text: &str) -> Option<ClientNetwork> {
        Some(ClientNetwork::of(text.parse().unwrap()))
    }

    /// Ports from 1 on, each a second younger than the one before it, the first of this age.
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
