//! Servers that would own no port of any workload: they select none, name a port that none has, or
//! have older Servers that own the ports of all selected workloads.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::query::port_ownership::{ClaimOutcome, PortOwnersOf, displaced_message, listed};
use crate::query::workload::{WorkloadOf, WorkloadShape, workload_key};
use policy_crds::resource::{PortRef, Resource, Server, Service, WorkloadSelector};
use policy_crds::{Body, Kind, LabelSelector, ObjectKey, nearest};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The shapes of the workloads that a Server selects.
pub(crate) type Shapes = BTreeSet<Arc<WorkloadShape>>;

/// Ports with their names, where they have one.
type NamedPorts<'a> = BTreeSet<(Option<&'a str>, NonZeroU16)>;

impl Finder<'_> {
    /// The first finding about a Server.
    pub(super) fn server(&mut self, key: &ObjectKey, server: &Server) -> Option<Finding> {
        let (kind, _, selector) = selection(server);
        let inside = self.index.list(kind, &key.namespace);
        let selected: Vec<ObjectKey> = inside
            .filter(|object| selector.matches(&object.meta.labels))
            .map(|object| object.meta.key.clone())
            .take(self.examined.saturating_add(1))
            .collect();
        if selected.is_empty() {
            return Some(self.selects_nothing(key, server));
        }
        if selected.len() > self.examined {
            return None;
        }
        let mut shapes = Shapes::new();
        for workload in selected.iter().filter_map(workload_key) {
            let resolved = self.query(&WorkloadOf(workload));
            shapes.extend(resolved.map(|resolved| resolved.shape.clone()));
        }
        match self.port_of_service(key, &server.port, &selected, &shapes) {
            None => self.finding_on(key, server, &shapes),
            found => found,
        }
    }

    /// The finding about a port number that no workload declares, and that a Service of them has as its
    /// own, while its workloads listen on another.
    fn port_of_service(
        &self,
        key: &ObjectKey,
        port: &PortRef,
        selected: &[ObjectKey],
        shapes: &Shapes,
    ) -> Option<Finding> {
        let PortRef::Number(number) = port else { return None };
        if shapes.iter().any(|shape| shape.declared.contains(number)) {
            return None;
        }
        let selects_some = |service: &Service| {
            let selects =
                |key| self.index.object(key).is_some_and(|o| service.selects(&o.meta.labels));
            selected.iter().any(selects)
        };
        let services = self.index.list(Kind::Service, &key.namespace).take(self.examined);
        let mut found = None;
        for object in services {
            let Body::Valid(Resource::Service(service)) = &object.body else { continue };
            if !selects_some(service) {
                continue;
            }
            // Some port leads to the number itself, which its workloads then listen on.
            if service.ports.iter().any(|declared| declared.pod_port() == *port) {
                return None;
            }
            let target = service.target_of(*number);
            found = found.or_else(|| Some((&object.meta.key, target?)));
        }
        let (service, target) = found?;
        let target = match &target {
            PortRef::Number(number) => number.to_string(),
            PortRef::Name(name) => format!("their port `{name}`"),
        };
        let message = format!(
            "{number} is a port of {service}, whose pods listen on {target}; a Server names the port of \
             its pods"
        );
        Some(finding(key, FindingKind::ServicePort, "spec.port", message))
    }

    /// The finding about a Server that selects no workload.
    pub(crate) fn selects_nothing(&self, key: &ObjectKey, server: &Server) -> Finding {
        let (kind, field, selector) = selection(server);
        let (word, namespace) = (word(kind), &key.namespace);
        let near = self.suggest_label(kind, key, selector);
        let message = format!("selects no {word} of namespace `{namespace}`{near}");
        finding(key, FindingKind::SelectsNothing, field, message)
    }

    /// The finding about a Server on the workloads that it selects, which have these shapes.
    pub(crate) fn finding_on(
        &mut self,
        key: &ObjectKey,
        server: &Server,
        shapes: &Shapes,
    ) -> Option<Finding> {
        let (kind, ..) = selection(server);
        let lacking = match port_missing(word(kind), &server.port, shapes) {
            None => self.displaced(key, &server.port, shapes),
            missing => missing,
        };
        let (kind, message) = lacking?;
        Some(finding(key, kind, "spec.port", message))
    }

    /// A suggestion of a similar value or name of a label, if no object has the one that is selected, or
    /// else of a namespace.
    fn suggest_label(&self, kind: Kind, key: &ObjectKey, selector: &LabelSelector) -> String {
        if !self.may_search() {
            return String::new();
        }
        for (label, value) in &selector.match_labels {
            let inside = self.index.list(kind, &key.namespace).take(self.examined);
            let values: BTreeSet<&str> =
                inside.filter_map(|object| object.meta.labels.get(label)).map(|v| &**v).collect();
            if values.contains(&**value) {
                continue;
            }
            let values: Vec<&str> = values.into_iter().collect();
            if let Some(near) = nearest(value, &values) {
                return format!("; is `{label}: {near}` meant?");
            }
            if let Some(near) = self.key_with_value(kind, key, (label, value)) {
                return format!("; is `{near}: {value}` meant?");
            }
        }
        self.suggest_namespace(kind, key, selector)
    }

    /// The name of a label that was probably meant, where an object has it with the same value.
    fn key_with_value(
        &self,
        kind: Kind,
        key: &ObjectKey,
        (label, value): (&str, &str),
    ) -> Option<&str> {
        let inside = self.index.list(kind, &key.namespace).take(self.examined);
        let labels = inside.flat_map(|object| &object.meta.labels);
        let same: BTreeSet<&str> =
            labels.filter(|(_, own)| ***own == *value).map(|(name, _)| &**name).collect();
        let same: Vec<&str> = same.into_iter().collect();
        // `app: web` for `app.kubernetes.io/name: web`.
        let alone = || match same.as_slice() {
            [only] if !["true", "false"].contains(&value) => Some(*only),
            _ => None,
        };
        nearest(label, &same).or_else(alone)
    }

    /// The namespace that was probably meant, where the Server would select something.
    fn suggest_namespace(&self, kind: Kind, key: &ObjectKey, selector: &LabelSelector) -> String {
        // A namespace that has workloads is no mistyped one.
        let has_some = self.index.list(kind, &key.namespace).next().is_some();
        if has_some || !self.may_search_namespaces() {
            return String::new();
        }
        let all = self.index.all(kind).take(self.examined);
        let selected = all.filter(|object| selector.matches(&object.meta.labels));
        let namespaces: BTreeSet<&str> =
            selected.map(|object| &*object.meta.key.namespace).collect();
        let namespaces: Vec<&str> = namespaces.into_iter().collect();
        let near = nearest(&key.namespace, &namespaces);
        near.map(|near| format!("; is namespace `{near}` meant?")).unwrap_or_default()
    }

    /// The Servers that own its port instead, where some do.
    fn displaced(
        &mut self,
        key: &ObjectKey,
        port: &PortRef,
        shapes: &Shapes,
    ) -> Option<(FindingKind, String)> {
        let mut outcome = ClaimOutcome::default();
        for shape in shapes {
            let owners = self.query(&PortOwnersOf(shape.clone()));
            outcome.add(key, port, (shape, &owners));
        }
        let (kind, effect) = match outcome.is_displaced() {
            true => (FindingKind::Displaced, "takes no effect"),
            false => (FindingKind::DisplacedInPart, "takes no effect on some workloads"),
        };
        let found = !outcome.owners.is_empty();
        found.then(|| (kind, displaced_message(effect, &outcome.owners)))
    }
}

/// The kind of workload that a Server selects, the field that selects, and its selector.
fn selection(server: &Server) -> (Kind, &'static str, &LabelSelector) {
    match &server.workloads {
        WorkloadSelector::Pods(selector) => (Kind::Pod, "spec.podSelector", selector),
        WorkloadSelector::ExternalWorkloads(selector) => {
            (Kind::ExternalWorkload, "spec.externalWorkloadSelector", selector)
        }
    }
}

/// The name of the admin port of Linkerd's sidecar.
const LINKERDS_ADMIN: &str = "linkerd-admin";

fn word(kind: Kind) -> &'static str {
    if kind == Kind::Pod { "pod" } else { "ExternalWorkload" }
}

/// The finding about a port name that no workload has, or a port number that none declares although
/// all declare some. A workload that declares nothing may listen on any port.
fn port_missing(word: &str, port: &PortRef, shapes: &Shapes) -> Option<(FindingKind, String)> {
    let ports = ports(shapes);
    match port {
        PortRef::Name(name) => {
            let names: BTreeSet<&str> = ports.iter().filter_map(|(name, _)| *name).collect();
            if names.contains(&**name) {
                return None;
            }
            let names: Vec<&str> = names.into_iter().collect();
            let near = nearest(name, &names);
            let near = match near {
                Some(near) => format!("; is `{near}` meant?"),
                None if **name == *LINKERDS_ADMIN => {
                    "; Linkerd's sidecar has it, the admin port of this one is 4191".to_owned()
                }
                None => String::new(),
            };
            let have = describe_ports(&ports);
            let message = format!("no selected {word} has a port named `{name}`; {have}{near}");
            Some((FindingKind::PortName, message))
        }
        PortRef::Number(number) => {
            let silent = shapes.iter().any(|shape| shape.declared.is_subset(&shape.proxy));
            let declared = shapes.iter().any(|shape| shape.declared.contains(number));
            let message =
                || format!("no selected {word} declares port {number}; {}", describe_ports(&ports));
            (!silent && !declared).then(|| (FindingKind::PortNumber, message()))
        }
    }
}

/// The ports that workloads declare themselves.
fn ports(shapes: &Shapes) -> NamedPorts<'_> {
    let mut ports = NamedPorts::new();
    for shape in shapes {
        let named = shape.named_ports.iter();
        let named: NamedPorts<'_> = named
            .flat_map(|(name, ports)| ports.iter().map(move |port| (Some(&**name), *port)))
            .collect();
        let own = shape.declared.difference(&shape.proxy);
        let nameless = own.filter(|own| !named.iter().any(|(_, port)| port == *own));
        ports.extend(nameless.map(|port| (None, *port)));
        ports.extend(named);
    }
    ports
}

/// The declared ports, in words.
fn describe_ports(ports: &NamedPorts<'_>) -> String {
    let words: Vec<String> = ports
        .iter()
        .map(|(name, number)| match name {
            Some(name) => format!("`{name}` ({number})"),
            None => number.to_string(),
        })
        .collect();
    match words.is_empty() {
        true => "none declares any port".to_owned(),
        false => format!("they have {}", listed(words.iter())),
    }
}
