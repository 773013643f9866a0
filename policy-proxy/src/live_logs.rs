//! What is logged, as the controller says while the process runs.

use crate::log::LogFilter;
use parking_lot::Mutex;
use policy_core::{AccessLogs, Logs};
use policy_enforce::record::{AccessLog, Format};
use std::sync::Arc;

/// The log and the access log of this process, which go by what the controller says of the workload.
#[derive(Debug)]
pub struct LiveLogs {
    filter: Arc<LogFilter>,
    access_log: Arc<AccessLog>,
    /// The access log as the process was started.
    started: Option<Format>,
    applied: Mutex<Logs>,
}

impl LiveLogs {
    /// Logs as they are now, to which they go back.
    pub fn new(filter: Arc<LogFilter>, access_log: Arc<AccessLog>) -> Self {
        let (started, applied) = (access_log.format(), Mutex::default());
        Self { filter, access_log, started, applied }
    }

    /// Goes by what the controller says. What it does not say is as the process was started; what it says
    /// again changes nothing, lest a new stream undo `PUT /proxy-log-level`.
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
        // Told by the filter that it replaces, which may be the last to show it.
        tracing::info!(annotation = wanted, "the log filter changes with the pod's annotation");
        let started = self.filter.started();
        let outcome = self.filter.set(wanted.unwrap_or(started));
        let outcome = outcome.or_else(|error| {
            tracing::warn!(%error, "the pod's annotation is no log filter: it stays as started");
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
