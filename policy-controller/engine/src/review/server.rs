//! Servers that would own no port of any workload: they select none, name a port that none has, or
//! older ones own what they select.

use super::Snapshot;
use crate::question::owner::PortsOwned;
use crate::question::workload::{Shape, WorkloadOf, workload_key};
use policy_crds::resource::{PortRef, Server, WorkloadSelector};
use policy_crds::{FieldError, Kind, ObjectKey};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Workloads that are looked at: of a Server that selects more nothing is told.
const EXAMINED: usize = 512;

/// Ports that a message lists.
const LISTED: usize = 8;

impl Snapshot {
    pub(super) fn server(&mut self, key: &ObjectKey, server: &Server) -> Vec<FieldError> {
        let (field, word, kind, selector) = match &server.workloads {
            WorkloadSelector::Pods(selector) => ("spec.podSelector", "pod", Kind::Pod, selector),
            WorkloadSelector::ExternalWorkloads(selector) => (
                "spec.externalWorkloadSelector",
                "ExternalWorkload",
                Kind::ExternalWorkload,
                selector,
            ),
        };
        let namespace = &key.namespace;
        let selected: Vec<ObjectKey> = self
            .index
            .list(kind, namespace)
            .filter(|object| selector.matches(&object.meta.labels))
            .map(|object| object.meta.key.clone())
            .take(EXAMINED.saturating_add(1))
            .collect();
        if selected.is_empty() {
            return about(field, format!("selects no {word} of namespace `{namespace}`"));
        }
        if selected.len() > EXAMINED {
            return Vec::new();
        }
        let mut shapes: BTreeSet<Arc<Shape>> = BTreeSet::new();
        for workload in selected.iter().filter_map(workload_key) {
            let resolved = self.ask(&WorkloadOf(workload));
            shapes.extend(resolved.map(|resolved| resolved.shape.clone()));
        }
        match self.port_missing(word, &server.port, &shapes) {
            Some(message) => about("spec.port", message),
            None => self.displaced(key, &server.port, &shapes),
        }
    }

    /// A name that no workload has, or a number that none declares although all declare some.
    fn port_missing(
        &self,
        word: &str,
        port: &PortRef,
        shapes: &BTreeSet<Arc<Shape>>,
    ) -> Option<String> {
        let own = |shape: &Shape| -> BTreeSet<NonZeroU16> {
            shape.declared.difference(&shape.proxy).copied().collect()
        };
        match port {
            PortRef::Name(name) => {
                let known = shapes.iter().any(|shape| shape.named_ports.contains_key(name));
                let names: BTreeSet<&str> = shapes
                    .iter()
                    .flat_map(|shape| shape.named_ports.keys().map(|name| &**name))
                    .collect();
                let instead = match names.len() {
                    0 => "none has a name".to_owned(),
                    _ => format!("there are {}", list(names.iter())),
                };
                (!known).then(|| format!("no selected {word} has a port named `{name}`, {instead}"))
            }
            PortRef::Number(number) => {
                let silent = shapes.iter().any(|shape| own(shape).is_empty());
                let declared: BTreeSet<NonZeroU16> =
                    shapes.iter().flat_map(|shape| shape.declared.iter().copied()).collect();
                let told: BTreeSet<NonZeroU16> =
                    shapes.iter().flat_map(|shape| own(shape)).collect();
                (!silent && !declared.contains(number)).then(|| {
                    let told = list(told.iter());
                    format!("no selected {word} declares the port {number}, there are {told}")
                })
            }
        }
    }

    /// Who owns the ports instead, where somebody does.
    fn displaced(
        &mut self,
        key: &ObjectKey,
        port: &PortRef,
        shapes: &BTreeSet<Arc<Shape>>,
    ) -> Vec<FieldError> {
        let mut others: BTreeSet<String> = BTreeSet::new();
        let mut owns = false;
        for shape in shapes {
            let owners = self.ask(&PortsOwned(shape.clone()));
            let ports = match port {
                PortRef::Number(number) => std::slice::from_ref(number),
                PortRef::Name(name) => {
                    shape.named_ports.get(name).map(Vec::as_slice).unwrap_or_default()
                }
            };
            for port in ports {
                match owners.of(*port) {
                    Some(owner) if owner == key => owns = true,
                    Some(owner) => {
                        others.insert(owner.to_string());
                    }
                    None => {}
                }
            }
        }
        if others.is_empty() {
            return Vec::new();
        }
        let owners = list(others.iter());
        let effect = if owns { "takes no effect on some of them" } else { "takes no effect" };
        about("spec.port", format!("{effect}: {owners} comes first and owns what is selected"))
    }
}

fn about(field: &str, message: String) -> Vec<FieldError> {
    vec![FieldError { field: field.to_owned(), message }]
}

/// The first few, with commas.
fn list<T: ToString>(items: impl ExactSizeIterator<Item = T>) -> String {
    let more = items.len() > LISTED;
    let shown: Vec<String> = items.take(LISTED).map(|item| item.to_string()).collect();
    format!("{}{}", shown.join(", "), if more { ", …" } else { "" })
}
