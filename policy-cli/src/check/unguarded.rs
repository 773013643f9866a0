//! Servers on pods and ports that no sidecar guards: they have no effect there.

use super::finding::Finding;
use crate::unguarded::UnguardedWorkloads;
use policy_core::{ObjectRef, Owner};
use policy_crds::{Kind, ObjectKey};
use policy_engine::Compiled;
use policy_engine::source::Severity;
use std::collections::BTreeMap;

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
