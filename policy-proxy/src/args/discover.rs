//! Flags of `policy-proxy run`: the policy stream.

use clap::Args;

/// Flags of the policy stream.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policy")]
pub struct DiscoverArgs {
    /// Address of the policy controller, host:port [LINKERD2_PROXY_POLICY_SVC_ADDR]
    #[arg(long, value_name = "ADDR")]
    pub policy_addr: Option<String>,
    /// Identity that the controller must prove; needed unless the address is loopback
    /// [LINKERD2_PROXY_POLICY_SVC_NAME]
    #[arg(long, value_name = "IDENTITY")]
    pub policy_name: Option<String>,
    /// The workload's token [LINKERD2_PROXY_POLICY_WORKLOAD]
    #[arg(long, value_name = "TOKEN")]
    pub workload: Option<String>,
    /// Ports that the workload declares, for controllers that do not send them
    /// [LINKERD2_PROXY_INBOUND_PORTS]
    #[arg(long, value_name = "PORTS")]
    pub ports: Option<String>,
    /// Timeout of the first message of a policy stream
    /// [LINKERD2_PROXY_CONTROL_STREAM_INITIAL_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub stream_initial_timeout: Option<String>,
    /// Time without a message after which a policy stream is renewed
    /// [LINKERD2_PROXY_CONTROL_STREAM_IDLE_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub stream_idle_timeout: Option<String>,
    /// Time after which a policy stream is renewed [LINKERD2_PROXY_CONTROL_STREAM_LIFETIME]
    #[arg(long, value_name = "DURATION")]
    pub stream_lifetime: Option<String>,
}
