//! Owners of pods in a cluster: those of a Deployment belong to its ReplicaSets, those of a CronJob
//! to its Jobs.

use super::api_error::explain;
use super::{Cluster, Scope, list};
use policy_crds::Kind;
use serde_json::Value;

/// Kind and name of an object that owns pods.
pub(crate) type PodOwner = (&'static str, String);

/// Returns the objects that own the pods of a workload resource.
///
/// # Errors
/// The API server does not list what is between the resource and its pods.
pub(crate) async fn of_resource(
    cluster: &Cluster,
    kind: Kind,
    name: &str,
) -> anyhow::Result<Vec<PodOwner>> {
    let top = vec![(kind.as_str(), name.to_owned())];
    if kind == Kind::Deployment {
        owned_objects(cluster, Kind::ReplicaSet, &top).await
    } else if kind == Kind::CronJob {
        owned_objects(cluster, Kind::Job, &top).await
    } else {
        Ok(top)
    }
}

/// Objects of a kind that one of `owners` owns.
async fn owned_objects(
    cluster: &Cluster,
    kind: Kind,
    owners: &[PodOwner],
) -> anyhow::Result<Vec<PodOwner>> {
    let api = format!("/apis/{}/v1", kind.group());
    let path = match &cluster.scope {
        Scope::Namespace(namespace) => format!("{api}/namespaces/{namespace}/{}", kind.plural()),
        Scope::All => format!("{api}/{}", kind.plural()),
    };
    let found = list::pages(&cluster.client, &path)
        .await
        .map_err(|error| explain(&error, &cluster.source, &format!("list {}", kind.plural())))?;
    let owned = found.iter().filter(|value| is_owned(value, owners));
    let name = |value: &Value| {
        Some((kind.as_str(), value.get("metadata")?.get("name")?.as_str()?.to_owned()))
    };
    Ok(owned.filter_map(name).collect())
}

/// True if one of `owners` owns the object.
pub(crate) fn is_owned(value: &Value, owners: &[PodOwner]) -> bool {
    let references = value.get("metadata").and_then(|m| m.get("ownerReferences"));
    references.and_then(Value::as_array).into_iter().flatten().any(|reference| {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        owners.iter().any(|(kind, name)| text("kind") == *kind && text("name") == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_owned_by_what_its_references_name() {
        let pod = json!({"metadata": {"ownerReferences": [
            {"kind": "ReplicaSet", "name": "web-1", "controller": true}]}});
        let owners = |name: &str| vec![("ReplicaSet", name.to_owned())];
        assert!(is_owned(&pod, &owners("web-1")));
        assert!(!is_owned(&pod, &owners("web-2")));
        assert!(!is_owned(&json!({}), &owners("web-1")));
    }
}
