//! The metrics of a port's TLS: their names and what they say.

/// A metric's name without what its type adds (`_total`), and its help text.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

/// TLS handshakes of the gRPC port, by result.
pub(super) const TLS_HANDSHAKES: Metric =
    Metric { name: "policy_watch_tls_handshakes", help: "TLS handshakes of the gRPC port" };

/// When the gRPC port's certificate expires.
pub(super) const CERTIFICATE_EXPIRY: Metric = Metric {
    name: "policy_watch_certificate_expiry_timestamp_seconds",
    help: "When the certificate of the gRPC port expires",
};

/// How often files of the gRPC port's certificate changed, by what came of it.
pub(super) const CERTIFICATE_RELOADS: Metric = Metric {
    name: "policy_watch_certificate_reloads",
    help: "Changes of the certificate files of the gRPC port, by what came of them",
};
