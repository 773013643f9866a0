//! Servers on pods and ports that no sidecar guards: they have no effect there.

use super::finding::Finding;
use super::locations::Locations;
use crate::unguarded::UnguardedWorkloads;
use policy_core::{ObjectRef, Owner};
use policy_crds::{Kind, ObjectKey};
use policy_engine::Compiled;
use policy_engine::source::Severity;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a note for every workload of manifests that no sidecar guards, or not on a port that no Server
/// is about.
pub(super) fn notes(
    compiled: &Compiled,
    unguarded: &UnguardedWorkloads,
    locations: &Locations,
) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (key, unguarded) in unguarded {
        let Some(workload) = compiled.workloads.get(key) else { continue };
        let pod =
            ObjectKey { kind: Kind::Pod, namespace: key.namespace.clone(), name: key.name.clone() };
        let ports = workload.policy.ports.iter();
        let open = ports.filter(|(_, policy)| !matches!(policy.owner, Owner::Server(_)));
        let skipped = open.filter_map(|(port, _)| {
            let reason = unguarded.port(port.get())?;
            Some(format!("anybody can reach port {port}, whatever policy says: {reason}"))
        });
        let messages: Vec<String> = match &unguarded.pod {
            Some(reason) => vec![format!("no sidecar guards it, whatever policy says: {reason}")],
            None => skipped.collect(),
        };
        for message in messages {
            if told.insert((locations.declared(&pod).clone(), message.clone())) {
                let warning = Finding::warning(&pod, String::new(), message);
                found.push(Finding { severity: Severity::Note, explains: false, ..warning });
            }
        }
    }
    found
}

/// Returns a warning for every Server and reason, with the first workload that it is about.
pub(super) fn findings(compiled: &Compiled, unguarded: &UnguardedWorkloads) -> Vec<Finding> {
    let mut found: BTreeMap<(&ObjectRef, &str), (String, usize)> = BTreeMap::new();
    for (key, unguarded) in unguarded {
        let Some(workload) = compiled.workloads.get(key) else { continue };
        for (port, policy) in &workload.policy.ports {
            let Owner::Server(server) = &policy.owner else { continue };
            let Some(reason) = unguarded.port(port.get()) else { continue };
            let about = || format!("port {port} of Pod {}/{}", key.namespace, key.name);
            let entry = found.entry((server, reason)).or_insert_with(|| (about(), 0));
            entry.1 = entry.1.saturating_add(1);
        }
    }
    let finding = |((server, reason), (first, count)): ((&ObjectRef, &str), (String, usize))| {
        let key = ObjectKey {
            kind: Kind::Server,
            namespace: server.namespace().into(),
            name: server.name().into(),
        };
        let more = match count.saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!("has no effect on {first}{more}, which anybody can reach: {reason}");
        Finding {
            object: key,
            field: "spec".to_owned(),
            message,
            severity: Severity::Warning,
            explains: false,
        }
    };
    found.into_iter().map(finding).collect()
}
