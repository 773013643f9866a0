//! Processor time of the proxy's threads.

use anyhow::Context;
use std::fs;
use std::time::Duration;

/// Processor time by what a thread does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Threads {
    /// The workers, which carry requests.
    pub(crate) worker: Duration,
    /// All others: what receives policy.
    pub(crate) control: Duration,
}

impl Threads {
    /// Usage of a process's threads.
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = task?.path();
            let name = fs::read_to_string(path.join("comm"))?;
            let used = fs::read_to_string(path.join("schedstat"))?;
            let used = used.split(' ').next().context("schedstat is empty")?.parse()?;
            let used = Duration::from_nanos(used);
            if name.starts_with("proxy-") { all.worker += used } else { all.control += used }
        }
        Ok(all)
    }

    /// Usage since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            worker: self.worker.saturating_sub(before.worker),
            control: self.control.saturating_sub(before.control),
        }
    }
}
