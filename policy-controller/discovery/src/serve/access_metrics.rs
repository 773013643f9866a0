//! Metrics of who may watch.

use crate::metric_names;
use policy_engine::metric_names::Metric;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a caller is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwelcome {
    /// Neither a certificate nor a token.
    NoCredentials,
    /// An identity that does not stand for what was asked for.
    OtherIdentity,
    /// Tokens are not reviewed here.
    TokensNotAccepted,
    /// The token does not hold.
    TokenRefused,
    /// As many tokens of this peer are under review as may be.
    TooManyReviews,
    /// The token could not be reviewed.
    ReviewFailed,
    /// The viewer lacks the right.
    NoRight,
    /// A stream ended because the workload has another identity now.
    IdentityChanged,
    /// A stream ended with its token.
    TokenExpired,
}

impl Unwelcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::NoCredentials => "no_credentials",
            Self::OtherIdentity => "other_identity",
            Self::TokensNotAccepted => "tokens_not_accepted",
            Self::TokenRefused => "token_refused",
            Self::TooManyReviews => "too_many_reviews",
            Self::ReviewFailed => "review_failed",
            Self::NoRight => "no_right",
            Self::IdentityChanged => "identity_changed",
            Self::TokenExpired => "token_expired",
        }
    }
}

/// What came of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The client proved an identity.
    Identity,
    /// The client proved none.
    Anonymous,
    /// The client's certificate is of nobody we trust.
    Untrusted,
    /// The client's certificate is not valid now.
    Expired,
    /// The client speaks no TLS 1.3.
    Version,
    /// The client took too long.
    TimedOut,
    /// Anything else.
    Failed,
}

impl Handshake {
    fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Anonymous => "anonymous",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::Version => "version",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// Handles on the metrics of who may watch; clones share them.
#[derive(Clone, Debug, Default)]
pub struct AccessMetrics {
    refused: Family<Reason, Counter>,
    handshakes: Family<Outcome, Counter>,
    expiry: Gauge,
    reloads: Family<Outcome, Counter>,
    reviews: Family<Outcome, Counter>,
}

impl AccessMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let mut add = |Metric { name, help }, family: &Family<Outcome, Counter>| {
            registry.register(name, help, family.clone());
        };
        add(metric_names::TLS_HANDSHAKES, &self.handshakes);
        add(metric_names::CERTIFICATE_RELOADS, &self.reloads);
        add(metric_names::VIEWER_REVIEWS, &self.reviews);
        let Metric { name, help } = metric_names::CALLERS_REFUSED;
        registry.register(name, help, self.refused.clone());
        let Metric { name, help } = metric_names::CERTIFICATE_EXPIRY;
        registry.register(name, help, self.expiry.clone());
    }

    pub(crate) fn refused(&self, reason: Unwelcome) {
        self.refused.get_or_create(&Reason { reason: reason.as_str() }).inc();
    }

    pub(crate) fn handshake(&self, result: Handshake) {
        self.handshakes.get_or_create(&Outcome { result: result.as_str() }).inc();
    }

    pub(crate) fn reloaded(&self, result: &'static str) {
        self.reloads.get_or_create(&Outcome { result }).inc();
    }

    pub(crate) fn reviewed(&self, result: &'static str) {
        self.reviews.get_or_create(&Outcome { result }).inc();
    }

    pub(crate) fn expires(&self, at: Option<SystemTime>) {
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let seconds = since.and_then(|since| i64::try_from(since.as_secs()).ok());
        self.expiry.set(seconds.unwrap_or(0));
    }

    /// How many callers were refused for `reason`.
    #[cfg(test)]
    pub(crate) fn count(&self, reason: Unwelcome) -> u64 {
        self.refused.get_or_create(&Reason { reason: reason.as_str() }).get()
    }
}
