//! Metrics of the admission webhook.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// Outcome of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReviewOutcome {
    /// Out of scope, or nothing that is validated has changed.
    Passed,
    /// Valid.
    Admitted,
    /// Valid, with warnings for the author.
    Warned,
    /// Invalid.
    Denied,
    /// Not a readable review.
    Malformed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    kind: &'static str,
    verdict: ReviewOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

impl EncodeLabelValue for ReviewOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(match self {
            Self::Passed => "passed",
            Self::Admitted => "admitted",
            Self::Warned => "warned",
            Self::Denied => "denied",
            Self::Malformed => "malformed",
        })
    }
}

policy_core::metrics! {
    /// Handles on admission's metrics; clones share them.
    #[derive(Clone, Debug)]
    pub struct AdmissionMetrics {
        answers: Family<VerdictLabels, Counter> = "admission_responses",
            "Admission reviews answered, by kind of object and verdict";
        seconds: Histogram = "admission_response_seconds",
            "Time from the last byte of an admission review to its response"
            => Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]);
        refused: Family<RefusalLabels, Counter> = "admission_refused",
            "Connections and requests that the webhook refused, by reason";
        expiry: Gauge = "admission_certificate_expiry_timestamp_seconds",
            "Expiry of the webhook's serving certificate, in seconds of Unix time";
        failures: Counter = "admission_certificate_failures",
            "Failed attempts to renew, load or publish the webhook's certificate";
    }
}

impl AdmissionMetrics {
    /// Counts a response.
    pub(crate) fn answered(&self, kind: &'static str, verdict: ReviewOutcome, took: Duration) {
        self.answers.get_or_create(&VerdictLabels { kind, verdict }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts a refused connection or request.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusalLabels { reason }).inc();
    }

    /// Sets the expiry of the serving certificate.
    pub(crate) fn certificate(&self, not_after: Option<SystemTime>) {
        let since = not_after.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let seconds = since.and_then(|since| i64::try_from(since.as_secs()).ok());
        self.expiry.set(seconds.unwrap_or_default());
    }

    /// Counts a certificate that could not be issued, loaded or published.
    pub(crate) fn certificate_failed(&self) {
        self.failures.inc();
    }
}
