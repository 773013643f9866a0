//! The rate limit of a Server (docs/spec/controller.md 2.9): the oldest valid one.

use super::grant::service_account_name;
use super::reference::referrers;
use crate::incremental::{Context, query};
use crate::query::grant::CreationOrder;
use crate::query::policy::RateLimitOf;
use policy_core::{LimitOverride, RateLimit, Source};
use policy_crds::resource::RateLimitPolicy;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::sync::Arc;

query!(RateLimitOf, Option<(ObjectKey, Arc<RateLimit>)>, rate_limit_of);

fn rate_limit_of(query: &RateLimitOf, cx: &mut Context<'_>) -> Option<(ObjectKey, Arc<RateLimit>)> {
    let members = referrers(cx, &query.0);
    let mut oldest: Option<(CreationOrder, &Object, &RateLimitPolicy)> = None;
    for key in members {
        let Some(object) = cx.object(key) else { continue };
        let Body::Valid(Resource::RateLimit(limit)) = &object.body else { continue };
        let rank = CreationOrder::of(&object.meta);
        if oldest.as_ref().is_none_or(|(first, _, _)| rank < *first) {
            oldest = Some((rank, object, limit));
        }
    }
    let (_, object, limit) = oldest?;
    Some((object.meta.key.clone(), Arc::new(rate_limit(cx, object, limit))))
}

fn rate_limit(cx: &Context<'_>, object: &Object, limit: &RateLimitPolicy) -> RateLimit {
    let RateLimitPolicy { server: _, total, identity, overrides } = limit;
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
    }
}
