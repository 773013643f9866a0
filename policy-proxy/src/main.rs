//! The binary `policy-proxy`.

use clap::Parser;
use clap::error::ErrorKind;
use policy_proxy::args::{Cli, Command, RedirectArgs, RunArgs};
use policy_proxy::config::Environment;
use policy_proxy::{config, log, redirect, run};
use policy_tls::termination::{self, TerminationLog};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// The sidecar allocates from several threads and lives for months; jemalloc keeps both cheap.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The cargo profile that this program was built with.
const PROFILE: &str = env!("PORTCULLIS_PROFILE");
/// The profile of releases.
const SHIPPED: &str = "sidecar";
/// A setting is missing or invalid (sysexits: EX_USAGE).
const USAGE: u8 = 64;
/// The command failed.
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => {
            // Ignored: standard output may be closed.
            let _ = error.print();
            let shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if !shown {
                let variable = std::env::var_os(termination::VARIABLE);
                let log = TerminationLog::of_command_line(std::env::args_os(), variable);
                log.write(&error.to_string());
            }
            return if shown { ExitCode::SUCCESS } else { ExitCode::from(USAGE) };
        }
    };
    let environment = |name: &str| std::env::var_os(name);
    match command {
        Command::Run(args) => {
            let log = termination_log(args.log.termination_log.as_deref(), &environment);
            finish(run(&args, &environment), &log)
        }
        Command::Redirect(args) => {
            let log = termination_log(args.termination_log.as_deref(), &environment);
            finish(redirect(&args, &environment), &log)
        }
    }
}

/// Error of a command: its exit code, and messages, one per line.
type CommandError = (u8, Vec<String>);

fn run(args: &RunArgs, environment: Environment<'_>) -> Result<(), CommandError> {
    let log = config::log(args, environment).map_err(|error| (USAGE, error.0))?;
    let filter = log::init(&log).map_err(|error| (USAGE, vec![error]))?;
    let notes = config::environment::review(std::env::vars_os());
    let mut config = match (notes, config::read(args, environment)) {
        (Ok(notes), Ok(config)) => {
            notes.iter().for_each(config::environment::Note::log);
            config
        }
        (notes, config) => {
            let errors = [notes.err(), config.err()].into_iter().flatten();
            return Err((USAGE, errors.flat_map(|error| error.0).collect()));
        }
    };
    if PROFILE != SHIPPED {
        tracing::info!(
            profile = PROFILE,
            "not built with the profile of releases: uses more CPU time and memory than with --profile {SHIPPED}"
        );
    }
    config.admin.log_filter = Some(Arc::new(filter));
    run::run(config).map_err(|error| (FAILURE, vec![error.to_string()]))
}

fn redirect(args: &RedirectArgs, environment: Environment<'_>) -> Result<(), CommandError> {
    let config = config::redirect(args, environment).map_err(|error| (USAGE, error.0))?;
    let done = redirect::run(&config).map_err(|error| (FAILURE, vec![error.to_string()]))?;
    // Ignored: the command is done even if its output is not read.
    let _ = writeln!(std::io::stdout(), "policy-proxy: {done}");
    Ok(())
}

fn termination_log(typed: Option<&str>, environment: Environment<'_>) -> TerminationLog {
    let variable = || environment(termination::VARIABLE);
    TerminationLog::at(typed.map(Into::into).or_else(variable).unwrap_or_default())
}

fn finish(outcome: Result<(), CommandError>, log: &TerminationLog) -> ExitCode {
    let Err((code, lines)) = outcome else { return ExitCode::SUCCESS };
    for line in &lines {
        eprintln!("policy-proxy: {line}");
    }
    log.write(&lines.join("\n"));
    ExitCode::from(code)
}
