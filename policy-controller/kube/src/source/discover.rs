//! Which version of a kind the API server has.

use super::api::{Api, Failure};
use super::decode::Reading;
use policy_crds::Kind;
use serde::Deserialize;

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ResourceName>,
}

#[derive(Deserialize)]
struct ResourceName {
    name: String,
}

/// The version of a kind to read: of those that are served, the one that is preferred. None: it is
/// not there.
pub(super) async fn discover(api: &Api, kind: Kind) -> Result<Option<Reading>, Failure> {
    if kind.group().is_empty() {
        // The core group is part of every API server.
        return Ok(kind.versions().first().map(|version| Reading { kind, version }));
    }
    for version in kind.versions() {
        match api.get(&format!("/apis/{}/{version}", kind.group())).await {
            Ok(body) if lists(&body, kind)? => return Ok(Some(Reading { kind, version })),
            Ok(_) => {}
            Err(failure) if failure.is_missing() => {}
            // Whoever may not ask what there is can only try.
            Err(failure) if failure.is_forbidden() => return Ok(Some(Reading { kind, version })),
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

fn lists(body: &[u8], kind: Kind) -> Result<bool, Failure> {
    let list: ResourceList = serde_json::from_slice(body)
        .map_err(|error| Failure::Unreadable(format!("a list of resources: {error}")))?;
    Ok(list.resources.iter().any(|resource| resource.name == kind.plural()))
}
