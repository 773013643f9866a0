//! Workloads whose connections are shown, and their pods.

use super::report::{EdgeOrigin, SidecarSource};
use crate::cluster::api_error::explain;
use crate::cluster::owners::controller_group;
use crate::cluster::{Cluster, Scope, list, owners};
use crate::diagnostics::fetch::get;
use crate::usage::wrong_use;
use crate::workload_argument::{KindAndName, OtherKind, named};
use anyhow::{anyhow, bail};
use policy_crds::annotation::SIDECAR_MARK;
use policy_crds::{Body, Kind, LabelSelector, OutboundMode, Resource, SidecarMark, nearest};
use policy_kube::source::object_of;
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// The workload whose connections are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EdgesTarget {
    /// Every pod, or what objects of a kind make.
    Every(Kind),
    /// A pod or what makes pods, by kind and name.
    Workload(Kind, String),
    /// A workload of a kind that is not read itself.
    Other(OtherKind, String),
    /// The pods that a Service selects.
    Service(String),
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
        if let Some(kind) = KindAndName::kind_alone(text, &KINDS) {
            return Ok(Self::Every(kind));
        }
        let named = KindAndName::parse(text)?;
        let name = named.name.to_owned();
        if named.is_of(Kind::Service) {
            return Ok(Self::Service(name));
        }
        match named.kind(&KINDS) {
            Some(kind) => Ok(Self::Workload(kind, name)),
            // An object of policy has no pods.
            None if Kind::ALL.iter().any(|kind| named.is_of(*kind)) => {
                Err(format!("`{}` is no kind of workload", named.word))
            }
            None => Ok(Self::Other(named.other_kind(&KINDS)?, name)),
        }
    }
}

impl EdgesTarget {
    /// Reads the words of a command, which looks at all namespaces or at one.
    ///
    /// # Errors
    /// Wrong use: the words name several workloads or none, or one of all namespaces.
    pub(crate) fn of_words(words: &[String], all_namespaces: bool) -> anyhow::Result<Option<Self>> {
        let target = named(words)?;
        match &target {
            Some(Self::Workload(..) | Self::Other(..) | Self::Service(_)) if all_namespaces => {
                Err(wrong_use("a workload is in one namespace: name it with -n instead of -A"))
            }
            Some(_) | None => Ok(target),
        }
    }

    /// The workload as reports name it: `Deployment shop/web`.
    pub(super) fn named(&self, cluster: &Cluster) -> String {
        let namespace = cluster.scope.namespace().map(|it| &**it).unwrap_or_default();
        match self {
            Self::Every(kind) => format!("any {}", kind.as_str()),
            Self::Workload(kind, name) => format!("{} {namespace}/{name}", kind.as_str()),
            Self::Other(kind, name) => format!("{kind} {namespace}/{name}"),
            Self::Service(name) => format!("Service {namespace}/{name}"),
        }
    }

    /// The workload as metrics name it: `deployment/web`. `None` where it is several.
    fn owner(&self) -> Option<String> {
        match self {
            Self::Every(_) => None,
            Self::Workload(kind, name) => {
                Some(format!("{}/{name}", kind.as_str().to_ascii_lowercase()))
            }
            Self::Other(kind, name) => Some(format!("{}/{name}", kind.word)),
            Self::Service(name) => Some(format!("service/{name}")),
        }
    }
}

/// A pod whose sidecar may be asked.
pub(crate) struct EdgePod {
    /// The workload that its connections count for.
    pub(crate) from: EdgeOrigin,
    /// Its name.
    pub(crate) name: String,
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

    /// Reason why its sidecar is not asked about what comes in.
    pub(crate) fn inbound_problem(&self) -> Option<String> {
        match (self.phase.as_str(), &self.mark) {
            ("Running", Some(_)) => None,
            ("Running", None) => Some("it has no sidecar".to_owned()),
            (phase, _) => Some(format!("it does not run ({phase})")),
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
pub(crate) async fn pods(
    cluster: &Cluster,
    target: Option<&EdgesTarget>,
    selector: Option<&LabelSelector>,
) -> anyhow::Result<Vec<EdgePod>> {
    let path = match &cluster.scope {
        Scope::Namespace(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        Scope::All => "/api/v1/pods".to_owned(),
    };
    let mut listed = list::pages(&cluster.client, &path)
        .await
        .map_err(|error| explain(&error, &cluster.source, "list pods"))?;
    if let Some(selector) = selector {
        listed.retain(|pod| selector.matches(&labels(pod)));
    }
    match target {
        Some(target) => of_workload(cluster, target, &listed).await,
        None if listed.is_empty() => bail!("no pod was found in {}", cluster.source),
        None => Ok(listed.iter().filter_map(|pod| EdgePod::of(pod, None)).collect()),
    }
}

/// The labels of a pod.
fn labels(pod: &Value) -> BTreeMap<Arc<str>, Arc<str>> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

/// Returns the pods of a workload among those of its namespace.
async fn of_workload(
    cluster: &Cluster,
    target: &EdgesTarget,
    listed: &[Value],
) -> anyhow::Result<Vec<EdgePod>> {
    let owner = target.owner();
    let read = |pod: &Value| EdgePod::of(pod, owner.as_deref());
    let found: Vec<EdgePod> = match target {
        EdgesTarget::Every(Kind::Pod) => listed.iter().filter_map(read).collect(),
        EdgesTarget::Every(kind) => {
            let owners = owners::of_resource(cluster, *kind, None).await?;
            listed.iter().filter(|pod| owners::is_owned(pod, &owners)).filter_map(read).collect()
        }
        EdgesTarget::Workload(Kind::Pod, name) => {
            let all: Vec<EdgePod> = listed.iter().filter_map(read).collect();
            if !all.iter().any(|pod| pod.name == *name) {
                let known: Vec<&str> = all.iter().map(|pod| pod.name.as_str()).collect();
                let near = nearest(name, &known).map(|near| format!("; is it {near}?"));
                bail!("there is no Pod {name} in {}{}", cluster.source, near.unwrap_or_default());
            }
            all.into_iter().filter(|pod| pod.name == *name).collect()
        }
        EdgesTarget::Workload(kind, name) => {
            let owners = owners::of_resource(cluster, *kind, Some(name)).await?;
            listed.iter().filter(|pod| owners::is_owned(pod, &owners)).filter_map(read).collect()
        }
        EdgesTarget::Other(kind, name) => {
            let is_owned = |pod: &&Value| {
                let owner = controller(pod);
                let owner = owner.as_deref().and_then(|owner| owner.split_once('/'));
                owner.is_some_and(|(own, of)| {
                    of == name.as_str() && kind.is(controller_group(pod, own).as_deref(), own)
                })
            };
            listed.iter().filter(is_owned).filter_map(read).collect()
        }
        EdgesTarget::Service(name) => {
            selected(cluster, name, listed).await?.into_iter().filter_map(read).collect()
        }
    };
    if found.is_empty() {
        bail!("no pod of {} was found in {}", target.named(cluster), cluster.source);
    }
    Ok(found)
}

/// Returns the pods that a Service selects.
async fn selected<'p>(
    cluster: &Cluster,
    name: &str,
    listed: &'p [Value],
) -> anyhow::Result<Vec<&'p Value>> {
    let namespace = cluster.scope.namespace().map(|it| &**it).unwrap_or_default();
    let path = format!("/api/v1/namespaces/{namespace}/services");
    let service = get(&cluster.client, &path, name).await;
    let service =
        service.map_err(|error| anyhow!("cannot read Service {name}: {}", error.message()))?;
    let Some(service) = service else {
        bail!("there is no Service {name} in {}", cluster.source);
    };
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else {
        bail!("Service {name} selects no pod in {}", cluster.source);
    };
    let is_selected = |pod: &&Value| {
        let own = pod.pointer("/metadata/labels");
        selector.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
    };
    Ok(listed.iter().filter(is_selected).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_is_one_with_pods() {
        let kind = |text: &str| text.parse::<EdgesTarget>();
        let name = || "web".to_owned();
        assert_eq!(kind("deploy/web"), Ok(EdgesTarget::Workload(Kind::Deployment, name())));
        assert_eq!(kind("po/web"), Ok(EdgesTarget::Workload(Kind::Pod, name())));
        assert_eq!(kind("deploy"), Ok(EdgesTarget::Every(Kind::Deployment)));
        assert_eq!(kind("svc").unwrap_err(), "`svc` is a kind: svc/NAME names an object of it");
        assert_eq!(kind("svc/web"), Ok(EdgesTarget::Service(name())));
        let rollout = OtherKind { word: "rollouts".into(), group: Some("argoproj.io".into()) };
        assert_eq!(kind("rollouts.argoproj.io/web"), Ok(EdgesTarget::Other(rollout, name())));
        assert_eq!(kind("server/web").unwrap_err(), "`server` is no kind of workload");
        assert_eq!(
            kind("deplyo/web").unwrap_err(),
            "`deplyo` is not a kind; did you mean `deploy`?"
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
