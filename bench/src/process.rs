//! Figures of another process, from the kernel.

use anyhow::Context;
use std::fs;
use std::time::Duration;

/// The processor time a process has used, user and system, over all its threads that still run.
///
/// `schedstat` counts nanoseconds; `stat` counts ticks, and is what is left where the kernel keeps
/// no `schedstat`. A process whose threads end meanwhile is to be asked by [`ticks`].
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
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

/// The same in steps of a hundredth of a second, of threads that have ended too.
pub fn ticks(pid: u32) -> anyhow::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')').context("stat has no command")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |at: usize| -> anyhow::Result<u64> {
        Ok(fields.get(at).context("stat is short")?.parse()?)
    };
    // A hundred ticks a second on every Linux of today.
    Ok(Duration::from_millis((field(11)? + field(12)?) * 10))
}

/// Resident memory in bytes: now, at its highest, and what it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `VmRSS`.
    pub resident: u64,
    /// `VmHWM`.
    pub peak: u64,
    /// `RssAnon`: heap and stacks.
    pub anonymous: u64,
    /// `RssFile`: the program's own pages and what it maps.
    pub file: u64,
}

/// The memory of a process.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_memory(&text)
}

fn parse_memory(text: &str) -> anyhow::Result<Memory> {
    let field = |name: &str| -> anyhow::Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.with_context(|| format!("status has no {name}"))?.parse::<u64>()? * 1024)
    };
    Ok(Memory {
        resident: field("VmRSS:")?,
        peak: field("VmHWM:")?,
        anonymous: field("RssAnon:")?,
        file: field("RssFile:")?,
    })
}

/// Lets the highest begin anew at what is resident now. Needs the rights of the process's owner.
pub fn forget_peak(pid: u32) -> anyhow::Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Number of open descriptors of a process.
pub fn descriptors(pid: u32) -> anyhow::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// The children of a process that run now, by their ids, and theirs.
pub fn descendants(pid: u32) -> Vec<u32> {
    let own = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let own: Vec<u32> = own.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    own.into_iter().flat_map(|pid| [vec![pid], descendants(pid)].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "Name:\tx\nVmHWM:\t     900 kB\nVmRSS:\t     700 kB\nRssAnon:\t 300 kB\n\
                    RssFile:\t     400 kB\n";
        let memory = parse_memory(text).unwrap();
        let expected =
            Memory { resident: 716_800, peak: 921_600, anonymous: 307_200, file: 409_600 };
        assert_eq!(memory, expected);
        assert!(parse_memory("Name:\tx\n").is_err());
    }

    #[test]
    fn this_process_has_used_time_memory_and_descriptors() {
        let own = std::process::id();
        // The kernel counts in hundredths of a second.
        let since = std::time::Instant::now();
        while cpu(own).unwrap() == Duration::ZERO {
            assert!(since.elapsed() < Duration::from_secs(60));
        }
        let memory = memory(own).unwrap();
        assert!(memory.peak >= memory.resident && memory.resident > 0);
        assert!(descriptors(own).unwrap() > 2);
    }
}
