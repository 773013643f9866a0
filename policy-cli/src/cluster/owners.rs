//! Owners of pods in a cluster: those of a Deployment belong to its ReplicaSets, those of a CronJob
//! to its Jobs.

use super::api_error::{explain, is_forbidden};
use super::{Cluster, Scope, list};
use policy_crds::Kind;
use serde_json::Value;

/// An object that owns pods, or every one of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodOwner {
    kind: Kind,
    /// Its namespace, where it is known.
    namespace: Option<String>,
    /// Its name; `None`: every object of the kind.
    name: Option<String>,
    /// True of a Deployment that stands for its ReplicaSets, which may not be listed. Kubernetes names
    /// them after it and the hash of the template, which their pods have as a label.
    by_hash: bool,
}

/// Returns the objects that own the pods of a workload resource, or of every one of a kind without a name.
///
/// # Errors
/// The API server does not list what is between the resource and its pods. Without the right to list
/// ReplicaSets, those of a Deployment are known by their names.
pub(crate) async fn of_resource(
    cluster: &Cluster,
    kind: Kind,
    name: Option<&str>,
) -> anyhow::Result<Vec<PodOwner>> {
    let top = PodOwner { kind, namespace: None, name: name.map(str::to_owned), by_hash: false };
    let top = vec![top];
    let between = if kind == Kind::Deployment {
        Kind::ReplicaSet
    } else if kind == Kind::CronJob {
        Kind::Job
    } else {
        return Ok(top);
    };
    match owned_objects(cluster, between, &top).await {
        Ok(owned) => Ok(owned),
        Err(error) if is_forbidden(&error) && kind == Kind::Deployment => {
            Ok(top.into_iter().map(|own| PodOwner { by_hash: true, ..own }).collect())
        }
        Err(error) => Err(explain(&error, &cluster.source, &format!("list {}", between.plural()))),
    }
}

/// Objects of a kind that one of `owners` owns.
async fn owned_objects(
    cluster: &Cluster,
    kind: Kind,
    owners: &[PodOwner],
) -> Result<Vec<PodOwner>, kube::Error> {
    let api = format!("/apis/{}/v1", kind.group());
    let path = match &cluster.scope {
        Scope::Namespace(namespace) => format!("{api}/namespaces/{namespace}/{}", kind.plural()),
        Scope::All => format!("{api}/{}", kind.plural()),
    };
    let found = list::pages(&cluster.client, &path).await?;
    let owned = found.iter().filter(|value| is_owned(value, owners));
    let owner = |value: &Value| {
        let name = Some(metadata(value, "name")?.to_owned());
        let namespace = metadata(value, "namespace").map(str::to_owned);
        Some(PodOwner { kind, namespace, name, by_hash: false })
    };
    Ok(owned.filter_map(owner).collect())
}

/// A text of the metadata of an object.
fn metadata<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get("metadata")?.get(field)?.as_str()
}

/// True if one of `owners` owns the object.
pub(crate) fn is_owned(value: &Value, owners: &[PodOwner]) -> bool {
    let references = value.get("metadata").and_then(|m| m.get("ownerReferences"));
    let namespace = metadata(value, "namespace");
    references.and_then(Value::as_array).into_iter().flatten().any(|reference| {
        let text = |field: &str| reference.get(field).and_then(Value::as_str);
        // A Job of another group is another kind.
        let is_of_group = |kind: Kind| {
            text("apiVersion").is_none_or(|version| {
                version.rsplit_once('/').map_or("", |(group, _)| group) == kind.group()
            })
        };
        owners.iter().any(|owner| {
            let around = owner.namespace.as_deref().zip(namespace);
            let (kind, named) = match owner.by_hash {
                true => (Kind::ReplicaSet, of_deployment(value, text("name"))),
                false => (owner.kind, text("name")),
            };
            text("kind") == Some(kind.as_str())
                && is_of_group(kind)
                && named.is_some()
                && owner.name.as_deref().is_none_or(|name| named == Some(name))
                && around.is_none_or(|(owner, own)| owner == own)
        })
    })
}

/// The name of the Deployment of a pod's ReplicaSet.
fn of_deployment<'n>(pod: &Value, replica_set: Option<&'n str>) -> Option<&'n str> {
    let hash = pod.pointer("/metadata/labels/pod-template-hash")?.as_str()?;
    replica_set?.strip_suffix(hash)?.strip_suffix('-')
}

/// The API group of the controller of a pod of a cluster. What is between them tells those that it is made
/// by: a Rollout of Argo has ReplicaSets, a DeploymentConfig of OpenShift ReplicationControllers.
pub(crate) fn controller_group(pod: &Value, kind: &str) -> Option<String> {
    match kind {
        "rollout" => return Some("argoproj.io".to_owned()),
        "deploymentconfig" => return Some("apps.openshift.io".to_owned()),
        _ => {}
    }
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let mut owners = owners
        .iter()
        .filter(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    let api_version = owners.next()?.get("apiVersion")?.as_str()?;
    Some(api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_owned_by_what_its_references_name() {
        let pod = |api: &str| {
            json!({"metadata": {"namespace": "shop", "ownerReferences": [
                {"apiVersion": api, "kind": "ReplicaSet", "name": "web-1", "controller": true}]}})
        };
        let pod = (pod("apps/v1"), pod("example.com/v1"));
        let owners = |namespace: Option<&str>, name: Option<&str>| {
            let (namespace, name) = (namespace.map(str::to_owned), name.map(str::to_owned));
            vec![PodOwner { kind: Kind::ReplicaSet, namespace, name, by_hash: false }]
        };
        for (namespace, name, expected) in [
            (None, Some("web-1"), true),
            (Some("shop"), Some("web-1"), true),
            (Some("bank"), Some("web-1"), false),
            (None, Some("web-2"), false),
            (None, None, true),
        ] {
            let owners = owners(namespace, name);
            assert_eq!(is_owned(&pod.0, &owners), expected, "{owners:?}");
            assert!(!is_owned(&pod.1, &owners), "a kind of another group");
            assert!(!is_owned(&json!({}), &owners));
        }
    }

    #[test]
    fn without_the_right_to_list_replica_sets_pods_are_owned_by_the_name_and_the_hash() {
        let pod = |set: &str, labels: Value| {
            json!({"metadata": {"namespace": "shop", "labels": labels, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "controller": true}]}})
        };
        let hash = json!({"pod-template-hash": "7d9f"});
        let owner = |name: Option<&str>| {
            let name = name.map(str::to_owned);
            vec![PodOwner { kind: Kind::Deployment, namespace: None, name, by_hash: true }]
        };
        for (set, labels, of_web, of_any) in [
            ("web-7d9f", hash.clone(), true, true),
            ("web-api-7d9f", hash.clone(), false, true),
            ("web-7d90", hash.clone(), false, false),
            ("web7d9f", hash, false, false),
            // The ReplicaSet of a Rollout, and one of its own.
            ("web-7d9f", json!({"rollouts-pod-template-hash": "7d9f"}), false, false),
            ("web-7d9f", json!({}), false, false),
        ] {
            let pod = pod(set, labels);
            let found = (is_owned(&pod, &owner(Some("web"))), is_owned(&pod, &owner(None)));
            assert_eq!(found, (of_web, of_any), "{pod}");
        }
    }
}
