//! The status of Servers that own no port, because older Servers own the ports of what they select.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::objects;
use policy_crds::{Kind, ObjectKey};
use policy_engine::conditions::ConditionKind;
use policy_engine::{ControllerConfig, History};

fn pod(name: &str, labels: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, labels: {labels}}}, \
         spec: {{containers: [{{name: a, ports: [{{name: http, containerPort: 8080}}]}}]}}}}"
    )
}

fn server(name: &str, labels: &str, port: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
         metadata: {{name: {name}, namespace: shop}}, \
         spec: {{podSelector: {{matchLabels: {labels}}}, port: {port}}}}}"
    )
}

fn apply(history: &mut History, texts: &[&str]) {
    history.apply(objects(texts).into_iter().map(Ok).collect());
}

fn history(texts: &[&str]) -> History {
    let mut history = History::new(&ControllerConfig::default());
    apply(&mut history, texts);
    history
}

/// `Accepted=…` of a Server.
fn accepted(history: &History, name: &str) -> String {
    let key = ObjectKey { kind: Kind::Server, namespace: "shop".into(), name: name.into() };
    let conditions = &history.conditions()[&key];
    let accepted = conditions.iter().find(|c| c.kind == ConditionKind::Accepted);
    accepted.unwrap().to_string()
}

const ACCEPTED: &str = "Accepted=True (Accepted)";

fn displaced_by(owners: &str) -> String {
    format!(
        "Accepted=False (Conflicted): takes no effect: what it selects is owned by {owners} (the \
         older Server counts, then the first by name)"
    )
}

#[test]
fn a_displaced_server_is_told_by_whom_and_when_it_is_not_any_more() {
    let (web, first) = (pod("web-0", "{app: web}"), server("a", "{app: web}", "http"));
    let second = server("b", "{app: web}", "8080");
    let mut history = history(&[&first, &second]);
    assert_eq!(accepted(&history, "b"), ACCEPTED, "there is no pod to own");
    apply(&mut history, &[&web]);
    assert_eq!(accepted(&history, "a"), ACCEPTED);
    assert_eq!(accepted(&history, "b"), displaced_by("Server shop/a"), "by name and by number");
    // A pod that the first one does not select.
    apply(&mut history, &[&server("b", "{}", "8080"), &pod("other-0", "{app: other}")]);
    assert_eq!(accepted(&history, "b"), ACCEPTED, "it owns the port of one of them");
    history.apply(vec![Err(objects(&[&pod("other-0", "{}")]).remove(0).meta.key)]);
    assert_eq!(accepted(&history, "b"), displaced_by("Server shop/a"));
    // An invalid Server owns its port as any other.
    apply(&mut history, &[&first.replace("port: http", "port: http, proxyProtocol: x")]);
    assert_eq!(accepted(&history, "b"), displaced_by("Server shop/a"));
    history.apply(vec![Err(objects(&[&first]).remove(0).meta.key)]);
    assert_eq!(accepted(&history, "b"), ACCEPTED);
}

#[test]
fn servers_that_cannot_meet_read_no_pod() {
    let other = |i: u16, name: &str| server(name, &format!("{{app: app-{i}}}"), "http");
    let port = |i: u16, name: &str| server(name, "{app: numbers}", &(9000 + i).to_string());
    let servers: Vec<String> =
        (0..40).flat_map(|i| [other(i, &format!("a{i}")), port(i, &format!("b{i}"))]).collect();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    let mut history = history(&servers);
    let before = history.effort().1;
    apply(&mut history, &[&pod("web-0", "{app: app-1}")]);
    assert_eq!(history.effort().1, before, "no condition depends on the pod");
    assert!(servers.len() == 80 && accepted(&history, "a1") == ACCEPTED);
}

/// Events of such a namespace would delay all others.
#[test]
fn nothing_is_said_of_more_workloads_than_an_event_can_look_through() {
    let pods: Vec<String> = (0..513).map(|i| pod(&format!("p{i}"), "{app: web}")).collect();
    let (first, second) = (server("a", "{app: web}", "http"), server("b", "{app: web}", "http"));
    let mut texts: Vec<&str> = pods.iter().map(String::as_str).collect();
    texts.extend([first.as_str(), second.as_str()]);
    let mut history = history(&texts);
    assert_eq!(accepted(&history, "b"), ACCEPTED);
    let before = history.effort().1;
    apply(&mut history, &[&pod("p7", "{app: web, other: label}")]);
    let answers = history.effort().1 - before;
    assert!(answers <= 1, "{answers} answers for one pod");
    history.apply(vec![Err(objects(&[&pods[0]]).remove(0).meta.key)]);
    assert_eq!(accepted(&history, "b"), displaced_by("Server shop/a"));
}
