//! Samples of a long run, and whether they grow.

use policy_bench::process;
use policy_bench::proxies::{Proxy, metric};
use policy_bench::report::{Cell, Table};
use policy_bench::stats::{self, Spread, number, wide};
use serde_json::{Value, json};
use std::time::Duration;

/// One look at the proxy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    at: Duration,
    resident: f64,
    anonymous: f64,
    descriptors: f64,
    threads: f64,
    connections: f64,
    series: f64,
}

/// A value of a sample.
type Look = fn(&Sample) -> f64;

/// The name, the unit and the value of everything that is looked at.
const LOOKS: [(&str, Look); 6] = [
    ("resident, MB", |sample| sample.resident),
    ("heap and stacks, MB", |sample| sample.anonymous),
    ("descriptors", |sample| sample.descriptors),
    ("threads", |sample| sample.threads),
    ("clients' connections", |sample| sample.connections),
    ("metric series", |sample| sample.series),
];

impl Sample {
    pub(crate) fn take(proxy: &Proxy, at: Duration) -> anyhow::Result<Self> {
        let memory = proxy.memory()?;
        let (mut descriptors, mut threads) = (0, 0);
        for pid in proxy.pids() {
            descriptors += process::descriptors(pid)?;
            threads += std::fs::read_dir(format!("/proc/{pid}/task"))?.count();
        }
        let counted = proxy.admin.map(|admin| metric(admin, "proxy_connections_open"));
        let (series, connections) = counted.transpose()?.unwrap_or_default();
        Ok(Self {
            at,
            resident: wide(memory.resident) / 1_048_576.0,
            anonymous: wide(memory.anonymous) / 1_048_576.0,
            descriptors: number(descriptors),
            threads: number(threads),
            connections,
            series: number(series),
        })
    }
}

/// Every look, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// At rest, before.
    pub(crate) before: Option<Sample>,
    /// Under load.
    pub(crate) during: Vec<Sample>,
    /// At rest, after.
    pub(crate) after: Option<Sample>,
}

impl Samples {
    /// Values before, during and after.
    pub(crate) fn table(&self) -> Table {
        let columns = ["", "at rest before", "under load", "at rest after"];
        let mut table = Table::new("What is held", &columns);
        for (name, of) in LOOKS {
            table.row([
                name.into(),
                Cell::from(self.before.as_ref().map(of)),
                Spread::of(self.during.iter().map(of)).into(),
                Cell::from(self.after.as_ref().map(of)),
            ]);
        }
        table
    }

    /// Growth per hour, by least squares over the whole time and over its second half.
    pub(crate) fn growth(&self) -> Table {
        let columns = ["", "whole time", "second half"];
        let mut table = Table::new("Growth per hour under load, by least squares", &columns);
        let (_, later) = self.during.split_at(self.during.len() / 2);
        for (name, of) in LOOKS {
            let slope = |samples: &[Sample]| {
                let hours = |sample: &Sample| sample.at.as_secs_f64() / 3600.0;
                let points = samples.iter().map(|sample| (hours(sample), of(sample)));
                stats::slope(&points.collect::<Vec<_>>())
            };
            table.row([name.into(), slope(&self.during).into(), slope(later).into()]);
        }
        table
    }

    /// Every value, for whoever wants to draw it.
    pub(crate) fn raw(&self) -> Value {
        let all = self.before.iter().chain(&self.during).chain(&self.after);
        all.map(|sample| {
            json!({
                "seconds": sample.at.as_secs_f64(),
                "values": LOOKS.map(|(name, of)| json!([name, of(sample)])),
            })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_told_per_hour_and_what_does_not_is_not() {
        let sample = |minute: u64| Sample {
            at: Duration::from_secs(minute * 60),
            resident: 8.0 + number(usize::try_from(minute).unwrap()) / 60.0,
            descriptors: 40.0,
            ..Sample::default()
        };
        let samples = Samples { during: (0..30).map(sample).collect(), ..Samples::default() };
        let growth = samples.growth();
        let row = |at: usize| growth.rows.get(at).unwrap().clone();
        let [_, Cell::Number(whole), Cell::Number(later)] = &row(0)[..] else { panic!() };
        assert!((whole - 1.0).abs() < 1e-6 && (later - 1.0).abs() < 1e-6, "{whole} {later}");
        assert_eq!(row(2), ["descriptors".into(), 0.0.into(), 0.0.into()]);
    }
}
