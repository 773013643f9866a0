//! Random groups of routes, bound, classified and given to clients: what is decided is what the text of
//! the paths says, whatever the order of anything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

#[path = "route_groups/delegated.rs"]
mod delegated;

use policy_core::WorkloadKey;
use policy_crds::{Object, ObjectKey};
use policy_engine::testing::groups::{
    Answer, Request, World, agrees, answer, found, narrower, slower,
};
use policy_engine::{Compiled, ControllerConfig, History, compile_objects};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

fn compiled(objects: Vec<Object>) -> Compiled {
    compile_objects(objects, &ControllerConfig::default())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Each request has the route that a naive reader of paths finds, is permitted to whom its policies
    /// grant it, and has the smallest of the bounds, and rules about headers apply to it in their order.
    #[test]
    fn groups_decide_as_their_paths_read(data in bytes(), asked in bytes()) {
        let world = World::read(&data);
        let requests = Request::read(&world, &asked, 24);
        let outcome = agrees(&world, &compiled(world.objects()), &requests);
        prop_assert_eq!(outcome, Ok(()), "{:?}", world);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// The order of routes, includes, groups, methods and conditions means nothing, nor does that of the
    /// objects, nor the age of policies about timeouts.
    #[test]
    fn no_order_changes_a_decision(data in bytes(), asked in bytes(), order in bytes()) {
        let world = World::read(&data);
        let requests = Request::read(&world, &asked, 24);
        let mut objects = world.reordered(&order).objects();
        let middle = usize::from(order[0]) % objects.len();
        objects.rotate_left(middle);
        let one = found(&compiled(world.objects()), &requests);
        let other = found(&compiled(objects), &requests);
        prop_assert_eq!(one, other, "{:?}", world);
    }

    /// Without a policy, or the policies of a class, nothing more is permitted. Without a group or the
    /// ReferenceGrant for it more may be, because a wider route has what was its own.
    #[test]
    fn less_permits_no_request_more(data in bytes(), asked in bytes()) {
        let world = World::read(&data);
        let requests = Request::read(&world, &asked, 24);
        let before = found(&compiled(world.objects()), &requests).unwrap();
        for less in world.with_less_permission() {
            let after = found(&compiled(less.objects()), &requests).unwrap();
            prop_assert_eq!(narrower(&before, &after), Ok(()), "{:?}\n{:?}", world, less);
        }
    }

    /// Without a TimeoutPolicy no exchange has less time, and nothing is decided in another way.
    #[test]
    fn a_timeout_less_shortens_nothing(data in bytes(), asked in bytes()) {
        let world = World::read(&data);
        let requests = Request::read(&world, &asked, 24);
        let before = found(&compiled(world.objects()), &requests).unwrap();
        for less in world.with_fewer_timeouts() {
            let after = found(&compiled(less.objects()), &requests).unwrap();
            prop_assert_eq!(slower(&before, &after), Ok(()), "{:?}\n{:?}", world, less);
        }
    }

    /// Objects that come, change and go in any order leave the policy and the conditions of those that are
    /// left.
    #[test]
    fn groups_depend_on_the_objects_and_not_on_their_history(
        worlds in prop::collection::vec(bytes(), 1..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 64),
        size in 1_usize..12,
    ) {
        let pod = WorkloadKey::pod("shop", "web");
        let port = NonZeroU16::new(8080).unwrap();
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
                drop(kept.followed_port(&pod, port));
            }
            present = wanted;
            let fresh = compiled(present.values().cloned().collect());
            prop_assert_eq!(kept.conditions(), &fresh.conditions);
            prop_assert_eq!(kept.followed_port(&pod, port), fresh.port(&pod, port));
        }
    }
}

/// The worlds are worth something: requests of each kind are there in numbers.
#[test]
fn random_worlds_answer_in_every_way() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut ambiguous, mut unrouted, mut denied, mut unreadable) = (0, 0, 0, 0);
    let (mut permitted, mut bounded, mut rewritten) = (0, 0, 0);
    for _ in 0..300 {
        let world = World::read(&bytes().new_tree(&mut runner).unwrap().current());
        let requests = Request::read(&world, &bytes().new_tree(&mut runner).unwrap().current(), 24);
        for request in requests {
            match answer(&world, &request, "ada") {
                Answer::Ambiguous => ambiguous += 1,
                Answer::NoRoute => unrouted += 1,
                Answer::Denied => denied += 1,
                Answer::Unreadable => unreadable += 1,
                Answer::Permitted(bounds, _) if bounds == Default::default() => permitted += 1,
                Answer::Permitted(_, rules) if rules.len() < 2 => bounded += 1,
                Answer::Permitted(..) => rewritten += 1,
            }
        }
    }
    let all = [ambiguous, unrouted, denied, unreadable, permitted, bounded, rewritten];
    assert!(all.iter().all(|count| *count > 60), "{all:?}");
}
