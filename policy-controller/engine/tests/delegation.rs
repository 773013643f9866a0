//! Random worlds of InboundRoutes: what is permitted was handed down, less permits no more, and the
//! order of events means nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

use policy_core::{HostPattern, WorkloadKey};
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::testing::trees::{
    HOSTS, NAMESPACES, World, check, claims_are_those_of_the_objects, contained, permitted,
};
use policy_engine::trees::NodeEffect;
use policy_engine::{Compiled, ControllerConfig, History, compile_objects};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

fn compiled(objects: Vec<Object>) -> Compiled {
    compile_objects(objects, &ControllerConfig::default())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 260)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    /// Every request that a Server permits on the host of a tree has a chain of objects that handed
    /// its path down, from an active claim to a rule that names the Server.
    #[test]
    fn what_a_server_answers_on_the_host_of_a_tree_was_handed_down_to_it(data in bytes()) {
        let world = World::read(&data);
        let compiled = compiled(world.objects());
        prop_assert_eq!(contained(&world, &compiled), Ok(()), "{:?}", world);
    }

    /// At most one namespace has active claims on a host and all that overlap with it if ownership
    /// is strict, and at most one root on a path of a host in any case. The order in which the objects
    /// come means nothing.
    #[test]
    fn claims_are_decided_one_after_another_by_earlier_ones(
        data in bytes(),
        order in any::<prop::sample::Index>(),
    ) {
        let world = World::read(&data);
        let mut objects = world.objects();
        let one = compiled(objects.clone());
        prop_assert_eq!(claims_are_those_of_the_objects(&world, &one), Ok(()), "{:?}", world);
        let middle = order.index(objects.len());
        objects.rotate_left(middle);
        objects.reverse();
        let other = compiled(objects);
        for host in HOSTS.map(HostPattern::parse) {
            prop_assert_eq!(one.claims_on(&host), other.claims_on(&host));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    /// Removing a policy or an authentication permits no further request.
    #[test]
    fn a_policy_less_permits_no_request_more(data in bytes()) {
        let world = World::read(&data);
        let before = permitted(&world, &compiled(world.objects()));
        for less in world.with_less_permission() {
            let after = permitted(&less, &compiled(less.objects()));
            prop_assert_eq!(after.difference(&before).next(), None, "{:?}\n{:?}", world, less);
        }
    }

    /// Removing a ReferenceGrant or an entry of `delegatedFrom` permits no further request on a host
    /// that is still one of the Server's trees.
    ///
    /// It may if several objects are there for one path, because the path then falls to the next:
    /// another root, or another object with the same labels. It may give a path back if a whole rule
    /// or object of an ancestor goes. Neither is part of the property.
    #[test]
    fn a_grant_or_a_consent_less_permits_no_request_more(data in bytes()) {
        let world = World::read(&data).alone();
        let before = permitted(&world, &compiled(world.objects()));
        for less in world.with_less_delegation() {
            let after = permitted(&less, &compiled(less.objects()));
            prop_assert_eq!(after.difference(&before).next(), None, "{:?}\n{:?}", world, less);
        }
    }

    /// Objects that come, change and go in any order leave the policies, claims, trees and conditions
    /// of those that are left.
    #[test]
    fn trees_depend_on_the_objects_and_not_on_their_history(
        worlds in prop::collection::vec(bytes(), 1..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 64),
        size in 1_usize..12,
    ) {
        let mut kept = History::new(&ControllerConfig::default());
        let mut present: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for data in &worlds {
            let wanted = World::read(data).objects().into_iter();
            let wanted: BTreeMap<ObjectKey, Object> =
                wanted.map(|object| (object.meta.key.clone(), object)).collect();
            let gone = present.keys().filter(|key| !wanted.contains_key(key)).cloned().map(Err);
            let mut changes: Vec<Result<Object, ObjectKey>> =
                gone.chain(wanted.values().cloned().map(Ok)).collect();
            for (i, index) in order.iter().enumerate().take(changes.len()) {
                let other = index.index(changes.len());
                changes.swap(i, other);
            }
            for changes in changes.chunks(size) {
                kept.apply(changes.to_vec());
                for namespace in NAMESPACES {
                    drop(kept.followed_port(&WorkloadKey::pod(namespace, "web"), port(8080)));
                }
                for host in HOSTS.map(HostPattern::parse) {
                    drop(kept.claims_on(&host));
                }
            }
            present = wanted;
            let fresh = compiled(present.values().cloned().collect());
            prop_assert_eq!(kept.conditions(), &fresh.conditions);
            for host in HOSTS.map(HostPattern::parse) {
                prop_assert_eq!(kept.claims_on(&host), fresh.claims_on(&host));
            }
            for key in present.keys().filter(|key| key.kind == Kind::InboundRoute) {
                prop_assert_eq!(kept.tree_of(key), fresh.tree_of(key), "{}", key);
                prop_assert_eq!(kept.delegation_state(key), fresh.delegation_state(key));
            }
            for namespace in NAMESPACES {
                let pod = WorkloadKey::pod(namespace, "web");
                for port in [8080, 8081].map(port) {
                    prop_assert_eq!(kept.followed_port(&pod, port), fresh.port(&pod, port));
                }
            }
        }
    }
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// The worlds are worth something: many of them hand paths down over several objects.
#[test]
fn random_worlds_hand_paths_down() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut lengths = [0; 8];
    let mut faults = BTreeMap::<&str, usize>::new();
    for _ in 0..400 {
        let data = bytes().new_tree(&mut runner).unwrap().current();
        assert_eq!(check(&data), Ok(()));
        let world = World::read(&data);
        let compiled = compiled(world.objects());
        let mut longest = 0;
        for object in world.objects().iter().filter(|o| o.meta.key.kind == Kind::InboundRoute) {
            for node in &compiled.tree_of(&object.meta.key).nodes {
                if !node.servers().is_empty() {
                    longest = longest.max(node.chain.len());
                }
                if let NodeEffect::Denied(denied) = &node.effect {
                    for fault in denied {
                        *faults.entry(fault.reason.as_str()).or_default() += 1;
                    }
                }
            }
        }
        lengths[longest] += 1;
    }
    eprintln!("{lengths:?} {faults:?}");
}
