//! The metrics of the gRPC port, of acknowledgements and of replicas: their names and what they say.

use policy_engine::metric_names::Metric;

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

/// Requests refused for who their caller is, by reason.
pub(crate) const CALLERS_REFUSED: Metric = Metric {
    name: "policy_watch_callers_refused",
    help: "Requests and streams refused or ended for who their caller is, by reason",
};

/// Reviews of viewers' tokens and rights, by result.
pub(crate) const VIEWER_REVIEWS: Metric = Metric {
    name: "policy_watch_viewer_reviews",
    help: "Reviews of viewers' tokens and rights, by result",
};
