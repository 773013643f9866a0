//! Flags of `policy-proxy run`: logs.

use clap::Args;

/// Flags of logs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Access log on stderr: off, apache or json [LINKERD2_PROXY_ACCESS_LOG; default off]
    #[arg(long, value_name = "FORMAT")]
    pub access_log: Option<String>,
    /// Record of refusals and audited permits, for /decisions: off, counts without addresses, methods,
    /// hosts and paths, or full [default: full]
    #[arg(long, value_name = "HOW")]
    pub decisions: Option<String>,
    /// The pod's uid, of which the ids of decisions begin with a part [default: the workload's name]
    #[arg(long, value_name = "UID")]
    pub pod_uid: Option<String>,
    /// Log filter [LINKERD2_PROXY_LOG; default info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Log format: plain or json [LINKERD2_PROXY_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Existing file to which the reason is written if the proxy does not start [default:
    /// /dev/termination-log]
    #[arg(long, value_name = "FILE")]
    pub termination_log: Option<String>,
}
