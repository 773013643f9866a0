//! A world as objects.

use super::world::{Action, Inbound, Leaf, NAMESPACES, OBJECTS, Place, SERVERS, World};
use policy_crds::{Object, parse_all};
use serde_json::{Value, json};

const LINKERD: &str = "policy.linkerd.io";
const GATEWAY: &str = "gateway.networking.k8s.io";
const OWN: &str = "portcullis.dev";

/// The name of an InboundRoute.
pub(super) fn name(number: usize) -> String {
    format!("r{number}")
}

impl World {
    /// The objects, in an order of their own.
    pub fn objects(&self) -> Vec<Object> {
        let mut all = Vec::new();
        for namespace in NAMESPACES {
            all.push(pod(namespace));
            all.extend((0..SERVERS.len()).map(|number| server(namespace, number, self.open)));
        }
        all.extend(self.inbound.iter().map(inbound));
        all.extend(self.leaves.iter().map(leaf));
        for (from, to, route, name) in &self.grants {
            let kind = if *route { (GATEWAY, "HTTPRoute") } else { (OWN, "InboundRoute") };
            let mut named = json!({"group": kind.0, "kind": kind.1});
            if let Some(name) = name {
                named["name"] = json!(self::name(*name));
            }
            all.push(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
                // Named by what it says, so that a grant keeps its name if others go.
                "metadata": {"name": format!("g{from}-{route}-{}", name.unwrap_or(OBJECTS)),
                             "namespace": NAMESPACES[*to]},
                "spec": {"from": [{"group": OWN, "kind": "InboundRoute",
                                   "namespace": NAMESPACES[*from]}], "to": [named]},
            }));
        }
        all.extend(self.policies.iter().map(|policy| self::policy(*policy)));
        all.extend(self.authentications.iter().map(|at| authentication(NAMESPACES[*at])));
        if let Some(admission) = &self.admission {
            let namespaces: Vec<_> =
                admission.namespaces.iter().map(|at| NAMESPACES[*at]).collect();
            let ownership = if admission.strict { "Strict" } else { "InterNamespaceAllowed" };
            let wildcards =
                if admission.wildcards { "WildcardsAllowed" } else { "WildcardsDisallowed" };
            all.push(json!({
                "apiVersion": "portcullis.dev/v1alpha1", "kind": "RouteAdmissionPolicy",
                "metadata": {"name": "default"},
                "spec": {"namespaceOwnership": ownership, "wildcardPolicy": wildcards,
                         "rootNamespaces": namespaces},
            }));
        }
        all.iter().flat_map(parse_all).map(|object| object.unwrap()).collect()
    }
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
