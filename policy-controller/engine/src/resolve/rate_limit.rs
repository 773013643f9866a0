//! The rate limit of a Server (docs/spec/controller.md 2.9): the oldest one that names it, valid or not.
//! The readable numbers of an invalid one hold; without any it refuses every request. One whose target
//! cannot be read is a limit of every Server of its namespace that no other names, if it has a number.

use super::grant::service_account_name;
use super::reference::referrers;
use crate::behaviour::Behaviour;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::grant::CreationOrder;
use crate::query::policy::RateLimitOf;
use policy_core::{LimitOverride, RateLimit, Source};
use policy_crds::resource::{RateLimitNumbers, RateLimitPolicy};
use policy_crds::{Body, Claims, Invalid, Object, ObjectKey, Resource};
use std::sync::Arc;

query!(RateLimitOf, Option<(ObjectKey, Arc<RateLimit>)>, rate_limit_of);

fn rate_limit_of(query: &RateLimitOf, cx: &mut Context<'_>) -> Option<(ObjectKey, Arc<RateLimit>)> {
    let server = &query.0;
    let naming = referrers(cx, server);
    // It may have been meant for another Server, so that it never takes the place of one that names
    // this.
    oldest(cx, naming).or_else(|| {
        let anywhere = cx.edge(Edge::Selects(server.namespace.clone()));
        oldest(cx, anywhere)
    })
}

/// The oldest limit among these objects.
fn oldest(cx: &mut Context<'_>, members: Vec<&ObjectKey>) -> Option<(ObjectKey, Arc<RateLimit>)> {
    let ignored = cx.config.follows_linkerd(Behaviour::InvalidServers);
    let mut oldest: Option<(CreationOrder, &Object, &RateLimitNumbers)> = None;
    for key in members {
        let Some(object) = cx.object(key) else { continue };
        let numbers = match &object.body {
            Body::Valid(Resource::RateLimit(RateLimitPolicy { numbers, .. })) => numbers,
            Body::Invalid(Invalid { claims: Claims::RateLimit { numbers, .. }, .. })
                if !ignored =>
            {
                numbers
            }
            Body::Valid(_) | Body::Invalid(_) => continue,
        };
        let rank = CreationOrder::of(&object.meta);
        if oldest.as_ref().is_none_or(|(first, _, _)| rank < *first) {
            oldest = Some((rank, object, numbers));
        }
    }
    let (_, object, numbers) = oldest?;
    Some((object.meta.key.clone(), Arc::new(rate_limit(cx, object, numbers))))
}

fn rate_limit(cx: &Context<'_>, object: &Object, numbers: &RateLimitNumbers) -> RateLimit {
    let RateLimitNumbers { total, identity, overrides } = numbers;
    let namespace = &object.meta.key.namespace;
    RateLimit {
        source: Source::Object(object.meta.key.to_ref()),
        total: *total,
        identity: *identity,
        overrides: overrides
            .iter()
            .map(|o| LimitOverride {
                requests_per_second: o.requests_per_second,
                clients: o
                    .clients
                    .iter()
                    .map(|client| service_account_name(cx, client, namespace))
                    .collect(),
            })
            .collect(),
        refuses: matches!(object.body, Body::Invalid(_)) && numbers.is_empty(),
    }
}
