//! The table for people, the JSON for programs.

use crate::measure::{Event, Row};
use serde_json::{Value, json};
use std::time::Duration;

/// What the peer needed, measured the same way on an earlier day; text, not a comparison.
pub(crate) const ANCHOR: &str = "\
Linkerd's controller, measured so in August 2026 on its own: CPU per event 5, 19, 95 ms; to the last
concerned watcher p50/max 18/50, 46/85, 100/270 ms; resident 28, 41, 101 MB.";

/// Milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Megabytes as `ps` and the peers' figures count them.
fn mb(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// The value that a share of all values is not above.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (f64::from(u32::try_from(last).unwrap_or(u32::MAX)) * share).round();
    // Both ends are within the slice by construction.
    sorted
        .iter()
        .enumerate()
        .find(|(i, _)| f64::from(u32::try_from(*i).unwrap_or(0)) >= at)
        .map_or(f64::NAN, |(_, value)| *value)
}

fn sorted(events: &[Event], value: impl Fn(&Event) -> Duration) -> Vec<f64> {
    let mut values: Vec<f64> = events.iter().map(|event| ms(value(event))).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The head of the table.
pub(crate) fn head() -> String {
    "| objects from | API | pods (concerned) | CPU per event, ms: p50 (p10 to p90) | to the last \
     concerned watcher, ms: p50 / max | resident, MB: listed / watched / end (peak) | ready, s | \
     all watches open, s (CPU s) | pod label change, CPU ms |\n\
     |---|---|---|---|---|---|---|---|---|"
        .to_owned()
}

/// One row of the table.
pub(crate) fn line(row: &Row) -> String {
    let (cpu, latency) = (sorted(&row.events, |e| e.cpu), sorted(&row.events, |e| e.latency));
    let concerned = row.events.first().map_or(0, |event| event.updates);
    format!(
        "| {} | {} | {} ({concerned}) | {:.2} ({:.2} to {:.2}) | {:.1} / {:.1} | {:.1} / {:.1} / {:.1} ({:.1}) | {:.2} | {:.2} ({:.2}) | {:.2} |",
        row.case.origin.as_str(),
        row.case.api.as_str(),
        row.case.scale.pods,
        quantile(&cpu, 0.5),
        quantile(&cpu, 0.1),
        quantile(&cpu, 0.9),
        quantile(&latency, 0.5),
        quantile(&latency, 1.0),
        mb(row.listed.resident),
        mb(row.open.memory.resident),
        mb(row.end.resident),
        mb(row.end.peak),
        row.ready.as_secs_f64(),
        row.open.time.as_secs_f64(),
        row.open.cpu.as_secs_f64(),
        ms(row.relabel),
    )
}

/// Everything that was measured, with where and of what.
pub(crate) fn document(rows: &[Row]) -> Value {
    json!({
        "benchmark": "controller",
        "machine": policy_bench::machine::here(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    let events: Vec<Value> = row
        .events
        .iter()
        .map(|e| json!({"cpu_ms": ms(e.cpu), "latency_ms": ms(e.latency), "updates": e.updates}))
        .collect();
    json!({
        "objects": row.case.origin.as_str(),
        "api": row.case.api.as_str(),
        "pods": row.case.scale.pods,
        "apps": row.case.scale.apps,
        "ready_s": row.ready.as_secs_f64(),
        "resident_listed_bytes": row.listed.resident,
        "peak_listed_bytes": row.listed.peak,
        "open_s": row.open.time.as_secs_f64(),
        "open_cpu_s": row.open.cpu.as_secs_f64(),
        "resident_watched_bytes": row.open.memory.resident,
        "resident_end_bytes": row.end.resident,
        "peak_end_bytes": row.end.peak,
        "relabel_cpu_ms": ms(row.relabel),
        "events": events,
    })
}
