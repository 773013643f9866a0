//! Objects that take part in no policy of any port: whatever they matched before, they match
//! nothing now.

use super::finding::{Finding, Unknown};
use super::world::World;
use crate::cluster::unknown;
use policy_core::{ObjectRef, Origin, Owner, ServerPolicy, Source, Undeclared};
use policy_crds::resource::PolicyTarget;
use policy_crds::{Body, Kind, Object, Resource};
use policy_engine::Compiled;
use std::collections::BTreeSet;

/// The ones of which nothing has been said yet that would explain it.
pub(super) fn findings(
    world: &World<'_>,
    said: &[Finding],
    unknown: &mut Vec<Unknown>,
) -> Vec<Finding> {
    let active = active(world.compiled);
    let mut findings = Vec::new();
    for object in &world.compiled.objects {
        let key = &object.meta.key;
        let Some((field, message)) = idle(object) else { continue };
        let explained = said.iter().any(|finding| finding.explains && finding.object == *key);
        if explained || active.contains(&key.to_ref()) {
            continue;
        }
        if unknown.iter().any(|unknown| unknown.decides && unknown.object == *key) {
            continue;
        }
        let gaps = world.gaps;
        let mut missing = unknown::of_object(object, gaps);
        let deciding = [Kind::Pod, Kind::ExternalWorkload, Kind::Server];
        missing.extend(unknown::of_kinds(&deciding, &key.namespace, gaps));
        if missing.is_empty() {
            findings.push(Finding::warning(key, field.to_owned(), message));
        } else {
            let missing = missing.into_iter().collect::<Vec<_>>().join(" and ");
            unknown.push(Unknown {
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

/// What is to be said of an object that takes part in nothing; none if it need not.
fn idle(object: &Object) -> Option<(&'static str, String)> {
    let Body::Valid(resource) = &object.body else { return None };
    let namespace = &object.meta.key.namespace;
    if let Resource::AuthorizationPolicy(policy) = resource {
        Some(match &policy.target {
            PolicyTarget::Namespace => (
                "spec.targetRef",
                format!(
                    "grants nothing: no Server of namespace `{namespace}` owns a port of any \
                     workload, and default policies are no concern of it"
                ),
            ),
            PolicyTarget::Server(name) => (
                "spec.targetRef.name",
                format!("grants nothing: Server {namespace}/{name} owns no port of any workload"),
            ),
            PolicyTarget::Route { kind, name } => (
                "spec.targetRef.name",
                format!(
                    "grants nothing: {} {namespace}/{name} is on no port of any workload",
                    kind.in_full()
                ),
            ),
        })
    } else if let Resource::ServerAuthorization(_) = resource {
        Some((
            "spec.server",
            "grants nothing: no Server that it selects owns a port of any workload".to_owned(),
        ))
    } else if let Resource::RateLimit(limit) = resource {
        Some((
            "spec.targetRef.name",
            format!(
                "limits nothing: Server {namespace}/{} owns no port of any workload that carries \
                 requests",
                limit.server
            ),
        ))
    } else if let Resource::Route(route) = resource
        && route.parents.iter().any(|parent| parent.is_server())
    {
        Some((
            "spec.parentRefs",
            "matches nothing: no Server that it is attached to owns a port of any workload"
                .to_owned(),
        ))
    } else {
        None
    }
}

/// Every object that takes part in the policy of some port, those that only fail to included.
fn active(compiled: &Compiled) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for workload in compiled.workloads.values() {
        let other = match &workload.policy.undeclared {
            Undeclared::Policy(policy) => Some(policy),
            Undeclared::Deny => None,
        };
        for policy in workload.policy.ports.values().chain(other) {
            // Equal policies of one compilation are one allocation.
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
        if let Origin::Objects(chain) = &route.origin {
            found.extend(chain.iter().cloned());
        }
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
