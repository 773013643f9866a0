//! Metrics of who may watch.

use policy_server::TlsMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Reason for which a caller is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// Neither a certificate nor a token.
    NoCredentials,
    /// An identity that may not watch the workload.
    OtherIdentity,
    /// Tokens are not reviewed here.
    TokensNotAccepted,
    /// The token does not hold.
    TokenRefused,
    /// The limit of tokens under review is reached for this peer.
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

impl RejectReason {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

policy_core::metrics! {
    /// Handles on the metrics of who may watch; clones share them.
    #[derive(Clone, Debug)]
    pub struct AuthzMetrics {
        reviews: Family<Outcome, Counter> = "policy_watch_viewer_reviews",
            "Reviews of viewers' tokens and rights, by result";
        refused: Family<Reason, Counter> = "policy_watch_callers_refused",
            "Requests and streams of callers that were rejected, by reason";
    }
    with { pub(crate) tls: TlsMetrics; }
}

impl AuthzMetrics {
    pub(crate) fn refused(&self, reason: RejectReason) {
        self.refused.get_or_create(&Reason { reason: reason.as_str() }).inc();
    }

    pub(crate) fn reviewed(&self, result: &'static str) {
        self.reviews.get_or_create(&Outcome { result }).inc();
    }

    /// Returns the number of callers rejected for `reason`.
    #[cfg(test)]
    pub(crate) fn count(&self, reason: RejectReason) -> u64 {
        self.refused.get_or_create(&Reason { reason: reason.as_str() }).get()
    }
}
