//! Reads the metrics of the sidecars of pods.

use super::metrics::OutboundCounts;
use super::origin::{EdgePod, EdgesTarget, pods};
use super::progress::Progress;
use super::report::{EdgeOrigin, EdgesReport};
use crate::cluster::{Cluster, pod_http};
use futures_util::StreamExt;
use policy_crds::LabelSelector;
use std::collections::BTreeMap;
use std::time::Instant;

/// Admin port of a sidecar.
const ADMIN: u16 = 4191;

/// Pods that are asked at the same time.
const AT_ONCE: usize = 16;

/// Reads what the pods of a workload are connected to, or without one all pods of the selected
/// namespaces.
///
/// # Errors
/// There is no such workload or no pod, or the API server does not list what it takes. A sidecar that
/// cannot be asked is named in the report.
pub(crate) async fn read(
    cluster: &Cluster,
    target: Option<&EdgesTarget>,
    selector: Option<&LabelSelector>,
) -> anyhow::Result<EdgesReport> {
    let pods = pods(cluster, target, selector).await?;
    let asked = pods.iter().filter(|pod| pod.problem().is_none()).count();
    let mut progress = Progress::stderr(asked);
    let answers = futures_util::stream::iter(pods).map(|pod| async move {
        let counts = match pod.problem() {
            Some(problem) => Err(problem),
            None => counts(cluster, &pod).await,
        };
        (pod, counts)
    });
    let mut answers = std::pin::pin!(answers.buffer_unordered(AT_ONCE));
    let mut workloads: BTreeMap<EdgeOrigin, OutboundCounts> = BTreeMap::new();
    let mut sources = Vec::new();
    loop {
        match tokio::time::timeout(progress.interval(), answers.next()).await {
            Ok(None) => break,
            Ok(Some((pod, answer))) => {
                if pod.problem().is_none() {
                    progress.count();
                }
                sources.push(pod.source(answer.as_ref().err().cloned()));
                if let Ok(counts) = answer {
                    workloads.entry(pod.from).or_default().merge(counts);
                }
            }
            // Time to print the progress.
            Err(_) => {}
        }
        progress.tell(Instant::now());
    }
    progress.end();
    sources.sort();
    Ok(EdgesReport {
        source: cluster.source.clone(),
        workload: target.map(|target| target.named(cluster)),
        complete: sources.iter().all(|pod| pod.problem.is_none()),
        pods: sources,
        edges: workloads.iter().flat_map(|(from, counts)| counts.edges(from)).collect(),
        failures: workloads.iter().flat_map(|(from, counts)| counts.failures(from)).collect(),
    })
}

/// Reads the counts of one sidecar. One whose metrics end in the middle counts for nothing.
async fn counts(cluster: &Cluster, pod: &EdgePod) -> Result<OutboundCounts, String> {
    let place = (pod.from.namespace.as_str(), pod.name.as_str());
    let answer = pod_http::get(cluster, place, ADMIN, "/metrics").await;
    let answer = answer.map_err(|error| error.message)?;
    match answer.status {
        200 => {
            let mut counts = OutboundCounts::default();
            counts.add(&answer.text)?;
            Ok(counts)
        }
        status => Err(format!("its sidecar answers /metrics with HTTP status {status}")),
    }
}
