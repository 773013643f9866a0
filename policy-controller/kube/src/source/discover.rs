//! Which version of a kind the API server has.

use super::api::{Api, ApiError};
use super::decode::KindVersion;
use policy_crds::Kind;
use serde::Deserialize;

#[derive(Deserialize)]
struct ServedResources {
    resources: Vec<ServedResource>,
}

#[derive(Deserialize)]
struct ServedResource {
    name: String,
}

/// The version of a kind to read: of those that are served, the one that is preferred. None: it is
/// not there.
pub(super) async fn discover(api: &Api, kind: Kind) -> Result<Option<KindVersion>, ApiError> {
    if kind.group().is_empty() {
        // The core group is part of every API server.
        return Ok(kind.versions().first().map(|version| KindVersion { kind, version }));
    }
    for version in kind.versions() {
        match api.get(&format!("/apis/{}/{version}", kind.group())).await {
            Ok(body) if lists(&body, kind)? => return Ok(Some(KindVersion { kind, version })),
            Ok(_) => {}
            Err(failure) if failure.is_not_found() => {}
            // Whoever may not ask what there is can only try.
            Err(failure) if failure.is_forbidden() => {
                return Ok(Some(KindVersion { kind, version }));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

fn lists(body: &[u8], kind: Kind) -> Result<bool, ApiError> {
    let list: ServedResources = serde_json::from_slice(body)
        .map_err(|error| ApiError::Malformed(format!("a list of resources: {error}")))?;
    Ok(list.resources.iter().any(|served| served.name == kind.plural()))
}
