//! The metrics of the controller that no library of it has: their names and what they say. Names that
//! Linkerd's policy controller has too are spelled as there (controller-semantics 6.4).

use policy_engine::metric_names::Metric;

// Watches (source/kubernetes).

/// Events of watches, by what happened.
pub(crate) const KUBE_WATCH_EVENTS: Metric =
    Metric { name: "kube_watch_events", help: "Events of watches, bookmarks included" };

/// Failures of lists and watches.
pub(crate) const KUBE_WATCH_ERRORS: Metric =
    Metric { name: "kube_watch_errors", help: "Lists and watches that failed, by error" };

/// Complete lists.
pub(crate) const KUBE_WATCH_LISTS: Metric =
    Metric { name: "kube_watch_lists", help: "Complete lists of a kind" };

/// Complete lists of what had been listed before.
pub(crate) const KUBE_WATCH_RELISTS: Metric = Metric {
    name: "kube_watch_relists",
    help: "Complete lists of a kind that had been listed before",
};

/// Objects that cannot be told apart.
pub(crate) const KUBE_WATCH_NAMELESS: Metric = Metric {
    name: "kube_watch_nameless",
    help: "Objects that the API server sent without a name, which are left out",
};

/// The age of what is known.
pub(crate) const KUBE_WATCH_AGE_SECONDS: Metric = Metric {
    name: "kube_watch_age_seconds",
    help: "Seconds since the API server last said anything in a watch",
};

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

// Status, lease, events.

/// 1 while this replica leads.
pub(crate) const LEASE_LEADER: Metric =
    Metric { name: "lease_leader", help: "1 while this replica leads, else 0" };
/// Failed attempts.
pub(crate) const LEASE_API_ERRORS: Metric = Metric {
    name: "lease_api_errors",
    help: "Attempts to read or write the Lease that failed or were not answered in time",
};
/// Written.
pub(crate) const STATUS_PATCHES: Metric =
    Metric { name: "resource_status_patches", help: "Statuses written" };
/// Refused.
pub(crate) const STATUS_API_ERRORS: Metric = Metric {
    name: "resource_status_patch_api_errors",
    help: "Attempts to write a status that the API server refused, by status code (0: no answer)",
};
/// Not in time.
pub(crate) const STATUS_TIMEOUTS: Metric = Metric {
    name: "resource_status_patch_timeouts",
    help: "Attempts to write a status that were not answered in time",
};
/// Duration.
pub(crate) const STATUS_DURATION: Metric = Metric {
    name: "resource_status_patch_duration_seconds",
    help: "Time that one object took, reading included",
};
/// Put into the queue.
pub(crate) const STATUS_ENQUEUES: Metric = Metric {
    name: "resource_status_patch_enqueues",
    help: "Objects put into the queue because their status differs or may differ",
};
/// Taken from the queue.
pub(crate) const STATUS_DEQUEUES: Metric =
    Metric { name: "resource_status_patch_dequeues", help: "Objects taken from the queue" };
/// Dropped.
pub(crate) const STATUS_DROPS: Metric = Metric {
    name: "resource_status_patch_drops",
    help: "Objects taken from the queue of which nothing was written: gone, or as they should be",
};
/// Depth.
pub(crate) const STATUS_QUEUE: Metric = Metric {
    name: "resource_status_queue_depth",
    help: "Objects whose status is to be written, those that wait to be tried again included",
};
/// Events created.
pub(crate) const EVENTS_CREATED: Metric =
    Metric { name: "resource_events_created", help: "Kubernetes Events created" };
/// Events that could not be.
pub(crate) const EVENTS_DROPPED: Metric = Metric {
    name: "resource_events_dropped",
    help: "Kubernetes Events that were not created because there were too many or creating failed",
};

// What is in force, replicas.

/// How long changes take.
pub(crate) const PROGRAMMED_SECONDS: Metric = Metric {
    name: "policy_programmed_seconds",
    help: "Time from publishing a change to the acknowledgement of the last proxy concerned",
};
/// Objects that some proxy lacks.
pub(crate) const OBJECTS_NOT_PROGRAMMED: Metric = Metric {
    name: "policy_objects_not_programmed",
    help: "Objects that are not in force on every proxy concerned, where this replica counts",
};
/// Replicas besides this.
pub(crate) const REPLICAS_KNOWN: Metric =
    Metric { name: "policy_replicas_known", help: "Other replicas, where this one counts" };
/// Replicas that tell.
pub(crate) const REPLICAS_ANSWERING: Metric = Metric {
    name: "policy_replicas_answering",
    help: "Other replicas that say what their clients have in force, where this one counts",
};

// Serving.

pub(crate) const GRPC_STARTED: Metric =
    Metric { name: "grpc_server_started", help: "RPCs started" };

pub(crate) const GRPC_RECEIVED: Metric =
    Metric { name: "grpc_server_msg_received", help: "Messages received" };

pub(crate) const GRPC_SENT: Metric =
    Metric { name: "grpc_server_msg_sent", help: "Messages sent on streams" };

pub(crate) const GRPC_HANDLED: Metric =
    Metric { name: "grpc_server_handled", help: "RPCs completed, by status code" };

pub(crate) const GRPC_SECONDS: Metric = Metric {
    name: "grpc_server_handling_seconds",
    help: "Time from the start of an RPC to its end",
};

pub(crate) const WATCH_OPEN_STREAMS: Metric =
    Metric { name: "policy_watch_open_streams", help: "RPCs in progress" };

pub(crate) const WATCH_OPEN_CONNECTIONS: Metric =
    Metric { name: "policy_watch_open_connections", help: "Connections of clients" };

pub(crate) const WATCH_REFUSED: Metric =
    Metric { name: "policy_watch_refused", help: "Connections and RPCs over a bound" };

pub(crate) const WATCH_ENCODINGS: Metric =
    Metric { name: "policy_watch_encodings", help: "Policies encoded" };

pub(crate) const WATCH_ENCODINGS_SHARED: Metric = Metric {
    name: "policy_watch_encodings_shared",
    help: "Policies sent from an encoding that existed",
};

pub(crate) const WATCH_TOO_LARGE: Metric = Metric {
    name: "policy_watch_too_large",
    help: "Policies sent as a denial because they were too large for the client",
};

pub(crate) const WATCH_ENCODINGS_REPLACED: Metric = Metric {
    name: "policy_watch_encodings_replaced",
    help: "Encodings that say less than the policy, for what the client cannot enforce",
};

pub(crate) const WATCH_ACK_SECONDS: Metric = Metric {
    name: "policy_watch_ack_seconds",
    help: "Time from publishing a policy to a client's acknowledgement",
};

pub(crate) const WATCH_NACKS: Metric =
    Metric { name: "policy_watch_nacks", help: "Updates that clients refused" };

pub(crate) const WATCH_HELD_STREAMS: Metric = Metric {
    name: "policy_watch_held_streams",
    help: "Streams held because their client applied what this replica has not seen",
};

// Who may watch.

/// Requests refused for who their caller is, by reason.
pub(crate) const CALLERS_REFUSED: Metric = Metric {
    name: "policy_watch_callers_refused",
    help: "Requests and streams refused or ended for who their caller is, by reason",
};
/// TLS handshakes of the gRPC port, by result.
pub(crate) const TLS_HANDSHAKES: Metric =
    Metric { name: "policy_watch_tls_handshakes", help: "TLS handshakes of the gRPC port" };
/// When the gRPC port's certificate expires.
pub(crate) const CERTIFICATE_EXPIRY: Metric = Metric {
    name: "policy_watch_certificate_expiry_timestamp_seconds",
    help: "When the certificate of the gRPC port expires",
};
/// How often files of the gRPC port's certificate changed, by what came of it.
pub(crate) const CERTIFICATE_RELOADS: Metric = Metric {
    name: "policy_watch_certificate_reloads",
    help: "Changes of the certificate files of the gRPC port, by what came of them",
};
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
/// Reviews of viewers' tokens and rights, by result.
pub(crate) const VIEWER_REVIEWS: Metric = Metric {
    name: "policy_watch_viewer_reviews",
    help: "Reviews of viewers' tokens and rights, by result",
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
