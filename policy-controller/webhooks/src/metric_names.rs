//! The metrics of the webhooks: their names and what they say.

use policy_engine::metric_names::Metric;

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
