//! The metrics of the controller that no library of it has: their names and what they say. Names that
//! Linkerd's policy controller has too are spelled as there (controller-semantics 6.4).

pub(crate) use policy_engine::metric_names::Metric;

// Admission.

/// Answers of the webhook.
pub(crate) const ADMISSION_RESPONSES: Metric = Metric {
    name: "admission_responses",
    help: "Admission reviews answered, by kind of object and verdict",
};
/// Time to answer.
pub(crate) const ADMISSION_SECONDS: Metric = Metric {
    name: "admission_response_seconds",
    help: "Time from the last byte of an admission review to its answer",
};
/// What was not answered as a review.
pub(crate) const ADMISSION_REFUSED: Metric = Metric {
    name: "admission_refused",
    help: "Connections and requests of the webhook that were over a bound or made no sense",
};
/// Expiry of the serving certificate.
pub(crate) const ADMISSION_CERTIFICATE_EXPIRY: Metric = Metric {
    name: "admission_certificate_expiry_timestamp_seconds",
    help: "When the certificate that the webhook serves expires, in seconds of Unix time",
};
/// Trouble with the serving certificate.
pub(crate) const ADMISSION_CERTIFICATE_FAILURES: Metric = Metric {
    name: "admission_certificate_failures",
    help: "Attempts to renew, load or publish the webhook's certificate that failed",
};

// Injection.

/// Answers of the injector.
pub(crate) const INJECTOR_RESPONSES: Metric = Metric {
    name: "injector_responses",
    help: "Pods that the injector was asked about, by what became of them",
};
/// Pods that lack a sidecar.
pub(crate) const INJECTOR_PODS_WITHOUT: Metric = Metric {
    name: "injector_pods_without_sidecar",
    help: "Running pods that ought to have a sidecar and have none, by namespace; the leader counts",
};
/// Labels that could not be written.
pub(crate) const INJECTOR_LABEL_FAILURES: Metric = Metric {
    name: "injector_label_failures",
    help: "Attempts to write the label of a namespace that asks for injection that failed",
};

// The guard.

/// Connections and requests that the guard of the controller's own ports refused.
pub(crate) const GUARD_REFUSED: Metric = Metric {
    name: "policy_guard_refused",
    help: "Connections and requests refused on the controller's own ports, by port and reason",
};
/// Whether the guard follows the cluster's Servers.
pub(crate) const GUARD_FOLLOWS: Metric = Metric {
    name: "policy_guard_follows",
    help: "Whether the controller's own ports follow the cluster's Servers; 0: the local policy holds",
};

// The issuer.

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

#[cfg(test)]
mod tests;
