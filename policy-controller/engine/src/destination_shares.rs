//! Shares of the destinations that may be followed: who holds most gives way first, so that clients that
//! follow much leave room for those that follow little.
//!
//! A destination counts for the client that asked for it first, however many follow it. If that client has
//! to give it up, the others ask again, and it counts for the first of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The most destinations that a client gives up at once. Finding them takes a pass over all, which is made
/// up for by the room that they leave.
pub(crate) const MOST_AT_ONCE: usize = 512;

/// The client that a followed destination counts for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationClient {
    /// The clients that it counts together with: those of its identity, or of its network.
    pub group: Arc<str>,
    /// Its address.
    pub address: IpAddr,
}

/// The number of destinations that each client holds.
#[derive(Debug, Default)]
pub(crate) struct DestinationShares {
    groups: BTreeMap<Arc<str>, GroupShare>,
}

#[derive(Debug, Default)]
struct GroupShare {
    total: usize,
    members: BTreeMap<IpAddr, usize>,
}

impl GroupShare {
    fn largest(&self) -> Option<(IpAddr, usize)> {
        let members = self.members.iter().max_by_key(|(_, held)| **held);
        members.map(|(address, held)| (*address, *held))
    }

    fn of(&self, address: IpAddr) -> usize {
        self.members.get(&address).copied().unwrap_or_default()
    }
}

impl DestinationShares {
    /// Counts a destination for a client.
    pub(crate) fn hold(&mut self, client: &DestinationClient) {
        let group = self.groups.entry(client.group.clone()).or_default();
        group.total = group.total.saturating_add(1);
        let held = group.members.entry(client.address).or_default();
        *held = held.saturating_add(1);
    }

    /// Counts a destination no more.
    pub(crate) fn give_back(&mut self, client: &DestinationClient) {
        let Some(group) = self.groups.get_mut(&client.group) else { return };
        group.total = group.total.saturating_sub(1);
        if let Some(held) = group.members.get_mut(&client.address) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                group.members.remove(&client.address);
            }
        }
        if group.members.is_empty() {
            self.groups.remove(&client.group);
        }
    }

    /// Returns the client that gives way to another one, and how many destinations it gives up: of the
    /// group that holds most the client that holds most, and else the largest of the other's own group.
    /// `None` if there is none that holds more than twice as much.
    pub(crate) fn gives_way(&self, to: &DestinationClient) -> Option<(DestinationClient, usize)> {
        let own = self.groups.get(&to.group);
        let (name, largest) = self.groups.iter().max_by_key(|(_, group)| group.total)?;
        let held = own.map_or(0, |own| own.total);
        if let Some(given) = given_up(largest.total, held) {
            let (address, most) = largest.largest()?;
            return Some((DestinationClient { group: name.clone(), address }, given.min(most)));
        }
        let own = own?;
        let (address, most) = own.largest()?;
        let given = given_up(most, own.of(to.address))?;
        Some((DestinationClient { group: to.group.clone(), address }, given))
    }
}

/// Returns how much one that holds `most` gives up for one that holds `held`, if anything: no more than
/// that they would hold alike.
fn given_up(most: usize, held: usize) -> Option<usize> {
    let more = most.saturating_sub(held);
    (more > held && more > 1).then(|| (more >> 1_u32).clamp(1, MOST_AT_ONCE))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test numbers are small")]
mod tests {
    use super::*;

    fn client(group: &str, last: u8) -> DestinationClient {
        DestinationClient { group: group.into(), address: [10, 0, 0, last].into() }
    }

    fn holding(all: &[(&str, u8, usize)]) -> DestinationShares {
        let mut shares = DestinationShares::default();
        for (group, last, count) in all {
            (0..*count).for_each(|_| shares.hold(&client(group, *last)));
        }
        shares
    }

    #[test]
    fn of_the_group_that_holds_most_the_client_that_holds_most_gives_way() {
        let shares = holding(&[("a", 1, 30), ("a", 2, 50), ("b", 3, 70), ("c", 4, 10)]);
        assert_eq!(shares.gives_way(&client("c", 4)), Some((client("a", 2), 35)));
        assert_eq!(shares.gives_way(&client("d", 9)), Some((client("a", 2), 40)));
        // Of the same group, only by address.
        assert_eq!(shares.gives_way(&client("a", 9)), Some((client("a", 2), 25)));
        assert_eq!(shares.gives_way(&client("a", 1)), None);
        assert_eq!(shares.gives_way(&client("b", 3)), None);
        assert_eq!(shares.gives_way(&client("b", 9)), Some((client("b", 3), 35)));
    }

    #[test]
    fn who_holds_half_as_much_gets_nothing_of_it_and_nobody_gives_up_all() {
        for (most, held, given) in [
            (0, 0, None),
            (1, 0, None),
            (2, 0, Some(1)),
            (10, 5, None),
            (11, 5, Some(3)),
            (8192, 0, Some(512)),
        ] {
            assert_eq!(given_up(most, held), given, "{most} {held}");
        }
    }

    #[test]
    fn what_is_given_back_counts_no_more() {
        let mut shares = holding(&[("a", 1, 3), ("b", 2, 1)]);
        (0..3).for_each(|_| shares.give_back(&client("a", 1)));
        shares.give_back(&client("a", 1));
        assert_eq!(shares.groups.keys().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(shares.gives_way(&client("a", 1)), None);
    }
}
