//! A world as objects.

use super::world::{
    Action, Admission, Grant, Inbound, Leaf, NAMESPACES, OBJECTS, Place, SERVERS, World,
};
use policy_crds::{Object, ObjectKey, parse_all};
use serde_json::{Value, json};

const LINKERD: &str = "policy.linkerd.io";
const GATEWAY: &str = "gateway.networking.k8s.io";
const OWN: &str = "portcullis.dev";

/// The name of an InboundRoute.
pub(super) fn name(number: usize) -> String {
    format!("r{number}")
}

/// The parts of an object of a world.
#[derive(PartialEq)]
enum Part<'w> {
    Pod(&'static str),
    /// A Server: its namespace, its number, and whether it is open.
    Server(&'static str, usize, bool),
    Inbound(&'w Inbound),
    Leaf(&'w Leaf),
    Grant(&'w Grant),
    Policy((usize, Option<usize>, bool)),
    Authentication(&'static str),
    Admission(&'w Admission),
}

impl Part<'_> {
    fn object(&self) -> Object {
        let value = match self {
            Self::Pod(namespace) => pod(namespace),
            Self::Server(namespace, number, open) => server(namespace, *number, *open),
            Self::Inbound(object) => inbound(object),
            Self::Leaf(route) => leaf(route),
            Self::Grant(one) => grant(one),
            Self::Policy(one) => policy(*one),
            Self::Authentication(namespace) => authentication(namespace),
            Self::Admission(rules) => admission(rules),
        };
        parse_all(&value).into_iter().next().unwrap().unwrap()
    }
}

impl World {
    /// The objects, in an order of their own.
    pub fn objects(&self) -> Vec<Object> {
        self.parts().iter().map(Part::object).collect()
    }

    /// The changes that make another world of this one: objects, and names of those that are gone.
    pub(super) fn changes_to(&self, other: &Self) -> Vec<Result<Object, ObjectKey>> {
        let (own, others) = (self.parts(), other.parts());
        let only = |some: &[Part<'_>], rest: &[Part<'_>]| -> Vec<Object> {
            some.iter().filter(|part| !rest.contains(part)).map(Part::object).collect()
        };
        let fresh = only(&others, &own);
        let gone = only(&own, &others).into_iter().map(|object| object.meta.key);
        let gone = gone.filter(|key| fresh.iter().all(|object| object.meta.key != *key));
        let gone: Vec<_> = gone.map(Err).collect();
        gone.into_iter().chain(fresh.into_iter().map(Ok)).collect()
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let mut all = Vec::new();
        for namespace in NAMESPACES {
            all.push(Part::Pod(namespace));
            let server = |number| Part::Server(namespace, number, self.open);
            all.extend((0..SERVERS.len()).map(server));
        }
        all.extend(self.inbound.iter().map(Part::Inbound));
        all.extend(self.leaves.iter().map(Part::Leaf));
        all.extend(self.grants.iter().map(Part::Grant));
        all.extend(self.policies.iter().copied().map(Part::Policy));
        all.extend(self.authentications.iter().map(|at| Part::Authentication(NAMESPACES[*at])));
        all.extend(self.admission.iter().map(Part::Admission));
        all
    }
}

fn grant((from, to, route, name): &Grant) -> Value {
    let kind = if *route { (GATEWAY, "HTTPRoute") } else { (OWN, "InboundRoute") };
    let mut named = json!({"group": kind.0, "kind": kind.1});
    if let Some(name) = name {
        named["name"] = json!(self::name(*name));
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        // Named by what it says, so that a grant keeps its name if others go.
        "metadata": {"name": format!("g{from}-{route}-{}", name.unwrap_or(OBJECTS)),
                     "namespace": NAMESPACES[*to]},
        "spec": {"from": [{"group": OWN, "kind": "InboundRoute",
                           "namespace": NAMESPACES[*from]}], "to": [named]},
    })
}

fn admission(rules: &Admission) -> Value {
    let namespaces: Vec<_> = rules.namespaces.iter().map(|at| NAMESPACES[*at]).collect();
    let ownership = if rules.strict { "Strict" } else { "InterNamespaceAllowed" };
    let wildcards = if rules.wildcards { "WildcardsAllowed" } else { "WildcardsDisallowed" };
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "RouteAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"namespaceOwnership": ownership, "wildcardPolicy": wildcards,
                 "rootNamespaces": namespaces},
    })
}

fn pod(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c",
                 "ports": [{"containerPort": 8080}, {"containerPort": 8081}]}]},
    })
}

fn server(namespace: &str, number: usize, open: bool) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
        "metadata": {"name": SERVERS[number], "namespace": namespace},
        "spec": {"podSelector": {}, "port": 8080 + number, "proxyProtocol": "HTTP/1",
                 "accessPolicy": if open { "all-unauthenticated" } else { "deny" }},
    })
}

fn metadata(place: Place, created: usize, edited: bool, labelled: bool) -> Value {
    let labels = if labelled { json!({"app": "shop"}) } else { json!({}) };
    json!({
        "name": name(place.1), "namespace": NAMESPACES[place.0], "labels": labels,
        "creationTimestamp": format!("2026-01-01T00:00:0{created}Z"),
        "generation": if edited { 2 } else { 1 },
    })
}

fn inbound(object: &Inbound) -> Value {
    let mut spec = json!({});
    if let Some(root) = &object.root {
        spec["virtualhost"] = json!({"fqdn": root.hosts[0], "aliases": root.hosts[1..]});
        if let Some(target) = root.target {
            let target = json!({"group": LINKERD, "kind": "Server", "name": SERVERS[target]});
            spec["virtualhost"]["targetRef"] = target;
        }
        if root.mesh {
            spec["virtualhost"]["tls"] = json!({"mode": "Required"});
        }
    }
    let consent = |(host, parent): &(&str, Option<Place>)| match parent {
        None => json!({"fqdn": host}),
        Some((namespace, number)) => {
            let parent = json!({"namespace": NAMESPACES[*namespace], "name": name(*number)});
            json!({"fqdn": host, "parent": parent})
        }
    };
    if !object.consents.is_empty() {
        spec["delegatedFrom"] = object.consents.iter().map(consent).collect();
    }
    spec["routes"] = object.rules.iter().map(rule).collect();
    if !object.valid {
        spec["routes"][0]["match"] = json!("//");
    }
    let status = if object.recorded { recorded(object) } else { json!({}) };
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "InboundRoute",
        "metadata": metadata(object.at, object.created, object.edited, object.labelled),
        "spec": spec, "status": status,
    })
}

/// A status that records every claim of a root as old as the root.
fn recorded(object: &Inbound) -> Value {
    let hosts = object.root.iter().flat_map(|root| &root.hosts);
    let claims = hosts.flat_map(|host| {
        object.rules.iter().map(move |(path, _)| {
            let at = format!("2026-01-01T00:00:0{}Z", object.created);
            json!({"host": host, "path": path, "state": "Active", "claimedAt": at})
        })
    });
    json!({"claims": claims.collect::<Vec<_>>()})
}

fn rule((path, action): &(&str, Action)) -> Value {
    match action {
        Action::Servers(numbers) => {
            let named = |number: &usize| json!({"name": SERVERS[*number]});
            json!({"match": path, "servers": numbers.iter().map(named).collect::<Vec<_>>()})
        }
        Action::Serve => json!({"match": path, "serve": {}}),
        Action::Inbound((namespace, number)) => json!({"match": path, "delegate": {
            "kind": "InboundRoute", "name": name(*number), "namespace": NAMESPACES[*namespace]}}),
        Action::Leaf(namespace) => json!({"match": path, "delegate": {
            "kind": "HTTPRoute", "name": "h", "namespace": NAMESPACES[*namespace]}}),
        Action::Selected(namespace) => json!({"match": path, "delegate": {
            "kind": "InboundRoute", "namespace": NAMESPACES[*namespace],
            "selector": {"matchLabels": {"app": "shop"}}}}),
    }
}

fn leaf(leaf: &Leaf) -> Value {
    let inbound = leaf.parents.iter().map(|(namespace, number)| {
        json!({"group": OWN, "kind": "InboundRoute", "name": name(*number),
               "namespace": NAMESPACES[*namespace]})
    });
    let server = leaf.server.iter();
    let server =
        server.map(|number| json!({"group": LINKERD, "kind": "Server", "name": SERVERS[*number]}));
    let matches = leaf.matches.iter().map(|(path, exact)| {
        let kind = if *exact { "Exact" } else { "PathPrefix" };
        json!({"path": {"type": kind, "value": path}})
    });
    let mut value = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "h", "namespace": NAMESPACES[leaf.namespace]},
        "spec": {
            "parentRefs": inbound.chain(server).collect::<Vec<_>>(), "hostnames": leaf.hosts,
            "rules": [{"matches": matches.collect::<Vec<_>>()}],
        },
    });
    if !leaf.valid {
        value["spec"]["rules"][0]["matches"][0]["path"]["value"] = json!("a");
    }
    value
}

fn policy((namespace, target, asks): (usize, Option<usize>, bool)) -> Value {
    let on = match target {
        Some(number) => json!({"group": OWN, "kind": "InboundRoute", "name": name(number)}),
        None => json!({"group": LINKERD, "kind": "Server", "name": "s"}),
    };
    let refs = json!([{"group": LINKERD, "kind": "MeshTLSAuthentication", "name": "m"}]);
    let target = target.map_or("s".to_owned(), name);
    json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
        "metadata": {"name": format!("p-{target}-{asks}"), "namespace": NAMESPACES[namespace]},
        "spec": {"targetRef": on,
                 "requiredAuthenticationRefs": if asks { refs } else { json!([]) }},
    })
}

fn authentication(namespace: &str) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "MeshTLSAuthentication",
        "metadata": {"name": "m", "namespace": namespace}, "spec": {"identities": ["*"]},
    })
}
