//! The port of a question, as people name it, and the workloads that it stands for.

use crate::authz::select::{WorkloadSelection, WorkloadTarget, pods};
use crate::cluster::undetermined;
use crate::inventory::Inventory;
use anyhow::bail;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::resource::{ContainerPort, Pod, PortRef, Service, ServicePort};
use policy_crds::{Body, Kind, ObjectKey, Resource, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// A port of one workload or of several: `deploy/web:8080`, `shop/web-0:8080`, `web-0:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortArgument {
    /// The text before the port.
    name: String,
    /// The port, by number or name.
    port: PortRef,
}

impl FromStr for PortArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "`{text}` is no port of a workload: pod/NAME:PORT, deploy/NAME:PORT, svc/NAME:PORT and the \
                 like, or NAMESPACE/POD:PORT"
            )
        };
        let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = match port.parse::<NonZeroU16>() {
            Ok(number) => PortRef::Number(number),
            Err(_) if is_port_name(port) => PortRef::Name(port.into()),
            Err(_) => return Err(wrong()),
        };
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), port })
    }
}

impl fmt::Display for PortArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, shown(&self.port))
    }
}

/// The workloads of a question, with the port in question.
pub(crate) struct TargetPort {
    /// The workloads, in order, each with the port. Never empty.
    pub(crate) workloads: BTreeMap<WorkloadKey, NonZeroU16>,
    /// The host by which the Service is called, where one was named.
    pub(crate) host: Option<String>,
    /// A remark about the port of a Service.
    pub(crate) remark: Option<String>,
}

impl PortArgument {
    /// Finds the workloads.
    ///
    /// # Errors
    /// There is none, with the nearest names; or it is not known, because pods may not be listed.
    pub(crate) async fn find(&self, inventory: &Inventory) -> anyhow::Result<TargetPort> {
        let (namespace, pod) = match self.name.split_once('/') {
            None => (None, self.name.as_str()),
            Some((word, name)) => {
                let is_namespace = inventory
                    .compiled
                    .workloads
                    .keys()
                    .any(|key| *key.namespace == *word && *key.name == *name);
                match self.name.parse::<WorkloadTarget>() {
                    Ok(target) if !is_namespace => return self.of_target(inventory, target).await,
                    // A kind that is misspelt, unless it is a namespace.
                    Err(error) if !is_namespace && !is_any_namespace(inventory, word) => {
                        bail!("{error}")
                    }
                    Ok(_) | Err(_) => (Some(word), name),
                }
            }
        };
        let in_scope = |key: &&WorkloadKey| match namespace {
            Some(namespace) => *key.namespace == *namespace,
            None => inventory.scope.contains(&key.namespace),
        };
        let all = || inventory.compiled.workloads.keys().filter(in_scope);
        let found: BTreeSet<WorkloadKey> = all().filter(|key| *key.name == *pod).cloned().collect();
        if found.is_empty() {
            let known: Vec<&str> = all().map(|key| &*key.name).collect();
            bail!("{}", missing(inventory, &self.name, nearest(pod, &known)));
        }
        let workloads = self.of_pods(inventory, found)?;
        Ok(TargetPort { workloads, host: None, remark: None })
    }

    async fn of_target(
        &self,
        inventory: &Inventory,
        target: WorkloadTarget,
    ) -> anyhow::Result<TargetPort> {
        let found = pods(inventory, &target).await;
        let found = match (found, self.name.split_once('/')) {
            (Ok(found), _) => found,
            // A word that is no kind and looks like none may be a namespace.
            (Err(_), Some((word, pod))) if is_any_namespace(inventory, word) => {
                let of_namespace =
                    inventory.compiled.workloads.keys().filter(|key| *key.namespace == *word);
                let known: Vec<&str> = of_namespace.map(|key| &*key.name).collect();
                bail!("{}", missing(inventory, &self.name, nearest(pod, &known)));
            }
            (Err(error), _) => return Err(error),
        };
        let workloads = match found {
            WorkloadSelection::These(keys) => keys,
            WorkloadSelection::All => bail!("`{}` names no workload", self.name),
        };
        let WorkloadTarget::Service(service) = &target else {
            let workloads = self.of_pods(inventory, workloads)?;
            return Ok(TargetPort { workloads, host: None, remark: None });
        };
        let namespace = workloads.first().map(|key| key.namespace.to_string()).unwrap_or_default();
        let host = Some(format!("{service}.{namespace}"));
        let mut ports = BTreeMap::new();
        let mut rest = BTreeSet::new();
        for key in workloads {
            match container_port(inventory, service, &self.port, &key) {
                Some(port) => drop(ports.insert(key, port)),
                None => drop(rest.insert(key)),
            }
        }
        ports.extend(self.of_pods(inventory, rest)?);
        let is_other = |port: &&NonZeroU16| PortRef::Number(**port) != self.port;
        let others: BTreeSet<u16> =
            ports.values().filter(is_other).map(|port| port.get()).collect();
        let others: Vec<String> = others.iter().map(u16::to_string).collect();
        let remark = (!others.is_empty()).then(|| {
            let (others, port) = (others.join(" or "), &self.port);
            format!("port {} of Service {service} is port {others} of its pods", shown(port))
        });
        Ok(TargetPort { workloads: ports, host, remark })
    }

    /// The port of each of these workloads.
    ///
    /// # Errors
    /// None of them declares a port of the name.
    fn of_pods(
        &self,
        inventory: &Inventory,
        workloads: BTreeSet<WorkloadKey>,
    ) -> anyhow::Result<BTreeMap<WorkloadKey, NonZeroU16>> {
        let name = match &self.port {
            PortRef::Number(number) => {
                return Ok(workloads.into_iter().map(|key| (key, *number)).collect());
            }
            PortRef::Name(name) => name,
        };
        let (mut found, mut known) = (BTreeMap::new(), BTreeSet::new());
        let any = !workloads.is_empty();
        for key in workloads {
            let ports = container_ports(inventory, &key);
            known.extend(ports.iter().filter_map(|port| port.name.clone()));
            let port = ports.iter().find(|port| port.name.as_ref() == Some(name));
            found.extend(port.map(|port| (key, port.number)));
        }
        if found.is_empty() && any {
            let known: Vec<&str> = known.iter().map(|name| &**name).collect();
            let known = match known.is_empty() {
                true => "none of its ports has a name".to_owned(),
                false => format!("its ports are called {}", known.join(", ")),
            };
            bail!("`{}` has no port of the name `{name}`: {known}", self.name);
        }
        Ok(found)
    }
}

/// The text of a port.
fn shown(port: &PortRef) -> String {
    match port {
        PortRef::Number(number) => number.to_string(),
        PortRef::Name(name) => name.to_string(),
    }
}

/// True if a text may be the name of a port.
fn is_port_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() <= 15 && text.chars().all(is_part) && text.contains(|c: char| c.is_ascii_lowercase())
}

fn is_any_namespace(inventory: &Inventory, word: &str) -> bool {
    inventory.compiled.workloads.keys().any(|key| *key.namespace == *word)
}

/// The message about a workload that was not found.
fn missing(inventory: &Inventory, name: &str, near: Option<&str>) -> String {
    let kinds = [Kind::Pod, Kind::ExternalWorkload];
    let hidden = undetermined::in_scope(&kinds, &inventory.scope, &inventory.permissions);
    if !hidden.is_empty() {
        let hidden = hidden.join(" and ");
        return format!(
            "whether there is a workload {name} in {} is not known, because {hidden} may not be listed",
            inventory.source
        );
    }
    let near = near.map(|near| format!("; is it {near}?")).unwrap_or_default();
    format!("there is no workload {name} in {}{near}", inventory.source)
}

/// The port of one of a Service's pods to which the Service leads; `None` if it does not declare the port, or the
/// Service is not known.
fn container_port(
    inventory: &Inventory,
    service: &str,
    port: &PortRef,
    workload: &WorkloadKey,
) -> Option<NonZeroU16> {
    let is_it = |declared: &&ServicePort| match port {
        PortRef::Number(number) => declared.port == *number,
        PortRef::Name(name) => declared.name == *name,
    };
    services(inventory)
        .filter(|(key, _)| *key.name == *service && key.namespace == workload.namespace)
        .flat_map(|(_, ports)| ports)
        .find(is_it)
        .and_then(|declared| leads_to(inventory, declared, workload))
}

fn services(inventory: &Inventory) -> impl Iterator<Item = (&ObjectKey, &[ServicePort])> {
    inventory.compiled.objects.iter().filter_map(|object| match &object.body {
        Body::Valid(Resource::Service(service)) => Some((&object.meta.key, &service.ports[..])),
        Body::Valid(_) | Body::Invalid(_) => None,
    })
}

/// The port of a pod that a port of a Service leads to.
fn leads_to(
    inventory: &Inventory,
    declared: &ServicePort,
    workload: &WorkloadKey,
) -> Option<NonZeroU16> {
    let name = match &declared.target {
        None => return Some(declared.port),
        Some(PortRef::Number(number)) => return Some(*number),
        Some(PortRef::Name(name)) => name,
    };
    let ports = container_ports(inventory, workload);
    ports.into_iter().find(|port| port.name.as_ref() == Some(name)).map(|port| port.number)
}

/// The ports that the containers of a pod declare; empty for other workloads.
pub(super) fn container_ports(inventory: &Inventory, workload: &WorkloadKey) -> Vec<ContainerPort> {
    pod(inventory, workload).map(|pod| pod.ports.clone()).unwrap_or_default()
}

/// The pod of a workload.
pub(super) fn pod<'a>(inventory: &'a Inventory, workload: &WorkloadKey) -> Option<&'a Pod> {
    let object = inventory.object(&object_key(workload))?;
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => Some(pod),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The key of the object that a workload is.
pub(super) fn object_key(workload: &WorkloadKey) -> ObjectKey {
    let kind = match workload.kind {
        WorkloadKind::Pod => Kind::Pod,
        WorkloadKind::ExternalWorkload => Kind::ExternalWorkload,
    };
    ObjectKey { kind, namespace: workload.namespace.clone(), name: workload.name.clone() }
}

/// The Services whose selector selects a workload, as `name.namespace`, with the ports that are dialled to
/// come to `port`.
pub(super) fn services_of(
    inventory: &Inventory,
    workload: &WorkloadKey,
    port: NonZeroU16,
) -> BTreeMap<String, BTreeSet<u16>> {
    let Some(own) = inventory.object(&object_key(workload)) else { return BTreeMap::new() };
    let labels = &own.meta.labels;
    let ports = |service: &Service| -> BTreeSet<u16> {
        let leading =
            service.ports.iter().filter(|own| leads_to(inventory, own, workload) == Some(port));
        // Behind a Service without an address the pod's own port is dialled.
        let is_other = service.ports.iter().any(|own| own.port == port);
        let own = Some(port).filter(|_| !is_other);
        leading.map(|own| own.port).chain(own).map(NonZeroU16::get).collect()
    };
    let selecting = inventory.compiled.objects.iter().filter_map(|object| {
        let Body::Valid(Resource::Service(service)) = &object.body else { return None };
        let key = &object.meta.key;
        let selects = key.namespace == workload.namespace
            && !service.selector.is_empty()
            && service.selector.iter().all(|(label, value)| labels.get(label) == Some(value));
        selects.then(|| (format!("{}.{}", key.name, key.namespace), ports(service)))
    });
    selecting.collect()
}

/// Ports of Services that lead to a port of a workload's pods, as `port 80 of Service web`.
pub(super) fn service_port(
    inventory: &Inventory,
    workload: &WorkloadKey,
    port: NonZeroU16,
) -> Option<(String, NonZeroU16)> {
    let labels = &inventory.object(&object_key(workload))?.meta.labels;
    inventory.compiled.objects.iter().find_map(|object| {
        let Body::Valid(Resource::Service(service)) = &object.body else { return None };
        let selects = object.meta.key.namespace == workload.namespace
            && !service.selector.is_empty()
            && service.selector.iter().all(|(label, value)| labels.get(label) == Some(value));
        let declared = service.ports.iter().filter(|_| selects).find(|own| own.port == port)?;
        let to = leads_to(inventory, declared, workload).filter(|to| *to != port)?;
        Some((object.meta.key.to_string(), to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_a_workload_is_read_strictly() {
        for good in ["deploy/web:8080", "shop/web-0:8080", "web-0:1", "svc/web:80", "web:http"] {
            let read: PortArgument = good.parse().unwrap();
            assert_eq!(read.to_string(), good);
        }
        for wrong in [
            "web",
            "web:0",
            "web:HTTP",
            "web:8080-",
            "a/b/c:1",
            "/web:1",
            "deploy/:1",
            ":1",
            "web:70000",
        ] {
            assert!(wrong.parse::<PortArgument>().is_err(), "{wrong}");
        }
    }
}
