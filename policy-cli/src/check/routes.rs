//! Matches that are never reached because an earlier route matches the same requests.

use super::Finding;
use policy_controller::Compiled;
use policy_controller::view::request;
use policy_core::{HostPattern, ObjectRef, Route, ServerPolicy};
use policy_crds::{Kind, ObjectKey};
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(super) fn findings(compiled: &Compiled) -> Vec<Finding> {
    let policies = compiled.workloads.values().flat_map(|workload| workload.policy.ports.values());
    // Every place counts once, however many ports show it.
    let mut found: BTreeMap<(ObjectKey, String), (String, BTreeSet<String>)> = BTreeMap::new();
    for policy in policies {
        for (shadowed, by) in shadows(policy) {
            let Some(key) = key(shadowed.object) else { continue };
            let entry = found
                .entry((key, shadowed.field))
                .or_insert_with(|| (shadowed.words, BTreeSet::new()));
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

struct Shadowed<'a> {
    object: &'a ObjectRef,
    field: String,
    words: String,
}

/// Matches with the object that matches the same requests before.
fn shadows(policy: &ServerPolicy) -> Vec<(Shadowed<'_>, &ObjectRef)> {
    // By host and what a request must be, in words that say everything about it.
    let mut first: HashMap<(Option<&HostPattern>, String), &ObjectRef> = HashMap::new();
    let mut shadows = Vec::new();
    for route in &policy.routes.routes {
        let Some(object) = route.origin.object() else { continue };
        for (rule, content) in route.rules.iter().enumerate() {
            for (number, wanted) in content.matches.iter().enumerate() {
                let words = format!("{wanted:?}");
                let mut reached = false;
                let mut by = object;
                for host in hosts(route) {
                    match first.get(&(host, words.clone())) {
                        Some(earlier) => by = earlier,
                        None => {
                            first.insert((host, words.clone()), object);
                            reached = true;
                        }
                    }
                }
                if !reached {
                    let field = format!("spec.rules[{rule}].matches[{number}]");
                    shadows.push((Shadowed { object, field, words: request(wanted) }, by));
                }
            }
        }
    }
    shadows
}

/// The host tables that a route is in.
fn hosts(route: &Route) -> Vec<Option<&HostPattern>> {
    if route.hosts.is_empty() { vec![None] } else { route.hosts.iter().map(Some).collect() }
}

fn key(object: &ObjectRef) -> Option<ObjectKey> {
    let kind = Kind::find(&object.group, &object.kind)?;
    Some(ObjectKey { kind, namespace: object.namespace.clone(), name: object.name.clone() })
}
