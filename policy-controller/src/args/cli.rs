//! The command line itself.

use super::issuer::{AFTER_HELP, IssuerArgs};
use super::run::RunArgs;
use clap::{Parser, Subcommand};
use policy_tls::termination::{DEFAULT_PATH, VARIABLE};
use std::path::PathBuf;

/// Indexes policy resources and streams one policy per workload port.
#[derive(Debug, Parser)]
#[command(name = "policy-controller", version, about)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// File for the reason when the process does not start or cannot go on, if that file exists.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = VARIABLE,
        default_value = DEFAULT_PATH
    )]
    pub termination_log: PathBuf,
}

/// Subcommands of `policy-controller`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read policy resources and serve the policies they make.
    Run(Box<RunArgs>),
    /// Issue certificates to workloads and bring the roots of the mesh to them.
    #[command(after_long_help = AFTER_HELP)]
    Issuer(Box<IssuerArgs>),
}
