//! The tables for people, the JSON for programs.

use crate::endpoints::WATCHERS;
use crate::herd::Herd;
use crate::measure::{Event, Followed, Restart, Row};
use policy_bench::process::Memory;
use policy_bench::report::{Cell, Document, Table};
use policy_bench::stats::{Spread, number, quantile, wide};
use serde_json::{Value, json};
use std::time::Duration;

/// Figures of the peer, measured the same way on an earlier day; text, not a comparison.
const ANCHOR: &str = "\
Linkerd's controller, measured so in August 2026 on its own with 200, 1,000 and 5,000 pods: CPU per \
event 5, 19, 95 ms; to the last concerned watcher p50/max 18/50, 46/85, 100/270 ms; resident 28, 41, \
101 MB.";

/// Milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Microseconds for each of so many.
fn us_each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / number(count)
}

/// Megabytes as `ps` and the peers' figures count them.
fn mb(memory: Memory) -> f64 {
    wide(memory.resident) / f64::from(1024 * 1024)
}

/// The middle one, with the tenth and the ninetieth percentile.
fn spread(values: &[f64]) -> Option<Spread> {
    let at = |share| quantile(values, share);
    Some(Spread { median: at(0.5)?, low: at(0.1)?, high: at(0.9)? })
}

fn of(events: &[Event], value: impl Fn(&Event) -> f64) -> Vec<f64> {
    events.iter().map(value).collect()
}

/// Bytes by which the first is larger, for each of so many.
fn bytes_each(more: Memory, less: Memory, count: usize) -> Option<f64> {
    let bytes = wide(more.resident) - wide(less.resident);
    (count > 0).then(|| bytes / number(count))
}

/// First cells of every row.
fn named(row: &Row) -> Vec<Cell> {
    let scale = row.case.scale;
    vec![
        row.case.origin.as_str().into(),
        row.case.api.as_str().into(),
        number(scale.pods).into(),
        number(scale.policies).into(),
    ]
}

const NAMED: [&str; 4] = ["objects from", "API", "pods", "policies"];

fn table(title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    let mut table = Table::new(title, &[&NAMED[..], columns].concat());
    rows.for_each(|row| table.row(row));
    table
}

fn events(rows: &[Row]) -> Table {
    let columns = [
        "concerned",
        "CPU per event, ms",
        "apply to last, ms: p50",
        "p99",
        "max",
        "events",
        "label change, CPU ms",
    ];
    let cells = |row: &Row| {
        let all: Vec<Event> = [&row.events[..], &row.quick[..]].concat();
        let times = of(&all, |event| ms(event.latency));
        let own: [Cell; 7] = [
            row.events.first().map(|event| number(event.updates)).into(),
            spread(&of(&row.events, |event| ms(event.cpu))).into(),
            quantile(&times, 0.5).into(),
            quantile(&times, 0.99).into(),
            quantile(&times, 1.0).into(),
            number(times.len()).into(),
            ms(row.relabel).into(),
        ];
        [named(row), own.to_vec()].concat()
    };
    table("A policy that concerns one app", &columns, rows.iter().map(cells))
}

fn all_at_once(rows: &[Row]) -> Table {
    let columns = ["CPU, ms", "CPU per proxy, µs", "apply to last, ms: p50", "max"];
    let cells = |row: &Row| {
        let (pods, times) = (row.case.scale.pods, of(&row.wide, |event| ms(event.latency)));
        let own: [Cell; 4] = [
            spread(&of(&row.wide, |event| ms(event.cpu))).into(),
            spread(&of(&row.wide, |event| us_each(event.cpu, pods))).into(),
            quantile(&times, 0.5).into(),
            quantile(&times, 1.0).into(),
        ];
        [named(row), own.to_vec()].concat()
    };
    table("A policy that concerns every pod", &columns, rows.iter().map(cells))
}

fn memory(rows: &[Row]) -> Table {
    let columns = [
        "listed, MB",
        "watched",
        "end",
        "peak",
        "per pod beside its connection, bytes",
        "per connection, bytes",
    ];
    let cells = |row: &Row| {
        let pods = row.case.scale.pods;
        let beside = row.followed.and_then(|followed| {
            let Followed { all, few: (few, count) } = followed;
            bytes_each(all, few, pods.saturating_sub(count))
        });
        let connection = row.followed.and_then(|f| bytes_each(row.open.memory, f.all, pods));
        let peak = f64::from(1024 * 1024);
        let own: [Cell; 6] = [
            mb(row.listed).into(),
            mb(row.open.memory).into(),
            mb(row.end).into(),
            (wide(row.end.peak) / peak).into(),
            beside.into(),
            connection.into(),
        ];
        [named(row), own.to_vec()].concat()
    };
    table("Resident memory", &columns, rows.iter().map(cells))
}

fn starts(rows: &[Row]) -> Table {
    let columns = [
        "ready, s",
        "first watches open, s",
        "CPU per proxy, µs",
        "again: ready, s",
        "watches open again, s",
        "CPU per proxy, µs",
    ];
    let cells = |row: &Row| {
        let (pods, Restart { ready, open }) = (row.case.scale.pods, row.restart);
        let own: [Cell; 6] = [
            row.ready.as_secs_f64().into(),
            row.open.time.as_secs_f64().into(),
            us_each(row.open.cpu, pods).into(),
            ready.as_secs_f64().into(),
            open.time.as_secs_f64().into(),
            us_each(open.cpu, pods).into(),
        ];
        [named(row), own.to_vec()].concat()
    };
    table("Start, and start again with every proxy reconnecting", &columns, rows.iter().map(cells))
}

fn endpoints(events: &[Event]) -> Table {
    let columns =
        ["watchers", "CPU per event, ms", "apply to last, ms: p50", "p99", "max", "events"];
    let mut table = Table::new("An endpoint of a Service that sidecars watch", &columns);
    let times = of(events, |event| ms(event.latency));
    table.row([
        number(WATCHERS).into(),
        spread(&of(events, |event| ms(event.cpu))).into(),
        quantile(&times, 0.5).into(),
        quantile(&times, 0.99).into(),
        quantile(&times, 1.0).into(),
        number(times.len()).into(),
    ]);
    table
}

fn herd(herd: &Herd) -> Table {
    let columns = [
        "pods",
        "all back, s",
        "attempts",
        "CPU per proxy, ms",
        "of which the policy thread",
        "CPU of the clients per proxy, ms",
        "webhook call, ms: p50",
        "p99",
        "max",
        "listed, MB",
        "peak",
        "per connection, kB",
    ];
    let pods = herd.pods;
    let mut table = Table::new("Proxies that come back at once over mutual TLS", &columns);
    let calls = |share| quantile(&herd.calls, share);
    table.row([
        number(pods).into(),
        herd.time.as_secs_f64().into(),
        number(herd.attempts).into(),
        (us_each(herd.cpu, pods) / 1000.0).into(),
        (us_each(herd.policy, pods) / 1000.0).into(),
        (us_each(herd.clients, pods) / 1000.0).into(),
        calls(0.5).into(),
        calls(0.99).into(),
        calls(1.0).into(),
        mb(herd.listed).into(),
        (wide(herd.open.peak) / f64::from(1024 * 1024)).into(),
        bytes_each(herd.open, herd.listed, pods).map(|bytes| bytes / 1000.0).into(),
    ]);
    table
}

fn raw_herd(herd: &Herd) -> Value {
    json!({
        "herd": herd.pods,
        "back_s": herd.time.as_secs_f64(),
        "attempts": herd.attempts,
        "cpu_s": herd.cpu.as_secs_f64(),
        "policy_thread_cpu_s": herd.policy.as_secs_f64(),
        "clients_cpu_s": herd.clients.as_secs_f64(),
        "webhook_ms": herd.calls,
        "resident_listed_bytes": herd.listed.resident,
        "resident_back_bytes": herd.open.resident,
        "peak_back_bytes": herd.open.peak,
    })
}

/// Everything that was measured.
pub(crate) fn document(
    rows: &[Row],
    back: Option<&Herd>,
    endpoint: &[Event],
    notes: Vec<String>,
) -> Document {
    let mut document = Document::new("controller");
    document.tables = vec![events(rows), all_at_once(rows), memory(rows), starts(rows)];
    document.tables.extend(back.map(herd));
    if !endpoint.is_empty() {
        document.tables.push(endpoints(endpoint));
    }
    document.notes = notes;
    document.notes.push(ANCHOR.to_owned());
    let endpoint = (!endpoint.is_empty()).then(|| json!({"endpoint_events": raw_events(endpoint)}));
    document.raw = rows.iter().map(raw).chain(back.map(raw_herd)).chain(endpoint).collect();
    document
}

fn raw_events(events: &[Event]) -> Vec<Value> {
    let one =
        |e: &Event| json!({"cpu_ms": ms(e.cpu), "latency_ms": ms(e.latency), "updates": e.updates});
    events.iter().map(one).collect()
}

fn raw(row: &Row) -> Value {
    let followed = row.followed.map(|followed| {
        json!({
            "resident_bytes": followed.all.resident,
            "resident_one_of_each_bytes": followed.few.0.resident,
            "one_of_each": followed.few.1,
        })
    });
    json!({
        "objects": row.case.origin.as_str(),
        "api": row.case.api.as_str(),
        "pods": row.case.scale.pods,
        "apps": row.case.scale.apps,
        "policies": row.case.scale.policies,
        "ready_s": row.ready.as_secs_f64(),
        "resident_listed_bytes": row.listed.resident,
        "peak_listed_bytes": row.listed.peak,
        "followed": followed,
        "open_s": row.open.time.as_secs_f64(),
        "open_cpu_s": row.open.cpu.as_secs_f64(),
        "resident_watched_bytes": row.open.memory.resident,
        "resident_end_bytes": row.end.resident,
        "peak_end_bytes": row.end.peak,
        "relabel_cpu_ms": ms(row.relabel),
        "events": raw_events(&row.events),
        "events_one_after_the_other": raw_events(&row.quick),
        "events_of_every_pod": raw_events(&row.wide),
        "again_ready_s": row.restart.ready.as_secs_f64(),
        "again_open_s": row.restart.open.time.as_secs_f64(),
        "again_open_cpu_s": row.restart.open.cpu.as_secs_f64(),
        "again_resident_bytes": row.restart.open.memory.resident,
    })
}
