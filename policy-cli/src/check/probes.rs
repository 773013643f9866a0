//! Probes and lifecycle hooks that policy refuses: the kubelet restarts their containers, or sends them
//! nothing.

use super::finding::Finding;
use super::locations::Locations;
use crate::probes::RefusedProbe;
use policy_core::WorkloadKey;
use policy_crds::resource::{Probe, ProbeAction, ProbeOrigin};
use policy_crds::{Kind, ObjectKey};
use policy_engine::source::Severity;
use policy_webhooks::injector::templates;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns an error for every probe, once for all pods of a workload.
pub(super) fn findings(
    refused: &BTreeMap<WorkloadKey, Vec<RefusedProbe>>,
    locations: &mut Locations,
) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (key, refused) in refused {
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        let pod = ObjectKey { kind: Kind::Pod, namespace, name };
        for one in refused {
            let RefusedProbe { probe, reason, why } = one;
            let message =
                format!("the {} of port {} is refused ({reason}): {why}", one.words(), probe.port);
            if !told.insert((locations.declared(&pod).clone(), message.clone())) {
                continue;
            }
            let field = locations.value(&pod).and_then(|value| field(value, probe));
            let error = Finding::warning(&pod, field.unwrap_or_default(), message);
            found.push(Finding { severity: Severity::Error, explains: false, ..error });
        }
    }
    found
}

/// The path of a probe in an object with a pod or a pod template.
fn field(object: &Value, probe: &Probe) -> Option<String> {
    let template = templates(object).into_iter().next()?;
    let pod = object.pointer(&template.pointer)?;
    let place = template.pointer.trim_start_matches('/').replace('/', ".");
    let dot = if place.is_empty() { "" } else { "." };
    let names: &[&str] = match probe.origin {
        ProbeOrigin::Probe | ProbeOrigin::OtherHost => {
            &["livenessProbe", "readinessProbe", "startupProbe"]
        }
        ProbeOrigin::Hook => &["lifecycle/postStart", "lifecycle/preStop"],
    };
    for list in ["containers", "initContainers"] {
        let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        for (at, container) in containers.into_iter().flatten().enumerate() {
            let is = |name: &&&str| {
                let handler = container.pointer(&format!("/{name}"));
                handler.is_some_and(|handler| is_of(handler, probe, container))
            };
            if let Some(name) = names.iter().find(is) {
                let name = name.replace('/', ".");
                return Some(format!("{place}{dot}spec.{list}[{at}].{name}"));
            }
        }
    }
    None
}

/// True if a handler makes the request.
fn is_of(handler: &Value, probe: &Probe, container: &Value) -> bool {
    let (part, path) = match &probe.action {
        ProbeAction::HttpGet { path, .. } => ("httpGet", Some(&**path)),
        ProbeAction::Grpc => ("grpc", None),
        ProbeAction::TcpSocket => ("tcpSocket", None),
    };
    let Some(request) = handler.get(part) else { return false };
    let written = request.get("path").and_then(Value::as_str).unwrap_or("/");
    let written = written.split(['?', '#']).next().unwrap_or_default();
    let same_path = path.is_none_or(|path| {
        path.trim_start_matches('/') == written.trim_start_matches('/') || path.contains('%')
    });
    same_path && request.get("port").is_some_and(|port| is_port(port, probe, container))
}

fn is_port(port: &Value, probe: &Probe, container: &Value) -> bool {
    let number = u64::from(probe.port.get());
    let Some(name) = port.as_str() else { return port.as_u64() == Some(number) };
    let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
    let mut named = ports.filter(|port| port.get("name").and_then(Value::as_str) == Some(name));
    named.any(|port| port.get("containerPort").and_then(Value::as_u64) == Some(number))
        || name.parse() == Ok(number)
}
