//! Servers that own no port of any workload: they select none, or older ones own what they select.

use super::Finding;
use policy_controller::{Compiled, WorkloadKey, WorkloadKind};
use policy_core::Owner;
use policy_crds::resource::{PortRef, Server, WorkloadSelector};
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

pub(super) fn findings(compiled: &Compiled) -> Vec<Finding> {
    let servers = compiled.objects.iter().filter_map(|object| match &object.body {
        Body::Valid(Resource::Server(server)) => Some((&object.meta.key, server)),
        Body::Valid(_) | Body::Invalid(_) => None,
    });
    servers
        .filter_map(|(key, server)| {
            finding(key, server, &compiled.objects).or_else(|| displaced(key, server, compiled))
        })
        .collect()
}

fn finding(key: &ObjectKey, server: &Server, objects: &[Arc<Object>]) -> Option<Finding> {
    let inside = objects.iter().filter(|object| object.meta.key.namespace == key.namespace);
    let about = |field: &str, message: String| {
        Some(Finding { object: key.clone(), field: field.to_owned(), message })
    };
    let (field, word, selected): (_, _, Vec<&Arc<Object>>) = match &server.workloads {
        WorkloadSelector::Pods(selector) => {
            let pods = inside
                .filter(|o| matches!(o.body, Body::Valid(Resource::Pod(_))))
                .filter(|o| selector.matches(&o.meta.labels));
            ("spec.podSelector", "pod", pods.collect())
        }
        WorkloadSelector::ExternalWorkloads(selector) => {
            let workloads = inside
                .filter(|o| matches!(o.body, Body::Valid(Resource::ExternalWorkload(_))))
                .filter(|o| selector.matches(&o.meta.labels));
            ("spec.externalWorkloadSelector", "ExternalWorkload", workloads.collect())
        }
    };
    if selected.is_empty() {
        let namespace = &key.namespace;
        return about(field, format!("selects no {word} of namespace `{namespace}` here"));
    }
    let PortRef::Name(name) = &server.port else { return None };
    if selected.iter().any(|object| !ports(object, &server.port).is_empty()) {
        return None;
    }
    about("spec.port", format!("no {word} that is selected has a port named `{name}`"))
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
        for port in ports(object, &server.port) {
            match &workload.policy.ports.get(&port)?.owner {
                Owner::Server(owner) if *owner == key.to_ref() => return None,
                Owner::Server(owner) => others.insert(owner.to_string()),
                Owner::Default(_) => return None,
            };
        }
    }
    let owners = others.into_iter().collect::<Vec<_>>().join(", ");
    (!owners.is_empty()).then(|| Finding {
        object: key.clone(),
        field: "spec.port".to_owned(),
        message: format!(
            "takes no effect: what it selects is owned by {owners}, which is older or \
                          comes first by name"
        ),
    })
}

/// The ports of a workload that a Server's port means.
fn ports(object: &Object, port: &PortRef) -> Vec<NonZeroU16> {
    match (port, &object.body) {
        (PortRef::Number(number), _) => vec![*number],
        (PortRef::Name(name), Body::Valid(Resource::Pod(pod))) => {
            let named = pod.ports.iter().filter(|port| port.name.as_ref() == Some(name));
            named.map(|port| port.number).collect()
        }
        (PortRef::Name(name), Body::Valid(Resource::ExternalWorkload(workload))) => {
            workload.named_ports.get(name).copied().into_iter().collect()
        }
        (PortRef::Name(_), Body::Valid(_) | Body::Invalid(_)) => Vec::new(),
    }
}
