//! Objects that affect no port of any workload, whatever they matched before.

use super::context::CheckContext;
use super::finding::{Finding, Undetermined};
use crate::cluster::undetermined;
use policy_core::{ObjectRef, Owner, ServerPolicy, Source, Undeclared};
use policy_crds::{FieldError, Kind};
use policy_engine::Compiled;
use std::collections::BTreeSet;

/// Returns the unused objects for which no finding gives the reason yet.
pub(super) fn findings(
    context: &CheckContext<'_>,
    reported: &[Finding],
    undetermined: &mut Vec<Undetermined>,
) -> Vec<Finding> {
    let active = active(context.compiled);
    let explained: BTreeSet<_> =
        reported.iter().filter(|finding| finding.explains).map(|finding| &finding.object).collect();
    let open: BTreeSet<_> =
        undetermined.iter().filter(|it| it.decides).map(|it| it.object.clone()).collect();
    let mut findings = Vec::new();
    for object in &context.compiled.objects {
        let key = &object.meta.key;
        let Some(FieldError { field, message }) = object.idle() else { continue };
        if explained.contains(key) || active.contains(&key.to_ref()) || open.contains(key) {
            continue;
        }
        let permissions = context.permissions;
        let mut missing = undetermined::of_object(object, permissions);
        let deciding = [Kind::Pod, Kind::ExternalWorkload, Kind::Server];
        missing.extend(undetermined::of_kinds(&deciding, &key.namespace, permissions));
        if missing.is_empty() {
            findings.push(Finding::warning(key, field, message));
        } else {
            let missing = missing.into_iter().collect::<Vec<_>>().join(" and ");
            undetermined.push(Undetermined {
                object: key.clone(),
                message: format!(
                    "whether it matches anything is not known, because {missing} may not be listed"
                ),
                decides: true,
            });
        }
    }
    findings
}

/// Objects that affect the policy of a port, including those that fail to.
fn active(compiled: &Compiled) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for workload in compiled.workloads.values() {
        let other = match &workload.policy.undeclared {
            Undeclared::Policy(policy) => Some(policy),
            Undeclared::Deny => None,
        };
        for policy in workload.policy.ports.values().chain(other) {
            // Equal policies of one compilation share one allocation.
            if seen.insert(std::sync::Arc::as_ptr(policy).addr()) {
                of_policy(policy, &mut found);
            }
        }
    }
    found
}

fn of_policy(policy: &ServerPolicy, found: &mut BTreeSet<ObjectRef>) {
    if let Owner::Server(server) = &policy.owner {
        found.insert(server.clone());
    }
    let routes = &policy.routes.routes;
    let grants = routes.iter().flat_map(|route| route.authorizations.iter());
    for grant in policy.authorizations.iter().chain(grants) {
        of_source(&grant.source, found);
    }
    let withheld = routes.iter().flat_map(|route| &route.withheld);
    found.extend(policy.withheld.iter().chain(withheld).map(|w| w.source.clone()));
    for route in routes {
        found.extend(route.origin.chain().iter().cloned());
    }
    if let Some(limit) = &policy.rate_limit {
        of_source(&limit.source, found);
    }
}

fn of_source(source: &Source, found: &mut BTreeSet<ObjectRef>) {
    if let Source::Object(object) = source {
        found.insert(object.clone());
    }
}
