//! Tests of the choice, with a clock of their own.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use super::*;
use policy_core::{EndpointMesh, PlaintextReason};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn endpoint(number: u16, owner: &str) -> Endpoint {
    Endpoint {
        address: SocketAddr::from(([10, 0, 0, 1], number)),
        owner: owner.into(),
        namespace: "shop".into(),
        mesh: EndpointMesh::Plaintext(PlaintextReason::Unmeshed),
    }
}

fn endpoints(count: u16) -> Vec<Endpoint> {
    (1..=count).map(|number| endpoint(number, "")).collect()
}

fn anyone(_: &Endpoint) -> bool {
    true
}

type Any = fn(&Endpoint) -> bool;

fn among<'a>(endpoints: &'a [Endpoint], tried: &'a [Endpoint]) -> Choice<'a, Any> {
    Choice { endpoints, usable: anyone, tried, affinity: None }
}

#[test]
fn the_endpoint_with_fewer_connections_of_two_is_chosen() {
    let (mut balancer, now, two) = (Balancer::seeded(7), Instant::now(), endpoints(2));
    balancer.opened(two[1].address);
    for _ in 0..50 {
        assert_eq!(balancer.choose(&among(&two, &[]), now), Some(0));
    }
    balancer.closed(two[1].address);
    balancer.opened(two[0].address);
    for _ in 0..50 {
        assert_eq!(balancer.choose(&among(&two, &[]), now), Some(1));
    }
    assert_eq!(balancer.choose(&among(&[], &[]), now), None);
}

#[test]
fn connections_spread_evenly_over_few_and_many() {
    for count in [3_u16, 16, 17, 200] {
        let (mut balancer, now, all) = (Balancer::seeded(1), Instant::now(), endpoints(count));
        for _ in 0..u32::from(count) * 50 {
            let index = balancer.choose(&among(&all, &[]), now).unwrap();
            balancer.opened(all[index].address);
        }
        let open: Vec<u32> = all.iter().map(|own| balancer.endpoints[&own.address].open).collect();
        assert!(open.iter().all(|open| (40..=60).contains(open)), "{count}: {open:?}");
    }
}

#[test]
fn idle_endpoints_are_chosen_alike() {
    for count in [2_u16, 5, 30] {
        let (mut balancer, now, all) = (Balancer::seeded(1), Instant::now(), endpoints(count));
        let mut chosen = BTreeMap::<usize, u32>::new();
        for _ in 0..u32::from(count) * 1000 {
            *chosen.entry(balancer.choose(&among(&all, &[]), now).unwrap()).or_default() += 1;
        }
        assert_eq!(chosen.len(), usize::from(count));
        assert!(chosen.values().all(|times| (800..1200).contains(times)), "{chosen:?}");
    }
}

#[test]
fn affinity_keeps_an_endpoint_for_its_time_since_the_last_connection() {
    let (mut balancer, start, all) = (Balancer::seeded(3), Instant::now(), endpoints(50));
    let hour = Duration::from_secs(3600);
    let choice = |tried| Choice { affinity: Some(hour), ..among(&all, tried) };
    let kept = balancer.choose(&choice(&[]), start).unwrap();
    balancer.opened(all[kept].address);
    for round in 1..20 {
        let now = start + Duration::from_secs(3599) * round;
        assert_eq!(balancer.choose(&choice(&[]), now), Some(kept));
    }
    let tried = [all[kept].clone()];
    let now = start + Duration::from_secs(3599) * 19;
    let other = balancer.choose(&choice(&tried), now).unwrap();
    assert_ne!(other, kept, "it was tried");
    assert_eq!(balancer.choose(&choice(&[]), now), Some(other), "which is kept from now on");
    balancer.failed(all[other].address, now);
    let third = balancer.choose(&choice(&[]), now).unwrap();
    assert_ne!(third, other, "it failed");
    // An endpoint that is gone is not kept.
    let rest: Vec<_> = all.iter().filter(|own| **own != all[third]).cloned().collect();
    let choice = Choice { affinity: Some(hour), ..among(&rest, &[]) };
    assert!(balancer.choose(&choice, now).is_some());
    // Without affinity nothing is kept.
    let mut chosen: Vec<_> =
        (0..100).map(|_| balancer.choose(&among(&all, &[]), now).unwrap()).collect();
    chosen.dedup();
    assert!(chosen.len() > 20);
}

#[test]
fn a_failure_avoids_an_endpoint_longer_each_time_until_it_serves() {
    let (mut balancer, mut now, two) = (Balancer::seeded(9), Instant::now(), endpoints(2));
    let bad = two[0].address;
    for longest in [2_u64, 4, 8, 16, 32, 60, 60] {
        balancer.failed(bad, now);
        let until = balancer.endpoints[&bad].avoided_until.unwrap();
        let time = until - now;
        let longest = Duration::from_secs(longest);
        assert!(time >= longest / 2 && time <= longest, "{time:?} of {longest:?}");
        // Another attempt that was under way is the same failure.
        balancer.failed(bad, now);
        assert_eq!(balancer.endpoints[&bad].avoided_until, Some(until));
        assert_eq!(balancer.choose(&among(&two, &[]), until - Duration::from_nanos(1)), Some(1));
        now = until;
    }
    let chosen = (0..50).filter_map(|_| balancer.choose(&among(&two, &[]), now));
    assert!(chosen.into_iter().any(|index| index == 0), "it is tried again");
    balancer.succeeded(bad);
    balancer.failed(bad, now);
    assert!(balancer.endpoints[&bad].avoided_until.unwrap() - now <= Duration::from_secs(2));
}

#[test]
fn all_are_tried_if_all_are_avoided_and_none_twice() {
    let (mut balancer, now, all) = (Balancer::seeded(5), Instant::now(), endpoints(3));
    all.iter().for_each(|own| balancer.failed(own.address, now));
    let mut tried = Vec::new();
    while let Some(index) = balancer.choose(&among(&all, &tried), now) {
        tried.push(all[index].clone());
    }
    tried.sort();
    assert_eq!(tried, all);
    // Another identity at the same address is another endpoint.
    let renewed = [endpoint(1, "deployment/other")];
    assert_eq!(balancer.choose(&among(&renewed, &tried), now), Some(0));
}

#[test]
fn what_is_over_leaves_nothing() {
    let (mut balancer, start) = (Balancer::seeded(5), Instant::now());
    for round in 0..10_000_u16 {
        let now = start + Duration::from_secs(u64::from(round));
        let address = SocketAddr::from(([10, 0, 0, 1], round + 1));
        balancer.opened(address);
        balancer.failed(address, now);
        balancer.closed(address);
        let good = SocketAddr::from(([10, 0, 0, 2], round + 1));
        balancer.opened(good);
        balancer.succeeded(good);
        balancer.closed(good);
    }
    assert!(balancer.endpoints.len() < 70, "{}", balancer.endpoints.len());
}

#[test]
fn an_address_is_unknown_since_it_was_first_said() {
    let (mut balancer, start) = (Balancer::seeded(5), Instant::now());
    let later = start + Duration::from_secs(1);
    assert_eq!(balancer.unknown_since(start), start);
    assert_eq!(balancer.unknown_since(later), start);
    balancer.is_known();
    assert_eq!(balancer.unknown_since(later), later);
}

proptest! {
    /// An endpoint that may not be used, or was tried, is never chosen; an avoided one only if there
    /// is no other; and one is chosen whenever there is one.
    #[test]
    fn a_choice_is_always_allowed(
        seed in any::<u64>(),
        count in 0_u16..40,
        usable in prop::collection::vec(any::<bool>(), 40),
        tried in prop::collection::btree_set(1_u16..41, 0..4),
        failed in prop::collection::btree_set(1_u16..41, 0..40),
        open in prop::collection::vec(0_u32..4, 40),
        affinity in any::<bool>(),
        rounds in 1_usize..5,
    ) {
        let (mut balancer, now) = (Balancer::seeded(seed), Instant::now());
        let all = endpoints(count);
        for number in &failed {
            balancer.failed(endpoint(*number, "").address, now);
        }
        for (own, open) in all.iter().zip(open) {
            (0..open).for_each(|_| balancer.opened(own.address));
        }
        let tried: Vec<_> = tried.iter().map(|number| endpoint(*number, "")).collect();
        let may = |own: &Endpoint| usable[usize::from(own.address.port() - 1)];
        let free: Vec<_> = all.iter().filter(|own| may(own) && !tried.contains(own)).collect();
        let good = |own: &&&Endpoint| !failed.contains(&own.address.port());
        for _ in 0..rounds {
            let affinity = affinity.then_some(Duration::from_secs(1));
            let choice = Choice { endpoints: &all, usable: may, tried: &tried, affinity };
            match balancer.choose(&choice, now) {
                None => prop_assert!(free.is_empty()),
                Some(index) => {
                    prop_assert!(free.contains(&&all[index]));
                    let avoids = free.iter().any(|own| good(&own));
                    prop_assert!(!avoids || good(&&&all[index]));
                }
            }
        }
    }
}
