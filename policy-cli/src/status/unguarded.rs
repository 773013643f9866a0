//! Pods and ports of manifests that no sidecar guards, in reports of status.

use super::sidecars::{SkippedPort, UninjectedPod};
use crate::inventory::Inventory;
use crate::unguarded;

/// Returns the pods that get no sidecar, and the declared ports that are left out of redirection.
pub(super) fn of_inventory(inventory: &Inventory) -> (Vec<UninjectedPod>, Vec<SkippedPort>) {
    let (mut pods, mut ports) = (Vec::new(), Vec::new());
    let shown = unguarded::workloads(inventory).into_iter();
    for (key, unguarded) in shown.filter(|(key, _)| inventory.scope.contains(&key.namespace)) {
        let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
        if let Some(why) = &unguarded.pod {
            pods.push(UninjectedPod { namespace, name, why: why.clone() });
            continue;
        }
        let declared = inventory.compiled.workloads.get(&key).into_iter();
        for port in declared.flat_map(|workload| workload.policy.ports.keys()) {
            let port = port.get();
            if let Some(why) = unguarded.port(port) {
                let (namespace, name) = (namespace.clone(), name.clone());
                ports.push(SkippedPort { namespace, name, port, why: why.to_owned() });
            }
        }
    }
    (pods, ports)
}
