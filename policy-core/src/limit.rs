//! Rate limits as data. The buckets that spend them live in the proxy.

use crate::name::Source;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A local rate limit, applied after authorization: first `total`, then the override that names
/// the client, else `identity`. Clients without an identity share one bucket (docs/spec/proxy.md 3.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// The object that sets it.
    pub source: Source,
    /// Requests per second of all clients together; absent: unlimited.
    pub total: Option<NonZeroU32>,
    /// Requests per second of each client identity; absent: unlimited.
    pub identity: Option<NonZeroU32>,
    /// Limits for named clients, which replace `identity` for them. The first that names a client
    /// counts; its bucket is shared by all it names.
    pub overrides: Vec<LimitOverride>,
    /// True if every request is refused, because the object is invalid and no number of it can be
    /// read.
    pub refuses: bool,
}

impl RateLimit {
    /// Returns true if any request is limited or refused.
    pub fn limits(&self) -> bool {
        self.refuses
            || self.total.is_some()
            || self.identity.is_some()
            || !self.overrides.is_empty()
    }
}

/// One override of a [`RateLimit`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitOverride {
    /// Requests per second of all the clients named.
    pub requests_per_second: NonZeroU32,
    /// Exact identities; empty names nobody.
    pub clients: Vec<Arc<str>>,
}
