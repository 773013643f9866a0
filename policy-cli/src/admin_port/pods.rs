//! The sidecars of a workload's pods, or of all pods of the selected namespaces.

use super::source::SidecarAdmin;
use crate::cluster::Cluster;
use crate::edges::origin::{EdgesTarget, pods};
use anyhow::bail;
use policy_crds::LabelSelector;

/// The most sidecars that one command reads.
const MOST: usize = 64;

/// The sidecars of running pods. Pods that cannot be read are named on standard error.
///
/// # Errors
/// There is no such workload or no pod, or the API server does not list what it takes.
pub(crate) async fn running(
    cluster: &Cluster,
    target: Option<&EdgesTarget>,
    selector: Option<&LabelSelector>,
) -> anyhow::Result<Vec<SidecarAdmin>> {
    let mut ports = Vec::new();
    for pod in pods(cluster, target, selector).await? {
        match pod.inbound_problem() {
            None => ports.push(SidecarAdmin::pod(cluster, &pod.from.namespace, &pod.name)),
            Some(problem) => eprintln!("{}/{}: {problem}", pod.from.namespace, pod.name),
        }
    }
    if ports.len() > MOST {
        bail!("{} pods are more than {MOST}: name a workload, or labels", ports.len());
    }
    Ok(ports)
}
