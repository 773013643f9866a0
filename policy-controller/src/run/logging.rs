//! Log lines: which are written, and how.

use super::error::RunError;
use crate::args::LogFormat;
use policy_server::log;
use std::io;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Writes log lines from now on.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn init_logging(filter: &str, format: LogFormat) -> Result<(), RunError> {
    let parsed =
        EnvFilter::builder().parse(log::of_all_crates(filter, &[log::CONTROLLER])).map_err(
            |error| RunError::LogLevel { filter: filter.to_owned(), reason: error.to_string() },
        )?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr);
    match format {
        LogFormat::Plain => lines.finish().with(log::RateLimitedWarnings::default()).init(),
        LogFormat::Json => lines.json().finish().with(log::RateLimitedWarnings::default()).init(),
    }
    Ok(())
}
