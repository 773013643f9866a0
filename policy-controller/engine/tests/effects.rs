//! TimeoutPolicy and HeaderRewritePolicy: what holds for a request, in which order, and what the
//! policies are told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;
#[path = "effects/required.rs"]
mod required;
#[path = "effects/rewrites.rs"]
mod rewrites;
#[path = "effects/targets.rs"]
mod targets;
#[path = "effects/timeouts.rs"]
mod timeouts;

use common::{POD, server, web};
use http::HeaderMap;
use policy_core::effect::explain_effects;
use policy_core::{Connection, Decision, Filter, FilterKind, RequestView, Tls, WorkloadKey, naive};
use policy_crds::{Kind, ObjectKey};
use policy_engine::Compiled;
use std::collections::BTreeMap;

const WEB: &str = "kind: Server, name: web";

/// A policy of this project in namespace `shop`, created at a second of the day.
fn policy(kind: &str, name: &str, second: u32, target: &str, spec: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: {kind}\n\
         metadata: {{name: {name}, namespace: shop, creationTimestamp: '2026-01-01T00:00:{second:02}Z'}}\n\
         spec: {{targetRef: {{{target}}}, {spec}}}"
    )
}

fn timeout(name: &str, second: u32, target: &str, timeouts: &str) -> String {
    policy("TimeoutPolicy", name, second, target, &format!("timeouts: {{{timeouts}}}"))
}

fn rewrite(name: &str, second: u32, target: &str, rules: &str) -> String {
    policy("HeaderRewritePolicy", name, second, target, &format!("rules: [{rules}]"))
}

/// A route on Server `web` for a path.
fn route(kind: &str, name: &str, rule: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
         metadata: {{name: {name}, namespace: shop}}\nspec:\n\
         \x20 parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n  rules: [{{{rule}}}]"
    )
}

const CART: &str = "matches: [{path: {value: /cart}}]";
const ON_CART: &str = "group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart";

fn open() -> String {
    server("HTTP/2", "all-unauthenticated")
}

/// These objects, with a pod and a Server that everybody may use.
fn compiled(documents: &[&str]) -> Compiled {
    common::compiled(&[&[POD, &open()], documents].concat())
}

/// What holds for a request from the pod's node, as text; the reason if it is denied.
fn effects(compiled: &Compiled, path: &str, host: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let policy = web(compiled, 8080);
    let facts = &compiled.workloads[&WorkloadKey::pod("shop", "web")].state.facts;
    let client = "172.18.0.2".parse().unwrap();
    let connection = Connection { client, tls: Tls::Absent, facts };
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    let method = http::Method::GET;
    let host = Some(host);
    let view = RequestView { method: &method, host, path, query: None, headers: &map };
    let permit = match naive::decide_request(&policy, &connection, &view) {
        Decision::Permit(permit) => permit,
        Decision::Deny(denial) => return vec![denial.reason.as_str().to_owned()],
    };
    let found = explain_effects(&policy, &permit, &view);
    let bounds = found
        .timeouts
        .iter()
        .map(|bound| format!("{} {:?}: {}", bound.bound.as_str(), bound.after, bound.source));
    let changes = found.headers.iter().map(|change| format!("{change}: {}", change.source));
    let refusals = found.applied.iter().filter_map(|Filter { source, kind }| match kind {
        FilterKind::Failure(failure) => Some(format!(
            "{} {} {}/{} `{}`: {source}",
            failure.status,
            failure.grpc_status,
            failure.numerator,
            failure.denominator,
            failure.message
        )),
        FilterKind::RequestHeaders(_)
        | FilterKind::ResponseHeaders(_)
        | FilterKind::Redirect(_)
        | FilterKind::Timeout(_)
        | FilterKind::Timeouts(_)
        | FilterKind::Rewrite(_) => None,
    });
    bounds.chain(changes).chain(refusals).collect()
}

/// The headers that a request is forwarded with, by the effects on it.
fn forwarded(compiled: &Compiled, headers: &[(&str, &str)], host: &str) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for change in effects(compiled, "/cart", host, headers) {
        let (change, _) = change.split_once(": HeaderRewritePolicy").unwrap();
        let (what, rest) = change.split_once(' ').unwrap();
        let (name, value) = rest.split_once(": ").unwrap_or((rest, ""));
        if what != "add" {
            lines.retain(|(other, _)| other != name);
        }
        if what != "clear" {
            lines.push((name.to_owned(), value.to_owned()));
        }
    }
    lines
}

/// The conditions of the objects of a kind, as text with their parent.
fn told(compiled: &Compiled, kind: Kind) -> BTreeMap<String, Vec<String>> {
    let all = compiled.conditions.iter().filter(|(key, _)| key.kind == kind);
    all.map(|(key, conditions)| {
        let text = |parent: &Option<ObjectKey>| {
            parent.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
        };
        let lines = conditions.iter().map(|c| format!("{}: {c}", text(&c.parent)));
        (key.name.to_string(), lines.collect())
    })
    .collect()
}

/// A map of names with the lines of each.
fn lines<const N: usize>(all: [(&str, &[&str]); N]) -> BTreeMap<String, Vec<String>> {
    let line = |(name, lines): (&str, &[&str])| {
        (name.to_owned(), lines.iter().map(|line| (*line).to_owned()).collect())
    };
    all.into_iter().map(line).collect()
}
