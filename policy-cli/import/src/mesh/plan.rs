//! The grants of one port of a workload, after all denials, and its routes.

use super::clients::ClientCondition;
use super::denials::{PortGrant, remainder};
use super::policies::{MeshPolicies, has_port};
use super::requests::RequestCondition;
use super::workloads::WorkloadUnit;
use crate::report::Fidelity;
use std::collections::{BTreeMap, BTreeSet};

/// The grants and routes of one port.
#[derive(Debug, Default)]
pub(super) struct PortPlan {
    /// The grants.
    pub(super) grants: Vec<PortGrant>,
    /// Requests by the hosts of their route and the numbers of the grants that permit them; empty where the
    /// port carries any bytes.
    pub(super) routes: BTreeMap<RouteKey, BTreeSet<RequestCondition>>,
}

/// The hosts of a route, and the numbers of its grants.
pub(super) type RouteKey = (Option<BTreeSet<String>>, BTreeSet<usize>);

const BYTES: &str = "other rules of its port name requests, so that HTTP alone is admitted";
const OVERLAP: &str = "a request that a more specific rule matches too is decided by that one";

/// Plans a port. Rows of grants and denials note what is lost. `everyone` is the row of a denial on a workload
/// that nothing closes, so that everything else is allowed there.
pub(super) fn plan(
    policies: &mut MeshPolicies,
    unit: &WorkloadUnit,
    port: u16,
    everyone: Option<usize>,
) -> PortPlan {
    let name = unit.ports.get(&port).and_then(Option::as_deref);
    let of_port = policies.grants.iter().filter(|grant| {
        grant.selection.selects(unit) && has_port(grant.ports.as_deref(), port, name)
    });
    let mut grants: Vec<PortGrant> = of_port
        .map(|grant| PortGrant {
            row: grant.row,
            name: grant.name.clone(),
            clients: grant.clients.clone(),
            requests: grant.requests.clone(),
        })
        .collect();
    grants.extend(everyone.map(|row| PortGrant {
        row,
        name: "everyone".to_owned(),
        clients: ClientCondition::anyone(),
        requests: None,
    }));
    let mut denied = Vec::new();
    for denial in policies.denials.clone() {
        if !denial.selection.selects(unit) || !has_port(denial.ports.as_deref(), port, name) {
            continue;
        }
        let mut left = Vec::new();
        for grant in grants {
            let row = grant.row;
            let found = remainder(grant, &denial);
            if found.is_narrower {
                let note = "more than is denied is refused, which no grant can say exactly";
                policies.worsen(denial.row, Fidelity::Narrower, note);
                policies.worsen(
                    row,
                    Fidelity::Narrower,
                    "a denial takes more of it than it has to",
                );
            }
            left.extend(found.grants);
            denied.extend(found.denied);
        }
        grants = left;
    }
    let routes = routes(policies, &grants, &denied);
    PortPlan { grants, routes }
}

/// The routes: each request condition with the grants that contain it, and those that are denied without.
fn routes(
    policies: &mut MeshPolicies,
    grants: &[PortGrant],
    denied: &[RequestCondition],
) -> BTreeMap<RouteKey, BTreeSet<RequestCondition>> {
    let mut found: BTreeMap<RouteKey, BTreeSet<RequestCondition>> = BTreeMap::new();
    if denied.is_empty() && grants.iter().all(|grant| grant.requests.is_none()) {
        return found;
    }
    let any = [RequestCondition::any()];
    let of = |grant: &PortGrant| grant.requests.clone().unwrap_or_else(|| any.to_vec());
    let mut all: BTreeSet<RequestCondition> = grants.iter().flat_map(of).collect();
    all.extend(denied.iter().cloned());
    for request in &all {
        let is_denied = denied.iter().any(|it| it.contains(request));
        let mut permitting = BTreeSet::new();
        for (number, grant) in grants.iter().enumerate() {
            let own = of(grant);
            if !is_denied && own.iter().any(|it| it.contains(request)) {
                permitting.insert(number);
            } else if !is_denied && own.iter().any(|it| !it.is_apart_from(request)) {
                policies.worsen(grant.row, Fidelity::Narrower, OVERLAP);
            }
        }
        let key = (request.hosts.clone(), permitting);
        found.entry(key).or_default().insert(request.clone());
    }
    for grant in grants.iter().filter(|grant| grant.requests.is_none()) {
        policies.worsen(grant.row, Fidelity::Narrower, BYTES);
    }
    found
}
