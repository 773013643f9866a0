//! The work an event causes is proportional to what it changes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{ON_SERVER, mesh_tls, objects, policy, port, server};
use policy_core::WorkloadKey;
use policy_engine::{ControllerConfig, History};

/// Pods `p0`, `p1`, … of an application of their own each hundred, all watched.
fn history(pods: usize) -> History {
    let mut history = History::new(&ControllerConfig::default());
    let refs = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}";
    let documents =
        [server("HTTP/1", "deny"), policy("p", ON_SERVER, refs), mesh_tls("shop", "m", "'*'")];
    let mut all: Vec<_> = documents.iter().flat_map(|text| objects(&[text])).map(Ok).collect();
    all.extend((0..pods).flat_map(|i| pod(i, "x")).map(Ok));
    history.apply(all);
    for i in 0..pods {
        let key = WorkloadKey::pod("shop", &format!("p{i}"));
        assert!(history.followed_port(&key, port(8080)).is_some());
        assert!(history.followed_state(&key).is_some());
    }
    history
}

fn pod(i: usize, note: &str) -> Vec<policy_crds::Object> {
    let app = if i < 100 { "web".to_owned() } else { format!("app-{}", i / 100) };
    objects(&[&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}, namespace: shop, labels: {{app: {app}, pod: p{i}}}, \
         annotations: {{note: {note}}}}}, \
         spec: {{containers: [{{name: a, ports: [{{name: http, containerPort: 8080}}]}}]}}}}"
    )])
}

fn cost(history: &mut History, changes: Vec<policy_crds::Object>) -> u64 {
    let before = history.effort().1;
    history.apply(changes.into_iter().map(Ok).collect());
    history.effort().1 - before
}

#[test]
fn an_event_costs_the_same_however_many_pods_it_does_not_concern() {
    let (mut small, mut large) = (history(200), history(1_000));
    let other = mesh_tls("shop", "m", "'a.b'");
    let event = || objects(&[&other]);
    let (few, many) = (cost(&mut small, event()), cost(&mut large, event()));
    assert_eq!(few, many);
    assert!(few < 12, "{few} answers for one change of an authentication");
    let own = cost(&mut large, pod(700, "z"));
    assert!(own <= 2, "a pod concerns itself alone, not {own} answers");
    let unrelated = mesh_tls("elsewhere", "m", "'*'");
    assert!(cost(&mut large, objects(&[&unrelated])) <= 2);
    let closed = server("HTTP/1", "audit");
    assert!(cost(&mut large, objects(&[&closed])) < 24);
}

#[test]
fn what_nobody_follows_is_forgotten() {
    let mut churned = history(200);
    churned.sweep();
    let before = churned.effort().0;
    for round in 0..5 {
        let pods = 0..200;
        let gone = pods.clone().flat_map(|i| pod(i, "x")).map(|object| Err(object.meta.key));
        churned.apply(gone.collect());
        let note = format!("round-{round}");
        churned.apply(pods.flat_map(|i| pod(i, &note)).map(Ok).collect());
        for i in 0..200 {
            let key = WorkloadKey::pod("shop", &format!("p{i}"));
            assert!(churned.followed_port(&key, port(8080)).is_some());
            assert!(churned.followed_state(&key).is_some());
        }
    }
    churned.sweep();
    assert_eq!(churned.effort().0, before);
}
