//! Flags of `policy-proxy run`: listeners and connections.

use clap::Args;

/// Flags of listeners and connections.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connections")]
pub struct SidecarArgs {
    /// Listening address of redirected connections [LINKERD2_PROXY_INBOUND_LISTEN_ADDR; default
    /// 0.0.0.0:4143]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Listeners instead of redirection: listener,port,application (several separated by blanks);
    /// for example 0.0.0.0:9080,8080,127.0.0.1:8080
    #[arg(long, value_name = "FORWARDS")]
    pub forward: Option<String>,
    /// The pod's addresses; connections to any other are refused [LINKERD2_PROXY_INBOUND_IPS]
    #[arg(long, value_name = "IPS")]
    pub inbound_ips: Option<String>,
    /// The cluster's networks, for controllers that do not send them
    /// [LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS]
    #[arg(long, value_name = "CIDRS")]
    pub cluster_networks: Option<String>,
    /// Worker threads [LINKERD2_PROXY_CORES; default 1]
    #[arg(long, value_name = "COUNT")]
    pub workers: Option<String>,
    /// Timeout of protocol detection [LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub detect_timeout: Option<String>,
    /// Timeout of a connect to the application [LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub connect_timeout: Option<String>,
    /// Time that a graceful drain waits for open connections [LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,
    /// What refusals tell meshed clients: reason, or status alone [default: reason]
    #[arg(long, value_name = "DETAIL")]
    pub refusal_detail: Option<String>,
}
