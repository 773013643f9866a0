//! A list of all objects of a kind, page by page, from one consistent state.

use super::api::{self, Api, ApiError};
use super::decode::{self, KindVersion, ListPage, Version};
use super::metrics::WatchMetrics;
use policy_crds::{Kind, Object};
use policy_engine::source::WatchKey;

/// Number of immediate restarts of a list whose continue token expired.
const MAX_LIST_RESTARTS: u32 = 3;

/// Most EndpointSlices of a page, which is held as a whole: each may have a thousand endpoints.
const MAX_SLICES: u32 = 50;

/// Lists all objects of a watch, in pages of `configured` objects at most, from one consistent state.
pub(super) async fn list(
    (api, metrics): (&Api, &WatchMetrics),
    key: &WatchKey,
    resource: &KindVersion,
    configured: u32,
) -> Result<(Vec<Object>, Version), ApiError> {
    let mut restarts = 0_u32;
    loop {
        match list_once((api, metrics), key, resource, configured).await {
            // The continue token expired during the list.
            Err(failure) if failure.is_gone() && restarts < MAX_LIST_RESTARTS => {
                restarts = restarts.saturating_add(1);
            }
            listed => return listed,
        }
    }
}

async fn list_once(
    (api, metrics): (&Api, &WatchMetrics),
    key: &WatchKey,
    resource: &KindVersion,
    configured: u32,
) -> Result<(Vec<Object>, Version), ApiError> {
    let size = page_size(resource.kind, configured);
    let namespace = key.namespace.as_deref();
    let collection = api::collection(resource.kind, resource.version, namespace);
    let unreadable = |what: &str| ApiError::Malformed(what.to_owned());
    let (mut objects, mut next, mut first) = (Vec::new(), None, None);
    loop {
        let page = api.page(&collection, size, next.as_deref()).await?;
        let ListPage { objects: more, nameless, version, next: following } =
            decode::page(resource, &page)?;
        metrics.nameless(key, nameless);
        objects.extend(more);
        // All pages are of the state of the first. Only the whole list makes the watch current,
        // so single pages do not count as activity.
        first = first.or(version);
        if following.is_none() {
            let version = first.ok_or_else(|| unreadable("a list without resourceVersion"))?;
            return Ok((objects, version));
        }
        if following == next {
            return Err(unreadable("a continue token that leads to itself"));
        }
        next = following;
    }
}

/// The objects of one page of a list.
pub(super) fn page_size(kind: Kind, configured: u32) -> u32 {
    if kind == Kind::EndpointSlice { configured.min(MAX_SLICES) } else { configured }
}
