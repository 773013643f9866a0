//! Reads the metrics of the sidecars of a workload's pods.

use super::metrics::OutboundCounts;
use super::report::{EdgesReport, SidecarSource};
use crate::cluster::api_error::explain;
use crate::cluster::{Cluster, Scope, list, owners, pod_http};
use anyhow::bail;
use futures_util::StreamExt;
use policy_crds::annotation::SIDECAR_MARK;
use policy_crds::{Kind, OutboundMode, SidecarMark, nearest};
use serde_json::Value;
use std::str::FromStr;

/// Admin port of a sidecar.
const ADMIN: u16 = 4191;

/// Pods that are asked at the same time.
const AT_ONCE: usize = 8;

/// The workload whose connections are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EdgesTarget {
    kind: Kind,
    name: String,
}

/// Kinds of workloads with pods.
const KINDS: [Kind; 7] = [
    Kind::Pod,
    Kind::Deployment,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::ReplicaSet,
    Kind::Job,
    Kind::CronJob,
];

impl FromStr for EdgesTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((word, name)) = text.split_once('/') else {
            return Err(format!("`{text}` is not KIND/NAME, for example deploy/{text}"));
        };
        let Some(kind) = KINDS.into_iter().find(|kind| kind.is_called(word)) else {
            let known = KINDS.map(|kind| kind.as_str().to_ascii_lowercase()).join(", ");
            return Err(format!("`{word}` is not one of {known}"));
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("`{text}` has no name after the kind, or more than one"));
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

/// Reads what the pods of a workload are connected to.
///
/// # Errors
/// There is no such workload, or the API server does not list what it takes. A sidecar that cannot
/// be asked is named in the report.
pub(crate) async fn read(cluster: &Cluster, target: &EdgesTarget) -> anyhow::Result<EdgesReport> {
    let (namespace, pods) = pods(cluster, target).await?;
    let of = &*namespace;
    let answers = futures_util::stream::iter(&pods)
        .map(|pod| async move { (pod, metrics(cluster, of, pod).await) })
        .buffered(AT_ONCE);
    let answers: Vec<_> = answers.collect().await;
    let mut counts = OutboundCounts::default();
    let mut sources = Vec::new();
    for (pod, answer) in answers {
        // A sidecar whose metrics end in the middle counts for nothing.
        let mut with = counts.clone();
        let added = answer.and_then(|text| with.add(&text));
        if added.is_ok() {
            counts = with;
        }
        sources.push(pod.source(added.err()));
    }
    let (kind, name) = (target.kind.as_str(), &target.name);
    Ok(EdgesReport {
        source: cluster.source.clone(),
        workload: format!("{kind} {namespace}/{name}"),
        pods: sources,
        edges: counts.edges(),
        failures: counts.failures(),
    })
}

/// A pod of the workload.
struct PodState {
    name: String,
    phase: String,
    mark: Option<Result<SidecarMark, String>>,
}

impl PodState {
    fn of(pod: &Value) -> Option<Self> {
        let meta = pod.get("metadata")?;
        let mark = meta.get("annotations").and_then(|all| all.get(SIDECAR_MARK)?.as_str());
        let phase = pod.get("status").and_then(|status| status.get("phase")?.as_str());
        Some(Self {
            name: meta.get("name")?.as_str()?.to_owned(),
            phase: phase.unwrap_or("Unknown").to_owned(),
            mark: mark.map(|mark| SidecarMark::parse(mark).map_err(|error| error.to_string())),
        })
    }

    fn outbound(&self) -> OutboundMode {
        match &self.mark {
            Some(Ok(mark)) => mark.outbound,
            Some(Err(_)) | None => OutboundMode::None,
        }
    }

    /// Reason why its sidecar is not asked.
    fn problem(&self) -> Option<String> {
        if self.phase != "Running" {
            return Some(format!("it does not run ({})", self.phase));
        }
        match &self.mark {
            None => Some("it has no sidecar with an outbound half".to_owned()),
            Some(Err(error)) => Some(format!("the mark of its sidecar cannot be read: {error}")),
            Some(Ok(mark)) => match mark.outbound {
                OutboundMode::None => Some("its sidecar has no outbound half".to_owned()),
                OutboundMode::On | OutboundMode::MeshOnly => None,
            },
        }
    }

    fn source(&self, problem: Option<String>) -> SidecarSource {
        let mark = self.mark.as_ref().and_then(|mark| mark.as_ref().ok());
        SidecarSource {
            name: self.name.clone(),
            identity: mark.and_then(|mark| mark.identity.as_deref().map(str::to_owned)),
            outbound: self.outbound().as_str(),
            problem,
        }
    }
}

async fn metrics(cluster: &Cluster, namespace: &str, pod: &PodState) -> Result<String, String> {
    if let Some(problem) = pod.problem() {
        return Err(problem);
    }
    let answer = pod_http::get(cluster, (namespace, &pod.name), ADMIN, "/metrics").await;
    let answer = answer.map_err(|error| error.message)?;
    match answer.status {
        200 => Ok(answer.text),
        status => Err(format!("its sidecar answers /metrics with HTTP status {status}")),
    }
}

/// The namespace of the workload, and its pods.
async fn pods(cluster: &Cluster, target: &EdgesTarget) -> anyhow::Result<(String, Vec<PodState>)> {
    let Scope::Namespace(namespace) = &cluster.scope else {
        bail!("a workload is in one namespace: give --namespace");
    };
    let EdgesTarget { kind, name } = target;
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let listed = list::pages(&cluster.client, &path)
        .await
        .map_err(|error| explain(&error, &cluster.source, "list pods"))?;
    let states = |pods: Vec<&Value>| pods.into_iter().filter_map(PodState::of).collect();
    let mut found: Vec<PodState> = if *kind == Kind::Pod {
        let mut all: Vec<PodState> = states(listed.iter().collect());
        if !all.iter().any(|pod| pod.name == *name) {
            let known: Vec<&str> = all.iter().map(|pod| pod.name.as_str()).collect();
            let near = nearest(name, &known).map(|near| format!("; is it {near}?"));
            bail!("there is no Pod {name} in {}{}", cluster.source, near.unwrap_or_default());
        }
        all.retain(|pod| pod.name == *name);
        all
    } else {
        let owners = owners::of_resource(cluster, *kind, name).await?;
        states(listed.iter().filter(|pod| owners::is_owned(pod, &owners)).collect())
    };
    if found.is_empty() {
        bail!("no pod of {} {name} was found in {}", kind.as_str(), cluster.source);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((namespace.to_string(), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_one_with_pods() {
        let kind =
            |text: &str| text.parse::<EdgesTarget>().map(|target| (target.kind, target.name));
        assert_eq!(kind("deploy/web"), Ok((Kind::Deployment, "web".to_owned())));
        assert_eq!(kind("po/web-0"), Ok((Kind::Pod, "web-0".to_owned())));
        let error = kind("server/web").unwrap_err();
        assert_eq!(
            error,
            "`server` is not one of pod, deployment, statefulset, daemonset, replicaset, job, cronjob"
        );
        for wrong in ["web", "pod/", "pod/a/b"] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
    }
}
