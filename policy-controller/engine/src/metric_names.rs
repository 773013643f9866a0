//! The metrics of the index. Those that Linkerd's policy controller has too keep its names.

policy_core::metrics! {
    INDEX_MESH_TLS_AUTHENTICATION = "inbound_index_meshtls_authentication_index_size", "namespace",
        "MeshTLSAuthentications in the index, by namespace";
    INDEX_NETWORK_AUTHENTICATION = "inbound_index_network_authentication_index_size", "namespace",
        "NetworkAuthentications in the index, by namespace";
    INDEX_POD = "inbound_index_pod_index_size", "namespace", "Pods in the index, by namespace";
    INDEX_EXTERNAL_WORKLOAD = "inbound_index_external_workload_index_size", "namespace",
        "ExternalWorkloads in the index, by namespace";
    INDEX_SERVER = "inbound_index_server_index_size", "namespace",
        "Servers in the index, by namespace";
    INDEX_SERVER_AUTHORIZATION = "inbound_index_server_authorization_index_size", "namespace",
        "ServerAuthorizations in the index, by namespace";
    INDEX_AUTHORIZATION_POLICY = "inbound_index_authorization_policy_index_size", "namespace",
        "AuthorizationPolicies in the index, by namespace";
    INDEX_HTTP_ROUTE = "inbound_index_http_route_index_size", "namespace",
        "HTTPRoutes of both groups in the index, by namespace";
    INDEX_OBJECTS = "policy_index_objects", "kind", "Objects in the index, by kind";
    INDEX_CLAIMS = "policy_index_claims", "state",
        "Claims of InboundRoutes on paths of hosts, by state: active or inactive";
    INDEX_DENIED_RULES = "policy_index_denied_rules", "",
        "Rules of InboundRoutes whose path is denied, if only on some hosts: refused, or without a Server";
    INDEX_ORPHANS = "policy_index_orphans", "",
        "InboundRoutes to which no root delegates";
    INDEX_PODS_OUTSIDE = "policy_index_pods_outside_networks", "",
        "Pods with a sidecar and an address that no sidecar looks up, because it is outside the configured networks: what others send there leaves in plaintext";
    INDEX_KEPT = "policy_index_kept_objects", "kind",
        "Objects that are in force although the definition of their kind is gone, by kind";
    INDEX_BATCH_CHANGES = "policy_index_batch_changes", "", "Changes per batch, which is applied as one transaction";
    INDEX_SECONDS = "policy_index_seconds", "stage",
        "Time that a batch of changes takes: resolve (index, resolve and compile) and publish";
    INDEX_ANSWERED = "policy_index_answered", "stage",
        "Query executions, by stage: resolve or compile";
    INDEX_ANSWERS = "policy_index_answers", "",
        "Memoized answers of queries";
    INDEX_LOOKUPS_WAITING = "policy_index_lookups_waiting", "",
        "Requests queued for the index: lookups, reviews, reads for the status";
    INDEX_BATCHES_WAITING = "policy_index_batches_waiting", "",
        "Batches of changes queued for the index";
}
