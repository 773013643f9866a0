//! Which rate limit a Server has.

use policy_core::RateLimit;
use policy_crds::ObjectKey;
use std::sync::Arc;

/// The rate limit of a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RateLimitOf(pub(crate) ObjectKey);

/// See [`RateLimitOf`]: the object that sets it, and the limit.
pub(crate) type Limit = Option<(ObjectKey, Arc<RateLimit>)>;
