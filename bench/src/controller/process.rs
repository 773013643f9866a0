//! What the kernel says of another process.

use anyhow::Context;
use std::fs;
use std::time::Duration;

/// The processor time a process has used, over all its threads that still run.
///
/// `schedstat` counts nanoseconds; `stat` counts ticks, and is what is left where the kernel keeps
/// no `schedstat`.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let mut total = Duration::ZERO;
    let tasks = format!("/proc/{pid}/task");
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let path = task?.path().join("schedstat");
        let Ok(text) = fs::read_to_string(&path) else { return ticks(pid) };
        let first = text.split(' ').next().context("schedstat is empty")?;
        total += Duration::from_nanos(first.parse()?);
    }
    Ok(total)
}

fn ticks(pid: u32) -> anyhow::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')').context("stat has no command")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |at: usize| -> anyhow::Result<u64> {
        Ok(fields.get(at).context("stat is short")?.parse()?)
    };
    // A hundred ticks a second on every Linux of today.
    Ok(Duration::from_millis((field(11)? + field(12)?) * 10))
}

/// Resident memory now and at its highest, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

/// The memory of a process.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> anyhow::Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.with_context(|| format!("status has no {name}"))?.parse::<u64>()? * 1024)
    };
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}
