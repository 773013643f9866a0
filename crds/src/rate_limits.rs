//! The values of an HTTPLocalRateLimitPolicy.

use crate::key::NamespacedName;
use std::num::NonZeroU32;
use std::sync::Arc;

/// HTTPLocalRateLimitPolicy (1.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitPolicy {
    /// The Server.
    pub server: Arc<str>,
    /// The limits.
    pub numbers: RateLimitNumbers,
}

/// The limits of an HTTPLocalRateLimitPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitNumbers {
    /// Requests per second of all clients.
    pub total: Option<NonZeroU32>,
    /// Requests per second of each identity.
    pub identity: Option<NonZeroU32>,
    /// For named ServiceAccounts.
    pub overrides: Vec<RateLimitOverride>,
}

impl RateLimitNumbers {
    /// True if nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.total.is_none() && self.identity.is_none() && self.overrides.is_empty()
    }
}

/// One override of [`RateLimitNumbers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitOverride {
    /// Requests per second.
    pub requests_per_second: NonZeroU32,
    /// ServiceAccounts; never empty.
    pub clients: Vec<NamespacedName>,
}
