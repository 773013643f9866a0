//! The metrics of watches, the lease, status and Events: their names and what they say.

use policy_engine::metric_names::Metric;

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

/// Changed by others.
pub(crate) const STATUS_OVERWRITTEN: Metric = Metric {
    name: "resource_status_overwritten",
    help: "Statuses that this controller wrote and found changed by somebody else when it listed them",
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
