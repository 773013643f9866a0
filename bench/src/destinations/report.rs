//! The tables for people, the JSON for programs.

use crate::clients::Case;
use crate::round::Round;
use policy_bench::process::Memory;
use policy_bench::report::{Cell, Document, Table};
use policy_bench::stats::{Spread, number, wide};
use serde_json::{Value, json};
use std::time::Duration;

/// Megabytes.
fn mb(memory: Memory) -> f64 {
    wide(memory.resident) / f64::from(1024 * 1024)
}

/// Bytes of the subscriptions alone.
fn growth(round: &Round) -> f64 {
    wide(round.subscribed.resident.saturating_sub(round.connected.resident))
}

fn spread(rounds: &[Round], of: impl Fn(&Round) -> f64) -> Cell {
    Spread::of(rounds.iter().map(of)).into()
}

/// Cells that name a case.
fn named(case: Case) -> [Cell; 2] {
    [case.way.as_str().into(), number(case.settings.send_buffer / 1024).into()]
}

/// All of it. Cases differ in streams and buffers alone.
pub(crate) fn document(all: &[(Case, Vec<Round>)]) -> Document {
    let mut document = Document::new("destinations");
    let Some((case, _)) = all.first() else { return document };
    document.tables.push(memory(*case, all));
    document.tables.push(time(*case, all));
    let raw = all.iter().map(|(case, rounds)| {
        let rounds: Vec<Value> = rounds.iter().map(raw).collect();
        json!({
            "way": case.way.as_str(),
            "send_buffer_bytes": case.settings.send_buffer,
            "subscriptions": subscriptions(*case),
            "rounds": rounds,
        })
    });
    document.raw = raw.collect();
    document
}

fn subscriptions(case: Case) -> usize {
    case.clients * case.lookups
}

fn memory(first: Case, all: &[(Case, Vec<Round>)]) -> Table {
    let title = format!(
        "{} subscriptions of {} clients to {} answers of {} endpoints: memory of the server",
        subscriptions(first),
        first.clients,
        first.settings.answers,
        first.settings.endpoints
    );
    let columns = [
        "streams",
        "send buffer, KiB",
        "empty, MB",
        "idle connections, MB",
        "with every subscription, MB",
        "growth, MB",
        "bytes each",
        "after a restart, MB",
        "peak, MB",
    ];
    let mut table = Table::new(&title, &columns);
    for (case, rounds) in all {
        let figures = [
            spread(rounds, |round| mb(round.empty)),
            spread(rounds, |round| mb(round.connected)),
            spread(rounds, |round| mb(round.subscribed)),
            spread(rounds, |round| growth(round) / f64::from(1024 * 1024)),
            spread(rounds, |round| growth(round) / number(subscriptions(*case))),
            spread(rounds, |round| mb(round.again)),
            spread(rounds, |round| wide(round.again.peak) / f64::from(1024 * 1024)),
        ];
        table.row(named(*case).into_iter().chain(figures));
    }
    table
}

fn time(first: Case, all: &[(Case, Vec<Round>)]) -> Table {
    let title = format!("{} subscriptions: time to their first answers", subscriptions(first));
    let columns = [
        "streams",
        "send buffer, KiB",
        "on idle connections, s",
        "the server's CPU, s",
        "after a restart, s",
        "the server's CPU, s",
        "the clients' CPU, s",
        "connections tried",
    ];
    let mut table = Table::new(&title, &columns);
    let seconds = |rounds: &[Round], of: fn(&Round) -> Duration| {
        spread(rounds, |round| of(round).as_secs_f64())
    };
    for (case, rounds) in all {
        let figures = [
            seconds(rounds, |round| round.opened),
            seconds(rounds, |round| round.opening),
            seconds(rounds, |round| round.back),
            seconds(rounds, |round| round.returning),
            seconds(rounds, |round| round.spent),
            spread(rounds, |round| number(round.attempts)),
        ];
        table.row(named(*case).into_iter().chain(figures));
    }
    table
}

fn raw(round: &Round) -> Value {
    json!({
        "empty_bytes": round.empty.resident,
        "connected_bytes": round.connected.resident,
        "subscribed_bytes": round.subscribed.resident,
        "growth_bytes": growth(round),
        "opened_seconds": round.opened.as_secs_f64(),
        "opening_cpu_seconds": round.opening.as_secs_f64(),
        "back_seconds": round.back.as_secs_f64(),
        "back_cpu_seconds": round.returning.as_secs_f64(),
        "clients_cpu_seconds": round.spent.as_secs_f64(),
        "attempts": round.attempts,
        "again_bytes": round.again.resident,
        "peak_bytes": round.again.peak,
    })
}
