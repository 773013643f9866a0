//! Pods, and the kinds that make them: lenient, only what policy depends on is read.

use super::pod_owner;
use crate::annotation::{
    Annotations as Texts, INIT_CONTAINER, PROXY_CONTAINER, PROXY_INJECTED, PROXY_LABEL,
    SIDECAR_MARK, SKIP_ARGUMENT, numbered_ports,
};
use crate::kind::Kind;
use crate::parse::input::{Form, Input};
use crate::parse::metadata::{refuse_near, texts};
use crate::parse::probe;
use crate::ports::PortSet;
use crate::reader::{AllowedFields, Fields, JsonNode, shared};
use crate::resource::{ContainerPort, Pod, PodSidecar, Resource, WorkloadResource};
use crate::sidecar_mark::{Capture, SidecarMark};
use serde_json::Value;
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
    let mut pod = pod(&spec, &input.meta.labels, &input.meta.annotations)?;
    if is_of_another(&pod, &input.meta.key.namespace) {
        pod.sidecar = PodSidecar::Unreadable;
    }
    pod.started = input.meta.created;
    pod.owner = pod_owner::read(input);
    if let Some(status) = input.root.get("status").and_then(|node| node.fields(AllowedFields::Any))
    {
        pod.addresses = addresses(&status, "podIPs", "podIP");
        pod.host_addresses = addresses(&status, "hostIPs", "hostIP");
        let phase = status.get("phase");
        let is_in = |phases: &[&str]| {
            phase
                .as_ref()
                .is_some_and(|node| phases.contains(&node.value().as_str().unwrap_or_default()))
        };
        pod.running = is_in(&["Running"]) && !is_ending(input);
        pod.has_ended = is_in(&["Succeeded", "Failed"]);
        pod.started = started(&status).or(pod.started);
    }
    Some(Resource::Pod(pod))
}

/// True if the pod has a deletion timestamp; it runs on until its grace period is over.
fn is_ending(input: &Input<'_>) -> bool {
    let metadata = input.root.get("metadata").and_then(|node| node.fields(AllowedFields::Any));
    metadata.is_some_and(|fields| fields.get("deletionTimestamp").is_some())
}

/// When the kubelet accepted the pod. A time that cannot be read is as if it were not there.
fn started(status: &Fields<'_>) -> Option<i64> {
    let time = status.get("startTime")?.value().as_str()?.parse::<jiff::Timestamp>();
    time.ok().map(jiff::Timestamp::as_second)
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
    let first = if kind == Kind::StatefulSet { first_ordinal(&spec) } else { Some(0) };
    let indexed = kind == Kind::Job
        && spec.get("completionMode").is_some_and(|mode| mode.value() == "Indexed");
    let near = match input.form {
        Form::Written => AllowedFields::NoneNear(&["metadata", "spec"]),
        Form::Stored => AllowedFields::Any,
    };
    let template = spec.require("template")?.fields(near)?;
    let metadata = template.get("metadata").and_then(|node| node.fields(AllowedFields::Any));
    if let Some(fields) = metadata.as_ref().filter(|_| input.form == Form::Written) {
        refuse_near(fields);
    }
    let part = |name: &str| texts(metadata.as_ref().and_then(|fields| fields.get(name)));
    let (labels, annotations) = (part("labels"), part("annotations"));
    let pod = pod(&template.require("spec")?.fields(AllowedFields::Any)?, &labels, &annotations);
    Some(Resource::Workload(WorkloadResource {
        replicas: replicas?,
        is_controlled: is_controlled(input),
        first: first?,
        indexed,
        labels,
        annotations,
        pod: pod?,
    }))
}

/// True if an owner of the object is its controller.
fn is_controlled(input: &Input<'_>) -> bool {
    let metadata = input.root.get("metadata");
    let owners = metadata.and_then(|node| node.value().get("ownerReferences")?.as_array());
    let is_controller = |owner: &Value| owner.get("controller").is_some_and(|it| it == true);
    owners.is_some_and(|owners| owners.iter().any(is_controller))
}

fn count(spec: &Fields<'_>, name: &str) -> Option<u32> {
    match spec.get(name) {
        Some(node) => node.integer(0, MAX_REPLICAS).and_then(|n| u32::try_from(n).ok()),
        None => Some(1),
    }
}

/// The number of a StatefulSet's first pod.
fn first_ordinal(spec: &Fields<'_>) -> Option<u32> {
    let Some(node) = spec.get("ordinals") else { return Some(0) };
    let Some(start) = node.fields(AllowedFields::Any)?.get("start") else { return Some(0) };
    start.integer(0, MAX_REPLICAS).and_then(|start| u32::try_from(start).ok())
}

fn pod(spec: &Fields<'_>, labels: &Texts, annotations: &Texts) -> Option<Pod> {
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
    let host_network = spec.get("hostNetwork").map(|node| node.value() == true);
    pod.uses_host_network = host_network == Some(true);
    // A Pod may list tens of thousands of ports.
    let mut seen = HashSet::new();
    let containers = containers(spec)?;
    pod.sidecar = sidecar(&containers, labels, annotations);
    for container in containers {
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
    let skipped = skipped(spec);
    if contradicts(&pod.sidecar, skipped.as_ref()) {
        pod.sidecar = PodSidecar::Unreadable;
    }
    pod.skipped = skipped.unwrap_or_default();
    Some(pod)
}

/// The sidecar of a pod with its label or its container. A mark on any other pod counts for nothing. The
/// container alone suffices, because it stays when somebody takes label and mark away.
fn sidecar(containers: &[Fields<'_>], labels: &Texts, annotations: &Texts) -> PodSidecar {
    let is_labelled = labels.get(PROXY_LABEL).is_some_and(|value| &**value == PROXY_INJECTED);
    let is_proxy = |container: &Fields<'_>| {
        container.get("name").is_some_and(|name| name.value() == PROXY_CONTAINER)
    };
    if !is_labelled && !containers.iter().any(is_proxy) {
        return PodSidecar::None;
    }
    match annotations.get(SIDECAR_MARK) {
        Some(text) => SidecarMark::parse(text)
            .map_or(PodSidecar::Unreadable, |mark| PodSidecar::Marked(Arc::new(mark))),
        None => PodSidecar::Unmarked,
    }
}

/// True if a mark names other ports than the init container leaves out, or another way of capture. The
/// containers and their arguments are immutable and annotations are not, so that the mark is forged: by it
/// clients would send in plaintext what the pod expects in mesh TLS.
fn contradicts(sidecar: &PodSidecar, skipped: Option<&PortSet>) -> bool {
    match sidecar {
        PodSidecar::Marked(mark) => match mark.capture {
            Capture::InitContainer => mark.skipped != skipped.cloned().unwrap_or_default(),
            Capture::Plugin => skipped.is_some(),
        },
        PodSidecar::None | PodSidecar::Unmarked | PodSidecar::Unreadable => false,
    }
}

/// True if a mark states an identity that is not the pod's own. It is forged, too: by it the bytes of
/// clients could reach, under their names, whom the pod relays them to.
fn is_of_another(pod: &Pod, namespace: &str) -> bool {
    match &pod.sidecar {
        PodSidecar::Marked(mark) => !mark.is_of(namespace, &pod.service_account),
        PodSidecar::None | PodSidecar::Unmarked | PodSidecar::Unreadable => false,
    }
}

/// The ports that the init container leaves out of redirection, by the arguments that it was
/// started with, which are immutable in the API server. `None`: there is no such container.
fn skipped(spec: &Fields<'_>) -> Option<PortSet> {
    let list = spec.get("initContainers").and_then(|node| node.list()).unwrap_or_default();
    let mut containers = list.iter().filter_map(|node| node.fields(AllowedFields::Any));
    let init = containers
        .find(|fields| fields.get("name").is_some_and(|name| name.text() == Some(INIT_CONTAINER)));
    let arguments = init?.get("args").and_then(|node| node.list()).unwrap_or_default();
    let mut texts = arguments.iter().filter_map(JsonNode::text);
    let ports = texts.find_map(|text| text.strip_prefix(SKIP_ARGUMENT));
    Some(ports.map(numbered_ports).unwrap_or_default())
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
