//! Revocation of shares, by example and by property.
#![allow(clippy::arithmetic_side_effects, reason = "test amounts are small")]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A client of the network `n / 64`.
fn client(n: u8) -> Peer {
    Peer::at([10, 0, n / 64, n].into())
}

fn connections(total: u64, per_client: u64) -> Ledger {
    let first = RevocationOrder::LeastRecentlyUsed;
    Ledger::new(CapacityBounds { total, per_client, first })
}

/// Opens a share of this size; `None` if capacity was exceeded.
fn open(
    ledger: &mut Ledger,
    from: u8,
    size: u64,
    answered: &[u8],
) -> Option<(u64, CancellationToken)> {
    let token = CancellationToken::new();
    let id = ledger.open(client(from), token.clone());
    let is_answered = |other: &Peer| answered.iter().any(|n| client(*n) == *other);
    ledger.grow(id, size, Some(&is_answered)).ok().map(|()| (id, token))
}

#[test]
fn a_new_client_connects_though_four_others_hold_everything() {
    let mut ledger = connections(256, 64);
    let held: Vec<_> =
        (0..256u16).map(|n| open(&mut ledger, u8::try_from(n % 4).unwrap(), 1, &[])).collect();
    assert!(held.iter().all(Option::is_some));
    let first = held[0].as_ref().unwrap().0;
    ledger.used(first, true);
    ledger.used(first, false);
    assert!(open(&mut ledger, 9, 1, &[]).is_some());
    let ended: Vec<usize> = (0..256).filter(|n| ended(held[*n].as_ref())).collect();
    assert_eq!(ended, [1], "the one that was unused for the longest time");
}

#[test]
fn a_connection_with_a_review_in_flight_outlasts_idle_ones() {
    let mut ledger = connections(3, 3);
    let held: Vec<_> = (0..3).map(|_| open(&mut ledger, 1, 1, &[]).unwrap()).collect();
    ledger.used(held[0].0, true);
    for idle in &held[1..] {
        ledger.used(idle.0, true);
        ledger.used(idle.0, false);
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
    let bounds = CapacityBounds { total: 100, per_client: 60, first: RevocationOrder::Newest };
    let mut ledger = Ledger::new(bounds);
    let first = open(&mut ledger, 1, 30, &[]).unwrap();
    let second = open(&mut ledger, 1, 30, &[]).unwrap();
    let other = open(&mut ledger, 2, 40, &[]).unwrap();
    assert!(ledger.grow(other.0, 5, None).is_ok());
    assert!(!first.1.is_cancelled() && second.1.is_cancelled() && !other.1.is_cancelled());
    assert_eq!(ledger.grow(second.0, 1, None), Err(CapacityExceeded), "it holds nothing any more");
    assert_eq!((ledger.held, ledger.entries.len()), (75, 2));
}

#[test]
fn what_is_larger_than_any_share_ends_itself_alone() {
    let mut ledger = connections(100, 50);
    let other = open(&mut ledger, 1, 40, &[]).unwrap();
    assert!(open(&mut ledger, 2, 51, &[]).is_none());
    assert!(!other.1.is_cancelled());
    assert_eq!((ledger.held, ledger.entries.len(), ledger.groups.len()), (40, 1, 1));
}

#[test]
fn who_holds_most_loses_first_in_the_largest_network() {
    let mut ledger = connections(5, 5);
    // Three neighbours with one each, and a client elsewhere with two.
    let small: Vec<_> = (64..67).map(|n| open(&mut ledger, n, 1, &[]).unwrap()).collect();
    let large: Vec<_> = (0..2).map(|_| open(&mut ledger, 0, 1, &[]).unwrap()).collect();
    let (_, new) = open(&mut ledger, 128, 1, &[]).unwrap();
    assert!(small[0].1.is_cancelled(), "together its network holds most");
    let (_, next) = open(&mut ledger, 192, 1, &[]).unwrap();
    let ended = |held: &[(u64, CancellationToken)]| {
        held.iter().filter(|(_, token)| token.is_cancelled()).count()
    };
    assert_eq!(
        (ended(&small), ended(&large)),
        (1, 1),
        "of two that hold as much, the larger client"
    );
    assert!(!new.is_cancelled() && !next.is_cancelled());
}

#[test]
fn one_client_of_a_crowded_network_gets_in_and_is_not_the_first_to_go() {
    let mut ledger = connections(256, 256);
    // All addresses of one network hold what there is.
    let crowd: Vec<_> = (0..256u16).map(|n| open(&mut ledger, (n % 63) as u8, 1, &[])).collect();
    let (_, late) = open(&mut ledger, 63, 1, &[]).unwrap();
    for n in 0..128 {
        assert!(open(&mut ledger, n % 63, 1, &[]).is_some());
    }
    assert!(!late.is_cancelled());
    assert!(crowd.iter().any(|one| ended(one.as_ref())));
}

#[test]
fn work_in_progress_is_never_cut() {
    let mut ledger = connections(2, 2);
    let busy = open(&mut ledger, 1, 1, &[]).unwrap();
    let other = open(&mut ledger, 1, 1, &[]).unwrap();
    ledger.worked(busy.0, true);
    ledger.used(other.0, true);
    open(&mut ledger, 2, 1, &[]).unwrap();
    assert!(!busy.1.is_cancelled() && other.1.is_cancelled(), "the one in use goes instead");
    let again = open(&mut ledger, 2, 1, &[]).unwrap();
    ledger.worked(again.0, true);
    assert!(open(&mut ledger, 3, 1, &[]).is_none(), "both are at work");
    assert_eq!((ledger.held, ledger.entries.len(), ledger.groups.len()), (2, 2, 1));
    ledger.worked(busy.0, false);
    assert!(open(&mut ledger, 3, 1, &[]).is_some());
    assert!(busy.1.is_cancelled() && !again.1.is_cancelled());
}

#[test]
fn holders_of_an_identity_count_together() {
    let mut ledger = connections(4, 4);
    let web = |n: u8| Peer { identity: Some("web".into()), ..client(n) };
    let mut take = |peer: Peer| {
        let token = CancellationToken::new();
        let id = ledger.open(peer, token.clone());
        ledger.grow(id, 1, None).unwrap();
        token
    };
    let api = take(Peer { identity: Some("api".into()), ..client(1) });
    let first = take(web(1));
    let others = [take(web(64)), take(web(128)), take(client(1))];
    assert!(first.is_cancelled() && !api.is_cancelled());
    assert!(others.iter().all(|token| !token.is_cancelled()));
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

fn amounts(ledger: &Ledger) -> BTreeMap<Peer, u64> {
    let mut amounts = BTreeMap::new();
    for entry in ledger.entries.values() {
        *amounts.entry(entry.peer.clone()).or_default() += entry.amount;
    }
    amounts
}

type Held = Vec<(u64, Peer, CancellationToken)>;

fn revoked(held: &Held) -> Vec<Peer> {
    let revoked = held.iter().filter(|(.., token)| token.is_cancelled());
    revoked.map(|(_, peer, _)| peer.clone()).collect()
}

/// Takes a step. Returns who wants capacity by which share, and how much.
fn take(step: Step, ledger: &mut Ledger, held: &mut Held) -> Option<(u64, Peer, u64)> {
    let at = |held: &Held, which: usize| held.get(which % held.len().max(1)).cloned();
    match step {
        Step::Open(from, size) => {
            let (token, from) = (CancellationToken::new(), client(from * 32));
            let id = ledger.open(from.clone(), token.clone());
            held.push((id, from.clone(), token));
            return Some((id, from, size));
        }
        Step::Grow(which, size) => return at(held, which).map(|(id, from, _)| (id, from, size)),
        Step::Use(which) => {
            if let Some((id, ..)) = at(held, which) {
                ledger.used(id, true);
                ledger.used(id, false);
            }
        }
        Step::Close(which) => {
            if let Some((id, ..)) = at(held, which) {
                ledger.close(id);
                held.retain(|(other, ..)| *other != id);
            }
        }
    }
    None
}

proptest! {
    #[test]
    fn room_is_never_exceeded_and_only_the_largest_of_a_half_gives_back(
        steps in steps(),
        newest in any::<bool>(),
        answered in prop::collection::vec(0u8..6, 0..4),
    ) {
        let first = if newest { RevocationOrder::Newest } else { RevocationOrder::LeastRecentlyUsed };
        let mut ledger = Ledger::new(CapacityBounds { total: 100, per_client: 60, first });
        let is_answered = |other: &Peer| answered.iter().any(|n| client(*n * 32) == *other);
        let mut held = Held::new();
        for step in steps {
            let before = amounts(&ledger);
            held.retain(|(.., token)| !token.is_cancelled());
            let Some((id, from, size)) = take(step, &mut ledger, &mut held) else { continue };
            let granted = ledger.grow(id, size, Some(&is_answered)).is_ok();
            let revoked = revoked(&held);
            let wanted = |n: &Peer| {
                before.get(n).copied().unwrap_or_default() + if *n == from { size } else { 0 }
            };
            // What its group has in its half, then what it has itself.
            let rank = |n: &Peer| {
                let all = before.keys().chain((!before.contains_key(&from)).then_some(&from));
                let group = all.filter(|other| {
                    is_answered(other) == is_answered(n) && ClientGroup::of(other) == ClientGroup::of(n)
                });
                (group.map(wanted).sum::<u64>(), wanted(n))
            };
            // One victim at a time: what is lost before changes the ranks of those that follow.
            if let [victim] = &*revoked && !(*victim == from && wanted(&from) > 60) {
                let half = before.keys().filter(|n| is_answered(n) == is_answered(victim));
                for kept in half.filter(|n| *n != victim) {
                    prop_assert!(rank(kept) <= rank(victim), "{kept:?} {victim:?} {before:?}");
                }
            }
            prop_assert!(granted || revoked.contains(&from));
            let strangers: u64 =
                before.iter().filter(|(n, _)| !is_answered(n)).map(|(_, amount)| amount).sum();
            let answered_hold = before.values().sum::<u64>() - strangers;
            if !is_answered(&from) && answered_hold <= 50 {
                prop_assert!(revoked.iter().all(|n| !is_answered(n)), "the reserve holds");
            }
            let now = amounts(&ledger);
            prop_assert_eq!(now.values().sum::<u64>(), ledger.held);
            prop_assert!(ledger.held <= 100 && now.values().all(|amount| *amount <= 60));
            prop_assert_eq!(ledger.groups.values().map(|group| group.amount).sum::<u64>(), ledger.held);
            prop_assert!(now.iter().all(|(n, amount)| ledger.amount_of(n) == *amount));
        }
    }
}
