//! The metrics of the issuer: their names and what they say.

use policy_engine::metric_names::Metric;

/// Issued.
pub(crate) const ISSUER_CERTIFICATES: Metric =
    Metric { name: "issuer_certificates", help: "Certificates issued to workloads" };

/// Refused.
pub(crate) const ISSUER_REFUSED: Metric = Metric {
    name: "issuer_refused",
    help: "Requests for certificates that were refused, by reason",
};

/// Duration.
pub(crate) const ISSUER_SECONDS: Metric = Metric {
    name: "issuer_certify_seconds",
    help: "Time that a request for a certificate took, review of its token included",
};

/// Connections.
pub(crate) const ISSUER_CONNECTIONS_REFUSED: Metric = Metric {
    name: "issuer_connections_refused",
    help: "Connections to the port of the issuer that came to nothing, by reason",
};

/// The end of the authority.
pub(crate) const ISSUER_AUTHORITY_EXPIRY: Metric = Metric {
    name: "issuer_authority_expiry_timestamp_seconds",
    help: "When the authority that certificates are issued from expires, in seconds of Unix time",
};

/// The state of the rotation.
pub(crate) const ISSUER_ROTATION: Metric = Metric {
    name: "issuer_rotation",
    help: "1 for the state that the rotation of the authority is in: steady, staged or overlap",
};

/// Roots.
pub(crate) const ISSUER_ROOTS: Metric =
    Metric { name: "issuer_roots", help: "Roots that are published" };

/// Where they are.
pub(crate) const ISSUER_NAMESPACES: Metric = Metric {
    name: "issuer_roots_namespaces",
    help: "Namespaces that have the current roots, and that should have and have not",
};

/// Put right.
pub(crate) const ISSUER_ROOTS_RESTORED: Metric = Metric {
    name: "issuer_roots_restored",
    help: "ConfigMaps of roots that were not as they should be and were written",
};

/// Failures of what is kept.
pub(crate) const ISSUER_FAILURES: Metric = Metric {
    name: "issuer_failures",
    help: "Looks at the authority, its Secret or files and its own certificate that failed",
};
