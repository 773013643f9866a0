//! What a pod belongs to, as metrics and logs name it.

use crate::parse::input::Input;
use crate::reader::{AllowedFields, Fields};
use std::sync::Arc;

/// The label that a Deployment gives the pods of one of its ReplicaSets; the name of that ReplicaSet
/// ends in it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The label that a Rollout gives the pods of one of its ReplicaSets, as a Deployment does.
const ROLLOUT_HASH: &str = "rollouts-pod-template-hash";

/// The label with the DeploymentConfig that made the ReplicationController of a pod.
const DEPLOYMENT_CONFIG: &str = "deploymentconfig";

/// The controller of a pod, such as `statefulset/db`; what a Deployment, a Rollout or a
/// DeploymentConfig made counts as that.
pub(super) fn read(input: &Input<'_>) -> Option<Arc<str>> {
    let metadata = input.root.get("metadata")?.fields(AllowedFields::Any)?;
    let owners = metadata.get("ownerReferences")?.list()?;
    let mut owners = owners.iter().filter_map(|node| node.fields(AllowedFields::Any));
    let owner =
        owners.find(|owner| owner.get("controller").is_some_and(|it| it.value() == true))?;
    let (kind, name) = (text(&owner, "kind")?, text(&owner, "name")?);
    let label = |label: &str| input.meta.labels.get(label).map(|value| &**value);
    let made_by = |hash: &str| {
        let hash = label(hash).filter(|_| kind == "ReplicaSet")?;
        name.strip_suffix(hash)?.strip_suffix('-').filter(|name| !name.is_empty())
    };
    let configured = label(DEPLOYMENT_CONFIG).filter(|config| {
        kind == "ReplicationController"
            && name.strip_prefix(config).is_some_and(|number| number.starts_with('-'))
    });
    let made_by = [
        ("deployment", made_by(TEMPLATE_HASH)),
        ("rollout", made_by(ROLLOUT_HASH)),
        ("deploymentconfig", configured),
    ];
    let made_by = made_by.into_iter().find_map(|(kind, name)| Some((kind, name?)));
    Some(match made_by {
        Some((kind, name)) => format!("{kind}/{name}").into(),
        None => format!("{}/{name}", kind.to_ascii_lowercase()).into(),
    })
}

fn text<'a>(owner: &Fields<'a>, name: &str) -> Option<&'a str> {
    owner.get(name)?.value().as_str().filter(|text| !text.is_empty())
}
