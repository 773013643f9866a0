//! Flags of `policy-proxy run`: what is listened on, and the bounds of connections and requests.

use clap::Args;

/// What is listened on, and the bounds of connections and requests.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connections")]
pub struct SidecarArgs {
    /// Where redirected connections arrive [LINKERD2_PROXY_INBOUND_LISTEN_ADDR; default 0.0.0.0:4143]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Instead of redirected connections: listener,port,application (several separated by blanks);
    /// for example 0.0.0.0:9080,8080,127.0.0.1:8080
    #[arg(long, value_name = "FORWARDS")]
    pub forward: Option<String>,
    /// The pod's addresses; connections to any other are refused [LINKERD2_PROXY_INBOUND_IPS]
    #[arg(long, value_name = "IPS")]
    pub inbound_ips: Option<String>,
    /// The cluster's networks, for controllers that do not say them
    /// [LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS]
    #[arg(long, value_name = "CIDRS")]
    pub cluster_networks: Option<String>,
    /// Worker threads [LINKERD2_PROXY_CORES; default 1]
    #[arg(long, value_name = "COUNT")]
    pub workers: Option<String>,
    /// How long a client may take to show its protocol [LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub detect_timeout: Option<String>,
    /// How long the application may take to accept [LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub connect_timeout: Option<String>,
    /// How long drain waits for what is open [LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,
}
