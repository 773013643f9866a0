//! Servers that own no port of any workload: they select none, name a port that none has, or older
//! ones own what they select.

use super::finding::{Finding, Unknown};
use super::places::Places;
use super::world::World;
use crate::cluster::unknown;
use policy_core::{Owner, WorkloadKey, WorkloadKind};
use policy_crds::resource::{PortRef, Server, WorkloadSelector};
use policy_crds::{Body, Kind, LabelSelector, Object, ObjectKey, Resource, nearest};
use policy_engine::source::Severity;
use policy_engine::{Compiled, ports_meant};
use serde_json::Value;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

pub(super) fn findings(
    world: &World<'_>,
    places: &mut Places,
    unknown: &mut Vec<Unknown>,
) -> Vec<Finding> {
    let compiled = world.compiled;
    let servers = compiled.objects.iter().filter_map(|object| match &object.body {
        Body::Valid(Resource::Server(server)) => Some((&object.meta.key, server)),
        Body::Valid(_) | Body::Invalid(_) => None,
    });
    let mut findings = Vec::new();
    for (key, server) in servers {
        let workloads = match &server.workloads {
            WorkloadSelector::Pods(_) => Kind::Pod,
            WorkloadSelector::ExternalWorkloads(_) => Kind::ExternalWorkload,
        };
        let missing = unknown::of_kinds(&[workloads], &key.namespace, world.gaps);
        if let Some(missing) = missing.first() {
            unknown.push(Unknown {
                object: key.clone(),
                message: format!(
                    "what it selects is not known, because {missing} may not be listed"
                ),
            });
            continue;
        }
        let found = finding(key, server, world, places);
        findings.extend(found.or_else(|| displaced(key, server, compiled)));
    }
    findings
}

fn finding(
    key: &ObjectKey,
    server: &Server,
    world: &World<'_>,
    places: &mut Places,
) -> Option<Finding> {
    let (field, word, selector) = match &server.workloads {
        WorkloadSelector::Pods(selector) => ("spec.podSelector", "pod", selector),
        WorkloadSelector::ExternalWorkloads(selector) => {
            ("spec.externalWorkloadSelector", "ExternalWorkload", selector)
        }
    };
    let inside: Vec<&Arc<Object>> = world
        .compiled
        .objects
        .iter()
        .filter(|object| object.meta.key.namespace == key.namespace)
        .filter(|object| is_selectable(object, &server.workloads))
        .collect();
    let selected: Vec<&Arc<Object>> =
        inside.iter().filter(|o| selector.matches(&o.meta.labels)).copied().collect();
    if selected.is_empty() {
        let before = matched_before(places.value(key));
        let namespace = &key.namespace;
        let near = near_label(selector, &inside);
        let here = if world.whole { "" } else { " here" };
        let told = before.as_deref().map(|b| format!("; it did before: {b}")).unwrap_or_default();
        let message = format!("selects no {word} of namespace `{namespace}`{here}{near}{told}");
        let severity = if before.is_some() { Severity::Error } else { Severity::Warning };
        return Some(Finding { severity, ..Finding::warning(key, field.to_owned(), message) });
    }
    if selected.iter().any(|object| has(object, &server.port)) {
        return None;
    }
    let declared = declared(&selected);
    let have = have(&declared);
    let (message, severity) = match &server.port {
        PortRef::Name(name) => {
            let names: Vec<&str> =
                declared.iter().filter_map(|(name, _)| name.as_deref()).collect();
            let near = nearest(name, &names);
            let near = near.map(|near| format!("; is `{near}` meant?")).unwrap_or_default();
            let message =
                format!("no {word} that is selected has a port named `{name}`; {have}{near}");
            (message, world.missing())
        }
        // A number that is not declared can be listened on nonetheless.
        PortRef::Number(number) if world.whole => {
            let message = format!("no {word} that is selected declares port {number}; {have}");
            (message, Severity::Warning)
        }
        PortRef::Number(_) => return None,
    };
    Some(Finding { severity, ..Finding::warning(key, "spec.port".to_owned(), message) })
}

fn is_selectable(object: &Object, selector: &WorkloadSelector) -> bool {
    match (&object.body, selector) {
        (Body::Valid(Resource::Pod(_)), WorkloadSelector::Pods(_))
        | (Body::Valid(Resource::ExternalWorkload(_)), WorkloadSelector::ExternalWorkloads(_)) => {
            true
        }
        (Body::Valid(_) | Body::Invalid(_), _) => false,
    }
}

/// Whether a workload declares the port that a Server means.
fn has(object: &Object, port: &PortRef) -> bool {
    match port {
        PortRef::Name(_) => !ports_meant(object, port).is_empty(),
        PortRef::Number(number) => match &object.body {
            Body::Valid(Resource::Pod(pod)) => {
                let declared = pod.ports.iter().map(|port| port.number);
                declared.chain(pod.probes.iter().map(|p| p.port)).any(|port| port == *number)
            }
            Body::Valid(Resource::ExternalWorkload(workload)) => workload.ports.contains(number),
            Body::Valid(_) | Body::Invalid(_) => false,
        },
    }
}

/// The ports that workloads declare, with their names.
fn declared(objects: &[&Arc<Object>]) -> BTreeSet<(Option<Arc<str>>, NonZeroU16)> {
    let of = |object: &&Arc<Object>| -> Vec<(Option<Arc<str>>, NonZeroU16)> {
        match &object.body {
            Body::Valid(Resource::Pod(pod)) => {
                pod.ports.iter().map(|port| (port.name.clone(), port.number)).collect()
            }
            Body::Valid(Resource::ExternalWorkload(workload)) => {
                let name = |number: &NonZeroU16| {
                    let named = workload.named_ports.iter().find(|(_, own)| *own == number);
                    (named.map(|(name, _)| name.clone()), *number)
                };
                workload.ports.iter().map(name).collect()
            }
            Body::Valid(_) | Body::Invalid(_) => Vec::new(),
        }
    };
    objects.iter().flat_map(of).collect()
}

/// The ports that there are, in words.
fn have(declared: &BTreeSet<(Option<Arc<str>>, NonZeroU16)>) -> String {
    if declared.is_empty() {
        return "none declares any port".to_owned();
    }
    let words = declared.iter().map(|(name, number)| match name {
        Some(name) => format!("`{name}` ({number})"),
        None => number.to_string(),
    });
    format!("they have {}", words.collect::<Vec<_>>().join(", "))
}

/// The label that was probably meant, where a selector asks for one that nothing has.
fn near_label(selector: &LabelSelector, inside: &[&Arc<Object>]) -> String {
    for (key, value) in &selector.match_labels {
        let values: BTreeSet<&str> = inside
            .iter()
            .filter_map(|object| object.meta.labels.get(key))
            .map(|value| &**value)
            .collect();
        if values.contains(&**value) {
            continue;
        }
        let values: Vec<&str> = values.into_iter().collect();
        if let Some(near) = nearest(value, &values) {
            return format!("; is `{key}: {near}` meant?");
        }
    }
    String::new()
}

/// What the object's own status says of workloads that it was in force on.
fn matched_before(value: Option<&Value>) -> Option<String> {
    let conditions = value?.get("status")?.get("conditions")?.as_array()?;
    let text = |condition: &Value, field: &str| {
        condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let programmed = conditions.iter().find(|condition| text(condition, "type") == "Programmed")?;
    let counted = text(programmed, "status") != "Unknown";
    let some = counted && text(programmed, "reason") != "NoProxies";
    some.then(|| format!("its status says {}", text(programmed, "message")))
}

/// A Server of which every port is owned by others.
fn displaced(key: &ObjectKey, server: &Server, compiled: &Compiled) -> Option<Finding> {
    let mut others: BTreeSet<String> = BTreeSet::new();
    for object in compiled.objects.iter().filter(|o| o.meta.key.namespace == key.namespace) {
        let (kind, selector) = match (&object.body, &server.workloads) {
            (Body::Valid(Resource::Pod(_)), WorkloadSelector::Pods(selector)) => {
                (WorkloadKind::Pod, selector)
            }
            (
                Body::Valid(Resource::ExternalWorkload(_)),
                WorkloadSelector::ExternalWorkloads(selector),
            ) => (WorkloadKind::ExternalWorkload, selector),
            (Body::Valid(_) | Body::Invalid(_), _) => continue,
        };
        if !selector.matches(&object.meta.labels) {
            continue;
        }
        let (namespace, name) = (key.namespace.clone(), object.meta.key.name.clone());
        let workload = compiled.workloads.get(&WorkloadKey { namespace, kind, name })?;
        for port in ports_meant(object, &server.port) {
            match &workload.policy.ports.get(&port)?.owner {
                Owner::Server(owner) if *owner == key.to_ref() => return None,
                Owner::Server(owner) => others.insert(owner.to_string()),
                Owner::Default(_) => return None,
            };
        }
    }
    let owners = others.into_iter().collect::<Vec<_>>().join(", ");
    (!owners.is_empty()).then(|| {
        let message = format!(
            "takes no effect: what it selects is owned by {owners}, which is older or comes first \
             by name"
        );
        Finding::warning(key, "spec.port".to_owned(), message)
    })
}
