//! The endpoint at an address and port, and the way into its workload.

use crate::annotations::names_another;
use crate::config::ControllerConfig;
use crate::enforcement::LINKERD;
use crate::incremental::{Context, query};
use crate::query::destination::{
    AddressOwners, ApiServer, EndpointAt, EntryOf, IsOpaque, OwnersOf, WorkloadEntry, WorkloadMesh,
};
use crate::query::policy::PolicyOf;
use crate::query::workload::{Ports, WorkloadOf, workload_key};
use policy_core::{Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, Protocol, ServiceName};
use policy_crds::resource::{Pod, PodSidecar, PodTarget, Resource};
use policy_crds::{
    Body, Claims, Invalid, Kind, Object, ObjectKey, ObjectMeta, SidecarMark, annotation,
    is_dns_name,
};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The identity of a sidecar whose identity is not known. No certificate can prove it: names below
/// `invalid` are given to nobody (RFC 2606). So the endpoint is in the mesh, and not reached.
pub(crate) const UNKNOWN_IDENTITY: &str = "unknown-identity.portcullis.invalid";

/// The ports of Linkerd's proxy that its redirection leaves out: its control and admin ports.
const LINKERD_SKIPS: &str = "4190,4191";
/// The annotation with the ports that Linkerd's redirection leaves out besides.
const LINKERD_SKIP_ANNOTATION: &str = "config.linkerd.io/skip-inbound-ports";

query!(EndpointAt, Option<Endpoint>, endpoint_at);
query!(EntryOf, Option<Arc<WorkloadEntry>>, entry_of);
query!(IsOpaque, bool, is_opaque);

fn endpoint_at(query: &EndpointAt, cx: &mut Context<'_>) -> Option<Endpoint> {
    let EndpointAt { address, of, pod } = query;
    let owners = cx.query(&OwnersOf(address.ip()));
    if let Some(target) = pod
        && !holds(cx, &owners, target, address.ip())
    {
        return None;
    }
    let port = NonZeroU16::new(address.port())?;
    let held = holder(&owners, of.as_ref());
    let entry = held.and_then(|key| Some((key, cx.query(&EntryOf(key.clone()))?)));
    let unmeshed = EndpointMesh::Plaintext(PlaintextReason::Unmeshed);
    let (owner, namespace, mut mesh) = match entry {
        None => ("".into(), "".into(), unmeshed.clone()),
        Some((key, entry)) => {
            (entry.owner.clone(), key.namespace.clone(), mesh(cx, key, &entry.mesh, port))
        }
    };
    if mesh == unmeshed && cx.query(&ApiServer).contains(address) {
        mesh = EndpointMesh::Plaintext(PlaintextReason::ApiServer);
    }
    let endpoint = Endpoint { address: *address, owner, namespace, mesh };
    let is_of_another = of.as_ref().is_some_and(|of| is_led_on(&owners, &endpoint, of));
    (!is_of_another).then_some(endpoint)
}

/// True if the pod that a slice names is the one at an address. A slice may be older than the pods: an
/// address goes from a pod that has ended to a pod of anybody's. It may also be read before the pod
/// that it is about; until then, nobody knows whether the pod is in the mesh. A pod in its node's
/// network has no address of its own.
fn holds(
    cx: &mut Context<'_>,
    owners: &AddressOwners,
    target: &PodTarget,
    address: IpAddr,
) -> bool {
    let PodTarget { namespace, name, .. } = target;
    match &owners.pod {
        Some(key) => {
            let uid = cx.object(key).and_then(|object| object.meta.uid.as_ref());
            match (&target.uid, uid) {
                (Some(target), Some(uid)) => target == uid,
                (Some(_) | None, _) => (&key.namespace, &key.name) == (namespace, name),
            }
        }
        None if owners.is_node => {
            let (namespace, name) = (namespace.clone(), name.clone());
            let key = ObjectKey { kind: Kind::Pod, namespace, name };
            cx.object(&key).is_some_and(|object| is_on_host(object, target, address))
        }
        None => false,
    }
}

/// True if a pod is the named one, and in the network of the node that has this address.
fn is_on_host(object: &Object, target: &PodTarget, address: IpAddr) -> bool {
    let Body::Valid(Resource::Pod(pod)) = &object.body else { return false };
    let (uid, of_target) = (object.meta.uid.as_ref(), target.uid.as_ref());
    let is_target = of_target.is_none() || uid.is_none() || uid == of_target;
    let has = pod.addresses.contains(&address) || pod.host_addresses.contains(&address);
    is_target && pod.uses_host_network && !pod.has_ended && has
}

/// True if nodes lead a connection to an endpoint on to another Service. They translate an address once,
/// so that other clients of the Service go no further; the connection of a sidecar, to the endpoint
/// itself, would be translated, and reach the pods of that Service in plaintext. In mesh TLS none of
/// them passes for the endpoint.
fn is_led_on(owners: &AddressOwners, endpoint: &Endpoint, of: &ServiceName) -> bool {
    let in_plaintext = match &endpoint.mesh {
        EndpointMesh::Plaintext(_) => true,
        EndpointMesh::Meshed(_) => false,
    };
    let port = NonZeroU16::new(endpoint.address.port());
    let front = port.and_then(|port| owners.fronts.get(&port));
    let is_other = |front: &ObjectKey| (&front.namespace, &front.name) != (&of.namespace, &of.name);
    owners.service.is_some() || (in_plaintext && front.is_some_and(is_other))
}

/// The workload that is expected at an address: the pod that holds it, whatever a slice says, or a
/// machine that the Service's own namespace or the operator puts there.
fn holder<'o>(owners: &'o AddressOwners, of: Option<&ServiceName>) -> Option<&'o ObjectKey> {
    let own =
        of.and_then(|of| owners.stated.iter().find(|stated| stated.namespace == of.namespace));
    owners.pod.as_ref().or(own).or(owners.external.as_ref())
}

fn mesh(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    mesh: &WorkloadMesh,
    port: NonZeroU16,
) -> EndpointMesh {
    let (identity, server_name, inbound_port, skipped) = match mesh {
        WorkloadMesh::Plaintext(reason) => return EndpointMesh::Plaintext(*reason),
        WorkloadMesh::Meshed { identity, server_name, inbound_port, skipped } => {
            (identity, server_name, inbound_port, skipped)
        }
    };
    if skipped.contains(port) {
        return EndpointMesh::Plaintext(PlaintextReason::Skipped);
    }
    let workload = workload_key(key).and_then(|key| cx.query(&WorkloadOf(key)));
    let opaque = workload
        .is_some_and(|workload| cx.query(&IsOpaque { shape: workload.shape.clone(), port }));
    EndpointMesh::Meshed(MeshEndpoint {
        identity: identity.clone(),
        server_name: server_name.clone(),
        inbound_port: Some(*inbound_port),
        opaque,
    })
}

/// As its compiled policy says, so that the sidecar reads what clients send.
fn is_opaque(query: &IsOpaque, cx: &mut Context<'_>) -> bool {
    let IsOpaque { shape, port } = query.clone();
    cx.query(&PolicyOf { shape, port }).protocol == Protocol::Opaque
}

fn entry_of(query: &EntryOf, cx: &mut Context<'_>) -> Option<Arc<WorkloadEntry>> {
    let object = cx.object(&query.0)?;
    let (owner, mesh) = match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            let owner = pod.owner.clone().unwrap_or_else(|| owner("pod", &object.meta));
            (owner, pod_mesh(cx.config, object, pod))
        }
        Body::Valid(Resource::ExternalWorkload(workload)) => {
            let mesh = WorkloadMesh::Meshed {
                identity: workload.identity.clone(),
                server_name: workload.server_name.clone(),
                inbound_port: default_inbound_port(),
                skipped: Ports::default(),
            };
            (owner("externalworkload", &object.meta), mesh)
        }
        Body::Invalid(Invalid { claims: Claims::ExternalWorkload { .. }, .. }) => {
            (owner("externalworkload", &object.meta), unreachable_mesh())
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    Some(Arc::new(WorkloadEntry { owner, mesh }))
}

fn owner(kind: &str, meta: &ObjectMeta) -> Arc<str> {
    format!("{kind}/{}", meta.key.name).into()
}

fn pod_mesh(config: &ControllerConfig, object: &Object, pod: &Pod) -> WorkloadMesh {
    match &pod.sidecar {
        PodSidecar::Marked(mark) => marked(config, object, pod, mark),
        PodSidecar::Unmarked => {
            let identity = own_identity(config, object, pod);
            meshed(identity, default_inbound_port(), Ports::from(&pod.skipped))
        }
        PodSidecar::Unreadable => unreachable_mesh(),
        PodSidecar::None => foreign(config, object, pod),
    }
}

/// A sidecar that states how it was set up.
fn marked(
    config: &ControllerConfig,
    object: &Object,
    pod: &Pod,
    mark: &SidecarMark,
) -> WorkloadMesh {
    if names_another(config, object, pod, mark) {
        return unreachable_mesh();
    }
    let identity = mark.identity.clone().or_else(|| own_identity(config, object, pod));
    let Some(identity) = identity else { return unreachable_mesh() };
    WorkloadMesh::Meshed {
        server_name: mark.server_name.clone().unwrap_or_else(|| identity.clone()),
        identity,
        inbound_port: mark.inbound_port,
        skipped: Ports::from(&mark.skipped),
    }
}

/// The identity of the pod's ServiceAccount, if it can be one.
fn own_identity(config: &ControllerConfig, object: &Object, pod: &Pod) -> Option<Arc<str>> {
    config.certifiable_identity(&object.meta.key.namespace, &pod.service_account)
}

/// A pod without a sidecar of ours: in plaintext, unless its mesh is a peer.
fn foreign(config: &ControllerConfig, object: &Object, pod: &Pod) -> WorkloadMesh {
    let Some(control_plane) = object.meta.labels.get(LINKERD) else {
        return WorkloadMesh::Plaintext(PlaintextReason::Unmeshed);
    };
    let peer = config.outbound.as_ref().and_then(|outbound| outbound.peer(control_plane));
    let Some(peer) = peer else {
        return WorkloadMesh::Plaintext(PlaintextReason::ForeignMesh);
    };
    let identity = format!(
        "{}.{}.serviceaccount.identity.{}.{}",
        pod.service_account, object.meta.key.namespace, peer.namespace, peer.trust_domain
    );
    let identity = Some(identity).filter(|identity| is_dns_name(identity)).map(Arc::from);
    let listed = object.meta.annotations.get(LINKERD_SKIP_ANNOTATION);
    let skips = format!("{LINKERD_SKIPS},{}", listed.map_or("", |list| list));
    let skipped = Ports::from(&annotation::numbered_ports(&skips));
    meshed(identity, default_inbound_port(), skipped)
}

/// A sidecar whose server name is its identity.
fn meshed(identity: Option<Arc<str>>, inbound_port: NonZeroU16, skipped: Ports) -> WorkloadMesh {
    let Some(identity) = identity else { return unreachable_mesh() };
    WorkloadMesh::Meshed { server_name: identity.clone(), identity, inbound_port, skipped }
}

/// A workload in the mesh that nobody can reach.
fn unreachable_mesh() -> WorkloadMesh {
    let identity: Arc<str> = UNKNOWN_IDENTITY.into();
    WorkloadMesh::Meshed {
        server_name: identity.clone(),
        identity,
        inbound_port: default_inbound_port(),
        skipped: Ports::default(),
    }
}

fn default_inbound_port() -> NonZeroU16 {
    NonZeroU16::new(SidecarMark::INBOUND_PORT).unwrap_or(NonZeroU16::MIN)
}
