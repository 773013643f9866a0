//! Behaviour of Linkerd's controller that is taken over, and the workloads that it does not concern.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::*;
use policy_core::{DefaultPolicy, Denied, Owner};
use policy_crds::{Kind, ObjectKey};
use policy_engine::behaviour::Behaviour;
use policy_engine::compatibility::{with_ours, with_preset};
use policy_engine::conditions::ConditionKind;
use policy_engine::{Compiled, ControllerConfig};

/// Settings with all of Linkerd's behaviour, for proxies with an admin port.
fn preset() -> ControllerConfig {
    with_preset(ControllerConfig {
        proxy_ports: [port(4191)].into(),
        ..ControllerConfig::default()
    })
}

/// The pod with these labels beside its own, and these annotations.
fn pod(labels: &str, annotations: &str) -> String {
    POD.replace(
        "labels: {app: web}}",
        &format!("labels: {{app: web, {labels}}}, annotations: {{{annotations}}}}}"),
    )
}

const LINKERDS: &str = "linkerd.io/control-plane-ns: linkerd";
const OURS: &str = "portcullis.dev/proxy: injected";
/// Without a proxy.
const BARE: &str = "tier: front";

fn namespace(annotation: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, annotations: {{{annotation}}}}}"
    )
}

fn owner(compiled: &Compiled, number: u16) -> Owner {
    web(compiled, number).owner.clone()
}

#[test]
fn a_workload_with_our_sidecar_keeps_our_reading() {
    let annotations = "config.linkerd.io/default-inbound-policy: open, \
                       config.linkerd.io/opaque-ports: 'http'";
    let of = |labels| compiled_with(&[&pod(labels, annotations)], &preset());
    let (ours, linkerds) = (of(OURS), of(LINKERDS));
    assert_eq!(owner(&ours, 8080), Owner::Default(DefaultPolicy::Deny));
    assert!(!web(&ours, 8080).protocol.is_http());
    assert_eq!(owner(&ours, 4191), Owner::Default(DefaultPolicy::AllAuthenticated));
    assert_eq!(owner(&linkerds, 8080), Owner::Default(DefaultPolicy::AllUnauthenticated));
    assert!(web(&linkerds, 8080).protocol.is_http());
    assert_eq!(owner(&linkerds, 4191), Owner::Default(DefaultPolicy::AllUnauthenticated));
}

#[test]
fn annotations_of_a_namespace_count_where_linkerds_injector_has_not_copied_them() {
    let linkerds_name = namespace("config.linkerd.io/default-inbound-policy: deny");
    let our_name = namespace("portcullis.dev/default-allow: deny");
    let (open, closed) = (DefaultPolicy::AllUnauthenticated, DefaultPolicy::Deny);
    for (labels, namespace, expected) in [
        (LINKERDS, &linkerds_name, open),
        (BARE, &linkerds_name, closed),
        (OURS, &linkerds_name, closed),
        // The injector does not copy ours.
        (LINKERDS, &our_name, closed),
    ] {
        let compiled = compiled_with(&[&pod(labels, ""), namespace], &preset());
        assert_eq!(owner(&compiled, 8080), Owner::Default(expected), "{labels}: {namespace}");
    }
    let live = with_ours(preset(), "namespace-annotations").unwrap();
    let compiled = compiled_with(&[&pod(LINKERDS, ""), &linkerds_name], &live);
    assert_eq!(owner(&compiled, 8080), Owner::Default(closed));
}

#[test]
fn a_namespace_that_cannot_be_read_closes_what_linkerds_injector_has_not_seen() {
    let unreadable = "apiVersion: v9\nkind: Namespace\nmetadata: {name: shop}";
    let denied = |labels| {
        let compiled = compiled_with(&[&pod(labels, ""), unreadable], &preset());
        (owner(&compiled, 8080), web(&compiled, 60_000).deny)
    };
    let undeclared = Some(Denied::PortUndeclared);
    assert_eq!(denied(BARE), (Owner::Default(DefaultPolicy::Deny), undeclared));
    assert_eq!(denied(OURS), (Owner::Default(DefaultPolicy::Deny), undeclared));
    assert_eq!(denied(LINKERDS), (Owner::Default(DefaultPolicy::AllUnauthenticated), None));
}

#[test]
fn the_condition_of_an_annotation_says_what_holds() {
    let annotations = "config.linkerd.io/default-inbound-policy: open, \
                       config.linkerd.io/opaque-ports: '25,http'";
    let key = ObjectKey { kind: Kind::Pod, namespace: "shop".into(), name: "web".into() };
    let message = |labels, config: &ControllerConfig| {
        let compiled = compiled_with(&[&pod(labels, annotations)], config);
        let wrong = compiled.conditions[&key].iter();
        let mut wrong = wrong.filter(|condition| condition.kind == ConditionKind::AnnotationsValid);
        wrong.next().unwrap().message.clone()
    };
    let linkerds = message(LINKERDS, &preset());
    assert!(linkerds.contains("`open`, which is as if it were not there"), "{linkerds}");
    assert!(linkerds.contains("`http` is not a number, voids the whole list"), "{linkerds}");
    let ours = message(OURS, &preset());
    assert!(ours.contains("`open`, which denies until it is corrected"), "{ours}");
    assert!(!ours.contains("voids the whole list"), "{ours}");
}

#[test]
fn a_grpcroute_takes_the_place_of_httproutes_and_both_are_told_so() {
    let calls = "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\n\
                 metadata: {name: calls, namespace: shop}\n\
                 spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                 \x20 rules: [{matches: [{method: {service: s}}]}]\n";
    let documents = [POD, &server("HTTP/2", "all-unauthenticated"), &route("shop", "cart"), calls];
    let reason = |config: &ControllerConfig, kind, name: &str| {
        let key = ObjectKey { kind, namespace: "shop".into(), name: name.into() };
        let compiled = compiled_with(&documents, config);
        compiled.conditions[&key][0].reason.as_str()
    };
    let (http, grpc) = (Kind::PolicyHttpRoute, Kind::GrpcRoute);
    assert_eq!(reason(&preset(), http, "cart"), "Conflicted");
    assert_eq!(reason(&preset(), grpc, "calls"), "NotAllowedByListeners");
    let plain = ControllerConfig::default();
    assert_eq!(reason(&plain, http, "cart"), "Accepted");
    assert_eq!(reason(&plain, grpc, "calls"), "Accepted");
    let mut one = plain;
    one.as_linkerd.insert(Behaviour::RouteConflicts);
    assert_eq!(reason(&one, http, "cart"), "Conflicted");
    assert_eq!(reason(&one, grpc, "calls"), "Accepted");
}
