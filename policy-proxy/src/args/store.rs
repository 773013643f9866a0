//! Flags of `policy-proxy run`: decisions while policy is missing or stale.

use clap::Args;

/// Flags of decisions while policy is missing or stale.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Missing or old policy")]
pub struct StoreArgs {
    /// Before the first policy: wait, or decide by the default policy [default: wait]
    #[arg(long, value_name = "MODE")]
    pub pending_policy: Option<String>,
    /// The default policy of --pending-policy=default [LINKERD2_PROXY_INBOUND_DEFAULT_POLICY]
    #[arg(long, value_name = "POLICY")]
    pub default_policy: Option<String>,
    /// Ports on which --pending-policy=default detects no protocol
    /// [LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION]
    #[arg(long, value_name = "PORTS")]
    pub opaque_ports: Option<String>,
    /// Time that a connection waits for the first policy [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub pending_timeout: Option<String>,
    /// Age of a policy without contact to the controller after which its port refuses [default: no
    /// bound]
    #[arg(long, value_name = "DURATION")]
    pub maximum_policy_age: Option<String>,
    /// Time that the policy of an unused, undeclared port is kept
    /// [LINKERD2_PROXY_INBOUND_DISCOVERY_IDLE_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub discovery_idle_timeout: Option<String>,
}
