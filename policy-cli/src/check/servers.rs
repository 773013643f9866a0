//! Servers that own no port of any workload.

use super::Finding;
use policy_controller::Compiled;
use policy_crds::resource::{PortRef, Server, WorkloadSelector};
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::sync::Arc;

pub(super) fn findings(compiled: &Compiled) -> Vec<Finding> {
    let servers = compiled.objects.iter().filter_map(|object| match &object.body {
        Body::Valid(Resource::Server(server)) => Some((&object.meta.key, server)),
        Body::Valid(_) | Body::Invalid(_) => None,
    });
    servers.filter_map(|(key, server)| finding(key, server, &compiled.objects)).collect()
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
    if selected.iter().any(|object| has_port(object, name)) {
        return None;
    }
    about("spec.port", format!("no {word} that is selected has a port named `{name}`"))
}

fn has_port(object: &Object, name: &str) -> bool {
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            pod.ports.iter().any(|port| port.name.as_deref() == Some(name))
        }
        Body::Valid(Resource::ExternalWorkload(workload)) => {
            workload.named_ports.contains_key(name)
        }
        Body::Valid(_) | Body::Invalid(_) => false,
    }
}
