//! Flags of `policy-proxy run`: the admin port.

use clap::Args;

/// The admin port.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Admin port")]
pub struct AdminArgs {
    /// Where /live, /ready and /metrics are served [LINKERD2_PROXY_ADMIN_LISTEN_ADDR; default
    /// 127.0.0.1:4191]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Who may read /metrics: policy, local or all [default: policy]
    #[arg(long, value_name = "WHO")]
    pub admin_metrics: Option<String>,
    /// Whether POST /shutdown works from loopback: true or false
    /// [LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED; default false]
    #[arg(long, value_name = "BOOL")]
    pub admin_shutdown: Option<String>,
    /// Whether /proxy-log-level reads and sets the log filter for loopback: true or false [default: false]
    #[arg(long, value_name = "BOOL")]
    pub admin_log_level: Option<String>,
    /// Ports that /probe/tcp/<port> connects to, for tcpSocket probes [default: none]
    #[arg(long, value_name = "PORTS")]
    pub tcp_probe_ports: Option<String>,
    /// How long such a connection may take [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub tcp_probe_timeout: Option<String>,
    /// For how long a metric is shown after it last changed [LINKERD2_PROXY_METRICS_RETAIN_IDLE;
    /// default 10m]
    #[arg(long, value_name = "DURATION")]
    pub metrics_retain_idle: Option<String>,
}
