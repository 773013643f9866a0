//! All metrics of the proxy: name, labels and help. Names and labels that Linkerd's proxy has too
//! are spelled as there (docs/spec/proxy.md 4). Tests compare docs/metrics.md, the dashboard and the
//! alerts with this list.

use policy_tls::metric::Metric;

/// Groups of labels, by the name that [`Metric::labels`] uses.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("TARGET", &["target_addr", "target_ip", "target_port"]),
    ("SERVER", &["srv_group", "srv_kind", "srv_name", "srv_port"]),
    ("PARENT", &["parent_group", "parent_kind", "parent_name", "parent_port"]),
    ("ROUTE", &["route_group", "route_kind", "route_name", "http_route"]),
    ("AUTHZ", &["authz_group", "authz_kind", "authz_name"]),
    ("RATELIMIT", &["ratelimit_group", "ratelimit_kind", "ratelimit_name"]),
    ("TLS", &["tls", "client_id", "sni", "no_tls_reason"]),
    ("DESTINATION", &["dst_namespace", "dst_service", "dst_port", "dst_owner"]),
    ("CARRIER", &["tls", "server_id", "no_tls_reason"]),
];

/// Returns every label that a series of `metric` may have.
pub fn label_names(metric: &Metric) -> Vec<&'static str> {
    let expand = |word: &'static str| {
        let group = GROUPS.iter().find(|(name, _)| *name == word);
        group.map_or_else(|| vec![word], |(_, labels)| labels.to_vec())
    };
    metric.labels.split_whitespace().flat_map(expand).collect()
}

/// Returns all metrics of the proxy: those of this crate, of its identity and of its process; the
/// build, the last one here, is beside the process.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let (ours, build) = ALL.split_at(ALL.len().saturating_sub(1));
    ours.iter().chain(policy_tls::names::ALL).chain(build).chain(policy_server::names::ALL)
}

policy_core::metrics! {
    // Policy decisions.
    HTTP_ALLOW = "inbound_http_authz_allow", "TARGET ROUTE AUTHZ SERVER TLS",
        "HTTP requests that a policy allowed";
    HTTP_DENY = "inbound_http_authz_deny", "TARGET ROUTE reason SERVER TLS",
        "HTTP requests that a policy denied, and open requests that it revoked";
    ROUTE_NOT_FOUND = "inbound_http_route_not_found", "TARGET reason SERVER TLS",
        "HTTP requests that no route matches";
    RATE_LIMITED = "inbound_http_local_ratelimit", "TARGET RATELIMIT ratelimit_scope reason SERVER TLS",
        "HTTP requests beyond a rate limit";
    TCP_ALLOW = "inbound_tcp_authz_allow", "TARGET AUTHZ SERVER TLS",
        "Connections that a policy allowed";
    TCP_DENY = "inbound_tcp_authz_deny", "TARGET reason SERVER TLS",
        "Connections that a policy denied";
    TCP_TERMINATE = "inbound_tcp_authz_terminate", "TARGET reason SERVER TLS",
        "Connections ended because a policy changed";
    REFUSED = "policy_refused", "reason",
        "Connections and requests refused without a policy in force";
    UNCOUNTED = "policy_uncounted", "",
        "Decisions counted without labels because the limit of series was reached";

    // Permitted requests.
    REQUESTS = "request", "direction TARGET SERVER ROUTE AUTHZ TLS",
        "Requests forwarded to the application";
    RESPONSES = "response",
        "direction TARGET SERVER ROUTE AUTHZ TLS status_code classification grpc_status error",
        "Responses that ended, by result";
    LATENCY = "response_latency_ms", "direction TARGET SERVER ROUTE AUTHZ TLS",
        "Milliseconds from a request's head to its response's first bytes, or its end without any";
    HTTP_REQUESTS = "inbound_http_requests", "PARENT ROUTE", "Permitted HTTP requests";
    GRPC_REQUESTS = "inbound_grpc_requests", "PARENT ROUTE", "Permitted gRPC requests";
    HTTP_STATUSES = "inbound_http_statuses", "PARENT ROUTE status",
        "Responses that ended, by HTTP status";
    GRPC_STATUSES = "inbound_grpc_statuses", "PARENT ROUTE status",
        "Responses that ended, by gRPC status";
    HTTP_REQUEST_SECONDS = "inbound_http_request_duration_seconds", "PARENT ROUTE",
        "Time from a request's head to the end of its response";
    GRPC_REQUEST_SECONDS = "inbound_grpc_request_duration_seconds", "PARENT ROUTE",
        "Time from a gRPC request's head to the end of its response";
    HTTP_RESPONSE_SECONDS = "inbound_http_response_duration_seconds", "PARENT ROUTE",
        "Time from the end of a request to the end of its response";
    GRPC_RESPONSE_SECONDS = "inbound_grpc_response_duration_seconds", "PARENT ROUTE",
        "Time from the end of a gRPC request to the end of its response";
    HTTP_REQUEST_FRAMES = "inbound_http_request_frame_size_bytes", "PARENT ROUTE",
        "Sizes of request body frames";
    GRPC_REQUEST_FRAMES = "inbound_grpc_request_frame_size_bytes", "PARENT ROUTE",
        "Sizes of gRPC request body frames";
    HTTP_RESPONSE_FRAMES = "inbound_http_response_frame_size_bytes", "PARENT ROUTE",
        "Sizes of response body frames";
    GRPC_RESPONSE_FRAMES = "inbound_grpc_response_frame_size_bytes", "PARENT ROUTE",
        "Sizes of gRPC response body frames";
    HTTP_ERRORS = "inbound_http_errors", "error TARGET SERVER",
        "Requests and HTTP connections that failed for another reason than policy";

    // Connections.
    TCP_OPEN = "tcp_open", "direction peer TARGET SERVER TLS", "Connections opened";
    TCP_OPEN_CONNECTIONS = "tcp_open_connections", "direction peer TARGET SERVER TLS",
        "Connections open now";
    TCP_READ = "tcp_read_bytes", "direction peer TARGET SERVER TLS", "Bytes read";
    TCP_WRITE = "tcp_write_bytes", "direction peer TARGET SERVER TLS", "Bytes written";
    TCP_CLOSE = "tcp_close", "direction peer TARGET SERVER TLS errno",
        "Connections closed, by the error that closed them";
    TCP_ERRORS = "inbound_tcp_errors", "error",
        "Connections that failed for another reason than policy";
    ACCEPTED = "proxy_connections_accepted", "", "Connections accepted";
    OPEN = "proxy_connections_open", "",
        "Client connections open now, including those in protocol detection";
    DETECTED = "inbound_tcp_detect_http_results", "result SERVER", "Results of HTTP detection";
    DETECT_SECONDS = "inbound_tcp_detect_http_duration_seconds", "SERVER",
        "Duration of HTTP detection";
    TRANSPORT_HEADERS = "inbound_tcp_transport_header_connections",
        "session_protocol target_port target_name client_id",
        "Connections to the proxy's own port, by their transport header";

    // Outbound connections.
    OUTBOUND_OPENED = "outbound_tcp_opened", "DESTINATION CARRIER",
        "Outbound connections that reached an endpoint";
    OUTBOUND_CLOSED = "outbound_tcp_closed", "DESTINATION CARRIER",
        "Outbound connections that ended after they had reached an endpoint";
    OUTBOUND_SENT = "outbound_tcp_sent_bytes", "DESTINATION CARRIER",
        "Bytes that the application sent";
    OUTBOUND_RECEIVED = "outbound_tcp_received_bytes", "DESTINATION CARRIER",
        "Bytes that the application received";
    OUTBOUND_REFUSED = "outbound_tcp_refused", "DESTINATION reason",
        "Outbound connections that were reset before their first byte";
    OUTBOUND_FAILED = "outbound_tcp_attempts_failed", "DESTINATION reason",
        "Attempts to reach an endpoint that failed; another may have been reached instead";

    // Policies in force.
    AGE = "policy_age_seconds", "port",
        "Seconds for which a port's policy may have been out of date; 0 while it is current";
    STATE = "policy_state", "port declared state", "The state of a port's policy";
    GENERATION = "policy_generation", "port", "Generation of a port's policy";
    REVISION = "policy_revision", "port content", "The revision of a port's policy";
    PUBLISHED = "policy_generation_published", "", "Newest policy generation in force";
    REACHED = "policy_generation_reached", "",
        "Newest policy generation that every worker has reached";
    PORTS_REFUSED = "policy_ports_refused", "", "Uses of undeclared ports beyond the limit";

    // The stream from the controller.
    STREAM_ATTEMPTS = "policy_stream_attempts", "", "Attempts to open a policy stream";
    STREAMS_ENDED = "policy_streams_ended", "", "Policy streams that ended";
    STREAMS_OPEN = "policy_streams_open", "", "Policy streams open now";
    APPLIED = "policy_updates_applied", "", "Policies put in force";
    ACKNOWLEDGED = "policy_updates_acknowledged", "", "Policies that every worker has reached";
    REJECTED = "policy_updates_rejected", "", "Policies that could not be applied";
    UNACKNOWLEDGED = "policy_updates_unacknowledged", "",
        "Policies in force that some worker has not reached";
    CONTROL_REQUESTS = "control_request", "addr", "RPCs begun to the controller";
    CONTROL_RESPONSES = "control_response", "addr classification grpc_status",
        "RPCs to the controller that ended, by gRPC status; empty: without one";

    // The build.
    BUILD = "proxy_build", "version", "The proxy's build";
}
