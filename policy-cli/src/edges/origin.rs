//! Workloads whose connections are shown, and their pods.

use super::report::{EdgeOrigin, SidecarSource};
use crate::cluster::api_error::explain;
use crate::cluster::{Cluster, Scope, list, owners};
use crate::workload_argument::kind_and_name;
use anyhow::bail;
use policy_crds::annotation::SIDECAR_MARK;
use policy_crds::{Body, Kind, OutboundMode, Resource, SidecarMark, nearest};
use policy_kube::source::object_of;
use serde_json::Value;
use std::str::FromStr;

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
        let (kind, name) = kind_and_name(text, &KINDS)?;
        Ok(Self { kind, name: name.to_owned() })
    }
}

impl EdgesTarget {
    /// The workload as reports name it: `Deployment shop/web`.
    pub(super) fn named(&self, cluster: &Cluster) -> String {
        let namespace = cluster.scope.namespace().map(|it| &**it).unwrap_or_default();
        format!("{} {namespace}/{}", self.kind.as_str(), self.name)
    }

    /// The workload as metrics name it: `deployment/web`.
    fn owner(&self) -> String {
        format!("{}/{}", self.kind.as_str().to_ascii_lowercase(), self.name)
    }
}

/// A pod whose sidecar may be asked.
pub(super) struct EdgePod {
    /// The workload that its connections count for.
    pub(super) from: EdgeOrigin,
    /// Its name.
    pub(super) name: String,
    phase: String,
    mark: Option<Result<SidecarMark, String>>,
}

impl EdgePod {
    /// Reads a pod, whose connections count for `owner` or else for its own controller.
    fn of(pod: &Value, owner: Option<&str>) -> Option<Self> {
        let meta = pod.get("metadata")?;
        let text = |field: &str| meta.get(field)?.as_str().map(str::to_owned);
        let mark = meta.get("annotations").and_then(|all| all.get(SIDECAR_MARK)?.as_str());
        let phase = pod.get("status").and_then(|status| status.get("phase")?.as_str());
        let name = text("name")?;
        let owner = owner.map(str::to_owned).or_else(|| controller(pod));
        let owner = owner.unwrap_or_else(|| format!("pod/{name}"));
        Some(Self {
            from: EdgeOrigin { namespace: text("namespace")?, owner },
            name,
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
    pub(super) fn problem(&self) -> Option<String> {
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

    /// Describes it in a report, with the reason why its connections are not known.
    pub(super) fn source(&self, problem: Option<String>) -> SidecarSource {
        let mark = self.mark.as_ref().and_then(|mark| mark.as_ref().ok());
        SidecarSource {
            namespace: self.from.namespace.clone(),
            name: self.name.clone(),
            identity: mark.and_then(|mark| mark.identity.as_deref().map(str::to_owned)),
            outbound: self.outbound().as_str(),
            problem,
        }
    }
}

/// The controller of a pod as metrics name it.
fn controller(pod: &Value) -> Option<String> {
    match object_of(Kind::Pod, "v1", pod.clone())?.body {
        Body::Valid(Resource::Pod(pod)) => pod.owner.as_deref().map(str::to_owned),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// Lists the pods of a workload, or all pods of the selected namespaces.
///
/// # Errors
/// There is no such workload, there is no pod at all, or the API server does not list what it takes.
pub(super) async fn pods(
    cluster: &Cluster,
    target: Option<&EdgesTarget>,
) -> anyhow::Result<Vec<EdgePod>> {
    let path = match &cluster.scope {
        Scope::Namespace(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        Scope::All => "/api/v1/pods".to_owned(),
    };
    let listed = list::pages(&cluster.client, &path)
        .await
        .map_err(|error| explain(&error, &cluster.source, "list pods"))?;
    match target {
        Some(target) => of_workload(cluster, target, &listed).await,
        None if listed.is_empty() => bail!("no pod was found in {}", cluster.source),
        None => Ok(listed.iter().filter_map(|pod| EdgePod::of(pod, None)).collect()),
    }
}

/// Returns the pods of a workload among those of its namespace.
async fn of_workload(
    cluster: &Cluster,
    target: &EdgesTarget,
    listed: &[Value],
) -> anyhow::Result<Vec<EdgePod>> {
    let EdgesTarget { kind, name } = target;
    let owner = target.owner();
    let read = |pod: &Value| EdgePod::of(pod, Some(&owner));
    let found: Vec<EdgePod> = if *kind == Kind::Pod {
        let all: Vec<EdgePod> = listed.iter().filter_map(read).collect();
        if !all.iter().any(|pod| pod.name == *name) {
            let known: Vec<&str> = all.iter().map(|pod| pod.name.as_str()).collect();
            let near = nearest(name, &known).map(|near| format!("; is it {near}?"));
            bail!("there is no Pod {name} in {}{}", cluster.source, near.unwrap_or_default());
        }
        all.into_iter().filter(|pod| pod.name == *name).collect()
    } else {
        let owners = owners::of_resource(cluster, *kind, name).await?;
        listed.iter().filter(|pod| owners::is_owned(pod, &owners)).filter_map(read).collect()
    };
    if found.is_empty() {
        bail!("no pod of {} {name} was found in {}", kind.as_str(), cluster.source);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn connections_count_for_the_workload_that_was_named_or_for_the_controller_of_the_pod() {
        let pod = |owners: Value| {
            json!({"metadata": {
                "name": "web-1-a", "namespace": "shop", "ownerReferences": owners,
                "labels": {"pod-template-hash": "1"},
            }, "spec": {"containers": []}})
        };
        let owned = pod(json!([{"kind": "ReplicaSet", "name": "web-1", "controller": true}]));
        let of = |pod: &Value, owner| EdgePod::of(pod, owner).unwrap().from.owner;
        assert_eq!(of(&owned, None), "deployment/web");
        assert_eq!(of(&owned, Some("pod/web-1-a")), "pod/web-1-a");
        assert_eq!(of(&pod(json!([])), None), "pod/web-1-a");
    }
}
