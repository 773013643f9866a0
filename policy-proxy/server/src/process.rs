//! Process metrics from the kernel, under the names of Prometheus' own clients. Read from `/proc`
//! at each scrape; unreadable values are left out.

use crate::names;
use policy_tls::metric::Metric;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::fs;

/// Ticks per second in `/proc`: USER_HZ, which is 100 on every supported architecture.
const TICKS: f64 = 100.0;

/// Metrics of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMetrics;

impl ProcessMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stat = stat();
        if let Some(Stat { cpu, .. }) = stat {
            let counter = ConstCounter::new(cpu);
            write(&mut encoder, names::CPU, &counter)?;
        }
        let gauges = [
            (names::THREADS, stat.map(|stat| stat.threads)),
            (names::START, stat.and_then(|stat| started(stat.start))),
            (names::RESIDENT, memory("VmRSS:")),
            (names::VIRTUAL, memory("VmSize:")),
            (names::OPEN_FDS, open_files()),
            (names::MAX_FDS, most_files()),
        ];
        for (metric, value) in gauges {
            if let Some(value) = value {
                write(&mut encoder, metric, &ConstGauge::new(value))?;
            }
        }
        Ok(())
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    metric: Metric,
    value: &(impl EncodeMetric + TypedMetric),
) -> Result<(), fmt::Error> {
    let Metric { name, help, .. } = metric;
    value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)
}

/// Values of `/proc/self/stat`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    /// Processor time, user and system, in seconds.
    cpu: f64,
    threads: f64,
    /// Time from boot until the start of the process, in seconds.
    start: f64,
}

fn stat() -> Option<Stat> {
    parsed(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses `/proc/self/stat`. The command is in parentheses and may contain some itself; only
/// numbers follow the last one.
fn parsed(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields 14, 15, 20 and 22 of proc(5); the first one here is field 3.
    let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<f64>().ok();
    let cpu = (field(14)? + field(15)?) / TICKS;
    Some(Stat { cpu, threads: field(20)?, start: field(22)? / TICKS })
}

fn started(after_boot: f64) -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let boot = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + after_boot)
}

fn memory(field: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0)
}

fn open_files() -> Option<f64> {
    let number = fs::read_dir("/proc/self/fd").ok()?.count();
    // Less the descriptor of this folder.
    Some(f64::from(u32::try_from(number.saturating_sub(1)).ok()?))
}

fn most_files() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_may_be_called_anything() {
        let text = "7 (a) R 9 (x) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 3 0 1234 9 9";
        assert_eq!(parsed(text), Some(Stat { cpu: 2.0, threads: 3.0, start: 12.34 }));
        assert_eq!(parsed("7 (a) R 1"), None);
        assert_eq!(parsed(""), None);
    }

    #[test]
    fn this_process_is_told_by_the_usual_names() {
        let mut registry = Registry::default();
        ProcessMetrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for name in [
            "process_cpu_seconds_total",
            "process_threads",
            "process_start_time_seconds",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            let value: f64 =
                line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap();
            assert!(value >= 0.0 && value.is_finite(), "{name} {value}");
        }
    }
}
