//! Whole pods before and after injection. `PORTCULLIS_WRITE_DOCS=1` writes the results.

use super::{asks, injected, settings, shop, value};
use crate::injector::{NamespaceContext, inject};
use serde_json::Value;

fn folder() -> std::path::PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/injector/tests/golden").into()
}

fn read(name: &str) -> Value {
    value(&std::fs::read_to_string(folder().join(name)).unwrap())
}

#[track_caller]
fn becomes(before: &str, after: &str, context: &NamespaceContext, native: bool) -> Vec<String> {
    let (pod, warnings) = injected(&read(before), context, &settings(native));
    let path = folder().join(after);
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(&path, policy_crds::render::yaml(&pod)).unwrap();
    }
    let wanted = read(after);
    assert_eq!(pod, wanted, "{}", policy_crds::render::yaml(&pod));
    warnings
}

#[test]
fn a_plain_pod_gets_the_sidecar_and_the_redirection() {
    assert_eq!(becomes("plain.yaml", "plain.native.yaml", &asks(), true), Vec::<String>::new());
}

#[test]
fn with_the_outbound_half_both_directions_are_redirected_and_capture_is_proven() {
    let context = shop(
        "{portcullis.dev/inject: enabled, portcullis.dev/outbound: enabled, \
              config.linkerd.io/skip-outbound-ports: '25,3306'}",
    );
    let warnings = becomes("plain.yaml", "plain.outbound.yaml", &context, true);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn on_an_old_api_server_the_sidecar_is_a_container_like_others() {
    let warnings = becomes("plain.yaml", "plain.container.yaml", &asks(), false);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn everything_that_can_be_set_is_set_by_the_pod_then_by_its_namespace() {
    let context = shop(
        "{portcullis.dev/inject: enabled, portcullis.dev/proxy-log-level: warn, \
         config.linkerd.io/proxy-cpu-request: 50m, config.linkerd.io/proxy-memory-limit: 128Mi, \
         config.linkerd.io/default-inbound-policy: deny, config.linkerd.io/opaque-ports: '5432', \
         portcullis.dev/undeclared-ports: deny}",
    );
    let warnings = becomes("set.yaml", "set.native.yaml", &context, true);
    // The only warnings are about the images that the pod itself selects.
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(
        warnings.iter().all(|one| one.contains("selects the image that protects")),
        "{warnings:?}"
    );
}

#[test]
fn tcp_probes_are_rewritten_in_all_containers_and_every_kind_of_them() {
    let warnings = becomes("probes.yaml", "probes.native.yaml", &asks(), true);
    assert_eq!(
        warnings,
        ["spec.containers[1].readinessProbe.tcpSocket.port: \"unknown\" is no port of this \
          container, so that the probe fails"]
    );
}

#[test]
fn a_pod_with_two_hundred_ports_declares_them_all() {
    let ports: Vec<Value> =
        (1000..1200).map(|port| serde_json::json!({ "containerPort": port })).collect();
    let pod = serde_json::json!({"spec": {"containers": [{"name": "many", "ports": ports}]}});
    let (pod, _) = injected(&pod, &asks(), &settings(true));
    let env = pod.pointer("/spec/initContainers/1/env").and_then(Value::as_array).unwrap();
    let given = env.iter().find(|variable| variable["name"] == "PORTCULLIS_PORTS").unwrap();
    let wanted: Vec<String> = (1000..1200).map(|port: u16| port.to_string()).collect();
    assert_eq!(given["value"], wanted.join(","));
}

#[test]
fn what_another_webhook_adds_later_is_taken_in() {
    let (mut pod, _) = injected(&read("plain.yaml"), &asks(), &settings(true));
    let more = value(
        "{name: agent, ports: [{containerPort: 9000}], \
         livenessProbe: {tcpSocket: {port: 9000}, periodSeconds: 5}}",
    );
    pod["spec"]["containers"].as_array_mut().unwrap().push(more);
    let (again, warnings) = injected(&pod, &asks(), &settings(true));
    assert_eq!(warnings, Vec::<String>::new());
    let env = &again["spec"]["initContainers"][1]["env"];
    let of = |name: &str| {
        let list = env.as_array().unwrap();
        list.iter().find(|variable| variable["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(
        (of("PORTCULLIS_PORTS"), of("PORTCULLIS_TCP_PROBE_PORTS")),
        ("8080,9000".into(), "9000".into())
    );
    let probe = &again["spec"]["containers"][1]["livenessProbe"];
    assert_eq!(probe, &value("{httpGet: {path: /probe/tcp/9000, port: 4191}, periodSeconds: 5}"));
    let settled = inject(&again, &asks(), &settings(true));
    assert!(matches!(settled, crate::injector::Outcome::Skipped { .. }), "{settled:?}");
}
