//! What a pod belongs to, as metrics and logs name it.

use crate::parse::input::Input;
use crate::reader::{AllowedFields, Fields};
use std::sync::Arc;

/// The label that a Deployment gives the pods of one of its ReplicaSets; the name of that ReplicaSet
/// ends in it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The controller of a pod, such as `statefulset/db`; a ReplicaSet that a Deployment made counts as
/// the Deployment.
pub(super) fn read(input: &Input<'_>) -> Option<Arc<str>> {
    let metadata = input.root.get("metadata")?.fields(AllowedFields::Any)?;
    let owners = metadata.get("ownerReferences")?.list()?;
    let mut owners = owners.iter().filter_map(|node| node.fields(AllowedFields::Any));
    let owner =
        owners.find(|owner| owner.get("controller").is_some_and(|it| it.value() == true))?;
    let (kind, name) = (text(&owner, "kind")?, text(&owner, "name")?);
    let deployment = input.meta.labels.get(TEMPLATE_HASH).filter(|_| kind == "ReplicaSet");
    let deployment = deployment.and_then(|hash| name.strip_suffix(&**hash)?.strip_suffix('-'));
    Some(match deployment.filter(|name| !name.is_empty()) {
        Some(name) => format!("deployment/{name}").into(),
        None => format!("{}/{name}", kind.to_ascii_lowercase()).into(),
    })
}

fn text<'a>(owner: &Fields<'a>, name: &str) -> Option<&'a str> {
    owner.get(name)?.value().as_str().filter(|text| !text.is_empty())
}
