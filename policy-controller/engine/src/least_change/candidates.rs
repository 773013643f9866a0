//! The candidates of a least change: grants for the client's identity, or for its address where
//! it proves none.

use crate::compiled::Compiled;
use crate::config::ControllerConfig;
use crate::enforcement::{Enforcement, has_our_sidecar};
use crate::newly_allowed::Access;
use policy_core::explain::Explanation;
use policy_core::{
    Identity, IdentityMatch, ObjectRef, Origin, Owner, Protocol, Tls, WorkloadKey, WorkloadKind,
    fold_mapped,
};
use policy_crds::resource::IdentityRequirement;
use policy_crds::{Body, Kind, Object, ObjectKey, Resource, annotation};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

/// Labels that Kubernetes sets on the pods of one revision or one ordinal.
const LABELS_OF_ONE_POD: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// Ports of the sidecar itself: its inbound port, Linkerd's admin port and its own.
const SIDECAR_PORTS: [u16; 3] = [4143, 4190, 4191];

/// The place of a candidate among those that cost as much.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CandidateRank {
    Route,
    Class,
    Server,
    Authentication,
}

/// A candidate: its place and its objects.
pub(super) type CandidateChange = (CandidateRank, Vec<Value>);

/// The search for candidates.
pub(super) struct CandidateSearch<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) config: &'a ControllerConfig,
    pub(super) access: &'a Access<'a>,
    pub(super) candidates: Vec<CandidateChange>,
    pub(super) notes: Vec<String>,
}

/// Objects that name the client's identity alone, or its address alone, from which others may connect too;
/// and the reference to them.
struct ClientGrant {
    reference: Value,
    objects: Vec<Value>,
    label: String,
}

impl CandidateSearch<'_> {
    /// Grants for the client on the route, its classes and the Server.
    pub(super) fn grants(&mut self, explained: &Explanation) {
        let namespace = self.access.workload.namespace.clone();
        let Some(client) = self.client(&namespace) else { return };
        let route = explained.route.as_ref().and_then(Origin::object).cloned();
        if let Some(route) = &route {
            self.grant_on(CandidateRank::Route, route, &client);
            let of_group = Kind::find(route.group(), route.kind());
            if matches!(of_group, Some(Kind::HttpRouteBinding | Kind::GrpcServiceBinding)) {
                for class in self.classes(&namespace, &explained.owner) {
                    self.grant_on(CandidateRank::Class, &class, &client);
                }
            }
        }
        match &explained.owner {
            Owner::Server(server) => self.grant_on(CandidateRank::Server, server, &client),
            Owner::Default(default) if route.is_none() => {
                self.server_of_default(default.as_str(), explained.protocol, &client);
            }
            Owner::Default(_) => {}
        }
    }

    /// The client alone, by its identity; one without mesh TLS by its address.
    fn client(&mut self, namespace: &str) -> Option<ClientGrant> {
        let identity = match self.access.connection.tls {
            Tls::Terminated(Some(identity)) => identity,
            Tls::Terminated(None) => {
                let words =
                    "nothing is proposed: the client proves no identity that a grant could name";
                self.notes.push(words.to_owned());
                return None;
            }
            Tls::Absent | Tls::Passthrough => return self.by_address(namespace),
        };
        if !is_exact(identity) {
            let words = "nothing is proposed: the client's identity would be read as a wildcard";
            self.notes.push(words.to_owned());
            return None;
        }
        if let Some((account, own)) = self.account(identity) {
            let reference = json!({"kind": "ServiceAccount", "name": account, "namespace": own});
            let label = if own == namespace { account } else { format!("{account}-{own}") };
            return Some(ClientGrant { reference, objects: Vec::new(), label });
        }
        let name =
            self.unused_name(Kind::MeshTlsAuthentication, namespace, &plain(identity.as_str()));
        let object = json!({
            "apiVersion": "policy.linkerd.io/v1alpha1",
            "kind": "MeshTLSAuthentication",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"identities": [identity.as_str()]},
        });
        let reference = authentication(Kind::MeshTlsAuthentication, &name);
        Some(ClientGrant { reference, objects: vec![object], label: name })
    }

    /// The client's address; none of a pod that proves an identity.
    fn by_address(&mut self, namespace: &str) -> Option<ClientGrant> {
        let address = self.access.connection.client;
        if let Some((pod, account)) = self.meshed_pod(address) {
            self.notes.push(format!(
                "no network is proposed: {address} is {pod}, which proves an identity; ask by \
                 sa/{}/{account}",
                pod.namespace
            ));
            return None;
        }
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let wanted = format!("only-{}", plain(&address.to_string()));
        let name = self.unused_name(Kind::NetworkAuthentication, namespace, &wanted);
        let object = json!({
            "apiVersion": "policy.linkerd.io/v1alpha1",
            "kind": "NetworkAuthentication",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"networks": [{"cidr": format!("{address}/{bits}")}]},
        });
        let reference = authentication(Kind::NetworkAuthentication, &name);
        Some(ClientGrant { reference, objects: vec![object], label: name })
    }

    /// The pod that has an address of its own and a sidecar, and its ServiceAccount.
    fn meshed_pod(&self, address: IpAddr) -> Option<(ObjectKey, Arc<str>)> {
        self.compiled.objects.iter().find_map(|object| {
            let Body::Valid(Resource::Pod(pod)) = &object.body else { return None };
            let has_sidecar =
                matches!(Enforcement::of(object), Enforcement::Sidecar | Enforcement::Compatible);
            let has_address =
                pod.addresses.iter().any(|own| fold_mapped(*own) == fold_mapped(address));
            (has_sidecar && has_address && !pod.uses_host_network)
                .then(|| (object.meta.key.clone(), pod.service_account.clone()))
        })
    }

    /// True if the port in question is one of the sidecar's own.
    pub(super) fn is_of_sidecar(&self) -> bool {
        let port = self.access.port;
        let object = self.object(&key_of(self.access.workload));
        let stated = object
            .filter(|object| !has_our_sidecar(object))
            .and_then(|object| annotation::admin_port(&object.meta.annotations).value);
        SIDECAR_PORTS.contains(&port.get())
            || self.config.proxy_ports.contains(&port)
            || stated == Some(port)
    }

    /// The ServiceAccount of an identity of this mesh, and its namespace.
    fn account(&self, identity: &Identity) -> Option<(String, String)> {
        let Identity::Dns(name) = identity else { return None };
        let suffix = format!(".serviceaccount.identity.{}", self.config.identity_suffix());
        let (account, namespace) = name.strip_suffix(&*suffix)?.rsplit_once('.')?;
        (!account.is_empty() && !namespace.is_empty())
            .then(|| (account.to_owned(), namespace.to_owned()))
    }

    /// A policy that grants the client a route or Server.
    fn grant_on(&mut self, rank: CandidateRank, target: &ObjectRef, client: &ClientGrant) {
        let own = &self.access.workload.namespace;
        if *target.namespace() != **own {
            self.notes.push(format!(
                "a grant on {target} is for the owners of namespace {} to give",
                target.namespace()
            ));
            return;
        }
        let wanted = format!("{}-to-{}", client.label, plain(target.name()));
        let name = self.unused_name(Kind::AuthorizationPolicy, own, &wanted);
        let target = json!({"group": target.group(), "kind": target.kind(), "name": target.name()});
        let policy = policy(own, &name, &target, &client.reference);
        let objects = client.objects.iter().cloned().chain([policy]).collect();
        self.candidates.push((rank, objects));
    }

    /// The classes that may select a route of a Server: those of services, and those of this Server.
    fn classes(&self, namespace: &str, owner: &Owner) -> Vec<ObjectRef> {
        let of_namespace =
            self.compiled.objects.iter().filter(|object| *object.meta.key.namespace == *namespace);
        let classes = of_namespace.filter(|object| match &object.body {
            Body::Valid(Resource::HttpRouteClass(class)) => match owner {
                Owner::Server(server) => *server.name() == *class.server,
                Owner::Default(_) => false,
            },
            Body::Valid(_) | Body::Invalid(_) => object.meta.key.kind == Kind::GrpcServiceClass,
        });
        classes.map(|object| object.meta.key.to_ref()).collect()
    }

    /// A Server for the port that keeps its default policy, and a policy on it.
    fn server_of_default(&mut self, default: &str, protocol: Protocol, client: &ClientGrant) {
        let WorkloadKey { namespace, name, .. } = self.access.workload;
        let port = self.access.port;
        let key = key_of(self.access.workload);
        let object = self.object(&key);
        let labels = object.map(|object| &object.meta.labels).into_iter().flatten();
        let labels: serde_json::Map<String, Value> = labels
            .filter(|(name, _)| !LABELS_OF_ONE_POD.contains(&&***name))
            .map(|(name, value)| (name.to_string(), value.to_string().into()))
            .collect();
        if labels.is_empty() {
            self.notes.push(format!("{key} has no label that a Server could select"));
            return;
        }
        let field = if key.kind == Kind::Pod { "podSelector" } else { "externalWorkloadSelector" };
        let app = labels.get("app").and_then(Value::as_str).unwrap_or(name);
        let server = self.unused_name(Kind::Server, namespace, &format!("{}-{port}", plain(app)));
        let mut made = json!({
            "apiVersion": "policy.linkerd.io/v1beta3",
            "kind": "Server",
            "metadata": {"name": server, "namespace": &**namespace},
            "spec": {field: {"matchLabels": labels}, "port": port, "accessPolicy": default},
        });
        // Without it the Server would have the protocol detected.
        if protocol == Protocol::Opaque
            && let Some(spec) = made.pointer_mut("/spec").and_then(Value::as_object_mut)
        {
            spec.insert("proxyProtocol".to_owned(), "opaque".into());
        }
        let wanted = format!("{}-to-{server}", client.label);
        let name = self.unused_name(Kind::AuthorizationPolicy, namespace, &wanted);
        let target = json!({"group": "policy.linkerd.io", "kind": "Server", "name": server});
        let policy = policy(namespace, &name, &target, &client.reference);
        let objects = [made].into_iter().chain(client.objects.iter().cloned()).chain([policy]);
        self.candidates.push((CandidateRank::Server, objects.collect()));
    }

    /// The authentications that withheld policies name and that do not exist.
    pub(super) fn missing_authentications(&mut self, explained: &Explanation) {
        for withheld in &explained.withheld {
            let Some(kind) = Kind::find(withheld.source.group(), withheld.source.kind()) else {
                continue;
            };
            let key = ObjectKey {
                kind,
                namespace: withheld.source.namespace().into(),
                name: withheld.source.name().into(),
            };
            let Some(object) = self.object(&key) else { continue };
            let Body::Valid(Resource::AuthorizationPolicy(policy)) = &object.body else { continue };
            let Some(IdentityRequirement::MeshTls(named)) = &policy.identity else { continue };
            let wanted = key.elsewhere(Kind::MeshTlsAuthentication, named);
            if wanted.namespace != self.access.workload.namespace {
                self.notes.push(format!(
                    "{} names {wanted}: a ReferenceGrant for it is for the owners of namespace {} to give",
                    withheld.source, wanted.namespace
                ));
            } else if let Tls::Terminated(Some(identity)) = self.access.connection.tls
                && is_exact(identity)
                && self.object(&wanted).is_none()
            {
                let object = json!({
                    "apiVersion": "policy.linkerd.io/v1alpha1",
                    "kind": "MeshTLSAuthentication",
                    "metadata": {"name": &*wanted.name, "namespace": &*wanted.namespace},
                    "spec": {"identities": [identity.as_str()]},
                });
                self.candidates.push((CandidateRank::Authentication, vec![object]));
            }
        }
    }

    fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.compiled.object(key)
    }

    /// The name, with a number if an object of the kind has it.
    fn unused_name(&self, kind: Kind, namespace: &str, wanted: &str) -> String {
        let is_used = |name: &str| {
            let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
            self.object(&key).is_some()
        };
        let numbered = (2_u32..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| !is_used(name)).unwrap_or_else(|| wanted.to_owned())
    }
}

/// True if a grant that names an identity names nobody else.
fn is_exact(identity: &Identity) -> bool {
    matches!(IdentityMatch::parse(identity.as_str()), IdentityMatch::Exact(_))
}

/// The key of the object that a workload is.
fn key_of(workload: &WorkloadKey) -> ObjectKey {
    let kind = match workload.kind {
        WorkloadKind::Pod => Kind::Pod,
        WorkloadKind::ExternalWorkload => Kind::ExternalWorkload,
    };
    ObjectKey { kind, namespace: workload.namespace.clone(), name: workload.name.clone() }
}

fn authentication(kind: Kind, name: &str) -> Value {
    json!({"group": kind.group(), "kind": kind.as_str(), "name": name})
}

fn policy(namespace: &str, name: &str, target: &Value, client: &Value) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1alpha1",
        "kind": "AuthorizationPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetRef": target, "requiredAuthenticationRefs": [client]},
    })
}

/// A part of an object's name made of any text: letters, digits and hyphens.
fn plain(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(allowed).take(MAX_NAME).collect();
    name.trim_matches('-').to_owned()
}

/// The most characters of a part of a name.
const MAX_NAME: usize = 60;
