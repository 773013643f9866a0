//! A workload and who may reach it.

use super::live::Question;
use policy_core::WorkloadKey;

/// Holds the identity that is granted access.
pub(crate) const CLIENT: Question<'static> = ("203.0.113.1", Some("x.y"), "/get");

/// Has no identity, and is granted nothing.
pub(crate) const STRANGER: Question<'static> = ("203.0.113.1", None, "/get");

/// The pod that everything here is about.
pub(crate) fn web(namespace: &str) -> WorkloadKey {
    WorkloadKey::pod(namespace, "web")
}

/// An object of one of Linkerd's kinds.
pub(crate) fn object(kind: &str, namespace: &str, name: &str, spec: &str) -> String {
    let version = match kind {
        "Server" | "HTTPRoute" => "policy.linkerd.io/v1beta3",
        "ServerAuthorization" => "policy.linkerd.io/v1beta1",
        "ReferenceGrant" => "gateway.networking.k8s.io/v1beta1",
        "GRPCRoute" => "gateway.networking.k8s.io/v1",
        "ExternalWorkload" => "workload.linkerd.io/v1beta1",
        "TrafficTarget" => "access.smi-spec.io/v1alpha3",
        "IdentityBinding" => "access.smi-spec.io/v1alpha4",
        "HTTPRouteGroup" | "TCPRoute" => "specs.smi-spec.io/v1alpha4",
        _ => "policy.linkerd.io/v1alpha1",
    };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}, \
         labels: {{app: web}}}}\nspec: {{{spec}}}\n---\n"
    )
}

/// A pod with a port of its own.
pub(crate) fn pod(namespace: &str, name: &str, app: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: \
         {app}}}, annotations: {{{annotations}}}}}\nspec:\n  nodeName: node-{namespace}\n  \
         containers:\n  - name: a\n    image: a\n    ports: [{{name: http, containerPort: 8080}}]\n    \
         readinessProbe: {{httpGet: {{path: /ready, port: http}}}}\nstatus: {{phase: Running, \
         podIPs: [{{ip: 10.42.1.7}}], podIP: 10.42.1.7}}\n---\n"
    )
}

/// A node whose address probes come from.
pub(crate) fn node(namespace: &str, address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: node-{namespace}}}\nstatus: {{addresses: \
         [{{type: InternalIP, address: {address}}}]}}\n---\n"
    )
}

pub(crate) fn server(namespace: &str, rest: &str) -> String {
    let spec = format!("podSelector: {{matchLabels: {{app: web}}}}, port: 8080, {rest}");
    object("Server", namespace, "web", &spec)
}

/// Grants the Server `web` to whoever meets the authentications.
pub(crate) fn policy(namespace: &str, target: &str, refs: &str) -> String {
    let spec = format!("targetRef: {{{target}}}, requiredAuthenticationRefs: [{refs}]");
    object("AuthorizationPolicy", namespace, "clients", &spec)
}

pub(crate) const ON_SERVER: &str = "group: policy.linkerd.io, kind: Server, name: web";

pub(crate) const MESH: &str =
    "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: clients}";

pub(crate) fn mesh(namespace: &str, identity: &str) -> String {
    object("MeshTLSAuthentication", namespace, "clients", &format!("identities: ['{identity}']"))
}

/// The workload `web` whose port [`CLIENT`] may reach and [`STRANGER`] may not.
pub(crate) fn shop(namespace: &str) -> String {
    [
        pod(namespace, "web", "web", ""),
        server(namespace, "proxyProtocol: HTTP/1"),
        policy(namespace, ON_SERVER, MESH),
        mesh(namespace, "x.y"),
    ]
    .concat()
}
