//! What an event of a tree costs, and that answers which are kept are those of a fresh start.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{objects, port};
use policy_core::{HostPattern, WorkloadKey};
use policy_crds::{Body, Kind, Object, ObjectKey};
use policy_engine::{Compiled, ControllerConfig, History, compile_objects};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn fresh(objects: Vec<Object>) -> Compiled {
    compile_objects(objects, &ControllerConfig::default())
}

/// An InboundRoute that was created on some day.
fn inbound(namespace: &str, name: &str, day: usize, labels: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: portcullis.dev/v1alpha1, kind: InboundRoute, metadata: {{name: {name}, \
          namespace: {namespace}, labels: {{{labels}}}, \
          creationTimestamp: '2026-01-0{day}T00:00:00Z'}}, spec: {{{spec}}}}}"
    )
}

/// A root; further fields of its virtual host may follow the host.
fn root(namespace: &str, name: &str, day: usize, host: &str, rules: &str) -> String {
    let target = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}";
    let spec = format!("virtualhost: {{{target}, fqdn: {host}}}, routes: [{rules}]");
    inbound(namespace, name, day, "", &spec)
}

fn vertex(namespace: &str, name: &str, labels: &str, path: &str) -> String {
    let hosts = "delegatedFrom: [{fqdn: a.io}, {fqdn: x.a.io}, {fqdn: '*.a.io'}]";
    let spec = format!("{hosts}, routes: [{{match: {path}, serve: {{}}}}]");
    inbound(namespace, name, 1, labels, &spec)
}

fn admission(spec: &str) -> String {
    format!(
        "{{apiVersion: portcullis.dev/v1alpha1, kind: RouteAdmissionPolicy, \
          metadata: {{name: default}}, spec: {{{spec}}}}}"
    )
}

fn pod(namespace: &str) -> [String; 2] {
    [common::POD, &common::server("HTTP/1", "all-unauthenticated")]
        .map(|text| text.replace("namespace: shop", &format!("namespace: {namespace}")))
}

/// Objects, each with what it may say; it is absent in a further case.
fn places() -> Vec<Vec<String>> {
    let serve = "{match: /, serve: {}}";
    let lax = "namespaceOwnership: InterNamespaceAllowed";
    let wild = "wildcardPolicy: WildcardsAllowed";
    let selects = |labels: &str| {
        format!(
            "{{match: /v, delegate: {{selector: {{matchLabels: {{{labels}}}}}, namespace: b}}}}"
        )
    };
    let mut places = vec![
        vec![
            admission(wild),
            admission(&format!("{wild}, {lax}")),
            admission(&format!("{wild}, rootNamespaces: [a, b]")),
            admission(""),
        ],
        vec![
            root("c", "wide", 1, "'*.a.io'", serve),
            root("c", "wide", 5, "'*.a.io'", "{match: /w, serve: {}}"),
            root("c", "wide", 5, "'*.io'", serve),
        ],
        vec![
            root("a", "wide", 3, "'*.a.io', tls: {mode: Required}", serve),
            root("a", "wide", 3, "'*.x.a.io'", &selects("l: one")),
        ],
        vec![
            root("a", "x", 2, "x.a.io", &selects("l: one, m: two")),
            root("a", "x", 4, "x.a.io", &format!("{serve}, {}", selects("l: one"))),
            root("a", "x", 4, "y.x.a.io", serve),
        ],
        vec![
            root("b", "x", 3, "x.a.io", "{match: /v/w, serve: {}}"),
            root("b", "x", 3, "x.a.io", serve),
        ],
        vec![root("b", "a", 3, "a.io", &format!("{serve}, {}", selects("m: two")))],
        vec![
            "{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, \
              metadata: {name: g, namespace: b}, spec: {from: [{group: portcullis.dev, \
              kind: InboundRoute, namespace: a}], to: [{group: portcullis.dev, \
              kind: InboundRoute}]}}"
                .to_owned(),
        ],
        vec![
            "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, \
              metadata: {name: h, namespace: a}, spec: {hostnames: [z.x.a.io, '*.x.a.io'], \
              parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], \
              rules: [{matches: [{path: {value: /}}]}]}}"
                .to_owned(),
        ],
    ];
    for name in ["v1", "v2"] {
        places.push(vec![
            vertex("b", name, "l: one", "/v"),
            vertex("b", name, "l: one, m: two", "/v"),
            vertex("b", name, "m: two", "/v/w"),
            vertex("b", name, "", "/v"),
        ]);
    }
    places
}

#[test]
fn every_object_that_comes_and_goes_is_valid() {
    for text in places().iter().flatten() {
        let object = objects(&[text]).remove(0);
        assert!(matches!(object.body, Body::Valid(_)), "{text}: {:?}", object.body);
    }
}

const ASKED: [&str; 7] = ["a.io", "x.a.io", "y.x.a.io", "z.x.a.io", "*.a.io", "*.x.a.io", "*.io"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Wildcard roots that come and go, labels that change, and rules of admission that change leave
    /// what the objects say at the end.
    #[test]
    fn wildcards_and_labels_that_change_leave_nothing_behind(
        events in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..5), 1..24),
    ) {
        let places = places();
        let mut kept = History::new(&ControllerConfig::default());
        let mut present: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for text in ["a", "b", "c"].iter().flat_map(|namespace| pod(namespace)) {
            present.extend(objects(&[&text]).into_iter().map(|o| (o.meta.key.clone(), o)));
        }
        kept.apply(present.values().cloned().map(Ok).collect());
        for (place, variant) in events {
            let variants = &places[place.index(places.len())];
            let change = match variants.get(variant) {
                Some(text) => Ok(objects(&[text]).remove(0)),
                None => Err(objects(&[&variants[0]]).remove(0).meta.key),
            };
            match &change {
                Ok(object) => _ = present.insert(object.meta.key.clone(), object.clone()),
                Err(key) => _ = present.remove(key),
            }
            kept.apply(vec![change]);
            let fresh = fresh(present.values().cloned().collect());
            prop_assert_eq!(kept.conditions(), &fresh.conditions);
            for host in ASKED.map(HostPattern::parse) {
                prop_assert_eq!(kept.claims_on(&host), fresh.claims_on(&host), "{}", host);
            }
            for key in present.keys().filter(|key| key.kind == Kind::InboundRoute) {
                prop_assert_eq!(kept.tree_of(key), fresh.tree_of(key), "{}", key);
                prop_assert_eq!(kept.delegation_state(key), fresh.delegation_state(key));
            }
            for namespace in ["a", "b", "c"] {
                let pod = WorkloadKey::pod(namespace, "web");
                prop_assert_eq!(kept.followed_port(&pod, port(8080)), fresh.port(&pod, port(8080)));
            }
        }
    }
}

/// One Server with so many trees of two vertices each, and a wildcard over all of their hosts.
fn trees(count: usize) -> History {
    let mut all: Vec<String> = pod("shop").to_vec();
    all.push(admission("wildcardPolicy: WildcardsAllowed"));
    all.push(root("shop", "wide", 1, "'*.io'", "{match: /, serve: {}}"));
    all.extend((0..count).flat_map(|n| [own_root(n, "/w"), own(n, 0, "x"), own(n, 1, "x")]));
    let mut history = History::new(&ControllerConfig::default());
    history.apply(all.iter().flat_map(|text| objects(&[text])).map(Ok).collect());
    let key = WorkloadKey::pod("shop", "web");
    assert!(history.followed_port(&key, port(8080)).is_some());
    for kind in ["vertex", "label"] {
        // What is asked for the first time is known from here on.
        cost(&mut history, &own(0, 0, kind));
    }
    history
}

fn own_root(number: usize, further: &str) -> String {
    let rules = format!(
        "{{match: /a, delegate: {{selector: {{matchLabels: {{of: n{number}}}}}}}}}, \
         {{match: {further}, serve: {{}}}}"
    );
    root("shop", &format!("r{number}"), 2, &format!("h{number}.io"), &rules)
}

fn own(number: usize, vertex: usize, value: &str) -> String {
    let spec = format!(
        "delegatedFrom: [{{fqdn: h{number}.io}}], \
         routes: [{{match: /a/{vertex}{value}, serve: {{}}}}]"
    );
    let name = format!("v{number}-{vertex}");
    inbound("shop", &name, 1, &format!("of: n{number}, free: {value}"), &spec)
}

fn cost(history: &mut History, text: &str) -> u64 {
    let before = history.effort().1;
    history.apply(objects(&[text]).into_iter().map(Ok).collect());
    history.effort().1 - before
}

#[test]
fn an_event_of_a_tree_costs_the_same_however_many_other_trees_there_are() {
    let (mut few, mut many) = (trees(3), trees(60));
    for event in [own(1, 0, "y"), own_root(1, "/z"), own(2, 1, "z")] {
        let costs = (cost(&mut few, &event), cost(&mut many, &event));
        assert_eq!(costs.0, costs.1, "{event}");
        assert!((4..60).contains(&costs.1), "{costs:?} answers: {event}");
    }
}

#[test]
fn a_root_of_a_namespace_that_may_have_none_costs_nobody_else_anything() {
    let mut history = trees(60);
    let rules = "wildcardPolicy: WildcardsAllowed, rootNamespaces: [shop]";
    cost(&mut history, &admission(rules));
    let stranger = root("strange", "wide", 1, "'*.io'", "{match: /, serve: {}}");
    let answers = cost(&mut history, &stranger);
    assert!(answers < 30, "{answers} answers for a root that may claim nothing");
}

#[test]
fn a_condition_names_some_of_many_refusals_and_counts_the_rest() {
    let rule = |n: usize| format!("{{match: /p{n}, delegate: {{name: gone{n}}}}}");
    let rules: Vec<String> = (0..40).map(rule).collect();
    let many = root("shop", "many", 1, "a.io", &rules.join(", "));
    let compiled = fresh(objects(&[&many]));
    let conditions = compiled.conditions.values().next().unwrap();
    let refused = conditions.iter().find(|one| one.reason.as_str() == "RefNotFound").unwrap();
    assert_eq!(refused.message.matches("/gone").count(), 16, "{}", refused.message);
    assert!(
        refused.message.contains("; and 24 more delegations are refused"),
        "{}",
        refused.message
    );
}
