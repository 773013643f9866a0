//! The room that the routes of bindings take in a controller.
//!
//! A Server has a bound of its own, and everybody may write many Servers and bind one group to each of them. So
//! those of a namespace have one together, which the oldest Servers have first, as the expressions of its objects
//! have. A Server beyond it has no route of a binding, and denies what its bindings may be about.

use super::binding::MAX_BYTES;
use crate::incremental::{Context, query};
use crate::query::grant::CreationOrder;
use crate::query::requests::{OversizedBindingsOf, ServersWithoutRoom};
use policy_crds::{Kind, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(ServersWithoutRoom, Arc<BTreeSet<ObjectKey>>, without_room);

fn without_room(query: &ServersWithoutRoom, cx: &mut Context<'_>) -> Arc<BTreeSet<ObjectKey>> {
    let mut servers: Vec<_> = cx.list(Kind::Server, &query.0).collect();
    servers.sort_by_cached_key(|server| CreationOrder::of(&server.meta));
    let (mut bytes, mut without) = (0_usize, BTreeSet::new());
    for server in servers.iter().map(|server| &server.meta.key) {
        let with = bytes.saturating_add(cx.query(&OversizedBindingsOf(server.clone())).bytes);
        if with > MAX_BYTES {
            without.insert(server.clone());
        } else {
            bytes = with;
        }
    }
    Arc::new(without)
}
