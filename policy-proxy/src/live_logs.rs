//! Log settings that the controller changes while the process runs.

use crate::log::LogFilter;
use parking_lot::Mutex;
use policy_core::{AccessLogs, Logs};
use policy_enforce::record::{AccessLog, Format};
use std::sync::Arc;

/// The log and the access log of this process, which follow the controller's settings for the
/// workload.
#[derive(Debug)]
pub struct LiveLogs {
    filter: Arc<LogFilter>,
    access_log: Arc<AccessLog>,
    /// Format of the access log at the start.
    started: Option<Format>,
    applied: Mutex<Logs>,
}

impl LiveLogs {
    /// Creates the handle; the current settings are the defaults.
    pub fn new(filter: Arc<LogFilter>, access_log: Arc<AccessLog>) -> Self {
        let (started, applied) = (access_log.format(), Mutex::default());
        Self { filter, access_log, started, applied }
    }

    /// Applies the controller's settings. Absent ones restore the defaults; unchanged ones are not
    /// applied again, so that a new stream does not undo `PUT /proxy-log-level`.
    pub fn follow(&self, wanted: &Logs) {
        let mut applied = self.applied.lock();
        if applied.filter != wanted.filter {
            self.apply_filter(wanted.filter.as_deref());
        }
        if applied.access_log != wanted.access_log {
            let format = wanted.access_log.map_or(self.started, format);
            let shown = wanted.access_log.map(AccessLogs::as_str);
            tracing::info!(annotation = shown, "the access log changes with the pod's annotation");
            self.access_log.set(format);
        }
        wanted.clone_into(&mut applied);
    }

    fn apply_filter(&self, wanted: Option<&str>) {
        // Logged under the old filter, which may be the last that shows it.
        tracing::info!(annotation = wanted, "the log filter changes with the pod's annotation");
        let started = self.filter.started();
        let outcome = self.filter.set(wanted.unwrap_or(started));
        let outcome = outcome.or_else(|error| {
            tracing::warn!(%error, "invalid log filter in the pod's annotation, using the initial one");
            self.filter.set(started)
        });
        if let Err(error) = outcome {
            tracing::warn!(%error, "the log filter cannot be replaced");
        }
    }
}

fn format(wanted: AccessLogs) -> Option<Format> {
    match wanted {
        AccessLogs::Off => None,
        AccessLogs::Apache => Some(Format::Apache),
        AccessLogs::Json => Some(Format::Json),
    }
}
