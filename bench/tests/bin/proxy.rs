//! The sidecar as `policy-proxy run` starts it, built with the tests of this crate so that they
//! never run an older one.

use anyhow::bail;
use clap::Parser;
use policy_proxy::args::{Cli, Command};
use policy_proxy::{config, run};

fn main() -> anyhow::Result<()> {
    let environment = |name: &str| std::env::var_os(name);
    match Cli::parse().command {
        Command::Run(args) => Ok(run::run(config::read(&args, &environment)?)?),
        Command::Redirect(_) => bail!("nothing is redirected in a test"),
    }
}
