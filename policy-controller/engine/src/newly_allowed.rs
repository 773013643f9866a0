//! Everything that a change of objects newly allows, and what it newly refuses.
//!
//! Only ports whose compiled policy differs are looked at. On these, clients and requests are made of the
//! conditions and matches of both policies: one of each name, suffix and network, one of each state of
//! TLS, and requests of each match. Both policies decide about each pair, so that the answer is true of
//! that very pair.

use crate::client_witness::{ANY_IDENTITY, ClientWitness, clients, requests};
use crate::compiled::Compiled;
use crate::witness::SampleRequest;
use policy_core::{
    Connection, Decision, Evaluator, Facts, Memo, RequestView, ServerPolicy, WorkloadKey,
};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The most decisions about one port. Beyond it a change is not known completely.
const MAX_DECISIONS: usize = 200_000;

/// A request or connection, as the policy of a port sees it.
pub struct Access<'a> {
    /// The workload.
    pub workload: &'a WorkloadKey,
    /// The port.
    pub port: NonZeroU16,
    /// The connection.
    pub connection: Connection<'a>,
    /// The request; absent: the connection itself.
    pub request: Option<RequestView<'a>>,
}

/// Clients, and requests of theirs to a port, about which two policies decide differently.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedAccess {
    /// The clients: an identity, a network, or a state of TLS in words.
    pub client: String,
    /// The workload.
    pub workload: WorkloadKey,
    /// Its port.
    pub port: NonZeroU16,
    /// The route with the match that takes the requests; `connections`, or `requests without a route`.
    pub route: String,
}

/// The difference that a change of objects makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessChange {
    /// Accesses that were refused.
    pub allowed: BTreeSet<ChangedAccess>,
    /// Accesses that were allowed.
    pub refused: BTreeSet<ChangedAccess>,
    /// True if a match, host or network could not be turned into requests or clients, or there were too
    /// many.
    pub incomplete: bool,
    /// True if nothing was decided about some port that changes, so that nothing is known of it.
    pub not_counted: bool,
}

/// A port's difference, by client and route.
#[derive(Clone, Default)]
struct PortChange {
    allowed: BTreeSet<(String, String)>,
    refused: BTreeSet<(String, String)>,
    incomplete: bool,
    not_counted: bool,
}

/// Returns the difference between two compilations. `question` is an access whose client and request are
/// examined in any case.
pub fn access_change(
    before: &Compiled,
    after: &Compiled,
    question: Option<&Access<'_>>,
) -> AccessChange {
    let mut change = AccessChange::default();
    let mut known: BTreeMap<(usize, usize), PortChange> = BTreeMap::new();
    for (key, workload) in &after.workloads {
        let (new, none) = (&workload.policy.ports, BTreeMap::new());
        let old = before.workloads.get(key).map_or(&none, |workload| &workload.policy.ports);
        let ports = new.keys().chain(old.keys().filter(|port| !new.contains_key(port)));
        for port in ports {
            // A port that is declared on one side alone has a policy on both.
            let of = |compiled: &Compiled, declared: &BTreeMap<_, Arc<ServerPolicy>>| {
                declared.get(port).cloned().or_else(|| compiled.port(key, *port))
            };
            let (Some(own), Some(new)) = (of(before, old), of(after, new)) else { continue };
            let pair = (Arc::as_ptr(&own).addr(), Arc::as_ptr(&new).addr());
            if !known.contains_key(&pair) && own == new {
                continue;
            }
            let found = known
                .entry(pair)
                .or_insert_with(|| port_change(&own, &new, &workload.state.facts, question));
            let access = |(client, route): &(String, String)| ChangedAccess {
                client: client.clone(),
                workload: key.clone(),
                port: *port,
                route: route.clone(),
            };
            change.allowed.extend(found.allowed.iter().map(access));
            change.refused.extend(found.refused.iter().map(access));
            change.incomplete |= found.incomplete;
            change.not_counted |= found.not_counted;
        }
    }
    change
}

fn port_change(
    own: &Arc<ServerPolicy>,
    new: &Arc<ServerPolicy>,
    facts: &Facts,
    question: Option<&Access<'_>>,
) -> PortChange {
    let mut change = PortChange::default();
    let [Ok(before), Ok(after)] = [own, new].map(|one| Evaluator::build(Arc::clone(one))) else {
        return PortChange { incomplete: true, not_counted: true, ..change };
    };
    let (mut clients, every_network) = clients([own, new], facts, &|_| true);
    if clients.iter().all(|client| client.words != ANY_IDENTITY) {
        // A grant for a network admits identities that no grant names.
        clients.extend(
            clients.iter().filter_map(ClientWitness::with_any_identity).collect::<Vec<_>>(),
        );
    }
    clients.extend(question.map(|access| ClientWitness::question(&access.connection)));
    let (mut requests, all) = requests([own, new], &|_| true);
    change.incomplete = !all || !every_network;
    requests.extend(question.and_then(|access| access.request.as_ref()).map(|view| {
        SampleRequest {
            method: view.method.clone(),
            host: view.host.map(str::to_owned),
            path: view.path.to_owned(),
            query: view.query.map(str::to_owned),
            headers: view.headers.clone(),
        }
    }));
    if clients.len().saturating_mul(requests.len()) > MAX_DECISIONS {
        return PortChange { incomplete: true, not_counted: true, ..change };
    }
    for client in &clients {
        let connection = client.connection(facts);
        let of_connection = [&before, &after].map(|by| by.decide_connection(&connection));
        change.record(client, &of_connection, || "connections".to_owned());
        for request in &requests {
            let view = request.view();
            let decided =
                [&before, &after].map(|by| by.decide_request(&connection, &mut Memo::new(), &view));
            let [first, second] = &decided;
            let by = if is_permit(second) { (second, &after) } else { (first, &before) };
            change.record(client, &decided, || route_words(by.1, by.0));
        }
    }
    change
}

impl PortChange {
    fn record(
        &mut self,
        client: &ClientWitness,
        decided: &[Decision; 2],
        route: impl Fn() -> String,
    ) {
        let [before, after] = decided.each_ref().map(is_permit);
        let set = match (before, after) {
            (false, true) => &mut self.allowed,
            (true, false) => &mut self.refused,
            (true, true) | (false, false) => return,
        };
        set.insert((client.words.clone(), route()));
    }
}

fn is_permit(decision: &Decision) -> bool {
    matches!(decision, Decision::Permit(_))
}

/// The route of a permit, with its matches.
fn route_words(evaluator: &Evaluator, decision: &Decision) -> String {
    let id = match decision {
        Decision::Permit(permit) => permit.route(),
        Decision::Deny(denial) => denial.route,
    };
    let Some((route, rule)) = id.and_then(|id| evaluator.rule(id)) else {
        return "requests without a route".to_owned();
    };
    let matches: Vec<String> = rule.matches.iter().map(ToString::to_string).collect();
    match matches.is_empty() {
        true => route.origin.to_string(),
        false => format!("{} ({})", route.origin, matches.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_witness::{MAX_CLIENTS, MAX_NETWORKS};
    use crate::compiled::compile_objects;
    use crate::config::ControllerConfig;
    use serde_json::{Value, json};

    fn objects(client: &str, path: &Value) -> [Value; 4] {
        let server = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web"});
        [
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "ports": [{"containerPort": 8080}]}]},
            }),
            json!({
                "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {
                    "podSelector": {"matchLabels": {"app": "web"}}, "port": 8080,
                    "proxyProtocol": "HTTP/1",
                },
            }),
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": "api", "namespace": "shop"},
                "spec": {"parentRefs": [server], "rules": [{"matches": [{"path": path}]}]},
            }),
            json!({
                "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
                "metadata": {"name": "p", "namespace": "shop"},
                "spec": {
                    "targetRef": {
                        "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "api",
                    },
                    "requiredAuthenticationRefs": [{"kind": "ServiceAccount", "name": client}],
                },
            }),
        ]
    }

    fn compiled(client: &str, path: &Value) -> Compiled {
        let objects = objects(client, path);
        let objects = objects.iter().map(|value| policy_crds::parse(value).unwrap()).collect();
        compile_objects(objects, &ControllerConfig::default())
    }

    fn access(client: &str) -> BTreeSet<ChangedAccess> {
        let config = ControllerConfig::default();
        BTreeSet::from([ChangedAccess {
            client: config.service_account_identity("shop", client).to_string(),
            workload: WorkloadKey::pod("shop", "web"),
            port: NonZeroU16::new(8080).unwrap(),
            route: "HTTPRoute shop/api (* /api/…)".to_owned(),
        }])
    }

    #[test]
    fn a_change_is_told_by_client_port_and_route_in_both_directions() {
        let path = json!({"type": "PathPrefix", "value": "/api"});
        let (cart, web) = (compiled("cart", &path), compiled("web", &path));
        let (allowed, refused) = (access("web"), access("cart"));
        let expected = AccessChange { allowed, refused, ..AccessChange::default() };
        assert_eq!(access_change(&cart, &web, None), expected);
        assert_eq!(access_change(&cart, &cart, None), AccessChange::default());
    }

    #[test]
    fn objects_that_are_added_count_as_if_all_were_compiled_together() {
        let path = json!({"type": "PathPrefix", "value": "/api"});
        let (cart, web) = (objects("cart", &path), objects("web", &path));
        let parsed = |values: &[Value]| {
            values.iter().map(|value| policy_crds::parse(value).unwrap()).collect::<Vec<_>>()
        };
        let config = ControllerConfig::default();
        let without = compile_objects(parsed(&cart[..3]), &config);
        let added = without.with(parsed(&cart[3..]));
        let replaced = added.with(parsed(&web[3..]));
        let (key, port) = (WorkloadKey::pod("shop", "web"), NonZeroU16::new(8080).unwrap());
        for (own, client) in [(&added, "cart"), (&replaced, "web")] {
            let whole = compiled(client, &path);
            assert_eq!(own.port(&key, port), whole.port(&key, port), "{client}");
            let ports = |compiled: &Compiled| compiled.workloads[&key].policy.clone();
            assert_eq!(ports(own), ports(&whole), "{client}");
            assert_eq!(own.objects.len(), whole.objects.len(), "{client}");
            let expected = AccessChange { allowed: access(client), ..AccessChange::default() };
            assert_eq!(access_change(&without, own, None), expected, "{client}");
        }
    }

    #[test]
    fn a_regular_expression_makes_a_change_incomplete() {
        let path = json!({"type": "RegularExpression", "value": "/a[0-9]+"});
        let (cart, web) = (compiled("cart", &path), compiled("web", &path));
        assert!(access_change(&cart, &web, None).incomplete);
    }

    #[test]
    fn the_clients_of_thousands_of_networks_and_names_are_bounded() {
        let networks = (0..5000_u32).map(|at| format!("10.{}.{}.0/24", at / 256, at % 256));
        let networks: Vec<Value> = networks.map(|cidr| json!({"cidr": cidr})).collect();
        let names: Vec<String> = (0..5000).map(|at| format!("a{at}.shop")).collect();
        let kinds = ["NetworkAuthentication", "MeshTLSAuthentication"];
        let refs =
            kinds.map(|kind| json!({"group": "policy.linkerd.io", "kind": kind, "name": "a"}));
        let object = |kind: &str, spec: Value| {
            json!({
                "apiVersion": "policy.linkerd.io/v1alpha1", "kind": kind,
                "metadata": {"name": "a", "namespace": "shop"}, "spec": spec,
            })
        };
        let server = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web"});
        let path = json!({"type": "PathPrefix", "value": "/api"});
        let grant = json!({"targetRef": server, "requiredAuthenticationRefs": refs});
        let mut objects = objects("web", &path).to_vec();
        objects.extend([
            object("AuthorizationPolicy", grant),
            object("NetworkAuthentication", json!({"networks": networks})),
            object("MeshTLSAuthentication", json!({"identities": names})),
        ]);
        let objects = objects.iter().map(|value| policy_crds::parse(value).unwrap()).collect();
        let compiled = compile_objects(objects, &ControllerConfig::default());
        let port = NonZeroU16::new(8080).unwrap();
        let policy = compiled.port(&WorkloadKey::pod("shop", "web"), port).unwrap();
        let (found, complete) = clients([&policy; 2], &Facts::default(), &|_| true);
        assert!(!complete);
        assert_eq!(found.len(), 3 * (MAX_NETWORKS + 1) + MAX_CLIENTS);
    }
}
