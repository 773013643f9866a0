//! Metrics of mutual TLS on a port: handshakes, and the certificate in force.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::time::{SystemTime, UNIX_EPOCH};

/// Result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// The client proved an identity.
    Identity,
    /// The client proved no identity.
    Anonymous,
    /// The client's certificate does not chain to a trusted root.
    Untrusted,
    /// The client's certificate is not valid now.
    Expired,
    /// The client does not support TLS 1.3.
    Version,
    /// The handshake timed out.
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
struct ResultLabel {
    result: &'static str,
}

policy_core::metrics! {
    /// Metrics of a port's TLS; clones share them.
    #[derive(Clone, Debug)]
    pub struct TlsMetrics {
        handshakes: Family<ResultLabel, Counter> = "policy_watch_tls_handshakes",
            "TLS handshakes of the gRPC port";
        reloads: Family<ResultLabel, Counter> = "policy_watch_certificate_reloads",
            "Reloads of the certificate files of the gRPC port, by result";
        expiry: Gauge = "policy_watch_certificate_expiry_timestamp_seconds",
            "When the certificate of the gRPC port expires";
    }
}

impl TlsMetrics {
    pub(super) fn handshake(&self, result: Handshake) {
        self.handshakes.get_or_create(&ResultLabel { result: result.as_str() }).inc();
    }

    pub(super) fn reloaded(&self, result: &'static str) {
        self.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    pub(super) fn expires(&self, at: Option<SystemTime>) {
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let seconds = since.and_then(|since| i64::try_from(since.as_secs()).ok());
        self.expiry.set(seconds.unwrap_or(0));
    }
}
