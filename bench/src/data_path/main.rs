//! The data path: what a request costs behind each proxy. `bench/README.md` says how to repeat it.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod cases;
mod check;
mod measure;
mod tables;

use anyhow::{bail, ensure};
use cases::Case;
use clap::Parser;
use policy_bench::proxies::{Kind, Programs};
use policy_bench::report::Document;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Measures what a request costs behind each proxy, and prints tables.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The cases, by their names; absent: all.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// The proxies; absent: every one that is there.
    #[arg(long, value_enum, value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Number of times each proxy is measured in each case, in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// For how long, each time: once as fast as it goes, once at the fixed rate.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// No runs at the fixed rate: processor time alone.
    #[arg(long)]
    no_latency: bool,
    /// Another `policy-proxy` than the one built beside this, as of another commit.
    #[arg(long)]
    proxy: Option<PathBuf>,
    /// Another `policy-controller` than the one built beside this.
    #[arg(long)]
    controller: Option<PathBuf>,
    /// Another `bare-proxy` than the one built beside this.
    #[arg(long)]
    bare: Option<PathBuf>,
    /// Lets everything run on every core. Otherwise a proxy of one worker has the first, load and
    /// application have the second.
    #[arg(long)]
    no_pin: bool,
    /// Runs our load generator and wrk or h2load in turn against HAProxy instead.
    #[arg(long)]
    check: bool,
    /// Lists the cases.
    #[arg(long)]
    list: bool,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if cli.list {
        for case in cases::all() {
            println!("{:16} {}", case.name, case.title);
        }
        return Ok(());
    }
    policy_bench::limits::many_descriptors()?;
    let mut programs = Programs::beside(cli.proxy.as_deref())?;
    if let Some(controller) = &cli.controller {
        programs.controller.clone_from(controller);
    }
    if let Some(bare) = &cli.bare {
        programs.bare.clone_from(bare);
    }
    if cli.check {
        return check::run(&programs, cli.seconds, cli.json.as_deref());
    }
    let mut document = Document::new("data-path");
    let kinds = present(&cli, &programs, &mut document)?;
    let settings = measure::Settings {
        rounds: cli.rounds,
        seconds: cli.seconds,
        latency: !cli.no_latency,
        pinned: !cli.no_pin && std::thread::available_parallelism()?.get() > 1,
    };
    let bench = measure::Bench::start(&programs, settings)?;
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    let chosen = chosen(&cli.cases)?;
    for (number, case) in chosen.iter().enumerate() {
        eprintln!("{} of {}: {}: {}", number + 1, chosen.len(), case.name, case.title);
        // A machine that was busy for a moment is no reason to lose a case, and a case that cannot be
        // measured is none to lose the others.
        let result = bench.measure(case, &kinds).or_else(|error| {
            eprintln!("again, because of {error:#}");
            bench.measure(case, &kinds)
        });
        match result {
            Ok(result) => {
                eprint!("{}", tables::of_case(&result).render(false));
                results.push(result);
            }
            Err(error) => {
                let note = format!("FAILED: {}: {error:#}", case.name);
                eprintln!("{note}");
                document.notes.push(note);
                failed.push(case.name);
            }
        }
    }
    tables::fill(&mut document, &results, cli.rounds, cli.seconds);
    document.finish(cli.json.as_deref())?;
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

/// The proxies that are there. Of one that is not there is a note.
fn present(cli: &Cli, programs: &Programs, document: &mut Document) -> anyhow::Result<Vec<Kind>> {
    let wanted = [
        Kind::Portcullis,
        Kind::Unrecorded,
        Kind::Bare,
        Kind::Haproxy,
        Kind::Nginx,
        Kind::Envoy,
        Kind::EnvoyRbac,
    ];
    let wanted = wanted.into_iter().filter(|kind| cli.peers.is_empty() || cli.peers.contains(kind));
    let (mut versions, mut kinds) = (Map::new(), Vec::new());
    for kind in wanted {
        match programs.version(kind) {
            Some(version) => {
                if !matches!(kind, Kind::EnvoyRbac | Kind::Unrecorded) {
                    versions.insert(kind.name().to_owned(), Value::String(version));
                }
                kinds.push(kind);
            }
            None => {
                let note =
                    format!("MISSING: {} is not installed and was not measured.", kind.name());
                eprintln!("{note}");
                document.notes.push(note);
            }
        }
    }
    document.versions = Value::Object(versions);
    if kinds.is_empty() { bail!("no proxy to measure") } else { Ok(kinds) }
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Case>> {
    let all = cases::all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        bail!("`{unknown}`: no such case; --list shows them");
    }
    let is_chosen = |case: &Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}
