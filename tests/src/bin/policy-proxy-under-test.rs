//! The sidecar as a program, built with the tests of this crate so that they never run an older one: the
//! command `policy-proxy run`, with its flags and variables.

use anyhow::{Result, anyhow, bail};
use clap::Parser as _;
use policy_proxy::args::{Cli, Command};
use policy_proxy::{config, log, run};

fn main() -> Result<()> {
    let Command::Run(args) = Cli::parse().command else { bail!("only `run` is here") };
    let environment = |name: &str| std::env::var_os(name);
    let filter = config::log(&args, &environment).map_err(|error| anyhow!("{:?}", error.0))?;
    log::init(&filter).map_err(|error| anyhow!(error))?;
    let config = config::read(&args, &environment).map_err(|error| anyhow!("{:?}", error.0))?;
    run::run(config)?;
    Ok(())
}
