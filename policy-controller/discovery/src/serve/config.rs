//! Settings of the policy server: bounds of size, number and time.

use std::net::SocketAddr;
use std::time::Duration;

/// Settings of the policy server. Every bound is finite; [`ServeConfig::default`] is what the
/// binary uses where no flag says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// Address to listen on. Port 0 takes a free port.
    pub listen: SocketAddr,
    /// Open watches of one peer address, over all its connections.
    pub max_streams_per_peer: u32,
    /// Open connections of one peer address.
    pub max_connections_per_peer: u32,
    /// Open streams of one connection, as announced in HTTP/2 settings.
    pub max_concurrent_streams: u32,
    /// Ports of one native watch that the workload does not declare.
    pub max_ports_per_stream: usize,
    /// Lookups of one stream of destinations: as many as a sidecar keeps.
    pub max_lookups_per_stream: usize,
    /// Lookups of one peer address, over all its streams of destinations.
    pub max_lookups_per_peer: u32,
    /// Largest message accepted from a client, in bytes.
    pub max_request_bytes: usize,
    /// Largest policy sent to a compatible client, in bytes. gRPC libraries refuse more than 4 MiB
    /// by default.
    pub max_policy_bytes: usize,
    /// Largest message sent to a native client, in bytes.
    pub max_update_bytes: usize,
    /// Bytes that the automata of a port's expressions take in a native client, as far as others than
    /// the owner of the port contribute them.
    pub max_expression_bytes: usize,
    /// HTTP/2 flow-control window of a stream and of a connection, in bytes.
    pub window_bytes: u32,
    /// Time without traffic after which a connection is pinged.
    pub keepalive_interval: Duration,
    /// Time within which a ping has to be answered before the connection is closed.
    pub keepalive_timeout: Duration,
    /// Longest silence of a native watch while this replica lags behind the workload that the
    /// client has. The watch ends then, so that the client may find another replica.
    pub max_workload_hold: Duration,
    /// Age at which a connection is closed gracefully, so that clients spread over replicas;
    /// jittered by a fifth either way. `None`: never.
    pub max_connection_age: Option<Duration>,
    /// Time that connections have to drain before they are closed.
    pub drain_timeout: Duration,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8090)),
            max_streams_per_peer: 1024,
            max_connections_per_peer: 128,
            max_concurrent_streams: 1024,
            max_ports_per_stream: 256,
            max_lookups_per_stream: 4096,
            // A sidecar has one stream, and another while it changes replicas.
            max_lookups_per_peer: 8192,
            max_request_bytes: 256 * 1024,
            max_policy_bytes: 4 * 1024 * 1024,
            max_update_bytes: 16 * 1024 * 1024,
            max_expression_bytes: 32 * 1024 * 1024,
            window_bytes: 64 * 1024,
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            max_workload_hold: Duration::from_secs(30),
            max_connection_age: Some(Duration::from_secs(3600)),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
