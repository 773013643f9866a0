//! Policy objects of other meshes and of network plugins: they are not read, and no sidecar of this mesh
//! enforces them.

use super::locations::Locations;
use crate::cluster::Scope;
use policy_crds::document::Location;
use policy_engine::source::{Diagnostic, Severity};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The software that enforces objects that are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForeignEnforcer {
    /// The proxies of another mesh, by its name.
    Mesh(&'static str),
    /// The plugin for the cluster's network, by its name or in words.
    Network(&'static str),
    /// A gateway, which sees what passes through it alone.
    Gateway(&'static str),
}

/// API groups, their kinds that restrict or route traffic, and who enforces them.
const FOREIGN: [(&str, &[&str], ForeignEnforcer); 18] = [
    (
        "security.istio.io",
        &["AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"],
        ForeignEnforcer::Mesh("Istio"),
    ),
    (
        "networking.istio.io",
        &["VirtualService", "DestinationRule", "Sidecar", "EnvoyFilter", "ServiceEntry"],
        ForeignEnforcer::Mesh("Istio"),
    ),
    ("rbac.istio.io", &["ServiceRole", "ServiceRoleBinding"], ForeignEnforcer::Mesh("Istio")),
    (
        "consul.hashicorp.com",
        &["ServiceIntentions", "ServiceDefaults", "ServiceRouter", "TrafficPermissions"],
        ForeignEnforcer::Mesh("Consul"),
    ),
    ("auth.consul.hashicorp.com", &["TrafficPermissions"], ForeignEnforcer::Mesh("Consul")),
    (
        "kuma.io",
        &[
            "MeshTrafficPermission",
            "TrafficPermission",
            "MeshHTTPRoute",
            "MeshTCPRoute",
            "MeshTLS",
            "MeshRateLimit",
            "RateLimit",
            "TrafficRoute",
        ],
        ForeignEnforcer::Mesh("Kuma"),
    ),
    ("linkerd.io", &["ServiceProfile"], ForeignEnforcer::Mesh("Linkerd")),
    ("split.smi-spec.io", &["TrafficSplit"], ForeignEnforcer::Mesh("a mesh of SMI")),
    ("specs.smi-spec.io", &["UDPRoute"], ForeignEnforcer::Mesh("a mesh of SMI")),
    (
        "cilium.io",
        &["CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"],
        ForeignEnforcer::Network("Cilium"),
    ),
    (
        "crd.projectcalico.org",
        &["NetworkPolicy", "GlobalNetworkPolicy"],
        ForeignEnforcer::Network("Calico"),
    ),
    (
        "projectcalico.org",
        &["NetworkPolicy", "GlobalNetworkPolicy"],
        ForeignEnforcer::Network("Calico"),
    ),
    (
        "policy.networking.k8s.io",
        &["AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy"],
        ForeignEnforcer::Network("the cluster's network plugin"),
    ),
    (
        "networking.k8s.io",
        &["NetworkPolicy"],
        ForeignEnforcer::Network("the cluster's network plugin"),
    ),
    (
        "gateway.networking.k8s.io",
        &["TCPRoute", "TLSRoute", "UDPRoute"],
        ForeignEnforcer::Gateway("a gateway that knows the kind"),
    ),
    (
        "gateway.envoyproxy.io",
        &["SecurityPolicy", "BackendTrafficPolicy", "ClientTrafficPolicy"],
        ForeignEnforcer::Gateway("Envoy Gateway"),
    ),
    ("kuadrant.io", &["AuthPolicy", "RateLimitPolicy"], ForeignEnforcer::Gateway("Kuadrant")),
    ("traefik.io", &["Middleware"], ForeignEnforcer::Gateway("Traefik")),
];

/// Those of them whose objects are in no namespace, so that they concern every one.
const CLUSTER_SCOPED: [(&str, &str); 9] = [
    ("kuma.io", "TrafficPermission"),
    ("kuma.io", "RateLimit"),
    ("kuma.io", "TrafficRoute"),
    ("cilium.io", "CiliumClusterwideNetworkPolicy"),
    ("crd.projectcalico.org", "GlobalNetworkPolicy"),
    ("projectcalico.org", "GlobalNetworkPolicy"),
    ("policy.networking.k8s.io", "AdminNetworkPolicy"),
    ("policy.networking.k8s.io", "BaselineAdminNetworkPolicy"),
    ("policy.networking.k8s.io", "ClusterNetworkPolicy"),
];

/// Returns a note for each such kind, at its first object.
pub(super) fn notes(locations: &Locations, scope: &Scope) -> Vec<Diagnostic> {
    let mut found: BTreeMap<(&str, &str), (Diagnostic, usize)> = BTreeMap::new();
    for (name, file) in locations.files() {
        for document in &file.documents {
            let Ok(value) = &document.value else { continue };
            for part in policy_crds::parts(value) {
                let Some((group, kind, enforcer)) = foreign(&part.value) else { continue };
                let namespace = part.value.pointer("/metadata/namespace").and_then(Value::as_str);
                let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or("default");
                if !CLUSTER_SCOPED.contains(&(group, kind)) && !scope.contains(namespace) {
                    continue;
                }
                let place = part.field("kind");
                let location = document.locate(&place).unwrap_or_else(|| document.location.clone());
                let first = || (note(name, &file.text, &location, (group, kind, enforcer)), 0);
                let entry = found.entry((group, kind)).or_insert_with(first);
                entry.1 = entry.1.saturating_add(1);
            }
        }
    }
    let counted = |(mut note, count): (Diagnostic, usize)| {
        if count > 1 {
            note.message = format!("{} ({count} objects of this kind)", note.message);
        }
        note
    };
    found.into_values().map(counted).collect()
}

fn note(
    file: &Arc<str>,
    text: &str,
    location: &Location,
    (group, kind, enforcer): (&str, &str, ForeignEnforcer),
) -> Diagnostic {
    let message = match enforcer {
        ForeignEnforcer::Mesh(mesh) => format!(
            "{kind} of {group} is not read: the proxies of {mesh} follow it, and no sidecar of this mesh \
             does"
        ),
        ForeignEnforcer::Gateway(gateway) => format!(
            "{kind} of {group} is not read: {gateway} enforces it on what passes through it, and it protects \
             no pod from other callers"
        ),
        ForeignEnforcer::Network(plugin)
            if kind == "NetworkPolicy" && group == "networking.k8s.io" =>
        {
            format!(
                "{kind} is not judged here: {plugin} enforces it before a sidecar sees the connection; \
             `portcullis why` takes it into account, and `portcullis check --outbound` says where it hinders \
             the mesh"
            )
        }
        ForeignEnforcer::Network(plugin) => format!(
            "{kind} of {group} is not read: {plugin} enforces it before a sidecar sees the connection, which \
             no answer here takes into account"
        ),
    };
    let note = Diagnostic::at(file, text, location, message);
    Diagnostic { severity: Severity::Note, ..note }
}

/// The group and kind of an object that somebody else enforces, and who that is.
fn foreign(value: &Value) -> Option<(&'static str, &'static str, ForeignEnforcer)> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let (group, _) = text("apiVersion")?.split_once('/')?;
    let kind = text("kind")?;
    FOREIGN.iter().find(|(own, _, _)| *own == group).and_then(|(group, kinds, enforcer)| {
        let kind = kinds.iter().find(|own| **own == kind)?;
        Some((*group, *kind, *enforcer))
    })
}
