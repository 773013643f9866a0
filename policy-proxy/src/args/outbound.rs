//! Flags of `policy-proxy run`: the workload's own connections.

use clap::Args;

/// Flags of the workload's own connections.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Outbound connections")]
pub struct OutboundArgs {
    /// Listening addresses of the workload's redirected connections; without any, they are left
    /// alone [LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS, LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR]
    #[arg(long, value_name = "ADDRS")]
    pub outbound_listen: Option<String>,
    /// Listeners instead of redirection: listener,destination (several separated by blanks); for
    /// example 127.0.0.1:9081,10.96.0.7:80
    #[arg(long, value_name = "FORWARDS")]
    pub outbound_forward: Option<String>,
    /// Networks whose addresses are looked up; connections to all others go straight on
    /// [LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS; default: --cluster-networks, else the private
    /// networks]
    #[arg(long, value_name = "CIDRS")]
    pub outbound_networks: Option<String>,
    /// Without the controller's answer about a destination: refuse, or go on in plaintext [default:
    /// refuse]
    #[arg(long, value_name = "MODE")]
    pub outbound_unanswered: Option<String>,
    /// The port of a meshed endpoint: original, its own, or header, its sidecar's with a transport
    /// header [default: original]
    #[arg(long, value_name = "PORT")]
    pub outbound_transport: Option<String>,
    /// Plaintext to endpoints outside the mesh: on, or mesh-only, which refuses it [default: on]
    #[arg(long, value_name = "MODE")]
    pub outbound_mode: Option<String>,
    /// Networks, addresses and Services (name.namespace) that mesh-only reaches in plaintext
    #[arg(long, value_name = "LIST")]
    pub outbound_plaintext_allowed: Option<String>,
    /// Timeout of a connect to an endpoint [LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT; default 3s]
    #[arg(long, value_name = "DURATION")]
    pub outbound_connect_timeout: Option<String>,
}
