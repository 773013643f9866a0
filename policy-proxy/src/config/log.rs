//! The settings of logs.

use super::reader::{ConfigError, Environment, Reader};
use crate::args::RunArgs;
use crate::log::LogConfig;
use policy_enforce::record::Format;

/// Reads the log settings, which must be known before anything else can be logged.
///
/// # Errors
/// [`ConfigError`] names each setting that is invalid.
pub fn log(args: &RunArgs, environment: Environment<'_>) -> Result<LogConfig, ConfigError> {
    let mut reader = Reader::new(environment);
    let filter = reader.lookup("log", args.log.log.as_ref(), &["LOG"]);
    let filter = filter.map_or_else(|| "info".to_owned(), |given| given.value);
    let format = reader.lookup("log-format", args.log.log_format.as_ref(), &["LOG_FORMAT"]);
    let json = reader.read(format, false, |text| match text.to_ascii_lowercase().as_str() {
        "plain" => Ok(false),
        "json" => Ok(true),
        _ => Err("expected plain or json"),
    });
    reader.finish(LogConfig { filter, json })
}

/// The access log's format; absent: no access log.
pub(super) fn access_log(args: &RunArgs, reader: &mut Reader<'_>) -> Option<Format> {
    let given = reader.lookup("access-log", args.log.access_log.as_ref(), &["ACCESS_LOG"]);
    reader.read(given, None, |text| match text {
        "" | "off" => Ok(None),
        "apache" => Ok(Some(Format::Apache)),
        "json" => Ok(Some(Format::Json)),
        _ => Err("expected off, apache or json"),
    })
}
