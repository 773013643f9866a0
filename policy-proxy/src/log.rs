//! The process's log: its format, and its filter, which can be replaced at run time.

use parking_lot::Mutex;
use policy_server::log::RateLimitedWarnings;
use std::fmt;
use std::io;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Configuration of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A filter in the syntax of `tracing`.
    pub filter: String,
    /// True for JSON instead of text.
    pub json: bool,
}

/// Handle to the log's filter.
pub struct LogFilter {
    started: String,
    current: Mutex<String>,
    reload: Reload,
}

impl LogFilter {
    /// The current filter.
    pub fn get(&self) -> String {
        self.current.lock().clone()
    }

    /// The filter at the start.
    pub fn started(&self) -> &str {
        &self.started
    }

    /// Replaces the filter.
    ///
    /// # Errors
    /// Why `filter` cannot be read; the last one stays.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        let parsed = parse(filter)?;
        let mut current = self.current.lock();
        (self.reload)(parsed)?;
        filter.clone_into(&mut current);
        Ok(())
    }
}

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogFilter").field(&self.get()).finish()
    }
}

/// Initializes logging to standard error. Does nothing if a subscriber is already set.
///
/// # Errors
/// The filter cannot be read.
pub fn init(config: &LogConfig) -> Result<LogFilter, String> {
    let filter = parse(&config.filter).map_err(|error| format!("--log: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A program that embeds this may have set a subscriber, which then stays.
    let reload: Reload = if config.json {
        let builder = builder.json().with_filter_reloading();
        let handle = builder.reload_handle();
        let _ = builder.finish().with(RateLimitedWarnings::default()).try_init();
        Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
    } else {
        let builder = builder.with_filter_reloading();
        let handle = builder.reload_handle();
        let _ = builder.finish().with(RateLimitedWarnings::default()).try_init();
        Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
    };
    let started = config.filter.clone();
    Ok(LogFilter { current: Mutex::new(started.clone()), started, reload })
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    if filter.trim().is_empty() {
        return Err("``: expected a filter, for example `info` or `policy_proxy=debug,warn`".into());
    }
    // tracing-subscriber 0.3.23 panics on some filters that are not ASCII (multi-byte white space
    // before a directive), and no target or field has such a name.
    if !filter.is_ascii() {
        return Err(format!("`{}`: expected a filter in ASCII", filter.escape_default()));
    }
    let all = policy_server::log::of_all_crates(filter, &[policy_server::log::PROXY]);
    // The pod's annotations set the filter: automata of regular expressions can take any amount of
    // memory.
    let parsed = EnvFilter::builder().with_regex(false).parse(all);
    parsed.map_err(|error| format!("`{filter}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tracing-subscriber panics on multi-byte white space before a directive.
    #[test]
    fn a_filter_that_the_library_cannot_cut_is_refused() {
        for text in ["\u{a0}a=info", "\u{a0}[x]", "warn,\u{3000}a=info", "a,\u{a0}a=b"] {
            let error = parse(text).map(drop).unwrap_err();
            assert!(error.ends_with("expected a filter in ASCII"), "{error}");
        }
        assert!(parse("warn,policy_proxy=debug").is_ok());
    }
}
