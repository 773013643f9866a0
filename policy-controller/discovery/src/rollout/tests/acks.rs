//! Counts are those of the definition, after any history.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Two pods of a shape with a Server, a grant of it and an authentication on 80, and another Server
/// on 81; one pod of a shape that shares the grant.
fn three_pods() -> AckTable {
    let mut acks = AckTable::new(KEEP);
    let first = ports(&[(80, wanted(7, &["a", "grant", "who"])), (81, wanted(8, &["b"]))]);
    let second = ports(&[(80, wanted(9, &["c", "grant"])), (82, wanted(1, &[]))]);
    acks.set_desired(&news(
        &[(1, first), (2, second)],
        &[("web-0", Some(1)), ("web-1", Some(1)), ("api", Some(2))],
    ));
    acks
}

#[track_caller]
fn check(acks: &mut AckTable, expected: &[(&str, Count)]) {
    let expected: Vec<_> = expected.iter().map(|(name, c)| ((*name).to_owned(), *c)).collect();
    assert_eq!(counts(acks), expected);
}

#[test]
fn a_pod_that_never_connected_is_concerned_and_has_nothing_in_force() {
    check(
        &mut three_pods(),
        &[
            ("a", count(0, 2, 0)),
            ("b", count(0, 2, 0)),
            ("c", count(0, 1, 0)),
            ("grant", count(0, 3, 0)),
            ("who", count(0, 2, 0)),
        ],
    );
}

#[test]
fn an_object_is_in_force_where_every_port_that_it_contributes_to_has_its_content() {
    let mut acks = three_pods();
    for (name, number, content) in
        [("web-0", 80, 7), ("web-0", 81, 8), ("web-1", 80, 7), ("web-1", 81, 7), ("api", 80, 9)]
    {
        acks.record(0, &at(name, number), has(content));
    }
    check(
        &mut acks,
        &[
            ("a", count(2, 2, 0)),
            ("b", count(1, 2, 0)),
            ("c", count(1, 1, 0)),
            ("grant", count(3, 3, 0)),
            ("who", count(2, 2, 0)),
        ],
    );
    // The grant moves to the other port as well, which only one pod has.
    let both = ports(&[(80, wanted(7, &["a", "grant", "who"])), (81, wanted(8, &["b", "grant"]))]);
    acks.set_desired(&news(&[(1, both)], &[]));
    assert_eq!(counts(&mut acks)[3], ("grant".to_owned(), count(2, 3, 0)));
}

#[test]
fn a_refusal_is_counted_apart_and_is_not_in_force() {
    let mut acks = three_pods();
    acks.record(0, &at("web-0", 80), refuses(7));
    acks.record(0, &at("web-1", 80), has(7));
    let reported = counts(&mut acks);
    assert_eq!(reported[0], ("a".to_owned(), count(1, 2, 1)));
    assert_eq!(reported[1], ("b".to_owned(), count(0, 2, 0)), "another port is not refused");
}

#[test]
fn content_zero_is_never_in_force() {
    let mut acks = AckTable::new(KEEP);
    acks.set_desired(&news(&[(1, ports(&[(80, wanted(0, &["a"]))]))], &[("web", Some(1))]));
    acks.record(0, &at("web", 80), has(0));
    check(&mut acks, &[("a", count(0, 1, 0))]);
}

/// A port with a contribution that is too large was in force nowhere, the owner's objects among it.
#[test]
fn of_a_port_that_is_cut_everything_is_in_force_but_what_is_left_out() {
    let mut acks = three_pods();
    for (name, number, content) in
        [("web-0", 80, cut(7)), ("web-0", 81, 8), ("web-1", 80, 7), ("api", 80, cut(9))]
    {
        acks.record(0, &at(name, number), has(content));
    }
    acks.set_lacking([object("grant")].into());
    let expected = |grant| {
        [
            ("a", count(2, 2, 0)),
            ("b", count(1, 2, 0)),
            ("c", count(1, 1, 0)),
            ("grant", count(grant, 3, 0)),
            ("who", count(2, 2, 0)),
        ]
    };
    check(&mut acks, &expected(1));
    // What is left out is told apart from what a stale replica sent.
    acks.record(0, &at("web-0", 80), has(cut(6)));
    assert_eq!(counts(&mut acks)[0], ("a".to_owned(), count(1, 2, 0)));
    acks.record(0, &at("web-0", 80), has(cut(7)));
    acks.set_lacking(BTreeSet::new());
    check(&mut acks, &expected(3));
}

#[test]
fn a_pod_connected_to_two_replicas_counts_once_and_only_if_both_agree() {
    let mut acks = three_pods();
    acks.record(1, &at("api", 80), has(9));
    acks.record(2, &at("api", 80), has(9));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)));
    acks.record(2, &at("api", 80), has(5));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(0, 1, 0)));
    acks.record(2, &at("api", 80), None);
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)), "the other still says so");
}

#[test]
fn what_a_stale_replica_told_its_clients_counts_nowhere() {
    let mut acks = three_pods();
    acks.record(1, &at("api", 80), has(9));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)));
    // A revocation: the replica of this client has not seen it, so that its client goes on with 9.
    acks.set_desired(&news(&[(2, ports(&[(80, wanted(10, &["c"]))]))], &[]));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(0, 1, 0)));
    acks.record(1, &at("api", 80), has(9));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(0, 1, 0)));
    acks.record(1, &at("api", 80), has(10));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)));
}

#[test]
fn a_proxy_that_changes_its_replica_has_not_lost_what_it_has() {
    let mut acks = three_pods();
    acks.record(1, &at("api", 80), has(9));
    acks.record(1, &at("api", 80), None);
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)));
    // What it says elsewhere decides at once.
    acks.record(2, &at("api", 80), has(3));
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(0, 1, 0)));
    acks.record(2, &at("api", 80), has(9));
    acks.record(2, &at("api", 80), None);
    acks.expire(Instant::now());
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)));
    acks.expire(Instant::now() + KEEP);
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(0, 1, 0)));
}

#[test]
fn what_is_said_again_does_not_expire() {
    let mut acks = three_pods();
    acks.record(1, &at("api", 80), has(9));
    acks.record(1, &at("api", 80), None);
    acks.record(1, &at("api", 80), has(9));
    acks.expire(Instant::now() + KEEP);
    assert_eq!(counts(&mut acks)[2], ("c".to_owned(), count(1, 1, 0)));
}

#[test]
fn a_replica_that_says_everything_anew_takes_back_the_rest() {
    let mut acks = three_pods();
    for (name, number, content) in [("web-0", 80, 7), ("web-1", 80, 7), ("api", 80, 9)] {
        acks.record(1, &at(name, number), has(content));
    }
    acks.record(2, &at("web-1", 80), has(7));
    acks.retract(1, &BTreeSet::from([at("web-0", 80)]));
    acks.expire(Instant::now() + KEEP);
    let reported = counts(&mut acks);
    assert_eq!(reported[0], ("a".to_owned(), count(2, 2, 0)), "another replica says it of web-1");
    assert_eq!(reported[2], ("c".to_owned(), count(0, 1, 0)));
}

#[test]
fn pods_and_objects_that_go_are_not_counted_any_more() {
    let mut acks = three_pods();
    acks.set_desired(&news(&[], &[("api", None), ("web-1", None)]));
    check(
        &mut acks,
        &[
            ("a", count(0, 1, 0)),
            ("b", count(0, 1, 0)),
            ("grant", count(0, 1, 0)),
            ("who", count(0, 1, 0)),
        ],
    );
    acks.set_desired(&news(&[(1, ports(&[(80, wanted(3, &["a"]))]))], &[]));
    check(&mut acks, &[("a", count(0, 1, 0))]);
    acks.set_desired(&news(&[], &[("web-0", None)]));
    check(&mut acks, &[]);
}

const PODS: [&str; 5] = ["p0", "p1", "p2", "p3", "p4"];
const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Shape(ShapeId, Vec<(u16, u64, Vec<usize>)>),
    Pod(usize, Option<ShapeId>),
    Report(u64, usize, u16, Option<(u64, bool)>),
    Retract(u64),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let objects = proptest::sample::subsequence((0..OBJECTS.len()).collect::<Vec<_>>(), 0..=3);
    let ports = proptest::collection::vec((80..83_u16, 0..4_u64, objects), 0..3);
    let reported = proptest::option::weighted(0.8, (0..4_u64, proptest::bool::weighted(0.1)));
    prop_oneof![
        (1..4_u64, ports).prop_map(|(number, ports)| Step::Shape(number, ports)),
        (0..PODS.len(), proptest::option::weighted(0.8, 1..4_u64))
            .prop_map(|(pod, shape)| Step::Pod(pod, shape)),
        (0..3_u64, 0..PODS.len(), 80..83_u16, reported).prop_map(
            |(reporter, pod, port, reported)| Step::Report(reporter, pod, port, reported)
        ),
        (0..3_u64).prop_map(Step::Retract),
        Just(Step::Expire),
    ]
}

/// The definition, read aloud.
#[derive(Default)]
struct Naive {
    shapes: BTreeMap<ShapeId, DesiredPorts>,
    pods: BTreeMap<WorkloadKey, ShapeId>,
    reported: BTreeMap<(WorkloadPort, u64), (u64, bool)>,
}

impl Naive {
    fn counts(&self) -> Vec<(String, Count)> {
        let mut all = Vec::new();
        for name in OBJECTS {
            let mut sum = Count::default();
            for (pod, shape) in &self.pods {
                let on: Vec<_> = self.shapes[shape]
                    .iter()
                    .filter(|(_, wanted)| wanted.objects.contains(&object(name)))
                    .collect();
                if on.is_empty() {
                    continue;
                }
                let said = |port: NonZeroU16| {
                    let of =
                        self.reported.iter().filter(move |((at, _), _)| *at == (pod.clone(), port));
                    of.map(|(_, reported)| *reported).collect::<Vec<_>>()
                };
                let refused =
                    on.iter().any(|(port, _)| said(**port).iter().any(|reported| reported.1));
                let in_force = on.iter().all(|(port, wanted)| {
                    let said = said(**port);
                    wanted.content != 0
                        && !said.is_empty()
                        && said.iter().all(|reported| *reported == (wanted.content, false))
                });
                sum.concerned += 1;
                sum.in_force += u64::from(in_force);
                sum.refused += u64::from(refused);
            }
            if sum.concerned > 0 {
                all.push((name.to_owned(), sum));
            }
        }
        all
    }
}

fn play(step: &Step, acks: &mut AckTable, naive: &mut Naive) {
    match step {
        Step::Shape(number, list) => {
            let names = |of: &[usize]| of.iter().map(|i| OBJECTS[*i]).collect::<Vec<_>>();
            let list: Vec<_> = list
                .iter()
                .map(|(port, content, of)| (*port, wanted(*content, &names(of))))
                .collect();
            // As the index does: shapes are reported of with a pod.
            if naive.pods.values().any(|shape| shape == number) {
                acks.set_desired(&news(&[(*number, ports(&list))], &[]));
                naive.shapes.insert(*number, ports(&list));
            }
        }
        Step::Pod(index, shape) => {
            let name = PODS[*index];
            let fresh = ports(&[(80, wanted(1, &["a", "b"])), (81, wanted(2, &["b"]))]);
            let known = shape.filter(|shape| naive.pods.values().any(|of| of == shape));
            let shapes: Vec<_> = shape
                .filter(|_| known.is_none())
                .map(|number| (number, fresh))
                .into_iter()
                .collect();
            acks.set_desired(&news(&shapes, &[(name, *shape)]));
            naive.shapes.extend(shapes);
            match shape {
                Some(shape) => naive.pods.insert(pod(name), *shape),
                None => naive.pods.remove(&pod(name)),
            };
        }
        Step::Report(reporter, index, number, reported) => {
            let at = at(PODS[*index], *number);
            let in_force = reported.map(|(content, refused)| InForce {
                content,
                refused: refused.then(|| "no".into()),
                since: Instant::now(),
            });
            acks.record(*reporter, &at, in_force);
            match reported {
                Some(reported) => naive.reported.insert((at, *reporter), *reported),
                None => naive.reported.remove(&(at, *reporter)),
            };
        }
        Step::Retract(reporter) => {
            acks.retract(*reporter, &BTreeSet::new());
            naive.reported.retain(|(_, by), _| by != reporter);
        }
        Step::Expire => {}
    }
    // What was taken back is not kept here, so that the definition stays one sentence.
    acks.expire(Instant::now() + KEEP);
}

proptest! {
    #[test]
    fn counts_are_those_of_the_definition_after_any_history(steps in proptest::collection::vec(step(), 1..60)) {
        let mut acks = AckTable::new(KEEP);
        let mut naive = Naive::default();
        for step in &steps {
            play(step, &mut acks, &mut naive);
            let reported = counts(&mut acks);
            prop_assert!(reported.iter().all(|(_, count)| count.in_force + count.refused <= count.concerned));
            prop_assert_eq!(reported, naive.counts());
        }
        // Everybody leaves, and nothing is kept of them.
        let leave = (0..PODS.len()).map(|pod| Step::Pod(pod, None));
        for step in leave.chain((0..3).map(Step::Retract)) {
            play(&step, &mut acks, &mut naive);
        }
        acks.recount();
        prop_assert!(acks.is_empty(), "{:?}", acks);
    }
}
