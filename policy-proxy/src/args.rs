//! The command line as it was typed. [`crate::config`] reads and checks its values.

mod admin;
mod capture;
mod discover;
mod identity;
mod limits;
mod log;
mod outbound;
mod redirect;
mod sidecar;
mod store;

pub use admin::AdminArgs;
pub use capture::CaptureArgs;
pub use discover::DiscoverArgs;
pub use identity::IdentityArgs;
pub use limits::LimitsArgs;
pub use log::LogArgs;
pub use outbound::OutboundArgs;
pub use redirect::RedirectArgs;
pub use sidecar::SidecarArgs;
pub use store::StoreArgs;

use clap::{Args, Parser, Subcommand};

/// The command line of `policy-proxy`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "policy-proxy",
    version,
    about = "Enforces policy on every connection and request to a workload"
)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the sidecar until SIGTERM.
    Run(Box<RunArgs>),
    /// Redirect a pod's connections to the sidecar; for the pod's init container.
    Redirect(Box<RedirectArgs>),
}

/// The settings of `run`. Each may come from a flag, from the environment as `PORTCULLIS_` and the
/// flag's name, or from the variable that Linkerd's injector sets, which its help names; the first of
/// these that is set counts.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "Durations are whole numbers with ms, s, m, h or d. \
Every flag can be given as PORTCULLIS_<FLAG> in the environment. \
Exit codes: 64 for a setting that is missing or invalid, 1 for a start that failed.")]
pub struct RunArgs {
    /// The policy stream.
    #[command(flatten)]
    pub discover: DiscoverArgs,
    /// Listeners and connections.
    #[command(flatten)]
    pub sidecar: SidecarArgs,
    /// The workload's own connections.
    #[command(flatten)]
    pub outbound: OutboundArgs,
    /// Proof of redirection.
    #[command(flatten)]
    pub capture: CaptureArgs,
    /// Limits of connections and requests.
    #[command(flatten)]
    pub limits: LimitsArgs,
    /// Decisions while policy is missing or stale.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// The proxy's identity.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
}
