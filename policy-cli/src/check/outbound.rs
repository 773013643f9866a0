//! Changes that the outbound half makes for those who are called: clients that were plaintext have an
//! identity, and opaque ports are reached by the port of the sidecar.

use super::finding::Finding;
use crate::diagnostics::network_policy::{Direction, admits, named, selects};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use policy_core::{
    Authorization, ObjectRef, Predicate, Protocol, RateLimit, Requirement, ServerPolicy, Source,
    WorkloadKey,
};
use policy_crds::resource::PodSidecar;
use policy_crds::{Body, Object, ObjectKey, Resource, SidecarMark, pods_of};
use policy_engine::source::Severity;
use policy_engine::{Compiled, CompiledWorkload};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the sidecar's port in a pod.
const INBOUND_PORT_NAME: &str = "proxy-inbound";

/// What changes, each object once.
#[derive(Default)]
struct Changes {
    /// Objects with their field and message.
    of_objects: BTreeMap<ObjectRef, (&'static str, String)>,
    of_pods: Vec<Finding>,
    /// Owners of pods, with the messages that are reported already.
    reported: BTreeSet<(ObjectKey, String)>,
}

/// A pod, and the object that declares it.
#[derive(Clone, Copy)]
struct DeclaredPod<'a> {
    object: &'a Object,
    pod: &'a Object,
}

/// Returns what changes for whom the pods call. In a cluster (`whole`) those that have a sidecar are
/// called by mesh TLS; in manifests every pod may get one.
pub(super) fn findings(
    compiled: &Compiled,
    network_policies: &[NetworkPolicy],
    whole: bool,
) -> Vec<Finding> {
    let mut changes = Changes::default();
    let pods: Vec<(&Object, Object)> = compiled
        .objects
        .iter()
        .filter_map(|object| Some((&**object, pods_of(object).into_iter().next()?)))
        .filter(|(_, pod)| !whole || has_sidecar(pod))
        .collect();
    let mut any_opaque = false;
    for (object, pod) in &pods {
        let key = &pod.meta.key;
        let workload = compiled.workloads.get(&WorkloadKey::pod(&key.namespace, &key.name));
        let Some(workload) = workload else { continue };
        for policy in workload.policy.ports.values() {
            changes.of_policy(policy);
        }
        let opaque = opaque_ports(workload);
        any_opaque |= !opaque.is_empty();
        changes.of_receiver(DeclaredPod { object, pod }, &opaque, network_policies);
    }
    for (object, pod) in pods.iter().filter(|_| any_opaque) {
        changes.of_sender(DeclaredPod { object, pod }, network_policies);
    }
    let Changes { of_objects, mut of_pods, .. } = changes;
    for object in &compiled.objects {
        if let Some((field, message)) = of_objects.get(&object.meta.key.to_ref()) {
            of_pods.push(finding(&object.meta.key, field, message.clone(), Severity::Note));
        }
    }
    of_pods
}

fn finding(object: &ObjectKey, field: &str, message: String, severity: Severity) -> Finding {
    let (object, field) = (object.clone(), field.to_owned());
    Finding { object, field, message, severity, explains: false }
}

fn has_sidecar(pod: &Object) -> bool {
    match &pod.body {
        Body::Valid(Resource::Pod(pod)) => pod.sidecar != PodSidecar::None,
        Body::Valid(_) | Body::Invalid(_) => false,
    }
}

/// Returns the opaque ports as text, in order.
fn opaque_ports(workload: &CompiledWorkload) -> Vec<String> {
    let ports = workload.policy.ports.iter();
    let declared = ports.filter(|(_, policy)| policy.protocol == Protocol::Opaque);
    let annotated = workload.annotated.iter();
    let annotated = annotated.filter(|(_, policy)| policy.protocol == Protocol::Opaque);
    let ranges = annotated.map(|(range, _)| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    });
    declared.map(|(port, _)| port.to_string()).chain(ranges).collect()
}

impl Changes {
    fn of_policy(&mut self, policy: &ServerPolicy) {
        let routes = policy.routes.routes.iter();
        let grants = routes.flat_map(|route| route.authorizations.iter());
        for grant in policy.authorizations.iter().chain(grants) {
            if let (Source::Object(object), true) = (&grant.source, is_by_address(grant)) {
                self.of_objects.insert(object.clone(), ("", BY_ADDRESS.to_owned()));
            }
        }
        let Some(limit) = &policy.rate_limit else { return };
        if let (Source::Object(object), Some(change)) = (&limit.source, of_limit(limit)) {
            self.of_objects.insert(object.clone(), change);
        }
    }

    /// Reports the opaque ports of a pod that no NetworkPolicy lets clients reach.
    fn of_receiver(
        &mut self,
        declared: DeclaredPod<'_>,
        opaque: &[String],
        network_policies: &[NetworkPolicy],
    ) {
        let policies = excluding(declared.pod, Direction::Ingress, network_policies);
        if opaque.is_empty() || policies.is_empty() {
            return;
        }
        let port = SidecarMark::INBOUND_PORT;
        let message = format!(
            "clients with the outbound half reach its opaque ports ({}) by port {port}, which no \
             NetworkPolicy that selects it admits ({}): admit {port} there",
            opaque.join(", "),
            policies.join(", ")
        );
        self.report(declared, message);
    }

    /// Reports a pod that no NetworkPolicy lets reach opaque ports of others.
    fn of_sender(&mut self, declared: DeclaredPod<'_>, network_policies: &[NetworkPolicy]) {
        let policies = excluding(declared.pod, Direction::Egress, network_policies);
        if policies.is_empty() {
            return;
        }
        let port = SidecarMark::INBOUND_PORT;
        let message = format!(
            "with the outbound half it reaches opaque ports of others by port {port}, to which no \
             NetworkPolicy that selects it lets it send ({}): admit {port} there if it calls such",
            policies.join(", ")
        );
        self.report(declared, message);
    }

    fn report(&mut self, DeclaredPod { object, pod }: DeclaredPod<'_>, message: String) {
        // Pods of one workload are alike.
        if self.reported.insert((owner(object, pod), message.clone())) {
            self.of_pods.push(finding(&object.meta.key, "", message, Severity::Warning));
        }
    }
}

/// Returns the names of the NetworkPolicies that keep a pod from the port of sidecars; none if one of
/// them admits it, or if none decides.
fn excluding(
    pod: &Object,
    direction: Direction,
    network_policies: &[NetworkPolicy],
) -> Vec<String> {
    let namespace = Some(&*pod.meta.key.namespace);
    let label = |key: &str| pod.meta.labels.get(key).map(|value| &**value);
    let selecting: Vec<&NetworkPolicy> = network_policies
        .iter()
        .filter(|policy| policy.metadata.namespace.as_deref() == namespace)
        .filter(|policy| selects(policy, direction, label))
        .collect();
    let port = SidecarMark::INBOUND_PORT;
    let admits = |policy: &&NetworkPolicy| admits(policy, direction, port, INBOUND_PORT_NAME);
    match selecting.iter().any(admits) {
        true => Vec::new(),
        false => selecting.into_iter().map(named).collect(),
    }
}

/// Returns a key that the pods of one workload share.
fn owner(object: &Object, pod: &Object) -> ObjectKey {
    let mut key = object.meta.key.clone();
    if let Body::Valid(Resource::Pod(pod)) = &pod.body
        && let Some(owner) = &pod.owner
    {
        key.name = owner.clone();
    }
    key
}

/// Message about a grant by address.
const BY_ADDRESS: &str = "admits clients by their addresses, and goes on to: a pod with the outbound half \
     keeps its address. It then proves an identity, by which it can be named instead";

/// True if a grant admits clients by their addresses, whoever they are.
fn is_by_address(grant: &Authorization) -> bool {
    match &grant.requirement {
        Requirement::Nothing => false,
        Requirement::All(conditions) => {
            let is_network = |test: &Predicate| matches!(test, Predicate::Network(_));
            conditions.iter().any(|condition| is_network(&condition.test))
                && !conditions.iter().any(|condition| {
                    matches!(condition.test, Predicate::MeshTls | Predicate::Identity(_))
                })
        }
    }
}

/// Returns what changes about a rate limit, with its field.
fn of_limit(limit: &RateLimit) -> Option<(&'static str, String)> {
    match limit.identity {
        Some(number) => Some((
            "spec.identity",
            format!(
                "{number} requests a second are what all clients without an identity have together; \
                 with the outbound half each has an identity, and {number} of its own unless an override \
                 names it"
            ),
        )),
        None if limit.overrides.is_empty() => None,
        None => Some((
            "spec.overrides",
            "bounds clients by identity, which those without the outbound half do not have; with it \
             they are bound"
                .to_owned(),
        )),
    }
}
