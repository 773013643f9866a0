//! Revocation of shares, by example and by property.
#![allow(clippy::arithmetic_side_effects, reason = "test amounts are small")]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

fn network(n: u8) -> ClientNetwork {
    ClientNetwork::of(IpAddr::from([10, 0, 0, n]))
}

fn connections(total: u64, per_network: u64) -> Ledger {
    Ledger::new(Bounds { total, per_network, first: RevocationOrder::LeastRecentlyUsed })
}

/// Opens a share of this size; `None` if capacity was exceeded.
fn open(
    ledger: &mut Ledger,
    from: u8,
    size: u64,
    answered: &[u8],
) -> Option<(u64, CancellationToken)> {
    let token = CancellationToken::new();
    let id = ledger.open(network(from), token.clone());
    let is_answered = |other| answered.iter().any(|n| network(*n) == other);
    ledger.grow(id, size, &is_answered).ok().map(|()| (id, token))
}

#[test]
fn a_new_client_connects_though_four_others_hold_everything() {
    let mut ledger = connections(256, 64);
    let held: Vec<_> =
        (0..256u16).map(|n| open(&mut ledger, u8::try_from(n % 4).unwrap(), 1, &[])).collect();
    assert!(held.iter().all(Option::is_some));
    ledger.begin(held[0].as_ref().unwrap().0);
    ledger.end(held[0].as_ref().unwrap().0);
    assert!(open(&mut ledger, 9, 1, &[]).is_some());
    let ended: Vec<usize> = (0..256).filter(|n| ended(held[*n].as_ref())).collect();
    assert_eq!(ended, [1], "the one that was unused for the longest time");
}

#[test]
fn a_connection_with_a_review_in_flight_outlasts_idle_ones() {
    let mut ledger = connections(3, 3);
    let held: Vec<_> = (0..3).map(|_| open(&mut ledger, 1, 1, &[]).unwrap()).collect();
    ledger.begin(held[0].0);
    for idle in &held[1..] {
        ledger.begin(idle.0);
        ledger.end(idle.0);
    }
    assert!(open(&mut ledger, 2, 1, &[]).is_some());
    let ended: Vec<bool> = held.iter().map(|(_, token)| token.is_cancelled()).collect();
    assert_eq!(ended, [false, true, false], "the idle one that was used before the other");
}

fn ended(held: Option<&(u64, CancellationToken)>) -> bool {
    held.is_some_and(|(_, token)| token.is_cancelled())
}

#[test]
fn a_client_over_its_bound_closes_its_own_connection() {
    let mut ledger = connections(4, 2);
    let other = open(&mut ledger, 1, 1, &[]).unwrap();
    let own: Vec<_> = (0..3).map(|_| open(&mut ledger, 2, 1, &[]).unwrap()).collect();
    assert!(own[0].1.is_cancelled() && !own[1].1.is_cancelled() && !own[2].1.is_cancelled());
    assert!(!other.1.is_cancelled());
}

#[test]
fn strangers_in_any_number_never_close_the_connections_of_who_was_answered() {
    let mut ledger = connections(8, 8);
    let idle: Vec<_> = (0..3).map(|_| open(&mut ledger, 1, 1, &[1]).unwrap()).collect();
    for stranger in 2..250 {
        assert!(open(&mut ledger, stranger, 1, &[1]).is_some(), "strangers get in, too");
    }
    assert!(idle.iter().all(|(_, token)| !token.is_cancelled()));
}

#[test]
fn a_stranger_connects_though_all_others_were_answered() {
    let mut ledger = connections(8, 8);
    let answered = [1, 2, 3, 4];
    for n in 0..8 {
        open(&mut ledger, 1 + n % 4, 1, &answered).unwrap();
    }
    let (_, stranger) = open(&mut ledger, 9, 1, &answered).unwrap();
    for n in 0..64 {
        open(&mut ledger, 1 + n % 4, 1, &answered).unwrap();
    }
    assert!(!stranger.is_cancelled());
}

#[test]
fn of_the_largest_client_the_newest_review_makes_room_and_the_older_ones_arrive() {
    let bounds = Bounds { total: 100, per_network: 60, first: RevocationOrder::Newest };
    let mut ledger = Ledger::new(bounds);
    let first = open(&mut ledger, 1, 30, &[]).unwrap();
    let second = open(&mut ledger, 1, 30, &[]).unwrap();
    let other = open(&mut ledger, 2, 40, &[]).unwrap();
    assert!(ledger.grow(other.0, 5, &|_| false).is_ok());
    assert!(!first.1.is_cancelled() && second.1.is_cancelled() && !other.1.is_cancelled());
    assert_eq!(
        ledger.grow(second.0, 1, &|_| false),
        Err(CapacityExceeded),
        "it holds nothing any more"
    );
    assert_eq!((ledger.held, ledger.entries.len()), (75, 2));
}

#[test]
fn what_is_larger_than_any_share_ends_itself_alone() {
    let mut ledger = connections(100, 50);
    let other = open(&mut ledger, 1, 40, &[]).unwrap();
    assert!(open(&mut ledger, 2, 51, &[]).is_none());
    assert!(!other.1.is_cancelled());
    assert_eq!((ledger.held, ledger.entries.len(), ledger.networks.len()), (40, 1, 1));
}

#[tokio::test]
async fn room_is_given_back_by_drop_and_a_revoked_share_knows_it() {
    let bounds = Bounds { total: 10, per_network: 10, first: RevocationOrder::Newest };
    let capacity = SharedCapacity::new(bounds, AnsweredNetworks::default());
    let large = capacity.take(network(1), 8).unwrap();
    let small = capacity.take(network(2), 2).unwrap();
    drop(small);
    small_again(&capacity);
    let instead = CancellationToken::new();
    large.cancel_instead(instead.clone());
    let other = capacity.take(network(2), 3).unwrap();
    assert!(instead.is_cancelled() && !large.token().is_cancelled());
    assert_eq!(large.grow(1), Err(CapacityExceeded));
    drop((large, other));
    assert_eq!(capacity.ledger.lock().held, 0);
    assert!(capacity.ledger.lock().networks.is_empty());
}

fn small_again(capacity: &SharedCapacity) {
    let again = capacity.take(network(2), 2).unwrap();
    assert!(!again.token().is_cancelled());
}

#[derive(Clone, Debug)]
enum Step {
    Open(u8, u64),
    Grow(usize, u64),
    Use(usize),
    Close(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u8..6, 0u64..40).prop_map(|(from, size)| Step::Open(from, size)),
        2 => (0usize..40, 0u64..40).prop_map(|(which, size)| Step::Grow(which, size)),
        1 => (0usize..40).prop_map(Step::Use),
        1 => (0usize..40).prop_map(Step::Close),
    ];
    prop::collection::vec(step, 0..80)
}

fn amounts(ledger: &Ledger) -> BTreeMap<ClientNetwork, u64> {
    let mut amounts = BTreeMap::new();
    for entry in ledger.entries.values() {
        *amounts.entry(entry.network).or_default() += entry.amount;
    }
    amounts
}

proptest! {
    #[test]
    fn room_is_never_exceeded_and_only_the_largest_of_a_half_gives_back(
        steps in steps(),
        newest in any::<bool>(),
        answered in prop::collection::vec(0u8..6, 0..4),
    ) {
        let first = if newest { RevocationOrder::Newest } else { RevocationOrder::LeastRecentlyUsed };
        let mut ledger = Ledger::new(Bounds { total: 100, per_network: 60, first });
        let is_answered = |other| answered.iter().any(|n| network(*n) == other);
        let mut held: Vec<(u64, ClientNetwork, CancellationToken)> = Vec::new();
        for step in steps {
            let before = amounts(&ledger);
            let alive = |held: &[(u64, ClientNetwork, CancellationToken)]| -> Vec<ClientNetwork> {
                held.iter().filter(|(.., token)| token.is_cancelled()).map(|(_, n, _)| *n).collect()
            };
            held.retain(|(.., token)| !token.is_cancelled());
            let at = |which: usize| held.get(which % held.len().max(1)).cloned();
            let request = match step {
                Step::Open(from, size) => {
                    let token = CancellationToken::new();
                    let id = ledger.open(network(from), token.clone());
                    held.push((id, network(from), token));
                    Some((id, network(from), size))
                }
                Step::Grow(which, size) => at(which).map(|(id, from, _)| (id, from, size)),
                Step::Use(which) => {
                    if let Some((id, ..)) = at(which) { ledger.begin(id); ledger.end(id); }
                    None
                }
                Step::Close(which) => {
                    if let Some((id, ..)) = at(which) {
                        ledger.close(id);
                        held.retain(|(other, ..)| *other != id);
                    }
                    None
                }
            };
            let Some((id, from, size)) = request else { continue };
            let granted = ledger.grow(id, size, &is_answered).is_ok();
            let revoked = alive(&held);
            let own_bound = before.get(&from).copied().unwrap_or_default() + size > 60;
            for victim in &revoked {
                if *victim == from && own_bound { continue; }
                let wanted = |n: &ClientNetwork| {
                    before.get(n).copied().unwrap_or_default() + if *n == from { size } else { 0 }
                };
                // No network of the same half that kept everything holds more than a victim did.
                let half = before.keys().filter(|n| is_answered(**n) == is_answered(*victim));
                for kept in half.filter(|n| !revoked.contains(n)) {
                    prop_assert!(wanted(kept) <= wanted(victim), "{kept:?} {victim:?} {before:?}");
                }
            }
            prop_assert!(granted || revoked.contains(&from));
            let strangers: u64 =
                before.iter().filter(|(n, _)| !is_answered(**n)).map(|(_, amount)| amount).sum();
            let answered_hold = before.values().sum::<u64>() - strangers;
            if !is_answered(from) && answered_hold <= 50 {
                prop_assert!(revoked.iter().all(|n| !is_answered(*n)), "the reserve holds");
            }
            let now = amounts(&ledger);
            prop_assert_eq!(now.values().sum::<u64>(), ledger.held);
            prop_assert!(ledger.held <= 100);
            for (n, amount) in &now {
                prop_assert!(*amount <= 60);
                prop_assert_eq!(ledger.networks[n].amount, *amount);
            }
            prop_assert_eq!(ledger.networks.len(), now.len());
        }
    }
}
