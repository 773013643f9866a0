//! A world as objects.

use super::world::{
    Binding, Class, Entry, FOREIGN, Group, Key, Operator, Rewrite, Target, Timeout, World,
};
use policy_crds::{Object, parse_all};
use serde_json::{Value, json};

const LINKERD: &str = "policy.linkerd.io";
const OWN: &str = "portcullis.dev";

impl World {
    /// The objects, in an order of their own.
    pub fn objects(&self) -> Vec<Object> {
        let mut all = vec![pod(), server(), authentication("ada"), authentication("bob")];
        for (number, group) in self.groups.iter().enumerate() {
            all.extend(group.as_ref().map(|group| self::group(number, group)));
        }
        if self.granted {
            all.push(grant());
        }
        let bindings = self.bindings.iter().enumerate();
        all.extend(bindings.map(|(number, binding)| self::binding(number, binding)));
        let classes = self.classes.iter().enumerate();
        all.extend(classes.map(|(number, class)| self::class(number, class)));
        for (number, policy) in self.policies.iter().enumerate() {
            let needed = policy.client.map(
                |client| json!({"group": LINKERD, "kind": "MeshTLSAuthentication", "name": client}),
            );
            all.push(json!({
                "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
                "metadata": {"name": format!("p{number}"), "namespace": "shop"},
                "spec": {"targetRef": target(policy.target),
                         "requiredAuthenticationRefs": needed.iter().collect::<Vec<_>>()},
            }));
        }
        let timeouts = self.timeouts.iter().enumerate();
        all.extend(timeouts.map(|(number, timeout)| self::timeout(number, timeout)));
        let rewrites = self.rewrites.iter().enumerate();
        all.extend(rewrites.map(|(number, rewrite)| self::rewrite(number, rewrite)));
        all.iter().flat_map(parse_all).map(|object| object.unwrap()).collect()
    }
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 8080}]}]},
    })
}

fn server() -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"podSelector": {}, "port": 8080, "proxyProtocol": "HTTP/1", "accessPolicy": "deny"},
    })
}

fn authentication(client: &str) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "MeshTLSAuthentication",
        "metadata": {"name": client, "namespace": "shop"},
        "spec": {"identities": [client]},
    })
}

fn grant() -> Value {
    let from = |kind: &str| json!({"group": OWN, "kind": kind, "namespace": "shop"});
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "groups", "namespace": "other"},
        "spec": {"from": [from("HttpRouteGroup"), from("HttpRouteBinding")],
                 "to": [{"group": OWN, "kind": "HttpRouteGroup"}]},
    })
}

fn namespace(group: usize) -> &'static str {
    if group == FOREIGN { "other" } else { "shop" }
}

/// A reference, as an object of a namespace writes it.
fn reference(from: &str, group: usize) -> Value {
    // The group of the other namespace names what its own namespace does not have.
    let namespace = if from == "shop" { namespace(group) } else { from };
    json!({"name": format!("g{group}"), "namespace": namespace})
}

fn predicates(header: bool) -> Value {
    match header {
        true => json!([{"name": "x-h", "value": "1"}]),
        false => json!([]),
    }
}

fn labels(team: Option<&str>) -> Value {
    team.map_or(json!({}), |team| json!({"team": team}))
}

fn group(number: usize, group: &Group) -> Value {
    let namespace = namespace(number);
    let entry = |entry: &Entry| match entry {
        Entry::Route(route) => {
            let mut value = json!({
                "path": if group.valid { &route.path } else { "//" },
                "headers": predicates(route.header),
                "labels": labels(route.team),
            });
            if !route.methods.is_empty() {
                value["methods"] = json!(route.methods);
            }
            value
        }
        Entry::Include(other, team) if group.valid => {
            json!({"routeGroupRef": reference(namespace, *other), "labels": labels(*team)})
        }
        Entry::Include(..) => json!({}),
    };
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "HttpRouteGroup",
        "metadata": {"name": format!("g{number}"), "namespace": namespace},
        "spec": {"headers": predicates(group.header),
                 "routes": group.entries.iter().map(entry).collect::<Vec<_>>()},
    })
}

fn binding(number: usize, binding: &Binding) -> Value {
    let mut groups: Vec<Value> =
        binding.groups.iter().map(|group| reference("shop", *group)).collect();
    if !binding.valid {
        groups.clear();
    }
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "HttpRouteBinding",
        "metadata": {"name": format!("b{number}"), "namespace": "shop",
                     "creationTimestamp": format!("2026-01-01T00:00:0{}Z", binding.created)},
        "spec": {"targetRef": target(Target::Server), "routeRefs": groups},
    })
}

fn class(number: usize, class: &Class) -> Value {
    let condition = |(key, operator): &(Key, Operator)| {
        let key = match key {
            Key::Team => "team".to_owned(),
            Key::Method => "http.linkerd.io/method".to_owned(),
            Key::Path => "http.linkerd.io/path".to_owned(),
            Key::Parameter(name) => format!("path.http.linkerd.io/{name}"),
        };
        match operator {
            Operator::In(texts) => json!({"key": key, "operator": "In", "values": texts}),
            Operator::NotIn(texts) => json!({"key": key, "operator": "NotIn", "values": texts}),
            Operator::Exists => json!({"key": key, "operator": "Exists"}),
            Operator::DoesNotExist => json!({"key": key, "operator": "DoesNotExist"}),
        }
    };
    let conditions: Vec<Value> = class.conditions.iter().map(condition).collect();
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "HttpRouteClass",
        "metadata": {"name": format!("c{number}"), "namespace": "shop"},
        "spec": {"targetRef": target(Target::Server),
                 "routeSelector": {"matchExpressions": conditions}},
    })
}

fn target(target: Target) -> Value {
    match target {
        Target::Server => json!({"group": LINKERD, "kind": "Server", "name": "web"}),
        Target::Binding(number) => {
            json!({"group": OWN, "kind": "HttpRouteBinding", "name": format!("b{number}")})
        }
        Target::Class(number) => {
            json!({"group": OWN, "kind": "HttpRouteClass", "name": format!("c{number}")})
        }
    }
}

fn timeout(number: usize, timeout: &Timeout) -> Value {
    let mut bounds = json!({});
    let named =
        [("request", timeout.request), ("response", timeout.response), ("idle", timeout.idle)];
    for (name, bound) in named {
        if let Some(bound) = bound {
            bounds[name] = json!(format!("{bound}s"));
        }
    }
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "TimeoutPolicy",
        "metadata": {"name": format!("t{number}"), "namespace": "shop",
                     "creationTimestamp": format!("2026-01-01T00:00:0{}Z", timeout.created)},
        "spec": {"targetRef": target(timeout.target), "timeouts": bounds,
                 "streams": if timeout.unbounded { "Unbounded" } else { "Bounded" }},
    })
}

fn rewrite(number: usize, rewrite: &Rewrite) -> Value {
    let rule = |(rule, wanted): (usize, &Option<bool>)| {
        let mut value = json!({"add": {"x-rule": format!("{number} {rule}")}});
        if let Some(wanted) = wanted {
            let operator = if *wanted { "Exists" } else { "DoesNotExist" };
            value["match"] = json!([{"header": {"key": "x-h", "op": operator}}]);
        }
        value
    };
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "HeaderRewritePolicy",
        "metadata": {"name": format!("w{number}"), "namespace": "shop",
                     "creationTimestamp": format!("2026-01-01T00:00:0{}Z", rewrite.created)},
        "spec": {"targetRef": target(rewrite.target),
                 "rules": rewrite.rules.iter().enumerate().map(rule).collect::<Vec<_>>()},
    })
}
