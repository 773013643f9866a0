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

#[path = "delegation/attached.rs"]
mod attached;
#[path = "delegation/children.rs"]
mod children;
mod common;
#[path = "delegation/filters.rs"]
mod filters;
#[path = "delegation/hostile.rs"]
mod hostile;
#[path = "delegation/hosts.rs"]
mod hosts;
#[path = "delegation/status.rs"]
mod status;
#[path = "delegation/times.rs"]
mod times;

use policy_core::{Connection, Decision, HostPattern, RequestView, Tls, WorkloadKey, naive};
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::testing::trees::{
    HOSTS, NAMESPACES, Permitted, World, claims_are_those_of_the_objects, contained,
    less_is_the_rest, permitted, routes_leave_hosts_to_their_owners, without_a_holder,
    without_idle_roots,
};
use policy_engine::trees::{DelegationTree, NodeEffect};
use policy_engine::{Compiled, ControllerConfig, History, compile_objects};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn compiled(objects: Vec<Object>) -> Compiled {
    compile_objects(objects, &ControllerConfig::default())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Every request that a Server permits on the host of a tree has a chain of objects that handed
    /// its path down, from an active claim to a rule that names the Server.
    #[test]
    fn what_a_server_answers_on_the_host_of_a_tree_was_handed_down_to_it(data in bytes()) {
        let world = World::read(&data);
        let compiled = compiled(world.objects());
        prop_assert_eq!(contained(&world, &compiled), Ok(()), "{:?}", world);
    }

    /// A route that is no child answers no host that another namespace holds, whether it has the name or
    /// a wildcard above.
    #[test]
    fn a_route_answers_no_host_of_another_namespace_by_a_wildcard(data in bytes()) {
        let world = World::read(&data);
        let compiled = compiled(world.objects());
        let outcome = routes_leave_hosts_to_their_owners(&world, &compiled);
        prop_assert!(outcome.is_ok(), "{:?} {:?}", outcome, world);
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
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// A port without what other namespaces contribute permits no request that it did not permit before,
    /// and loses none that others' rules permitted.
    #[test]
    fn a_policy_without_contributions_permits_what_the_rest_permitted(data in bytes()) {
        let world = World::read(&data);
        let compiled = compiled(world.objects());
        for namespaces in [vec!["n0"], vec!["n1"], vec!["n2"], vec!["n0", "n2"]] {
            let outcome = less_is_the_rest(&compiled, &namespaces);
            prop_assert!(outcome.is_ok(), "{:?} {:?}", outcome, world);
        }
    }

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

    /// A root without any active claim changes nothing for Servers of other namespaces.
    #[test]
    fn a_root_that_holds_nothing_changes_nothing_elsewhere(data in bytes()) {
        let world = World::read(&data).without_selectors();
        let before = permitted(&world, &compiled(world.objects()));
        for (namespace, less) in without_idle_roots(&world) {
            let after = permitted(&less, &compiled(less.objects()));
            let elsewhere = |set: &BTreeSet<Permitted>| -> BTreeSet<Permitted> {
                set.iter().filter(|request| request.0.0 != namespace).cloned().collect()
            };
            prop_assert_eq!(elsewhere(&before), elsewhere(&after), "{:?}\n{:?}", world, less);
        }
    }

    /// A root takes no path that it does not claim, on a host below another's wildcard, too. Of the
    /// wildcards of its own namespace it takes the host.
    #[test]
    fn a_root_takes_no_path_that_it_does_not_claim(data in bytes()) {
        let world = World::read(&data).without_selectors();
        let before = permitted(&world, &compiled(world.objects()));
        for less in without_a_holder(&world) {
            let after = permitted(&less.world, &compiled(less.world.objects()));
            let rest = |set: &BTreeSet<Permitted>| -> BTreeSet<Permitted> {
                set.iter().filter(|(server, host, path, _)| less.leaves(*server, host, path)).cloned().collect()
            };
            prop_assert_eq!(rest(&before), rest(&after), "{:?}\n{:?}", world, less.root);
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

/// The worlds are worth something: many of them hand paths down over several objects, and edges are
/// refused for every reason that a small world can have.
#[test]
fn random_worlds_hand_paths_down() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut lengths = [0; 8];
    let mut reasons = BTreeSet::new();
    for _ in 0..300 {
        let world = World::read(&bytes().new_tree(&mut runner).unwrap().current());
        let objects = world.objects();
        let compiled = compiled(objects.clone());
        let mut longest = 0;
        for root in objects.iter().filter(|object| object.meta.key.kind == Kind::InboundRoute) {
            for node in &compiled.tree_of(&root.meta.key).nodes {
                if !node.servers().is_empty() {
                    longest = longest.max(node.chain.len());
                }
                if let NodeEffect::Denied(faults) = &node.effect {
                    reasons.extend(faults.iter().map(|fault| fault.reason.as_str()));
                }
            }
        }
        lengths[longest] += 1;
    }
    assert!(lengths[2] > 25 && lengths[3] > 2, "{lengths:?}");
    assert!(reasons.len() > 7, "{reasons:?}");
}

fn root(routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: root, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}}\n\
         spec: {{virtualhost: {{fqdn: a.io}}, routes: [{routes}]}}"
    )
}

fn vertex(name: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: {name}, namespace: shop, labels: {{level: l{}}}}}\n\
         spec: {{delegatedFrom: [{{fqdn: a.io}}], routes: [{routes}]}}",
        name.trim_start_matches('v').split('-').next().unwrap()
    )
}

fn to(path: &str, name: &str) -> String {
    format!("{{match: {path}, delegate: {{name: {name}}}}}")
}

fn tree(documents: &[String]) -> Arc<DelegationTree> {
    let server = common::server("HTTP/1", "deny").replace("name: web", "name: s");
    let texts: Vec<&str> = documents.iter().map(String::as_str).chain([&*server]).collect();
    let compiled = compiled(common::objects(&texts));
    let key = ObjectKey { kind: Kind::InboundRoute, namespace: "shop".into(), name: "root".into() };
    compiled.tree_of(&key)
}

fn faults(tree: &DelegationTree) -> Vec<(usize, &'static str)> {
    let denied = tree.nodes.iter().filter_map(|node| match &node.effect {
        NodeEffect::Denied(faults) | NodeEffect::Delegates { refused: faults, .. } => {
            Some((node.chain.len(), faults.first()?.reason.as_str()))
        }
        NodeEffect::Serves { .. }
        | NodeEffect::Route { .. }
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => None,
    });
    denied.collect()
}

/// Two vertices of each level have the labels that both vertices of the level above ask for, one path
/// inside the other: there are 2^14 ways to the last level. The two are one set of rules, so that each
/// path has one of them.
#[test]
fn a_ladder_of_many_ways_has_one_way_for_each_path() {
    let selects = |path: &str, level: usize| {
        format!(
            "{{match: {path}, delegate: {{selector: {{matchLabels: {{level: l{level}}}}}, \
             namespace: shop}}}}"
        )
    };
    let mut documents = vec![root(&selects("/", 1))];
    for level in 1..15 {
        for (side, depth) in [("a", level), ("b", level + 1)] {
            let path = "/a".repeat(depth);
            let rule = match level {
                14 => format!("{{match: {path}, servers: [{{name: s}}]}}"),
                _ => selects(&path, level + 1),
            };
            documents.push(vertex(&format!("v{level}-{side}"), &rule));
        }
    }
    let begun = Instant::now();
    let tree = tree(&documents);
    assert!(tree.nodes.len() < 100, "{}", tree.nodes.len());
    assert_eq!(faults(&tree), []);
    let longest = tree.nodes.iter().filter(|node| !node.servers().is_empty());
    assert_eq!(longest.map(|node| node.chain.len()).max(), Some(15));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_tree_of_many_objects_ends_at_the_bound_of_visits() {
    let selects = "{match: /, delegate: {selector: {matchLabels: {level: l1}}, namespace: shop}}";
    let visits = |children: usize| {
        let mut documents = vec![root(selects)];
        for child in 0..children {
            let rules: Vec<_> =
                (0..64).map(|rule| to(&format!("/{child:02}/{rule}"), "gone")).collect();
            documents.push(vertex(&format!("v1-{child:02}"), &rules.join(", ")));
        }
        documents.push(vertex("v1-last", &to("/last", "v2")));
        documents.push(vertex("v2", "{match: /last, servers: [{name: s}]}"));
        let tree = tree(&documents);
        let served = tree.nodes.iter().any(|node| !node.servers().is_empty());
        (served, faults(&tree).iter().any(|(_, reason)| *reason == "TooLarge"))
    };
    assert_eq!(visits(15), (true, false));
    assert_eq!(visits(16), (false, true));
}

/// A route had what it matched below the path of another root, whoever claimed earlier.
#[test]
fn a_route_answers_nothing_inside_what_another_root_holds() {
    let mine = root("{match: /, delegate: {kind: HTTPRoute, name: h}}").replace(
        "fqdn: a.io",
        "fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, name: web}",
    );
    let other = root("{match: /a, servers: [{name: web}]}")
        .replace("namespace: shop", "namespace: other")
        .replace("2026-01-01", "2025-01-01");
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: h, namespace: shop}\nspec:\n  hostnames: [a.io]\n\
                 \x20 parentRefs: [{group: portcullis.dev, kind: InboundRoute, name: root}]\n\
                 \x20 rules: [{matches: [{path: {value: /a}}, {path: {value: /a/b}}, \
                 {path: {type: Exact, value: /a/c}}, {path: {value: /ab}}]}]";
    let admission = "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
                     metadata: {name: default}\nspec: {namespaceOwnership: InterNamespaceAllowed}";
    let open = common::server("HTTP/1", "all-unauthenticated");
    let asked = |more: &[&str]| {
        let pieces = [&[common::POD, &open, &mine, route, admission][..], more].concat();
        let compiled = compiled(common::objects(&pieces));
        let policy = common::web(&compiled, 8080);
        let facts = &compiled.workloads[&WorkloadKey::pod("shop", "web")].state.facts;
        let answer = |path: &str| {
            let client = "10.9.9.9".parse().unwrap();
            let connection = Connection { client, tls: Tls::Absent, facts };
            let headers = http::HeaderMap::new();
            let method = &http::Method::GET;
            let host = Some("a.io");
            let view = RequestView { method, host, path, query: None, headers: &headers };
            matches!(naive::decide_request(&policy, &connection, &view), Decision::Permit(_))
        };
        ["/a", "/a/b", "/a/c", "/ab"].map(answer)
    };
    assert_eq!(asked(&[]), [true; 4]);
    assert_eq!(asked(&[&other]), [false, false, false, true]);
}

/// Roots of another namespace that lost their claims closed the names below a wildcard to its owner.
#[test]
fn a_lost_claim_below_a_wildcard_closes_nothing() {
    let wild = root("{match: /, servers: [{name: web}]}")
        .replace("fqdn: a.io", "fqdn: w.io, aliases: ['*.a.io']");
    let stranger = root("{match: /, servers: [{name: web}]}")
        .replace("namespace: shop", "namespace: strange")
        .replace("2026-01-01", "2026-02-02")
        .replace("a.io", "x.a.io");
    let admission = "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
                     metadata: {name: default}\nspec: {wildcardPolicy: WildcardsAllowed}";
    let open = common::server("HTTP/1", "all-unauthenticated");
    let pieces = [common::POD, &open, &wild, admission];
    let without = common::objects(&pieces);
    let with = common::objects(&[&pieces[..], &[&stranger]].concat());
    let claims = compiled(with.clone()).claims_on(&HostPattern::parse("x.a.io"));
    let claims = claims.in_order();
    let lost = claims.iter().find(|claim| &*claim.root.namespace == "strange").unwrap();
    assert!(!lost.is_active());
    let (without, with) = (compiled(without), compiled(with));
    assert_eq!(common::web(&without, 8080), common::web(&with, 8080));
}

#[test]
fn a_chain_ends_at_sixteen_objects() {
    let chain = |length: usize| {
        let mut documents = vec![root(&to("/", "v1"))];
        documents.extend(
            (1..length - 1).map(|i| vertex(&format!("v{i}"), &to("/", &format!("v{}", i + 1)))),
        );
        documents.push(vertex(&format!("v{}", length - 1), "{match: /, servers: [{name: s}]}"));
        tree(&documents)
    };
    let whole = chain(16);
    let answers = |tree: &DelegationTree| tree.nodes.iter().any(|node| !node.servers().is_empty());
    assert!(answers(&whole) && faults(&whole).is_empty());
    let cut = chain(17);
    assert!(!answers(&cut));
    assert_eq!(faults(&cut), [(16, "TooDeep")]);
}

#[test]
fn a_cycle_is_cut_where_it_closes_and_no_earlier() {
    let own = "{match: /own, servers: [{name: s}]}";
    let itself = vertex("v1", &[to("/", "v1"), own.to_owned()].join(", "));
    let alone = tree(&[root(&to("/", "v1")), itself]);
    assert_eq!(faults(&alone), [(2, "Cycle")]);
    assert_eq!(alone.nodes.iter().filter(|node| !node.servers().is_empty()).count(), 1);
    let one = vertex("v1", &[to("/", "v2"), own.to_owned()].join(", "));
    let two = vertex("v2", &to("/", "v1"));
    let both = tree(&[root(&to("/", "v1")), one, two]);
    assert_eq!(faults(&both), [(3, "Cycle")]);
    assert_eq!(both.nodes.iter().filter(|node| !node.servers().is_empty()).count(), 1);
}
