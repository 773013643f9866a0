//! Tests of the bounds on groups, by a fake clock.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use super::*;
use crate::record::client_key::ClientKey;
use http::Method;
use policy_core::{Denial, Denied, Identity};
use policy_tls::peer::{Peer, PeerTls};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use table::{CAPACITY, PER_SUBJECT};

fn record(mode: DecisionMode) -> Decisions {
    Decisions::new(mode, "9f3c4b1e-0000-4000-8000-000000000000", UNIX_EPOCH)
}

fn identity(number: u16) -> Peer {
    let name = format!("client-{number}.ns").into();
    let tls = PeerTls::Terminated(Some(Identity::Dns(name)));
    Peer::new("10.9.9.9:40000".parse().unwrap(), tls)
}

/// A client of as many networks as there are numbers.
fn stranger(number: u32) -> Peer {
    let [a, b, c, d] = number.to_be_bytes();
    Peer::new((Ipv4Addr::new(a.wrapping_add(11), b, c, d), 40_000).into(), PeerTls::Absent)
}

/// The network with this number, of 2^24.
fn network(number: u32) -> Peer {
    stranger(number << 8)
}

fn refuse(
    decisions: &Decisions,
    peer: &Peer,
    (port, path): (u16, &str),
    now: Instant,
) -> Option<DecisionId> {
    let decided = DecisionInfo {
        at: UNIX_EPOCH,
        port: NonZeroU16::new(port).unwrap(),
        peer,
        policy: None,
        decision: Err(Denial { reason: Denied::Unauthorized, route: None }),
        id: None,
    };
    let (method, host) = (&Method::GET, Some("web"));
    let request = RequestLine { method, host, path, canonical: true };
    decisions.inbound(&ClientKey::of(peer), &decided, Some(&request), now)
}

fn count(decisions: &Decisions, id: Option<DecisionId>) -> Option<u64> {
    decisions.group(id?).map(|group| group.count)
}

#[test]
fn decisions_with_one_cause_are_one_group_with_its_first_and_last_samples() {
    let (decisions, start) = (record(DecisionMode::Full), Instant::now());
    let second = Duration::from_secs(1);
    let first = refuse(&decisions, &identity(1), (80, "/%61?token=secret"), start);
    for n in 1..=4 {
        let path = format!("/{n}");
        let own = refuse(&decisions, &identity(1), (80, &path), start + second * n);
        assert_eq!(own, first);
        // Within the second of another sample.
        assert_eq!(refuse(&decisions, &identity(1), (80, "/more"), start + second * n), first);
    }
    assert_ne!(refuse(&decisions, &identity(1), (81, "/"), start), first, "another port");
    assert_ne!(refuse(&decisions, &identity(2), (80, "/"), start), first, "another client");
    let group = decisions.group(first.unwrap()).unwrap();
    assert_eq!(group.count, 9);
    let paths: Vec<_> = group.samples.iter().map(|sample| sample.path.as_deref()).collect();
    assert_eq!(paths, [Some("/a"), Some("/3"), Some("/4")]);
    assert_eq!(group.samples[0].host.as_deref(), Some("web"));
    assert!(first.unwrap().to_string().starts_with("kwy4"));
}

#[test]
fn counts_have_no_samples_and_nothing_has_no_groups() {
    let now = Instant::now();
    let decisions = record(DecisionMode::Counts);
    let id = refuse(&decisions, &identity(1), (80, "/"), now).unwrap();
    assert!(decisions.group(id).unwrap().samples.is_empty());
    let decisions = record(DecisionMode::Off);
    assert_eq!(refuse(&decisions, &identity(1), (80, "/"), now), None);
    assert!(decisions.groups().is_empty());
}

#[test]
fn a_client_erases_its_own_oldest_group_alone() {
    let (decisions, start) = (record(DecisionMode::Full), Instant::now());
    let other = refuse(&decisions, &identity(2), (80, "/"), start);
    let own: Vec<_> = (1..=100)
        .map(|port| {
            refuse(
                &decisions,
                &identity(1),
                (port, "/"),
                start + Duration::from_millis(port.into()),
            )
        })
        .collect();
    let kept = own.iter().filter(|id| count(&decisions, **id).is_some());
    assert_eq!(kept.collect::<Vec<_>>(), own[100 - PER_SUBJECT..].iter().collect::<Vec<_>>());
    assert_eq!(count(&decisions, other), Some(1));
    assert_eq!(decisions.state().replaced, 0);
}

#[test]
fn a_flood_from_many_clients_takes_no_more_room_and_erases_nobodys_evidence() {
    let (decisions, start) = (record(DecisionMode::Full), Instant::now());
    let known: Vec<_> =
        (0..8).map(|n| refuse(&decisions, &identity(n), (80, "/"), start)).collect();
    let early: Vec<_> = (0..8).map(|n| refuse(&decisions, &network(n), (80, "/"), start)).collect();
    let mut ids = std::collections::HashSet::new();
    for n in 0..100_000 {
        // Every other one comes again from where it came.
        let peer = network(1000 + n / 2);
        ids.extend(refuse(&decisions, &peer, (80, "/x"), start + Duration::from_micros(10) * n));
    }
    let late = start + Duration::from_secs(1);
    let new = refuse(&decisions, &identity(100), (80, "/"), late);
    for id in known.iter().chain(&early).chain([&new]) {
        assert_eq!(count(&decisions, *id), Some(1));
    }
    let (groups, state) = (decisions.groups(), decisions.state());
    assert!(groups.len() <= CAPACITY, "{}", groups.len());
    assert!(state.left_out > 90_000, "{state:?}");
    assert!(ids.len() < 1200, "{}", ids.len());
}

#[test]
fn a_flood_of_identities_leaves_those_that_were_there() {
    let (decisions, start) = (record(DecisionMode::Full), Instant::now());
    let strangers = (0..1000).map(|n| refuse(&decisions, &network(n), (80, "/"), start));
    assert!(strangers.flatten().count() > 300);
    let ids: Vec<_> =
        (0..2000).map(|n| refuse(&decisions, &identity(n), (80, "/"), start)).collect();
    let kept = ids.iter().filter(|id| count(&decisions, **id).is_some()).count();
    assert!((400..=CAPACITY).contains(&kept), "{kept} identities");
    assert_eq!(count(&decisions, ids[0]), Some(1));
    let state = decisions.state();
    assert!(state.left_out >= 1488, "{state:?}");
}

#[test]
fn a_group_that_was_quiet_for_long_gives_its_place() {
    let (decisions, start) = (record(DecisionMode::Full), Instant::now());
    let old: Vec<_> = (0..400).map(|n| refuse(&decisions, &network(n), (80, "/"), start)).collect();
    let later = start + Duration::from_secs(700);
    let again = refuse(&decisions, &network(0), (80, "/"), later);
    assert_eq!(again, old[0]);
    let new = refuse(&decisions, &network(5000), (80, "/"), later);
    for n in 6000..6100 {
        let now = later + Duration::from_secs(2) + Duration::from_millis(20) * (n - 6000);
        refuse(&decisions, &network(n), (80, "/"), now);
    }
    assert_eq!((count(&decisions, again), count(&decisions, new)), (Some(2), Some(1)));
}

#[test]
fn refusals_of_the_workloads_own_connections_take_no_clients_place() {
    let (decisions, start) = (record(DecisionMode::Full), Instant::now());
    let client = refuse(&decisions, &network(1), (80, "/"), start);
    let (namespace, name) = ("shop".into(), "cart".into());
    for n in 0..10_000_u32 {
        let [_, b, c, d] = n.to_be_bytes();
        let address = Some((Ipv4Addr::new(10 + b, c, d, 1), 80).into());
        let refused = OutboundRefusal { service: None, address, reason: "connect" };
        decisions.outbound(&refused, start);
    }
    let service = Some((&namespace, &name));
    let refused = OutboundRefusal { service, address: None, reason: "no_endpoint" };
    let own = decisions.outbound(&refused, start + Duration::from_secs(2)).unwrap();
    let group = decisions.group(own).unwrap();
    assert_eq!(group.subject, GroupSubject::Service { namespace, name });
    assert_eq!(group.key.reason.as_str(), "no_endpoint");
    assert_eq!(count(&decisions, client), Some(1));
    assert!(decisions.groups().len() < 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The bounds hold for any clients at any times, and ids are those of groups.
    #[test]
    fn bounds_hold_whoever_comes(clients in proptest::collection::vec((0_u16..700, any::<bool>(), 1_u16..20, 0_u64..3000), 1..1200)) {
        let decisions = record(DecisionMode::Full);
        let mut now = Instant::now();
        for (number, is_known, port, step) in clients {
            now += Duration::from_millis(step);
            let peer = if is_known { identity(number) } else { network(number.into()) };
            let before = decisions.state().left_out;
            let id = refuse(&decisions, &peer, (port, "/"), now);
            prop_assert_eq!(id.is_none(), decisions.state().left_out == before + 1);
            prop_assert_eq!(id.is_none(), count(&decisions, id).is_none());
        }
        let groups = decisions.groups();
        prop_assert!(groups.len() <= CAPACITY);
        let mut subjects = std::collections::HashMap::new();
        for group in &groups {
            *subjects.entry(group.subject.clone()).or_insert(0) += 1;
        }
        prop_assert!(subjects.values().all(|own| *own <= PER_SUBJECT));
    }
}
