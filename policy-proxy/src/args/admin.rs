//! Flags of `policy-proxy run`: the admin port.

use clap::Args;

/// The admin port.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Admin port")]
pub struct AdminArgs {
    /// Listening address of /live, /ready and /metrics [LINKERD2_PROXY_ADMIN_LISTEN_ADDR; default
    /// 127.0.0.1:4191]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Access to /metrics: policy, local or all [default: policy]
    #[arg(long, value_name = "WHO")]
    pub admin_metrics: Option<String>,
    /// Enable POST /shutdown from loopback: true or false
    /// [LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED; default false]
    #[arg(long, value_name = "BOOL")]
    pub admin_shutdown: Option<String>,
    /// Enable /proxy-log-level, which reads and sets the log filter, from loopback: true or false
    /// [default: false]
    #[arg(long, value_name = "BOOL")]
    pub admin_log_level: Option<String>,
    /// Ports that /probe/tcp/<port> connects to, for tcpSocket probes [default: none]
    #[arg(long, value_name = "PORTS")]
    pub tcp_probe_ports: Option<String>,
    /// Timeout of a TCP probe [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub tcp_probe_timeout: Option<String>,
    /// Time that a metric is exported after it last changed [LINKERD2_PROXY_METRICS_RETAIN_IDLE;
    /// default 10m]
    #[arg(long, value_name = "DURATION")]
    pub metrics_retain_idle: Option<String>,
}
