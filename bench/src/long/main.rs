//! The proxy for long, under mixed load, while connections come and go and policy changes: does
//! anything grow? `bench/README.md` says how to repeat it.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod samples;
mod traffic;

use anyhow::Context;
use clap::Parser;
use policy_bench::proxies::{Application, Kind, Programs, Proxy, Setup, Side};
use policy_bench::report::Document;
use policy_bench::{certificates, limits, policy};
use samples::{Sample, Samples};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use traffic::Traffic;

/// Runs the proxy for long under mixed load, and prints what grows.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// For how long.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Rules on the port, of which one comes and goes.
    #[arg(long, default_value_t = 100)]
    rules: usize,
    /// Seconds between two changes of policy.
    #[arg(long, default_value_t = 2.0)]
    change: f64,
    /// Seconds that each load lasts before its connections are closed and others opened.
    #[arg(long, default_value_t = 20.0)]
    turn: f64,
    /// Share of the usual load.
    #[arg(long, default_value_t = 1.0)]
    load: f64,
    /// Seconds for everything to come to rest at the end.
    #[arg(long, default_value_t = 20.0)]
    rest: f64,
    /// Another `policy-proxy` than the one built beside this, as of another commit.
    #[arg(long)]
    proxy: Option<PathBuf>,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    limits::many_descriptors()?;
    let programs = Programs::beside(cli.proxy.as_deref())?;
    let folder = tempfile::Builder::new().prefix("long-").tempdir()?;
    certificates::write(folder.path())?;
    let application = Application::start(&programs.application, folder.path(), None)?;
    let own = folder.path().join("proxy");
    let setup = Setup {
        programs: &programs,
        folder: own.clone(),
        certificates: folder.path(),
        side: Side::Inbound,
        application: &application,
        rules: cli.rules,
        workers: 1,
        cores: None,
    };
    let mut proxy = Proxy::start(Kind::Portcullis, &setup)?;
    let mut traffic = Traffic::new(&proxy, &programs.generator, folder.path(), cli.load);
    // What everything needs once, however long it runs, is there before the first sample counts.
    traffic.turn(cli.turn.min(5.0))?;
    traffic.finish()?;
    std::thread::sleep(Duration::from_secs_f64(cli.rest));
    let before = Some(Sample::take(&proxy, Duration::ZERO)?);
    let mut samples = Samples { before, ..Samples::default() };
    let changes = run(&cli, &mut proxy, &mut traffic, &mut samples, &own.join("manifests"))?;
    traffic.finish()?;
    std::thread::sleep(Duration::from_secs_f64(cli.rest));
    samples.after = Some(Sample::take(&proxy, Duration::from_secs_f64(cli.minutes * 60.0))?);
    let mut document = Document::new("long");
    document.notes.push(format!(
        "{} minutes; {} answers, {} bytes, {} connections, {changes} changes of policy.",
        cli.minutes, traffic.operations, traffic.bytes, traffic.connections
    ));
    document.tables.push(samples.table());
    document.tables.push(samples.growth());
    document.raw = json!({"samples": samples.raw(), "operations": traffic.operations});
    document.finish(cli.json.as_deref())
}

/// Until the time is over: loads in turn, a sample now and then, policy that changes. Says how often
/// it changed.
fn run(
    cli: &Cli,
    proxy: &mut Proxy,
    traffic: &mut Traffic<'_>,
    samples: &mut Samples,
    manifests: &Path,
) -> anyhow::Result<u64> {
    let whole = Duration::from_secs_f64(cli.minutes * 60.0);
    let step = Duration::from_secs_f64(cli.change);
    let began = Instant::now();
    let (mut changes, mut sampled, mut turned) = (0_u64, Duration::ZERO, None);
    while began.elapsed() < whole {
        let now = began.elapsed();
        let over = turned.is_none_or(|turned| now - turned >= Duration::from_secs_f64(cli.turn));
        if over {
            traffic.finish()?;
            traffic.turn(cli.turn)?;
            turned = Some(now);
        }
        let rules = cli.rules + usize::from(changes.is_multiple_of(2));
        replace(manifests, &policy::manifests(rules))?;
        changes += 1;
        std::thread::sleep(step);
        proxy.check()?;
        if began.elapsed() - sampled >= Duration::from_secs(5) {
            sampled = began.elapsed();
            samples.during.push(Sample::take(proxy, sampled)?);
        }
    }
    Ok(changes)
}

/// Puts other manifests in place in one step.
fn replace(folder: &Path, text: &str) -> anyhow::Result<()> {
    let (new, old) = (folder.with_extension("new"), folder.join("policy.yaml"));
    std::fs::write(&new, text)?;
    std::fs::rename(&new, &old).with_context(|| old.display().to_string())
}
