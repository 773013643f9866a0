//! Log lines: which are written, and how.

use super::error::RunError;
use crate::args::LogFormat;
use std::io;
use tracing_subscriber::EnvFilter;

/// What filters call the controller.
const NAME: &str = "policy_controller";

/// The libraries that it is made of. What a filter says of the controller it says of them.
const LIBRARIES: [&str; 6] = [
    "policy_engine",
    "policy_kube",
    "policy_discovery",
    "policy_webhooks",
    "policy_issuer",
    "policy_server",
];

/// Writes log lines from now on.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn init_logging(filter: &str, format: LogFormat) -> Result<(), RunError> {
    let parsed = EnvFilter::builder()
        .parse(policy_server::log::of_all_crates(filter, NAME, &LIBRARIES))
        .map_err(|error| RunError::LogLevel {
            filter: filter.to_owned(),
            reason: error.to_string(),
        })?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr);
    match format {
        LogFormat::Plain => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}
