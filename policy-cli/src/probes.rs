//! Probes and lifecycle hooks of workloads that their own policy or the protocol of their port refuses.

use crate::inventory::Inventory;
use crate::unguarded::UnguardedWorkloads;
use policy_core::{Denied, Owner, ServerPolicy, WorkloadKey, WorkloadKind};
use policy_crds::resource::{Probe, ProbeAction, ProbeOrigin};
use policy_crds::{Body, Kind, Object, Resource};
use policy_engine::enforcement::Enforcement;
use policy_engine::probes::refusal;
use policy_engine::view::protocol_name;
use std::collections::BTreeMap;

/// A request of the kubelet that is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RefusedProbe {
    /// The request.
    pub(crate) probe: Probe,
    /// The reason as decisions name it.
    pub(crate) reason: &'static str,
    /// The reason in words.
    pub(crate) why: String,
}

impl RefusedProbe {
    /// Returns the request in words: `probe GET /healthz`.
    pub(crate) fn words(&self) -> String {
        let by = match self.probe.origin {
            ProbeOrigin::Probe | ProbeOrigin::OtherHost => "probe",
            ProbeOrigin::Hook => "lifecycle hook",
        };
        match &self.probe.action {
            ProbeAction::HttpGet { path, tls: false } => format!("{by} GET {path}"),
            ProbeAction::HttpGet { path, tls: true } => format!("{by} GET {path} over TLS"),
            ProbeAction::Grpc => format!("{by} grpc.health.v1.Health/Check"),
            ProbeAction::TcpSocket => format!("{by} of the connection"),
        }
    }
}

/// Returns the refused probes of the workloads that have some.
pub(crate) fn refused(
    inventory: &Inventory,
    unguarded: &UnguardedWorkloads,
) -> BTreeMap<WorkloadKey, Vec<RefusedProbe>> {
    let mut all = BTreeMap::new();
    for object in inventory.compiled.objects.iter() {
        let found = of_pod(inventory, unguarded, object);
        if !found.is_empty() {
            all.insert(workload(object), found);
        }
    }
    all
}

fn workload(object: &Object) -> WorkloadKey {
    let (namespace, name) = (object.meta.key.namespace.clone(), object.meta.key.name.clone());
    WorkloadKey { namespace, kind: WorkloadKind::Pod, name }
}

fn of_pod(
    inventory: &Inventory,
    unguarded: &UnguardedWorkloads,
    object: &Object,
) -> Vec<RefusedProbe> {
    let Body::Valid(Resource::Pod(pod)) = &object.body else { return Vec::new() };
    // Nothing refuses a probe of a pod that runs without a sidecar.
    let is_bare = inventory.cluster.is_some() && Enforcement::of(object) == Enforcement::Bare;
    if object.meta.key.kind != Kind::Pod || is_bare {
        return Vec::new();
    }
    let key = workload(object);
    let Some(compiled) = inventory.compiled.workloads.get(&key) else { return Vec::new() };
    let is_open = |port: u16| unguarded.get(&key).is_some_and(|it| it.port(port).is_some());
    let guarded = pod.probes.iter().filter(|probe| !is_open(probe.port.get()));
    let found = guarded.filter_map(|probe| {
        let policy = inventory.compiled.port(&key, probe.port)?;
        let denied = refusal(probe, &policy, &compiled.state.facts)?;
        let why = why(denied, probe, &policy);
        Some(RefusedProbe { probe: probe.clone(), reason: denied.as_str(), why })
    });
    found.collect()
}

/// The reason in words, with the object that decides.
fn why(denied: Denied, probe: &Probe, policy: &ServerPolicy) -> String {
    let owner = match &policy.owner {
        Owner::Server(server) => server.to_string(),
        Owner::Default(default) => format!("the default policy {}", default.as_str()),
    };
    let protocol = protocol_name(policy.protocol);
    if let Denied::Target(_) = denied {
        return "the sidecar refuses a path that applications read differently".to_owned();
    }
    if [Denied::ProtocolMismatch, Denied::TlsRequired].contains(&denied) {
        let spoken = match &probe.action {
            ProbeAction::HttpGet { tls: false, .. } => "HTTP/1",
            ProbeAction::HttpGet { tls: true, .. } => "TLS to the application",
            ProbeAction::Grpc => "HTTP/2",
            ProbeAction::TcpSocket => "nothing",
        };
        return format!("{owner} takes {protocol} alone, and the kubelet sends {spoken}");
    }
    if policy.protocol.is_http() || denied != Denied::Unauthorized {
        return format!("{owner} grants it nothing");
    }
    format!(
        "{owner} carries {protocol} connections as bytes, in which no probe can be seen, and grants nothing \
         to the node's address"
    )
}
