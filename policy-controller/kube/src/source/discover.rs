//! Discovery of the served version of a kind.

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

/// Returns the preferred version of a kind among those that are served; `None` if there is none.
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
            // Without the right to discovery, the version is tried.
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
