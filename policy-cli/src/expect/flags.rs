//! Flags of the controller in a file of expectations.

use clap::Parser;
use policy_controller::args::{Cli, Command, Settings};
use policy_engine::ControllerConfig;

/// The configuration that the controller's own command line makes of these flags of `run`. With
/// manifests, because a scenario need not have the Namespaces of its objects.
///
/// # Errors
/// The flag that cannot be read.
pub(super) fn config_of(flags: &[String]) -> Result<ControllerConfig, String> {
    let words = ["policy-controller", "run", "--manifests=."].map(str::to_owned);
    let line = words.into_iter().chain(flags.iter().cloned());
    let read = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
    let Command::Run(args) = read.command else {
        return Err("flags: they are not those of `run`".to_owned());
    };
    let settings = Settings::try_from(*args).map_err(|error| error.to_string())?;
    Ok(settings.controller)
}
