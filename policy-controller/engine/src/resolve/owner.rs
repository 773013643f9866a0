//! Which Server owns each port of a workload shape (controller-semantics 2.4).

use crate::incremental::{Context, question};
use crate::question::owner::{Claim, Owners, PortsOwned, SelectorKeys, ServersOf};
use crate::question::workload::Shape;
use policy_core::WorkloadKind;
use policy_crds::resource::{PortRef, WorkloadSelector};
use policy_crds::{Body, Claims, Invalid, Kind, LabelSelector, Object, Resource};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

question!(ServersOf, Arc<[Claim]>, servers_of);
question!(SelectorKeys, Arc<BTreeSet<Arc<str>>>, selector_keys);
question!(PortsOwned, Arc<Owners>, ports_owned);

fn servers_of(question: &ServersOf, cx: &mut Context<'_>) -> Arc<[Claim]> {
    let mut claims: Vec<Claim> = cx.list(Kind::Server, &question.0).map(|s| claim(s)).collect();
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

fn selector_keys(question: &SelectorKeys, cx: &mut Context<'_>) -> Arc<BTreeSet<Arc<str>>> {
    let claims = cx.ask(&ServersOf(question.0.clone()));
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

fn ports_owned(question: &PortsOwned, cx: &mut Context<'_>) -> Arc<Owners> {
    let shape = &question.0;
    let claims = cx.ask(&ServersOf(shape.namespace.clone()));
    let mut owners = Owners::default();
    for claim in claims.iter().filter(|claim| claim.selects(shape)) {
        let ports: &[NonZeroU16] = match &claim.port {
            Some(PortRef::Number(number)) => std::slice::from_ref(number),
            Some(PortRef::Name(name)) => {
                shape.named_ports.get(name).map(Vec::as_slice).unwrap_or_default()
            }
            None => {
                owners.rest = Some(claim.server.clone());
                break;
            }
        };
        for port in ports {
            owners.ports.entry(*port).or_insert_with(|| claim.server.clone());
        }
    }
    Arc::new(owners)
}

impl Claim {
    fn selects(&self, shape: &Shape) -> bool {
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
