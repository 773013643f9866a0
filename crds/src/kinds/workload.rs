//! Pods, and the kinds that make them: lenient, only what policy depends on is read.

use crate::annotation::{INIT_CONTAINER, SKIP_ARGUMENT, numbered_ports};
use crate::kind::Kind;
use crate::parse::input::Input;
use crate::parse::metadata::texts;
use crate::parse::probe;
use crate::ports::PortSet;
use crate::reader::{AllowedFields, Fields, JsonNode, shared};
use crate::resource::{ContainerPort, Pod, Resource, WorkloadResource};
use std::collections::HashSet;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The most pods of one workload: far above the capacity of one machine, far below what would
/// exhaust its memory.
const MAX_REPLICAS: i64 = 10_000;

/// A Pod.
pub(super) fn read_pod(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Any)?;
    let mut pod = pod(&spec)?;
    if let Some(status) = input.root.get("status").and_then(|node| node.fields(AllowedFields::Any))
    {
        pod.addresses = addresses(&status, "podIPs", "podIP");
        pod.host_addresses = addresses(&status, "hostIPs", "hostIP");
        let phase = status.get("phase");
        pod.running = phase.is_some_and(|node| node.value() == "Running") && !is_ending(input);
    }
    Some(Resource::Pod(pod))
}

/// True if the pod has a deletion timestamp; it runs on until its grace period is over.
fn is_ending(input: &Input<'_>) -> bool {
    let metadata = input.root.get("metadata").and_then(|node| node.fields(AllowedFields::Any));
    metadata.is_some_and(|fields| fields.get("deletionTimestamp").is_some())
}

/// A kind that makes pods.
pub(super) fn read_template(input: &Input<'_>) -> Option<Resource> {
    let kind = input.meta.key.kind;
    let mut spec = input.spec(AllowedFields::Any)?;
    if kind == Kind::CronJob {
        let job = spec.require("jobTemplate")?.fields(AllowedFields::Any)?;
        spec = job.require("spec")?.fields(AllowedFields::Any)?;
    }
    let scaled = [Kind::Deployment, Kind::StatefulSet, Kind::ReplicaSet].contains(&kind);
    let replicas = if scaled {
        count(&spec, "replicas")
    } else if kind == Kind::Job {
        count(&spec, "parallelism")
    } else {
        Some(1)
    };
    let template = spec.require("template")?.fields(AllowedFields::Any)?;
    let metadata = template.get("metadata").and_then(|node| node.fields(AllowedFields::Any));
    let part = |name: &str| texts(metadata.as_ref().and_then(|fields| fields.get(name)));
    let (labels, annotations) = (part("labels"), part("annotations"));
    let pod = pod(&template.require("spec")?.fields(AllowedFields::Any)?);
    Some(Resource::Workload(WorkloadResource {
        replicas: replicas?,
        labels,
        annotations,
        pod: pod?,
    }))
}

fn count(spec: &Fields<'_>, name: &str) -> Option<u32> {
    match spec.get(name) {
        Some(node) => node.integer(0, MAX_REPLICAS).and_then(|n| u32::try_from(n).ok()),
        None => Some(1),
    }
}

fn pod(spec: &Fields<'_>) -> Option<Pod> {
    let mut pod = Pod { service_account: shared("default"), ..Pod::default() };
    // The older name is still written by some tools.
    for name in ["serviceAccountName", "serviceAccount"] {
        let Some(text) = spec.get(name).and_then(|node| node.text()) else { continue };
        if !text.is_empty() {
            pod.service_account = shared(text);
            break;
        }
    }
    pod.node = spec
        .get("nodeName")
        .and_then(|node| node.text())
        .filter(|name| !name.is_empty())
        .map(shared);
    // A Pod may list tens of thousands of ports.
    let mut seen = HashSet::new();
    for container in containers(spec)? {
        let ports = ports(&container);
        pod.probes.extend(probe::probes(&container, &ports));
        for port in ports {
            if seen.insert(port.clone()) {
                pod.ports.push(port);
            }
        }
    }
    pod.probes.sort();
    pod.probes.dedup();
    pod.skipped = skipped(spec);
    Some(pod)
}

/// The ports that the init container leaves out of redirection, by the arguments that it was
/// started with, which are immutable in the API server.
fn skipped(spec: &Fields<'_>) -> PortSet {
    let list = spec.get("initContainers").and_then(|node| node.list()).unwrap_or_default();
    let mut containers = list.iter().filter_map(|node| node.fields(AllowedFields::Any));
    let init = containers
        .find(|fields| fields.get("name").is_some_and(|name| name.text() == Some(INIT_CONTAINER)));
    let arguments = init.and_then(|fields| fields.get("args")?.list()).unwrap_or_default();
    let mut texts = arguments.iter().filter_map(JsonNode::text);
    let ports = texts.find_map(|text| text.strip_prefix(SKIP_ARGUMENT));
    ports.map(numbered_ports).unwrap_or_default()
}

fn containers<'a>(spec: &Fields<'a>) -> Option<Vec<Fields<'a>>> {
    let mut containers = Vec::new();
    let main = spec.require("containers")?;
    for node in [Some(main), spec.get("initContainers")].into_iter().flatten() {
        containers.extend(node.list()?.iter().filter_map(|node| node.fields(AllowedFields::Any)));
    }
    Some(containers)
}

/// The TCP ports of a container.
fn ports(container: &Fields<'_>) -> Vec<ContainerPort> {
    let list = container.get("ports").and_then(|node| node.list()).unwrap_or_default();
    list.iter().filter_map(port).collect()
}

fn port(node: &JsonNode<'_>) -> Option<ContainerPort> {
    let fields = node.fields(AllowedFields::Any)?;
    let number = fields.require("containerPort")?.integer(1, 65535)?;
    let number = NonZeroU16::new(u16::try_from(number).ok()?)?;
    let name: Option<Arc<str>> =
        fields.get("name").and_then(|node| node.text()).filter(|n| !n.is_empty()).map(shared);
    let tcp = match fields.get("protocol") {
        Some(node) => node.text()?.eq_ignore_ascii_case("tcp"),
        None => true,
    };
    tcp.then_some(ContainerPort { name, number })
}

/// The list of `{ip}`, or the single address where there is no list.
fn addresses(status: &Fields<'_>, list: &str, single: &str) -> Vec<IpAddr> {
    let parse = |node: JsonNode<'_>| node.text().and_then(|text| text.parse().ok());
    match status.get(list).and_then(|node| node.list()) {
        Some(nodes) => nodes
            .iter()
            .filter_map(|node| node.fields(AllowedFields::Any)?.get("ip").and_then(parse))
            .collect(),
        None => status.get(single).and_then(parse).into_iter().collect(),
    }
}
