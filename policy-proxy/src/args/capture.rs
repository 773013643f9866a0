//! Flags of `policy-proxy run`: proof of redirection.

use clap::Args;

/// Flags of the proof that the pod's connections are redirected.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Redirection")]
pub struct CaptureArgs {
    /// Address and port that `policy-proxy redirect --canary` leads to the outbound listener; the
    /// proxy calls it, and is not ready unless it receives the call itself
    #[arg(long, value_name = "ADDR:PORT")]
    pub canary: Option<String>,
    /// Port that nobody listens on: with --canary, redirected connections to it are answered /live
    /// and /ready [default: 4192]
    #[arg(long, value_name = "PORT")]
    pub capture_port: Option<String>,
}
