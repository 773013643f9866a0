//! Matches that are never reached because an earlier route matches the same requests.

use super::finding::Finding;
use policy_controller::Compiled;
use policy_controller::view::{Shadowed, request, shadowed};
use policy_core::{ObjectRef, ServerPolicy};
use policy_crds::{Kind, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn findings(compiled: &Compiled) -> Vec<Finding> {
    let policies = compiled.workloads.values().flat_map(|workload| workload.policy.ports.values());
    // Every place counts once, however many ports show it.
    let mut found: BTreeMap<(ObjectKey, String), (String, BTreeSet<String>)> = BTreeMap::new();
    for policy in policies {
        for (object, field, words, by) in unreached(policy) {
            let Some(key) = key(object) else { continue };
            let entry = found.entry((key, field)).or_insert_with(|| (words, BTreeSet::new()));
            entry.1.insert(by.to_string());
        }
    }
    let finding = |((object, field), (words, by)): ((_, _), (String, BTreeSet<String>))| {
        let by = by.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!("never reached: {by} matches `{words}` first");
        Finding::warning(&object, field, message)
    };
    found.into_iter().map(finding).collect()
}

/// Matches that objects state and that are never reached: object, field, the match in words, and the
/// object that matches the same requests before.
fn unreached(policy: &ServerPolicy) -> Vec<(&ObjectRef, String, String, &ObjectRef)> {
    let routes = &policy.routes.routes;
    let told = |shadowed: Shadowed| {
        let Shadowed { route, rule, number, by } = shadowed;
        let (route, by) = (routes.get(route)?, routes.get(by)?);
        let wanted = route.rules.get(rule)?.matches.get(number)?;
        let field = format!("spec.rules[{rule}].matches[{number}]");
        Some((route.origin.object()?, field, request(wanted), by.origin.object()?))
    };
    shadowed(routes, policy.paths).into_iter().filter_map(told).collect()
}

fn key(object: &ObjectRef) -> Option<ObjectKey> {
    let kind = Kind::find(object.group(), object.kind())?;
    Some(ObjectKey { kind, namespace: object.namespace().into(), name: object.name().into() })
}
