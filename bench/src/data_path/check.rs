//! Our load generator beside wrk and h2load, on one HAProxy, in turn.

use anyhow::Context;
use policy_bench::certificates;
use policy_bench::load::{Load, Outcome, Protocol};
use policy_bench::process;
use policy_bench::proxies::{Application, Kind, Programs, Proxy, Setup, Side};
use policy_bench::report::{Cell, Document, Table};
use policy_bench::stats::Spread;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Number of runs of each.
const ROUNDS: usize = 3;

/// Prints what each says of the same proxy: rates, and what the proxy spent per request.
pub(crate) fn run(programs: &Programs, seconds: f64, json: Option<&Path>) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    certificates::write(folder.path())?;
    let application = Application::start(&programs.application, folder.path(), Some("1"))?;
    let setup = Setup {
        programs,
        folder: folder.path().join("haproxy"),
        certificates: folder.path(),
        side: Side::Inbound,
        application: &application,
        rules: 1,
        workers: 1,
        cores: Some("0"),
    };
    let proxy = Proxy::start(Kind::Haproxy, &setup)?;
    let columns =
        ["load", "made by", "per second", "CPU of HAProxy, µs each", "p50, µs", "p99, µs"];
    let mut table = Table::new("Our load generator beside others, HAProxy, closed loop", &columns);
    let one = Load { seconds, pid: proxy.pids(), ..Load::to(proxy.ports.http1) };
    let two =
        Load { protocol: Protocol::Http2, streams: 10, target: proxy.ports.http2, ..one.clone() };
    for (title, load) in [("HTTP/1.1, 32 connections", one), ("HTTP/2, 32 times 10", two)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(load.run(&programs.generator, Some("1"))?);
            theirs.push(other(&load)?);
        }
        let name = if load.protocol == Protocol::Http2 { "h2load" } else { "wrk" };
        table.row(row(title, "ours", &ours));
        table.row(row(title, name, &theirs));
    }
    let mut document = Document::new("data-path-check");
    document.versions = policy_bench::machine::versions([
        ("wrk", vec!["wrk", "-v"]),
        ("h2load", vec!["h2load", "--version"]),
        ("HAProxy", vec!["haproxy", "-v"]),
    ]);
    document.tables.push(table);
    document.finish(json)
}

fn row(title: &str, by: &str, outcomes: &[Outcome]) -> Vec<Cell> {
    let of = |value: fn(&Outcome) -> f64| Cell::from(Spread::of(outcomes.iter().map(value)));
    let latency = |value: fn(&Outcome) -> f64| {
        let known = outcomes.iter().map(value).filter(|value| *value > 0.0);
        Cell::from(Spread::of(known))
    };
    vec![
        title.into(),
        by.into(),
        of(Outcome::rate),
        of(Outcome::cpu),
        latency(|one| one.p50),
        latency(|one| one.p99),
    ]
}

/// The same load by wrk or h2load.
fn other(load: &Load) -> anyhow::Result<Outcome> {
    let url = format!("http://{}{}", load.target, load.path);
    let whole = format!("{}", load.seconds.max(1.0).round());
    let connections = load.connections.to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]);
    if load.protocol == Protocol::Http2 {
        let streams = load.streams.to_string();
        command.args(["h2load", "-t1", "-c", &connections, "-m", &streams, "-D", &whole, &url]);
    } else {
        let time = format!("{whole}s");
        command.args(["wrk", "-t1", "-c", &connections, "-d", &time, "--latency", &url]);
    }
    let spent =
        || -> anyhow::Result<Duration> { load.pid.iter().map(|pid| process::cpu(*pid)).sum() };
    let before = spent()?;
    let output = command.output().context("taskset")?;
    let cpu_seconds = spent()?.saturating_sub(before).as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let read = if load.protocol == Protocol::Http2 { h2load(&text) } else { wrk(&text) };
    let mut outcome =
        read.with_context(|| format!("`{url}`: install wrk and nghttp2-client; {text}"))?;
    outcome.cpu_seconds = cpu_seconds;
    outcome.seconds = load.seconds.max(1.0).round();
    Ok(outcome)
}

fn wrk(text: &str) -> Option<Outcome> {
    let line = |has: &str| text.lines().find(|line| line.contains(has)).map(str::trim);
    let operations = line(" requests in ")?.split(' ').next()?.parse().ok()?;
    let latency = |share| micros(line(share)?.split_whitespace().nth(1)?);
    let (p50, p99) = (latency("50%")?, latency("99%")?);
    Some(Outcome { operations, p50, p99, ..Outcome::default() })
}

fn h2load(text: &str) -> Option<Outcome> {
    let line = text.lines().find(|line| line.starts_with("requests:"))?;
    let succeeded = line.split(", ").find(|part| part.ends_with("succeeded"))?;
    let operations = succeeded.split(' ').next()?.parse().ok()?;
    Some(Outcome { operations, ..Outcome::default() })
}

fn micros(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(at)?;
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_and_h2load_say_is_read() {
        let text = "  Latency Distribution\n     50%  411.00us\n     99%    1.02ms\n  \
                    160000 requests in 2.00s, 20MB read\n";
        let read = wrk(text).unwrap();
        assert_eq!((read.operations, read.p50, read.p99), (160_000, 411.0, 1020.0));
        let text = "requests: 5 total, 5 started, 5 done, 5 succeeded, 0 failed, 0 errored\n";
        assert_eq!(h2load(text).unwrap().operations, 5);
        assert!(wrk("").is_none() && h2load("").is_none());
    }
}
