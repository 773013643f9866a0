//! For any pod: nothing panics, injection is idempotent, and nothing that policy depends on is
//! added but the ports that bypass the sidecar.

use super::patches::{apply, json_value};
use super::{settings, shop};
use crate::injector::diff::diff;
use crate::injector::{NamespaceContext, Outcome, Setting, inject};
use policy_crds::{SidecarMark, annotation};
use proptest::prelude::*;
use serde_json::{Value, json};

fn container() -> impl Strategy<Value = Value> {
    let port = prop_oneof![Just(json!("http")), (0..70_000u32).prop_map(Value::from)];
    let probe = (port.clone(), any::<bool>()).prop_map(|(port, tcp)| {
        if tcp { json!({"tcpSocket": {"port": port}}) } else { json!({"httpGet": {"port": port}}) }
    });
    let ports = prop::collection::vec(1..9000u16, 0..4);
    let ours = prop::sample::select(vec!["portcullis-proxy", "portcullis-init"]);
    let names = prop_oneof![8 => "[a-z]{1,4}", 1 => ours.prop_map(str::to_owned)];
    (names, ports, prop::option::of(probe.clone()), prop::option::of(probe)).prop_map(
        |(name, ports, readiness, liveness)| {
            let ports: Vec<Value> =
                ports.iter().map(|port| json!({"containerPort": port, "name": "http"})).collect();
            let mut container = json!({"name": name, "ports": ports});
            for (field, probe) in [("readinessProbe", readiness), ("livenessProbe", liveness)] {
                if let Some(probe) = probe {
                    container[field] = probe;
                }
            }
            container
        },
    )
}

fn annotations() -> impl Strategy<Value = Value> {
    let names = Setting::ALL.into_iter().flat_map(Setting::annotations);
    let names: Vec<String> = names
        .chain(annotation::DEFAULT_POLICY.map(str::to_owned))
        .chain([annotation::SIDECAR_MARK.to_owned()])
        .chain(["linkerd.io/inject".to_owned(), annotation::UNDECLARED_PORTS.to_owned()])
        .collect();
    let values = prop_oneof![
        Just("enabled"),
        Just("1"),
        Just("80"),
        Just("deny"),
        Just("10s"),
        Just("mesh-only"),
    ];
    let pairs = prop::collection::btree_map(prop::sample::select(names), values, 0..4);
    pairs.prop_map(|pairs| serde_json::to_value(pairs).unwrap())
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 1..4);
    let others = prop::option::of(prop::collection::vec(container(), 0..3));
    (annotations(), containers, others).prop_map(|(annotations, containers, others)| {
        let mut pod = json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"containers": containers},
        });
        if let Some(others) = others {
            pod["spec"]["initContainers"] = others.into();
        }
        pod
    })
}

fn around() -> impl Strategy<Value = NamespaceContext> {
    annotations().prop_map(|mut annotations| {
        annotations["linkerd.io/inject"] = "enabled".into();
        shop(&annotations.to_string())
    })
}

fn texts(pod: &Value) -> Vec<String> {
    let annotations = pod.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.into_iter().flatten().map(|(name, text)| format!("{name}: {text}")).collect()
}

/// Returns the ports that the init container does not redirect.
fn skipped(pod: &Value) -> Option<String> {
    let arguments = pod.pointer("/spec/initContainers/0/args").and_then(Value::as_array)?;
    let flag = "--skip-inbound-ports=";
    arguments.iter().find_map(|argument| Some(argument.as_str()?.strip_prefix(flag)?.to_owned()))
}

proptest! {
    #[test]
    fn injecting_twice_is_injecting_once(pod in pod(), context in around(), native in any::<bool>()) {
        let Outcome::Injected { pod: once, .. } = inject(&pod, &context, &settings(native)) else {
            return Ok(());
        };
        prop_assert_eq!(apply(pod.clone(), &diff(&pod, &once)), (*once).clone());
        let twice = inject(&once, &context, &settings(native));
        prop_assert!(matches!(twice, Outcome::Skipped { .. }), "{:?}", twice);
    }

    #[test]
    fn what_policy_depends_on_is_added_only_as_it_is(pod in pod(), context in around()) {
        let Outcome::Injected { pod: once, .. } = inject(&pod, &context, &settings(true)) else {
            return Ok(());
        };
        let before = texts(&pod);
        let mark = "portcullis.dev/proxy-version: ";
        let added = texts(&once).into_iter().filter(|text| !before.contains(text));
        let added = added.filter(|text| !text.starts_with(mark));
        // Nothing but who discovers the pod reads it.
        let written = format!("{}: ", annotation::SIDECAR_MARK);
        let (marks, added): (Vec<String>, Vec<String>) =
            added.partition(|text| text.starts_with(&written));
        let marks = marks.iter().filter_map(|text| text.strip_prefix(&written));
        let marks = marks.map(|quoted| serde_json::from_str::<String>(quoted).unwrap());
        let marks: Vec<_> = marks.map(|mark| SidecarMark::parse(&mark)).collect();
        prop_assert!(matches!(&marks[..], [Ok(_)]), "{:?}", marks);
        // The controller reports no policy as in force on these ports, however they were excluded.
        let skipped = skipped(&once).map(|ports| format!("{}: {ports:?}", annotation::SKIPPED_PORTS));
        prop_assert_eq!(added, Vec::from_iter(skipped));
    }

    #[test]
    fn no_json_is_too_strange(
        spec in json_value(),
        metadata in json_value(),
        list in json_value(),
        native in any::<bool>(),
    ) {
        let context = shop("{linkerd.io/inject: enabled}");
        let strange = [
            json!({"metadata": metadata, "spec": spec}),
            json!({"metadata": {"annotations": metadata}, "spec": {"containers": list}}),
            json!({"spec": {"containers": [{"ports": list, "livenessProbe": spec, "env": list}]}}),
            json!({"spec": {"initContainers": [{"name": "portcullis-init", "args": list}],
                            "containers": [{"name": "portcullis-proxy", "env": list}, spec]}}),
            json!({"spec": {"containers": [{"livenessProbe": {"tcpSocket": {"port": list}}}],
                            "volumes": spec, "initContainers": list}}),
        ];
        for pod in strange {
            let Outcome::Injected { pod: once, .. } = inject(&pod, &context, &settings(native)) else {
                continue;
            };
            prop_assert_eq!(apply(pod.clone(), &diff(&pod, &once)), *once);
        }
    }
}
