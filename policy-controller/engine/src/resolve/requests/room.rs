//! The room that the routes of bindings take in a controller.
//!
//! A Server has a bound of its own, and everybody may write many Servers and bind one group to each of them. So
//! those of a namespace have one together, which the oldest Servers have first, as the expressions of its objects
//! have. A Server beyond it has no route of a binding, and denies what its bindings may be about.

use super::binding::{MAX_BYTES, effective_matches};
use crate::incremental::{Context, query};
use crate::query::grant::CreationOrder;
use crate::query::requests::{BoundBytesOf, ServersWithoutRoom};
use policy_crds::{Kind, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(BoundBytesOf, usize, bound_bytes);
query!(ServersWithoutRoom, Arc<BTreeSet<ObjectKey>>, without_room);

/// About as many bytes as a match takes without its texts, with its part of a route.
const MATCH_BYTES: usize = 512;

fn bound_bytes(query: &BoundBytesOf, cx: &mut Context<'_>) -> usize {
    let all = effective_matches(cx, &query.0);
    let bytes = all.into_iter().map(|(matches, texts)| {
        matches.saturating_mul(MATCH_BYTES).saturating_add(texts)
    });
    bytes.fold(0, usize::saturating_add)
}

fn without_room(query: &ServersWithoutRoom, cx: &mut Context<'_>) -> Arc<BTreeSet<ObjectKey>> {
    let servers = cx.list(Kind::Server, &query.0);
    let mut servers: Vec<(CreationOrder, &ObjectKey)> =
        servers.map(|server| (CreationOrder::of(&server.meta), &server.meta.key)).collect();
    servers.sort();
    let (mut bytes, mut without) = (0_usize, BTreeSet::new());
    for (_, server) in servers {
        let with = bytes.saturating_add(cx.query(&BoundBytesOf(server.clone())));
        if with > MAX_BYTES {
            without.insert(server.clone());
        } else {
            bytes = with;
        }
    }
    Arc::new(without)
}
