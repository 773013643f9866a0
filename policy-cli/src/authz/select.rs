//! Selects workloads: one by name, those of a Deployment and the like, those behind a Server, or
//! all.

use super::further;
use crate::cluster::{Cluster, owners, undetermined};
use crate::inventory::Inventory;
use crate::workload_argument::{KindAndName, OtherKind};
use anyhow::bail;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::{Kind, LabelSelector, ObjectKey, nearest};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

/// Workloads named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadTarget {
    /// Every workload.
    All,
    /// Every workload of this kind.
    Every(Kind),
    /// A Pod, an ExternalWorkload, or a controller of pods such as a Deployment.
    Workload(Kind, Arc<str>),
    /// A workload of a kind that is not read itself.
    Other(OtherKind, Arc<str>),
    /// The pods that a Service selects.
    Service(Arc<str>),
    /// The ports that a Server owns.
    Server(Arc<str>),
}

/// Kinds that select workloads.
const KINDS: [Kind; 9] = [
    Kind::Pod,
    Kind::ExternalWorkload,
    Kind::Server,
    Kind::Deployment,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::ReplicaSet,
    Kind::Job,
    Kind::CronJob,
];

impl FromStr for WorkloadTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match KindAndName::kind_alone(text, &KINDS) {
            Some(Kind::Server) | None => {}
            Some(kind) => return Ok(Self::Every(kind)),
        }
        let named = KindAndName::parse(text)?;
        let name: Arc<str> = named.name.into();
        if named.is_of(Kind::Service) {
            return Ok(Self::Service(name));
        }
        match named.kind(&KINDS) {
            Some(Kind::Server) => Ok(Self::Server(name)),
            Some(kind) => Ok(Self::Workload(kind, name)),
            None => Ok(Self::Other(named.other_kind(&KINDS)?, name)),
        }
    }
}

impl WorkloadTarget {
    /// The name of the Server, if it is one.
    pub(crate) fn server(&self) -> Option<&Arc<str>> {
        match self {
            Self::Server(name) => Some(name),
            Self::All
            | Self::Every(_)
            | Self::Workload(..)
            | Self::Other(..)
            | Self::Service(_) => None,
        }
    }
}

/// The selected workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadSelection {
    /// All of them.
    All,
    /// Only these.
    These(BTreeSet<WorkloadKey>),
}

impl WorkloadSelection {
    /// True if a workload is selected.
    pub(crate) fn contains(&self, key: &WorkloadKey) -> bool {
        match self {
            Self::All => true,
            Self::These(keys) => keys.contains(key),
        }
    }

    /// Keeps the workloads that a selector selects; all of them without one.
    pub(crate) fn with_labels(
        self,
        inventory: &Inventory,
        selector: Option<&LabelSelector>,
    ) -> Self {
        let Some(selector) = selector else { return self };
        let objects = inventory.compiled.objects.iter();
        let selected = objects.filter(|object| selector.matches(&object.meta.labels));
        let keys = selected.filter_map(|object| further::workload_key(&object.meta.key));
        Self::These(keys.filter(|key| self.contains(key)).collect())
    }
}

/// Finds the workloads that `target` names.
///
/// # Errors
/// No workload matches, or the API server does not return the owners of the pods.
pub(crate) async fn pods(
    inventory: &Inventory,
    target: &WorkloadTarget,
) -> anyhow::Result<WorkloadSelection> {
    let (kind, name) = match target {
        WorkloadTarget::All | WorkloadTarget::Server(_) => return Ok(WorkloadSelection::All),
        WorkloadTarget::Every(kind) => {
            return Ok(WorkloadSelection::These(of_every(inventory, *kind).await?));
        }
        WorkloadTarget::Other(kind, name) => {
            return Ok(WorkloadSelection::These(further::of_other_kind(inventory, kind, name)?));
        }
        WorkloadTarget::Service(name) => {
            return Ok(WorkloadSelection::These(further::of_service(inventory, name).await?));
        }
        WorkloadTarget::Workload(kind, name) => (kind, name),
    };
    let found: BTreeSet<WorkloadKey> = match (kind, &inventory.cluster) {
        (Kind::Pod | Kind::ExternalWorkload, _) => named_workload(inventory, *kind, name),
        (kind, None) => declared_pods(inventory, *kind, name),
        (kind, Some(cluster)) => owned_pods(inventory, cluster, *kind, Some(name)).await?,
    };
    if found.is_empty() {
        bail!("{}", not_found(inventory, *kind, name));
    }
    Ok(WorkloadSelection::These(found))
}

fn workloads(inventory: &Inventory) -> impl Iterator<Item = &WorkloadKey> {
    let keys = inventory.compiled.workloads.keys();
    keys.filter(|key| inventory.scope.contains(&key.namespace))
}

fn named_workload(inventory: &Inventory, kind: Kind, name: &str) -> BTreeSet<WorkloadKey> {
    let wanted = if kind == Kind::Pod { WorkloadKind::Pod } else { WorkloadKind::ExternalWorkload };
    let fits = |key: &&WorkloadKey| key.kind == wanted && *key.name == *name;
    workloads(inventory).filter(fits).cloned().collect()
}

/// Pods of a workload resource in manifests.
fn declared_pods(inventory: &Inventory, kind: Kind, name: &str) -> BTreeSet<WorkloadKey> {
    let stands = |key: &ObjectKey| key.kind == kind && *key.name == *name;
    let pods = inventory.locations.iter().filter(|(_, place)| stands(&place.declared));
    pods.map(|(pod, _)| WorkloadKey::pod(&pod.namespace, &pod.name))
        .filter(|key| inventory.scope.contains(&key.namespace))
        .collect()
}

/// Finds the workloads of a kind, or the pods that objects of it make.
///
/// # Errors
/// There are none, or the API server does not return the owners of the pods.
async fn of_every(inventory: &Inventory, kind: Kind) -> anyhow::Result<BTreeSet<WorkloadKey>> {
    let found = match (kind, &inventory.cluster) {
        (Kind::Pod | Kind::ExternalWorkload, _) | (_, None) => further::of_every(inventory, kind),
        (kind, Some(cluster)) => owned_pods(inventory, cluster, kind, None).await?,
    };
    if found.is_empty() {
        let of = if matches!(kind, Kind::Pod | Kind::ExternalWorkload) { "" } else { "pod of a " };
        bail!("no {of}{} was found in {}", kind.as_str(), inventory.source);
    }
    Ok(found)
}

/// Pods that a resource of a cluster owns, or every one of its kind without a name.
async fn owned_pods(
    inventory: &Inventory,
    cluster: &Cluster,
    kind: Kind,
    name: Option<&str>,
) -> anyhow::Result<BTreeSet<WorkloadKey>> {
    let owners = owners::of_resource(cluster, kind, name).await?;
    let pods = inventory.values.iter().filter(|(key, value)| {
        key.kind == Kind::Pod
            && cluster.scope.contains(&key.namespace)
            && owners::is_owned(value, &owners)
    });
    Ok(pods.map(|(key, _)| WorkloadKey::pod(&key.namespace, &key.name)).collect())
}

/// Error message for a name that does not exist, with the closest existing name as a suggestion.
fn not_found(inventory: &Inventory, kind: Kind, name: &str) -> String {
    let source = &inventory.source;
    let known: Vec<&str> = match (kind, inventory.cluster.is_some()) {
        (Kind::Pod | Kind::ExternalWorkload, _) => {
            workloads(inventory).map(|key| &*key.name).collect()
        }
        (_, false) => {
            let declared = inventory.locations.values().map(|place| &place.declared);
            declared.filter(|key| key.kind == kind).map(|key| &*key.name).collect()
        }
        (_, true) => Vec::new(),
    };
    let near = nearest(name, &known).map(|near| format!("; is it {near}?")).unwrap_or_default();
    let kind_name = kind.as_str();
    let is_workload = matches!(kind, Kind::Pod | Kind::ExternalWorkload);
    let sought = if is_workload { kind } else { Kind::Pod };
    let hidden = undetermined::in_scope(&[sought], &inventory.scope, &inventory.permissions);
    if let Some(hidden) = hidden.first() {
        let what = if is_workload { "there is a" } else { "there are pods of" };
        format!(
            "whether {what} {kind_name} {name} in {source} is not known, because {hidden} may not be \
             listed"
        )
    } else if is_workload {
        format!("there is no {kind_name} {name} in {source}{near}")
    } else {
        let near = if near.is_empty() { further::near_owner(inventory, name) } else { near };
        format!("no pod of {kind_name} {name} was found in {source}{near}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_as_people_name_them() {
        let deployment = WorkloadTarget::Workload(Kind::Deployment, "web".into());
        for text in ["deploy/web", "deployment/web", "Deployments/web"] {
            assert_eq!(text.parse(), Ok(deployment.clone()), "{text}");
        }
        assert_eq!("server/web".parse(), Ok(WorkloadTarget::Server("web".into())));
        assert_eq!(
            "web".parse::<WorkloadTarget>(),
            Err("`web` is not KIND/NAME, for example deploy/web".to_owned())
        );
        for (text, kind) in [
            ("po", Kind::Pod),
            ("deploy", Kind::Deployment),
            ("sts", Kind::StatefulSet),
            ("ds", Kind::DaemonSet),
            ("rs", Kind::ReplicaSet),
            ("jobs", Kind::Job),
            ("cj", Kind::CronJob),
            ("deployments.apps", Kind::Deployment),
        ] {
            assert_eq!(text.parse(), Ok(WorkloadTarget::Every(kind)), "{text}");
            let named = WorkloadTarget::Workload(kind, "web".into());
            assert_eq!(format!("{text}/web").parse(), Ok(named), "{text}");
        }
        for text in ["svc", "server"] {
            let error = format!("`{text}` is a kind: {text}/NAME names an object of it");
            assert_eq!(text.parse::<WorkloadTarget>(), Err(error));
        }
        for text in ["deployment.apps/web", "deployments.v1.apps/web"] {
            assert_eq!(text.parse(), Ok(deployment.clone()), "{text}");
        }
        for text in ["svc/web", "services/web", "service.v1/web"] {
            assert_eq!(text.parse(), Ok(WorkloadTarget::Service("web".into())), "{text}");
        }
        for (text, kind) in [
            ("rollout/web", ("rollout", None)),
            ("dc/web", ("deploymentconfig", None)),
            ("rollouts.argoproj.io/web", ("rollouts", Some("argoproj.io"))),
            ("rollouts.v1alpha1.argoproj.io/web", ("rollouts", Some("argoproj.io"))),
            ("service.serving.knative.dev/web", ("service", Some("serving.knative.dev"))),
            ("statefulset.apps.kruise.io/web", ("statefulset", Some("apps.kruise.io"))),
        ] {
            let (word, group) = (kind.0.to_owned(), kind.1.map(str::to_owned));
            let kind = OtherKind { word, group };
            assert_eq!(text.parse(), Ok(WorkloadTarget::Other(kind, "web".into())), "{text}");
        }
        let error = "deplyo/web".parse::<WorkloadTarget>().unwrap_err();
        assert_eq!(error, "`deplyo` is not a kind; did you mean `deploy`?");
        assert!(
            "pod/".parse::<WorkloadTarget>().is_err()
                && "pod/a/b".parse::<WorkloadTarget>().is_err()
        );
    }
}
