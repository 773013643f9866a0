//! Flags of `policy-proxy run`: what decides while policy is missing or old.

use clap::Args;

/// What decides while policy is missing or old.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Missing or old policy")]
pub struct StoreArgs {
    /// While no policy has been received: wait, or decide by the default policy [default: wait]
    #[arg(long, value_name = "MODE")]
    pub pending_policy: Option<String>,
    /// The default policy of --pending-policy=default [LINKERD2_PROXY_INBOUND_DEFAULT_POLICY]
    #[arg(long, value_name = "POLICY")]
    pub default_policy: Option<String>,
    /// Ports on which --pending-policy=default does not look for a protocol
    /// [LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION]
    #[arg(long, value_name = "PORTS")]
    pub opaque_ports: Option<String>,
    /// How long a connection waits for the first policy [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub pending_timeout: Option<String>,
    /// How old a policy may get without the controller before its port refuses [default: no bound]
    #[arg(long, value_name = "DURATION")]
    pub maximum_policy_age: Option<String>,
    /// How long an undeclared port is kept [LINKERD2_PROXY_INBOUND_DISCOVERY_IDLE_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub discovery_idle_timeout: Option<String>,
}
