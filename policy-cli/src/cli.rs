//! Command line: subcommands and exit codes.

use crate::command;
use crate::output::{OutputError, Paint};
use crate::usage;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Decide at the pod who may reach which port and route of a workload, and say why.
///
/// Results go to standard output, everything else to standard error. Standard input is read only by
/// `inject -`, `import FORMAT -` and `export FORMAT -`. Exit codes: 0 done, 1 the answer is no or something
/// failed, 2 wrong use of the command line; `request` has additional ones. PORTCULLIS_LOG=debug prints the
/// logs of embedded components.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, verbatim_doc_comment, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(command::up::UpArgs),
    Check(command::check::CheckArgs),
    Denied(command::denied::DeniedArgs),
    Status(command::status::StatusArgs),
    Tap(command::tap::TapArgs),
    Authz(command::authz::AuthzArgs),
    Echo(command::echo::EchoArgs),
    Edges(command::edges::EdgesArgs),
    Export(command::export::ExportArgs),
    Grants(command::grants::GrantsArgs),
    Health(command::health::HealthArgs),
    Identity(command::identity::IdentityArgs),
    Import(command::import::ImportArgs),
    Inject(command::inject::InjectArgs),
    Preflight(command::preflight::PreflightArgs),
    Request(command::request::RequestArgs),
    Routes(command::routes::RoutesArgs),
    Version(command::version::VersionArgs),
    Watch(command::watch::WatchArgs),
    Why(command::why::WhyArgs),
}

/// The command line, for those that look up what it takes.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `portcullis` with the arguments of the process and returns its exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<String> =
                std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
            return usage::report(&Cli::command(), &words, &error);
        }
    };
    init_logging();
    let result = match cli.command {
        Command::Up(args) => command::up::run(args),
        Command::Check(args) => command::check::run(&args),
        Command::Denied(args) => command::denied::run(&args),
        Command::Status(args) => command::status::run(&args),
        Command::Tap(args) => command::tap::run(&args),
        Command::Authz(args) => command::authz::run(&args),
        Command::Echo(args) => command::echo::run(args),
        Command::Edges(args) => command::edges::run(&args),
        Command::Export(args) => command::export::run(&args),
        Command::Grants(args) => command::grants::run(&args),
        Command::Health(args) => command::health::run(&args),
        Command::Identity(args) => command::identity::run(&args),
        Command::Import(args) => command::import::run(&args),
        Command::Inject(args) => command::inject::run(&args),
        Command::Preflight(args) => command::preflight::run(&args),
        Command::Request(args) => command::request::run(&args),
        Command::Routes(args) => command::routes::run(&args),
        Command::Version(args) => command::version::run(&args),
        Command::Watch(args) => command::watch::run(&args),
        Command::Why(args) => command::why::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let gone = error.downcast_ref::<OutputError>().is_some_and(OutputError::is_broken_pipe);
            if gone {
                return ExitCode::SUCCESS;
            }
            if let Some(error) = error.downcast_ref::<clap::Error>() {
                return usage::report(&Cli::command(), &[], error);
            }
            let label = Paint::stderr().bad("error:");
            // Nothing more can be reported if standard error is closed.
            let _ = writeln!(std::io::stderr(), "{label} {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Default log filter. The Kubernetes client logs each failure that it also returns, and returned
/// errors are printed by the commands.
const DEFAULT_FILTER: &str = "error,kube_client=off";

/// Sends log lines to standard error, filtered by `PORTCULLIS_LOG`.
fn init_logging() {
    let programs = [policy_server::log::CONTROLLER, policy_server::log::PROXY];
    let filter = std::env::var("PORTCULLIS_LOG").map_err(|error| error.to_string());
    let filter = filter.and_then(|filter| {
        let filter = policy_server::log::of_all_crates(&filter, &programs);
        EnvFilter::try_new(filter).map_err(|error| error.to_string())
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER)))
        .with_writer(std::io::stderr)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_with_examples() {
        let mut commands: Vec<_> = Cli::command().get_subcommands().cloned().collect();
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
