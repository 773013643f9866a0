//! The least change that would allow a refused request or connection.
//!
//! Candidates are new grants for the client's identity, or for its address where it proves none, which
//! admits all who connect from there: on the route that took the request, on classes of
//! routes, on the Server; the authentication that a policy names and that does not exist; a Server that
//! keeps the default policy, where none owns the port. Each is compiled with the objects and decided by
//! the evaluator. Its cost is everything that it newly allows ([`access_change`]). One that refuses
//! anything is dropped. Nothing is proposed that edits an object, names more clients than this one, or
//! belongs to another namespace: its owner is named instead.

mod candidates;

use crate::compiled::Compiled;
use crate::config::ControllerConfig;
pub use crate::newly_allowed::Access;
use crate::newly_allowed::{AccessChange, access_change};
use candidates::{CandidateChange, CandidateRank, CandidateSearch};
use policy_core::explain::{Explanation, explain};
use policy_core::{Decision, Denied, Protocol};
use policy_crds::Object;
use serde_json::Value;

/// The most candidates that are compiled.
const MAX_CANDIDATES: usize = 12;

/// The answer: proposals, cheapest first, or the reasons why there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeastChange {
    /// Proposals that were compiled and decided; the first costs least.
    pub proposals: Vec<Proposal>,
    /// Changes that are not proposed, with the owner who could make them.
    pub notes: Vec<String>,
}

/// Objects that would allow the access if they were applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The objects, complete.
    pub objects: Vec<Value>,
    /// The change that they make.
    pub change: AccessChange,
}

/// Returns the least change that would allow an access. Empty where it is allowed.
pub fn least_change(
    compiled: &Compiled,
    config: &ControllerConfig,
    access: &Access<'_>,
) -> LeastChange {
    let Some(explained) = explained(compiled, access) else { return LeastChange::default() };
    let Decision::Deny(denial) = explained.decision else { return LeastChange::default() };
    if denial.reason != Denied::Unauthorized {
        let notes = vec![no_grant_helps(denial.reason).to_owned()];
        return LeastChange { proposals: Vec::new(), notes };
    }
    let mut search =
        CandidateSearch { compiled, config, access, candidates: Vec::new(), notes: Vec::new() };
    if search.is_of_sidecar() {
        let notes = vec!["nothing is proposed: the port is one of the sidecar itself".to_owned()];
        return LeastChange { proposals: Vec::new(), notes };
    }
    search.grants(&explained);
    search.missing_authentications(&explained);
    let CandidateSearch { candidates, mut notes, .. } = search;
    let (candidates, left_out) = bounded(candidates);
    if left_out > 0 {
        notes.push(format!(
            "{left_out} more grants, on classes, were not tried: at most {MAX_CANDIDATES} are"
        ));
    }
    let mut proposals = Vec::new();
    for objects in candidates {
        match tried_out(compiled, access, explained.protocol, objects) {
            Trial::Allows(proposal) => proposals.push(proposal),
            Trial::NotCounted(objects) => notes.push(format!(
                "a grant by {} is not proposed: what it changes is too much to look at",
                names(&objects)
            )),
            Trial::Fails => {}
        }
    }
    proposals.sort_by_key(|proposal: &Proposal| {
        (proposal.change.incomplete, proposal.change.allowed.len(), proposal.objects.len())
    });
    if proposals.is_empty() && notes.is_empty() {
        notes.push("no new grant for this client alone would allow it".to_owned());
    }
    LeastChange { proposals, notes }
}

fn explained(compiled: &Compiled, access: &Access<'_>) -> Option<Explanation> {
    let policy = compiled.port(access.workload, access.port)?;
    Some(explain(&policy, &access.connection, access.request.as_ref()))
}

/// The outcome of a candidate.
enum Trial {
    /// It allows the access and refuses nothing.
    Allows(Proposal),
    /// It allows the access, and what else it changes could not be counted.
    NotCounted(Vec<Value>),
    /// It does not allow the access, refuses others, or changes the protocol of the port.
    Fails,
}

fn tried_out(
    compiled: &Compiled,
    access: &Access<'_>,
    protocol: Protocol,
    objects: Vec<Value>,
) -> Trial {
    let Some(after) = applied(compiled, &objects) else { return Trial::Fails };
    let Some(decided) = explained(&after, access) else { return Trial::Fails };
    if !matches!(decided.decision, Decision::Permit(_)) || decided.protocol != protocol {
        return Trial::Fails;
    }
    let change = access_change(compiled, &after, Some(access));
    if change.not_counted {
        return Trial::NotCounted(objects);
    }
    match change.refused.is_empty() {
        true => Trial::Allows(Proposal { objects, change }),
        false => Trial::Fails,
    }
}

/// The objects with further ones that are applied; `None` if one of these cannot be read.
pub fn applied(compiled: &Compiled, objects: &[Value]) -> Option<Compiled> {
    let parsed: Option<Vec<Object>> =
        objects.iter().map(|value| policy_crds::parse(value).ok()).collect();
    Some(compiled.with(parsed?))
}

/// The candidates that are tried, in their order, and the number of those that are not: first the ones on
/// classes are left out.
fn bounded(candidates: Vec<CandidateChange>) -> (Vec<Vec<Value>>, usize) {
    let left_out = candidates.len().saturating_sub(MAX_CANDIDATES);
    let mut ordered: Vec<CandidateChange> = candidates;
    ordered.sort_by_key(|(rank, _)| *rank == CandidateRank::Class);
    ordered.truncate(MAX_CANDIDATES);
    ordered.sort_by_key(|(rank, _)| *rank);
    (ordered.into_iter().map(|(_, objects)| objects).collect(), left_out)
}

/// The names of objects, as `Kind namespace/name`.
fn names(objects: &[Value]) -> String {
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let names = objects.iter().map(|object| {
        let (namespace, name) =
            (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        format!("{} {namespace}/{name}", text(object, "/kind"))
    });
    names.collect::<Vec<_>>().join(" and ")
}

/// The reason why no grant would allow what is refused for another reason.
fn no_grant_helps(reason: Denied) -> &'static str {
    match reason {
        Denied::NoRoute => {
            "nothing is proposed: no route matches the request, and only the author of the routes knows \
             if one should"
        }
        Denied::CannotTell | Denied::Target(_) => {
            "nothing is proposed: the request itself can be read in two ways, and no object changes that"
        }
        Denied::RateLimited | Denied::RateLimitInvalid => {
            "nothing is proposed: a limit is no grant"
        }
        Denied::TlsRequired | Denied::ProtocolMismatch => {
            "nothing is proposed: the client does not speak the protocol of the port"
        }
        Denied::ServerInvalid | Denied::RoutesInvalid | Denied::RouteInvalid => {
            "nothing is proposed: an invalid object has to be corrected by its author; `portcullis check` \
             names the field"
        }
        Denied::NotDelegated => {
            "nothing is proposed here: a link of the delegation is missing, and its owner adds it"
        }
        Denied::PortUndeclared => {
            "nothing is proposed: the port has to be declared by a container or a Server"
        }
        Denied::ProxyUnsupported
        | Denied::PolicyPending
        | Denied::PolicyExpired
        | Denied::Revoked
        | Denied::Unauthorized => "nothing is proposed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiled::compile_objects;
    use policy_core::{Connection, WorkloadKey};
    use policy_core::{Facts, Identity, Tls};
    use serde_json::json;
    use std::collections::BTreeSet;
    use std::num::NonZeroU16;

    /// A port that keeps its default policy `deny`, and a pod with a sidecar that calls it.
    fn compiled(annotations: &Value) -> Compiled {
        let pod = |name: &str, address: &str, annotations: &Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "namespace": "shop", "annotations": annotations,
                    "labels": {"app": name, "linkerd.io/control-plane-ns": "linkerd"},
                },
                "spec": {
                    "serviceAccountName": name,
                    "containers": [{"name": "a", "ports": [{"containerPort": 8080}]}],
                },
                "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
            })
        };
        let objects = [pod("web", "10.1.0.1", annotations), pod("cart", "10.1.0.2", &json!({}))];
        let objects = objects.iter().map(|value| policy_crds::parse(value).unwrap()).collect();
        compile_objects(objects, &ControllerConfig::default())
    }

    fn asked(annotations: &Value, address: &str, tls: Tls<'_>, port: u16) -> LeastChange {
        let compiled = compiled(annotations);
        let facts = Facts::default();
        let client = address.parse().unwrap();
        let workload = WorkloadKey::pod("shop", "web");
        let access = Access {
            workload: &workload,
            port: NonZeroU16::new(port).unwrap(),
            connection: Connection { client, tls, facts: &facts },
            request: None,
        };
        least_change(&compiled, &ControllerConfig::default(), &access)
    }

    fn denied() -> Value {
        json!({"config.linkerd.io/default-inbound-policy": "deny"})
    }

    #[test]
    fn no_wildcard_is_proposed_for_an_identity_that_reads_as_one() {
        let named = |name: &str| Identity::Dns(name.into());
        let cart = named("cart.example");
        let found = asked(&denied(), "10.1.0.9", Tls::Terminated(Some(&cart)), 8080);
        assert_eq!(found.proposals.len(), 1, "{found:?}");
        let config = ControllerConfig::default();
        for name in ["*", "*.example", &*config.service_account_identity("shop", "*")] {
            let wildcard = named(name);
            let found = asked(&denied(), "10.1.0.9", Tls::Terminated(Some(&wildcard)), 8080);
            assert_eq!(found.proposals, [], "{name}");
        }
    }

    #[test]
    fn no_network_is_proposed_for_a_pod_that_proves_an_identity() {
        let found = asked(&denied(), "10.1.0.9", Tls::Absent, 8080);
        assert_eq!(found.proposals.len(), 1, "{found:?}");
        let allowed = found.proposals.iter().flat_map(|proposal| &proposal.change.allowed);
        let clients: BTreeSet<&str> = allowed.map(|access| &*access.client).collect();
        let expected = [
            "TLS for the application from 10.1.0.9/32",
            "any identity from 10.1.0.9/32",
            "mesh TLS without an identity from 10.1.0.9/32",
            "plaintext from 10.1.0.9/32",
        ];
        assert_eq!(clients, BTreeSet::from(expected));
        let found = asked(&denied(), "10.1.0.2", Tls::Absent, 8080);
        assert_eq!(found.proposals, []);
        assert!(found.notes.iter().any(|note| note.contains("sa/shop/cart")), "{found:?}");
    }

    #[test]
    fn nothing_is_proposed_on_a_port_of_the_sidecar() {
        let found = asked(&denied(), "10.1.0.9", Tls::Absent, 4191);
        assert_eq!(found.proposals, []);
    }

    #[test]
    fn a_server_that_is_proposed_keeps_the_protocol_of_an_opaque_port() {
        let annotations = json!({
            "config.linkerd.io/default-inbound-policy": "deny",
            "config.linkerd.io/opaque-ports": "8080",
        });
        let found = asked(&annotations, "10.1.0.9", Tls::Absent, 8080);
        let objects = found.proposals.iter().flat_map(|proposal| &proposal.objects);
        let protocols: Vec<&Value> =
            objects.filter_map(|object| object.pointer("/spec/proxyProtocol")).collect();
        assert_eq!(protocols, [&json!("opaque")], "{found:?}");
    }

    #[test]
    fn the_bound_on_candidates_leaves_out_classes_first() {
        let class = |number: usize| (CandidateRank::Class, vec![json!(number)]);
        let mut all: Vec<CandidateChange> = (0..MAX_CANDIDATES).map(class).collect();
        all.push((CandidateRank::Server, vec![json!("server")]));
        all.push((CandidateRank::Authentication, vec![json!("missing")]));
        let (tried, left_out) = bounded(all);
        assert_eq!((tried.len(), left_out), (MAX_CANDIDATES, 2));
        assert!(tried.contains(&vec![json!("server")]));
        assert!(tried.contains(&vec![json!("missing")]));
    }
}
