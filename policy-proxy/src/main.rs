//! The binary `policy-proxy`.

use clap::Parser;
use clap::error::ErrorKind;
use policy_proxy::args::{Cli, Command};
use policy_proxy::{config, run};
use std::process::ExitCode;

/// The sidecar allocates from several threads and lives for months; jemalloc keeps both cheap.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A setting is missing or invalid (sysexits: EX_USAGE).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let Command::Run(args) = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => {
            // To a closed pipe nothing can be said.
            let _ = error.print();
            let shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if shown { ExitCode::SUCCESS } else { ExitCode::from(USAGE) };
        }
    };
    let environment = |name: &str| std::env::var_os(name);
    let log = config::log(&args, &environment).map_err(|error| error.to_string());
    if let Err(error) = log.and_then(|log| run::init_log(&log)) {
        eprintln!("policy-proxy: {error}");
        return ExitCode::from(USAGE);
    }
    let config = match config::read(&args, &environment) {
        Ok(config) => config,
        Err(error) => {
            for line in &error.0 {
                eprintln!("policy-proxy: {line}");
            }
            return ExitCode::from(USAGE);
        }
    };
    match run::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("policy-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}
