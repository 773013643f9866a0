//! Printed tables of the measurement.

use crate::measure::{Measured, Result};
use policy_bench::attack::Made;
use policy_bench::load::Outcome;
use policy_bench::proxies::Kind;
use policy_bench::report::{Cell, Document, Table};
use policy_bench::stats::{self, Spread};
use serde_json::{Value, json};

/// The table of one case.
pub(crate) fn of_case(result: &Result) -> Table {
    let transfer = result.case.is_transfer();
    let columns: &[&str] = if transfer {
        &["proxy", "MB/s", "MB per CPU second", "MB", "peak, MB"]
    } else {
        &[
            "proxy",
            "per second",
            "CPU, µs each",
            "CPU of HAProxy's",
            "p50, µs",
            "p99, µs",
            "p99.9, µs",
            "MB",
            "peak, MB",
        ]
    };
    let mut title = format!("{} (`{}`)", result.case.title, result.case.name);
    if let Some((rate, of)) = result.rate {
        title += &format!("; latency at {rate:.0} per second");
        if let Some(of) = of {
            title += &format!(", half of {}", of.name());
        }
    }
    let mut table = Table::new(&title, columns);
    for measured in &result.measured {
        let name: Cell = measured.kind.name().into();
        let memory = [mb(measured.memory.resident).into(), mb(measured.memory.peak).into()];
        let figures: Vec<Cell> = if transfer {
            let speed = |one: &Outcome| stats::wide(one.bytes) / 1e6 / one.seconds;
            vec![fast(measured, speed).into(), fast(measured, Outcome::bytes_per_cpu_second).into()]
        } else {
            let fixed = |of: fn(&Outcome) -> f64| Spread::of(measured.fixed.iter().map(of));
            vec![
                fast(measured, Outcome::rate).into(),
                fast(measured, Outcome::cpu).into(),
                against(result, measured, Kind::Haproxy).into(),
                fixed(|one| one.p50).into(),
                fixed(|one| one.p99).into(),
                fixed(|one| one.p999).into(),
            ]
        };
        table.row([name].into_iter().chain(figures).chain(memory));
    }
    table
}

fn fast(measured: &Measured, of: impl Fn(&Outcome) -> f64) -> Option<Spread> {
    Spread::of(measured.fast.iter().map(of))
}

fn mb(bytes: u64) -> f64 {
    stats::wide(bytes) / 1_048_576.0
}

/// Processor time per operation (of a transfer: per byte) against another proxy's, round by round.
fn against(result: &Result, measured: &Measured, other: Kind) -> Option<Spread> {
    let other = result.measured.iter().find(|measured| measured.kind == other)?;
    let cost = |one: &Outcome| {
        if result.case.is_transfer() { 1.0 / one.bytes_per_cpu_second() } else { one.cpu() }
    };
    let costs = |measured: &Measured| measured.fast.iter().map(cost).collect::<Vec<_>>();
    stats::ratio(&costs(measured), &costs(other))
}

/// Everything: the comparison first, then each case.
pub(crate) fn fill(document: &mut Document, results: &[Result], rounds: usize, seconds: f64) {
    document.notes.push(format!(
        "Medians of {rounds} interleaved rounds of {seconds} s, in brackets the lowest and the \
         highest round. Ratios are of rounds of this run. CPU is user and system time of the \
         proxy's processes."
    ));
    document.notes.extend(results.iter().filter_map(attacks));
    let peers =
        [Kind::Unrecorded, Kind::Bare, Kind::Haproxy, Kind::Nginx, Kind::Envoy, Kind::EnvoyRbac];
    let heads = peers.map(|peer| format!("of {}'s", peer.name()));
    let mut columns = vec!["case", "CPU, µs each"];
    columns.extend(heads.iter().map(String::as_str));
    columns.extend(["p99.9 of HAProxy's", "MB"]);
    let mut table = Table::new("CPU of Portcullis per operation, and beside each peer", &columns);
    for result in results {
        let ours = result.measured.iter().find(|measured| measured.kind == Kind::Portcullis);
        let Some(ours) = ours else { continue };
        let title: Cell = result.case.title.into();
        let cost =
            if result.case.is_transfer() { "–".into() } else { fast(ours, Outcome::cpu).into() };
        let ratios = peers.map(|peer| Cell::from(against(result, ours, peer)));
        let tail = [tail(result, ours).into(), mb(ours.memory.resident).into()];
        table.row([title, cost].into_iter().chain(ratios).chain(tail));
    }
    document.tables.push(table);
    document.tables.extend(results.iter().map(of_case));
    document.raw = results.iter().map(raw).collect();
}

/// Counts of what attackers did to each proxy, which are to be the same.
fn attacks(result: &Result) -> Option<String> {
    let of = |measured: &Measured| {
        let sum = |of: fn(&Made) -> u64| measured.attacks.iter().map(of).sum::<u64>();
        let (acts, connections) = (sum(|made| made.acts), sum(|made| made.connections));
        format!("{}: {acts} acts on {connections} connections", measured.kind.name())
    };
    let all = result.measured.iter().filter(|measured| !measured.attacks.is_empty());
    let all = all.map(of).collect::<Vec<_>>();
    let name = result.case.name;
    (!all.is_empty()).then(|| format!("`{name}`, attackers at the fixed rate: {}.", all.join("; ")))
}

fn tail(result: &Result, ours: &Measured) -> Option<Spread> {
    let theirs = result.measured.iter().find(|measured| measured.kind == Kind::Haproxy)?;
    let of = |measured: &Measured| measured.fixed.iter().map(|one| one.p999).collect::<Vec<_>>();
    stats::ratio(&of(ours), &of(theirs))
}

fn raw(result: &Result) -> Value {
    let of = |measured: &Measured| {
        json!({
            "proxy": measured.kind.name(),
            "fast": measured.fast,
            "fixed_rate": measured.fixed,
            "attacks": measured.attacks,
            "resident_bytes": measured.memory.resident,
            "peak_bytes": measured.memory.peak,
            "anonymous_bytes": measured.memory.anonymous,
        })
    };
    json!({
        "case": result.case.name,
        "rate": result.rate.map(|(rate, _)| rate),
        "proxies": result.measured.iter().map(of).collect::<Vec<_>>(),
    })
}
