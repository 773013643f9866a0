//! Flags that bound serving.

use clap::Args;
use policy_discovery::serve::ServeConfig;
use policy_engine::config::Limits;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Bounds on serving, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub struct ServeArgs {
    /// Open watches of one client address.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_streams_per_peer, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_streams_per_peer: u32,

    /// Open connections of one client address.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_connections_per_peer, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections_per_peer: u32,

    /// Open streams of one connection.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_concurrent_streams, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_concurrent_streams: u32,

    /// Ports of one native watch that the workload does not declare.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_ports_per_stream)]
    pub max_ports_per_stream: usize,

    /// Watched ports of one workload that the workload does not declare.
    #[arg(long, value_name = "N", default_value_t = Limits::default().undeclared_ports_per_workload)]
    pub max_undeclared_ports: NonZeroUsize,

    /// Largest manifest file read, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().file_bytes)]
    pub max_file_bytes: u64,

    /// Largest message accepted from a client, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().max_request_bytes)]
    pub max_request_bytes: usize,

    /// Largest policy sent to a client of Linkerd's API, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().max_policy_bytes)]
    pub max_policy_bytes: usize,

    /// Largest message sent to a native client, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().max_update_bytes)]
    pub max_update_bytes: usize,

    /// HTTP/2 window of a stream and of a connection, in bytes.
    // RFC 9113 section 6.9.1: a window is at most 2^31-1; below 16 KiB a frame does not fit.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().window_bytes, value_parser = clap::value_parser!(u32).range(0x4000..=0x7fff_ffff))]
    pub http2_window_bytes: u32,

    /// Seconds of silence after which a connection is pinged.
    #[arg(long, value_name = "S", default_value_t = ServeConfig::default().keepalive_interval.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub keepalive_interval: u64,

    /// Seconds that the answer to a ping may take.
    #[arg(long, value_name = "S", default_value_t = ServeConfig::default().keepalive_timeout.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub keepalive_timeout: u64,

    /// Seconds after which a client has to reconnect, jittered by a fifth; 0: never.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    pub max_connection_age: u64,

    /// Seconds that connections may take to end when the controller stops.
    #[arg(long, value_name = "S", default_value_t = ServeConfig::default().drain_timeout.as_secs())]
    pub drain_timeout: u64,
}

impl ServeArgs {
    pub(super) fn settings(&self, listen: SocketAddr) -> ServeConfig {
        ServeConfig {
            listen,
            max_streams_per_peer: self.max_streams_per_peer,
            max_connections_per_peer: self.max_connections_per_peer,
            max_concurrent_streams: self.max_concurrent_streams,
            max_ports_per_stream: self.max_ports_per_stream,
            max_lookups_per_stream: ServeConfig::default().max_lookups_per_stream,
            max_lookups_per_peer: ServeConfig::default().max_lookups_per_peer,
            max_request_bytes: self.max_request_bytes,
            max_policy_bytes: self.max_policy_bytes,
            max_update_bytes: self.max_update_bytes,
            max_expression_bytes: ServeConfig::default().max_expression_bytes,
            window_bytes: self.http2_window_bytes,
            keepalive_interval: Duration::from_secs(self.keepalive_interval),
            keepalive_timeout: Duration::from_secs(self.keepalive_timeout),
            max_workload_hold: ServeConfig::default().max_workload_hold,
            max_connection_age: match self.max_connection_age {
                0 => None,
                seconds => Some(Duration::from_secs(seconds)),
            },
            drain_timeout: Duration::from_secs(self.drain_timeout),
        }
    }
}
