//! Every metric of the controller: its name and what it says, in one place. Names that Linkerd's
//! policy controller has too are spelled as there (controller-semantics 6.4).

/// A metric's name without what its type adds (`_total`), and its help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Name.
    pub(crate) name: &'static str,
    /// What it says.
    pub(crate) help: &'static str,
}

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
    name: "admission_response",
    help: "Time from the last byte of an admission review to its answer",
};
/// What was not answered as a review.
pub(crate) const ADMISSION_REFUSED: Metric = Metric {
    name: "admission_refused",
    help: "Connections and requests of the webhook that were over a bound or made no sense",
};
/// Expiry of the serving certificate.
pub(crate) const ADMISSION_CERTIFICATE_EXPIRY: Metric = Metric {
    name: "admission_certificate_expiry_timestamp",
    help: "When the certificate that the webhook serves expires, in seconds of Unix time",
};
/// Trouble with the serving certificate.
pub(crate) const ADMISSION_CERTIFICATE_FAILURES: Metric = Metric {
    name: "admission_certificate_failures",
    help: "Attempts to renew, load or publish the webhook's certificate that failed",
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
    name: "resource_status_patch_duration",
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
    name: "policy_programmed",
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
/// Reviews of viewers' tokens and rights, by result.
pub(crate) const VIEWER_REVIEWS: Metric = Metric {
    name: "policy_watch_viewer_reviews",
    help: "Reviews of viewers' tokens and rights, by result",
};

// The index and the process.
