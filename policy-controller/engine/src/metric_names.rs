//! The metrics of the index: their names and what they say. Names that Linkerd's policy controller has
//! too are spelled as there.

/// A metric's name without what its type adds (`_total`), and its help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
}

/// MeshTLSAuthentications.
pub(crate) const INDEX_MESH_TLS_AUTHENTICATION: Metric = Metric {
    name: "inbound_index_meshtls_authentication_index_size",
    help: "MeshTLSAuthentications in the index, by namespace",
};

/// NetworkAuthentications.
pub(crate) const INDEX_NETWORK_AUTHENTICATION: Metric = Metric {
    name: "inbound_index_network_authentication_index_size",
    help: "NetworkAuthentications in the index, by namespace",
};

/// Pods.
pub(crate) const INDEX_POD: Metric =
    Metric { name: "inbound_index_pod_index_size", help: "Pods in the index, by namespace" };

/// ExternalWorkloads.
pub(crate) const INDEX_EXTERNAL_WORKLOAD: Metric = Metric {
    name: "inbound_index_external_workload_index_size",
    help: "ExternalWorkloads in the index, by namespace",
};

/// Servers.
pub(crate) const INDEX_SERVER: Metric =
    Metric { name: "inbound_index_server_index_size", help: "Servers in the index, by namespace" };

/// ServerAuthorizations.
pub(crate) const INDEX_SERVER_AUTHORIZATION: Metric = Metric {
    name: "inbound_index_server_authorization_index_size",
    help: "ServerAuthorizations in the index, by namespace",
};

/// AuthorizationPolicies.
pub(crate) const INDEX_AUTHORIZATION_POLICY: Metric = Metric {
    name: "inbound_index_authorization_policy_index_size",
    help: "AuthorizationPolicies in the index, by namespace",
};

/// HTTPRoutes of both groups.
pub(crate) const INDEX_HTTP_ROUTE: Metric = Metric {
    name: "inbound_index_http_route_index_size",
    help: "HTTPRoutes of both groups in the index, by namespace",
};

/// Objects of every kind.
pub(crate) const INDEX_OBJECTS: Metric =
    Metric { name: "policy_index_objects", help: "Objects in the index, by kind" };

/// The size of batches.
pub(crate) const INDEX_BATCH_CHANGES: Metric =
    Metric { name: "policy_index_batch_changes", help: "Changes that were applied as one" };

/// The time that stages take.
pub(crate) const INDEX_SECONDS: Metric = Metric {
    name: "policy_index_seconds",
    help: "Time that a batch of changes takes: resolve (index, resolve and compile) and publish",
};

/// The work that changes cause.
pub(crate) const INDEX_ANSWERED: Metric = Metric {
    name: "policy_index_answered",
    help: "Questions answered anew, by stage: resolve or compile",
};

/// What is remembered.
pub(crate) const INDEX_ANSWERS: Metric = Metric {
    name: "policy_index_answers",
    help: "Answers that are kept, with what they were made from",
};

/// The queue of lookups.
pub(crate) const INDEX_LOOKUPS_WAITING: Metric = Metric {
    name: "policy_index_lookups_waiting",
    help: "Requests to the index that wait: lookups, reviews, what status is made from",
};

/// The queue of batches.
pub(crate) const INDEX_BATCHES_WAITING: Metric = Metric {
    name: "policy_index_batches_waiting",
    help: "Batches of changes that wait for the index",
};
