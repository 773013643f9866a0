//! Asking what a set of manifests decides.
#![allow(dead_code, reason = "each test binary uses a part")]

use policy_core::{
    Connection, Decision, Identity, RequestView, ServerPolicy, Tls, WorkloadKey, naive,
};
use policy_crds::Object;
use policy_engine::config::Limits;
use policy_engine::source::directory::{Manifests, load_linting};
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A namespace with one pod, scheduled to a node.
pub(crate) const POD: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {podCIDR: 10.42.1.0/24}
status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  nodeName: node-1
  serviceAccountName: web
  containers:
  - name: app
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /ready, port: http}}
    livenessProbe: {grpc: {port: 8080}}
    startupProbe: {httpGet: {path: /start, port: http, scheme: HTTPS}}
    lifecycle: {preStop: {httpGet: {path: /stop, port: http}}}
status: {podIPs: [{ip: 10.42.1.7}]}
";

/// A Server for the pod's port.
pub(crate) const SERVER: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: PROTOCOL, accessPolicy: ACCESS}
";

pub(crate) fn server(protocol: &str, access: &str) -> String {
    SERVER.replace("PROTOCOL", protocol).replace("ACCESS", access)
}

/// A policy on something of namespace `shop`, asking for these authentications.
pub(crate) fn policy(name: &str, target: &str, refs: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec: {{targetRef: {{{target}}}, requiredAuthenticationRefs: [{refs}]}}\n"
    )
}

pub(crate) const ON_SERVER: &str = "group: policy.linkerd.io, kind: Server, name: web";

pub(crate) fn mesh_tls(namespace: &str, name: &str, identities: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: MeshTLSAuthentication\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{identities: [{identities}]}}\n"
    )
}

/// An HTTPRoute of a namespace that permits `GET /cart` on Server shop/web.
pub(crate) fn route(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web, namespace: shop}}]\n\
         \x20 rules: [{{matches: [{{path: {{value: /cart}}}}]}}]\n"
    )
}

pub(crate) fn objects(documents: &[&str]) -> Vec<Object> {
    let text = documents.join("\n---\n");
    policy_crds::document::read(&text)
        .iter()
        .map(|document| document.value.clone().unwrap())
        .filter(|value| !value.is_null())
        .flat_map(|value| policy_crds::parse_all(&value))
        .map(|object| object.unwrap())
        .collect()
}

/// The objects of these files, which nothing was read from before.
pub(crate) fn read_files(files: &[&str]) -> Vec<Object> {
    let input = |(number, text): (usize, &&str)| Manifests::Text {
        name: format!("{number}.yaml").into(),
        bytes: text.as_bytes().into(),
    };
    let inputs: Vec<Manifests> = files.iter().enumerate().map(input).collect();
    let found = load_linting(&inputs, Limits::default(), None).unwrap();
    found.objects.iter().map(|object| Object::clone(object)).collect()
}

pub(crate) fn compiled(documents: &[&str]) -> Compiled {
    compile_objects(objects(documents), &ControllerConfig::default())
}

pub(crate) fn compiled_with(documents: &[&str], config: &ControllerConfig) -> Compiled {
    compile_objects(objects(documents), config)
}

pub(crate) fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

pub(crate) fn web(compiled: &Compiled, number: u16) -> Arc<ServerPolicy> {
    compiled.port(&WorkloadKey::pod("shop", "web"), port(number)).unwrap()
}

/// A client.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    Plain(&'static str),
    /// `serviceaccount.namespace`, from 10.9.9.9.
    Meshed(&'static str),
    /// Mesh TLS without an identity.
    Anonymous,
    /// TLS that is passed through.
    Passthrough(&'static str),
}

pub(crate) const NODE: Who = Who::Plain("172.18.0.2");
pub(crate) const NEIGHBOUR: Who = Who::Plain("10.1.2.3");
pub(crate) const OUTSIDER: Who = Who::Plain("203.0.113.9");

/// The verdict on a request: `allow`, `audit` or the reason why not.
pub(crate) fn ask(compiled: &Compiled, number: u16, who: Who, request: &str) -> String {
    decide(compiled, number, who, Some(request))
}

/// The verdict on a connection that is not HTTP.
pub(crate) fn connect(compiled: &Compiled, number: u16, who: Who) -> String {
    decide(compiled, number, who, None)
}

fn decide(compiled: &Compiled, number: u16, who: Who, request: Option<&str>) -> String {
    let key = WorkloadKey::pod("shop", "web");
    let policy = web(compiled, number);
    let facts = &compiled.workloads[&key].state.facts;
    let identity = match who {
        Who::Meshed(name) => {
            let (account, namespace) = name.split_once('.').unwrap();
            let config = ControllerConfig::default();
            Some(Identity::Dns(config.service_account_identity(namespace, account)))
        }
        Who::Plain(_) | Who::Anonymous | Who::Passthrough(_) => None,
    };
    let (address, tls) = match who {
        Who::Plain(address) => (address, Tls::Absent),
        Who::Passthrough(address) => (address, Tls::Passthrough),
        Who::Meshed(_) | Who::Anonymous => ("10.9.9.9", Tls::Terminated(identity.as_ref())),
    };
    let client: IpAddr = address.parse().unwrap();
    let connection = Connection { client, tls, facts };
    let decision = match request {
        None => naive::decide_connection(&policy, &connection),
        Some(text) => {
            let (method, path) = text.split_once(' ').unwrap();
            let method = method.parse().unwrap();
            let headers = http::HeaderMap::new();
            let view = RequestView {
                method: &method,
                host: Some("web"),
                path,
                query: None,
                headers: &headers,
            };
            naive::decide_request(&policy, &connection, &view)
        }
    };
    match decision {
        Decision::Permit(permit) if permit.is_audited() => "audit".to_owned(),
        Decision::Permit(_) => "allow".to_owned(),
        Decision::Deny(denial) => denial.reason.as_str().to_owned(),
    }
}

/// The conditions of an object, as `type=status reason`.
pub(crate) fn conditions(compiled: &Compiled, name: &str) -> Vec<String> {
    let all = compiled.conditions.iter().filter(|(key, _)| *key.name == *name);
    all.flat_map(|(_, conditions)| conditions.iter())
        .map(|c| format!("{}={} {}", c.kind.as_str(), c.status, c.reason.as_str()))
        .collect()
}
