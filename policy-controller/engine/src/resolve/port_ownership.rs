//! The Server that owns each port of a workload shape (docs/spec/controller.md 2.4).

use crate::behaviour::Behaviour;
use crate::incremental::{Context, query};
use crate::query::port_ownership::{
    Claim, ClaimOutcome, DisplacedServers, DisplacedServersOf, PortOwners, PortOwnersOf,
    SelectorKeys, ServersOf,
};
use crate::query::workload::{MAX_EXAMINED, WorkloadOf, WorkloadShape, workload_key};
use policy_core::WorkloadKind;
use policy_crds::resource::{PortRef, WorkloadSelector};
use policy_crds::{Body, Claims, Invalid, Kind, LabelSelector, Object, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most Servers of a namespace that are compared with each other, each with all before it.
const MAX_COMPARED: usize = 256;

query!(ServersOf, Arc<[Claim]>, servers_of);
query!(SelectorKeys, Arc<BTreeSet<Arc<str>>>, selector_keys);
query!(PortOwnersOf, Arc<PortOwners>, ports_owned);
query!(DisplacedServersOf, Arc<DisplacedServers>, displaced);

fn servers_of(query: &ServersOf, cx: &mut Context<'_>) -> Arc<[Claim]> {
    let ignored = cx.config.follows_linkerd(Behaviour::InvalidServers);
    let servers = cx.list(Kind::Server, &query.0);
    let servers = servers.filter(|server| !(ignored && matches!(server.body, Body::Invalid(_))));
    let mut claims: Vec<Claim> = servers.map(|server| claim(server)).collect();
    claims.sort_by(|a, b| {
        // `None` sorts before `Some`: a Server without a time comes first.
        (a.created, &a.server.name).cmp(&(b.created, &b.server.name))
    });
    claims.into()
}

fn claim(object: &Object) -> Claim {
    let (workloads, port) = match &object.body {
        Body::Valid(Resource::Server(server)) => {
            (Some(server.workloads.clone()), Some(server.port.clone()))
        }
        Body::Invalid(Invalid { claims: Claims::Server { workloads, port }, .. }) => {
            (workloads.clone(), port.clone())
        }
        Body::Valid(_) | Body::Invalid(_) => (None, None),
    };
    Claim { server: object.meta.key.clone(), created: object.meta.created, workloads, port }
}

fn selector_keys(query: &SelectorKeys, cx: &mut Context<'_>) -> Arc<BTreeSet<Arc<str>>> {
    let claims = cx.query(&ServersOf(query.0.clone()));
    let keys = claims.iter().filter_map(|claim| claim.workloads.as_ref()).flat_map(|workloads| {
        let selector = labels(workloads);
        let expressions = selector.match_expressions.iter().map(|e| e.key.clone());
        selector.match_labels.keys().cloned().chain(expressions)
    });
    Arc::new(keys.collect())
}

fn labels(workloads: &WorkloadSelector) -> &LabelSelector {
    match workloads {
        WorkloadSelector::Pods(selector) | WorkloadSelector::ExternalWorkloads(selector) => {
            selector
        }
    }
}

fn ports_owned(query: &PortOwnersOf, cx: &mut Context<'_>) -> Arc<PortOwners> {
    let shape = &query.0;
    let claims = cx.query(&ServersOf(shape.namespace.clone()));
    let mut owners = PortOwners::default();
    for claim in claims.iter().filter(|claim| claim.selects(shape)) {
        owners.claimants.insert(claim.server.clone(), claim.port.clone());
        if owners.rest.is_some() {
            continue;
        }
        let Some(port) = &claim.port else {
            owners.rest = Some(claim.server.clone());
            continue;
        };
        for port in shape.ports_meant(port) {
            owners.ports.entry(*port).or_insert_with(|| claim.server.clone());
        }
    }
    Arc::new(owners)
}

/// Examines workloads only where the Servers alone do not decide whether one displaces another, and
/// only so many that an event of one of them stays cheap.
fn displaced(query: &DisplacedServersOf, cx: &mut Context<'_>) -> Arc<DisplacedServers> {
    let claims = cx.query(&ServersOf(query.0.clone()));
    let mut found = DisplacedServers::new();
    let contested = contested(&claims);
    if contested.is_empty() {
        return Arc::new(found);
    }
    let shapes = shapes(cx, &query.0);
    for claim in contested {
        let Some(port) = &claim.port else { continue };
        let mut outcome = ClaimOutcome::default();
        for shape in shapes.iter().filter(|shape| claim.selects(shape)) {
            let owners = cx.query(&PortOwnersOf(shape.clone()));
            outcome.add(&claim.server, port, (shape, &owners));
        }
        if outcome.is_displaced() {
            found.insert(claim.server.clone(), outcome.owners);
        }
    }
    Arc::new(found)
}

/// The claims that an earlier one may take everything from.
fn contested(claims: &[Claim]) -> Vec<&Claim> {
    if claims.len() > MAX_COMPARED {
        return Vec::new();
    }
    let earlier = |at: usize| claims.iter().take(at);
    let all = claims.iter().enumerate();
    let contested = all.filter(|(at, claim)| earlier(*at).any(|first| first.may_displace(claim)));
    contested.map(|(_, claim)| claim).collect()
}

/// The shapes of a namespace's workloads; none if there are too many workloads.
fn shapes(cx: &mut Context<'_>, namespace: &Arc<str>) -> BTreeSet<Arc<WorkloadShape>> {
    let pods = cx.list(Kind::Pod, namespace);
    let workloads = pods.chain(cx.list(Kind::ExternalWorkload, namespace));
    let keys = workloads.filter_map(|object| workload_key(&object.meta.key));
    let keys: Vec<_> = keys.take(MAX_EXAMINED.saturating_add(1)).collect();
    if keys.len() > MAX_EXAMINED {
        return BTreeSet::new();
    }
    let resolved = keys.into_iter().filter_map(|key| cx.query(&WorkloadOf(key)));
    resolved.map(|resolved| resolved.shape.clone()).collect()
}

impl Claim {
    /// True if this claim, which comes first, may leave nothing to `later`. Two port names count as
    /// two ports, because nearly all are.
    fn may_displace(&self, later: &Self) -> bool {
        let one_port = match (&self.port, &later.port) {
            (Some(PortRef::Number(one)), Some(PortRef::Number(other))) => one == other,
            (Some(PortRef::Name(one)), Some(PortRef::Name(other))) => one == other,
            (_, later) => later.is_some(),
        };
        one_port
            && match (&self.workloads, &later.workloads) {
                (None, later) => later.is_some(),
                (Some(WorkloadSelector::Pods(one)), Some(WorkloadSelector::Pods(other)))
                | (
                    Some(WorkloadSelector::ExternalWorkloads(one)),
                    Some(WorkloadSelector::ExternalWorkloads(other)),
                ) => !excludes(one, other),
                (Some(_), _) => false,
            }
    }

    fn selects(&self, shape: &WorkloadShape) -> bool {
        match (&self.workloads, shape.kind) {
            (None, _) => true,
            (Some(WorkloadSelector::Pods(selector)), WorkloadKind::Pod)
            | (
                Some(WorkloadSelector::ExternalWorkloads(selector)),
                WorkloadKind::ExternalWorkload,
            ) => selector.matches(&shape.labels),
            (Some(WorkloadSelector::Pods(_)), WorkloadKind::ExternalWorkload)
            | (Some(WorkloadSelector::ExternalWorkloads(_)), WorkloadKind::Pod) => false,
        }
    }
}

/// True if the two selectors require different values of a label.
fn excludes(one: &LabelSelector, other: &LabelSelector) -> bool {
    one.match_labels
        .iter()
        .any(|(key, value)| other.match_labels.get(key).is_some_and(|other| other != value))
}
