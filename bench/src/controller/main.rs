//! Cost of the policy controller: processor time per event, time until the last concerned watcher has
//! acknowledged it, memory, time to ready, and a replica that starts again. `bench/README.md`
//! says how to repeat it.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod cluster;
mod endpoints;
mod fixture;
mod herd;
mod measure;
mod report;
mod script;
mod watchers;
mod world;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use cluster::Cluster;
use fixture::Scale;
use measure::{Case, Rounds, Row, followed, measure};
use std::path::PathBuf;
use watchers::Api;
use world::{Origin, World};

/// Measures the policy controller and prints tables.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// Measured set-ups, as `script/pods:apps:policies` (the engine and the server alone) or
    /// `cluster/pods:apps:policies` (the program as it is shipped, on an API server).
    #[arg(long, value_delimiter = ',', value_parser = planned, default_value = DEFAULT)]
    rows: Vec<Planned>,
    /// The APIs that watchers use.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Api::Compatible, Api::Native])]
    api: Vec<Api>,
    /// Number of times the policy is applied and deleted again for its cost.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of times for its time.
    #[arg(long, default_value_t = 50)]
    time_rounds: usize,
    /// Number of times for the policy that touches every pod.
    #[arg(long, default_value_t = 2)]
    wide_rounds: usize,
    /// The cluster to measure on; absent: a control plane of its own. Our definitions must be
    /// installed there.
    #[arg(long, env = "KUBECONFIG_UNDER_TEST")]
    kubeconfig: Option<PathBuf>,
    /// Number of pods that come back at once, each over a mutual TLS connection of its own; 0: none.
    #[arg(long, default_value_t = 10_000)]
    herd: usize,
    /// Number of events of one endpoint that 100 sidecars watch; 0: none.
    #[arg(long, default_value_t = 20)]
    endpoints: usize,
    /// A command to run the controller of a script under, as `valgrind --tool=massif`.
    #[arg(long, default_value = "")]
    under: String,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One factor varied at a time from 10,000 pods with 100 pods and a tenth of a policy each app.
const DEFAULT: &str = "cluster/1000:10:10,cluster/5000:50:10,\
    script/10000:100:10,script/10000:100:1000,script/50000:500:10";

#[derive(Clone, Copy, Debug, Subcommand)]
enum Part {
    /// The controller that the measurement starts; it is told of objects on standard input.
    #[command(hide = true)]
    Script { pods: usize, apps: usize, policies: usize, version: u64 },
}

/// A row to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    origin: Origin,
    scale: Scale,
}

fn planned(text: &str) -> Result<Planned, String> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
    let read = || {
        let (origin, scale) = text.split_once('/')?;
        let origin = match origin {
            "script" => Origin::Script,
            "cluster" => Origin::Cluster,
            _ => return None,
        };
        let mut numbers = scale.split(':');
        let (pods, apps) = (number(numbers.next()?)?, number(numbers.next()?)?);
        let policies = numbers.next()?.parse().ok()?;
        let scale = Scale { pods, apps, policies };
        numbers.next().is_none().then_some(Planned { origin, scale })
    };
    read().ok_or_else(|| "expected `script/pods:apps:policies` or `cluster/…`".to_owned())
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if let Some(Part::Script { pods, apps, policies, version }) = cli.part {
        return script::run(Scale { pods, apps, policies }, version);
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    let (rows, mut notes) = runtime.block_on(rows(&cli))?;
    let herd = match cli.herd {
        0 => None,
        pods => match runtime.block_on(herd::measure(cli.kubeconfig.as_deref(), pods)) {
            Ok(herd) => Some(herd),
            Err(error) => {
                notes.push(format!("FAILED: a herd of {pods}: {error:#}"));
                None
            }
        },
    };
    let endpoints = match cli.endpoints {
        0 => Vec::new(),
        events => match runtime.block_on(endpoints::measure(events)) {
            Ok(events) => events,
            Err(error) => {
                notes.push(format!("FAILED: events of an endpoint: {error:#}"));
                Vec::new()
            }
        },
    };
    let failed = notes.iter().any(|note| note.starts_with("FAILED"));
    report::document(&rows, herd.as_ref(), &endpoints, notes).finish(cli.json.as_deref())?;
    ensure!(!failed, "not every row could be measured");
    Ok(())
}

async fn rows(cli: &Cli) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let rounds = Rounds { cost: cli.rounds, time: cli.time_rounds, wide: cli.wide_rounds };
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    // It runs only while it is used.
    let mut cluster: Option<Cluster> = None;
    for &Planned { origin, scale } in &cli.rows {
        if origin == Origin::Script {
            cluster = None;
        } else if cluster.is_none() {
            match Cluster::open(cli.kubeconfig.as_deref()).await {
                Ok(opened) => cluster = Some(opened),
                Err(error) => {
                    let note = format!("NOT MEASURED on an API server: {scale:?}: {error:#}");
                    eprintln!("{note}");
                    notes.push(note);
                    continue;
                }
            }
        }
        for &api in &cli.api {
            let began = std::time::Instant::now();
            eprintln!("{} {} {scale:?}", origin.as_str(), api.as_str());
            let case = Case { origin, api, scale, rounds };
            let row = match cluster.as_mut() {
                Some(cluster) => on_cluster(cluster, case).await,
                None => on_script(case, &cli.under).await,
            };
            // What was measured before is not to be lost.
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    let note = format!("FAILED: {case:?}: {error:#}");
                    eprintln!("{note}");
                    notes.push(note);
                    continue;
                }
            };
            eprintln!("{} {} {scale:?}: {:.0?}", origin.as_str(), api.as_str(), began.elapsed());
            rows.push(row);
        }
    }
    Ok((rows, notes))
}

async fn on_cluster(cluster: &mut Cluster, case: Case) -> anyhow::Result<Row> {
    measure(case, World::cluster(cluster, case.scale).await?, None).await
}

async fn on_script(case: Case, under: &str) -> anyhow::Result<Row> {
    let followed = match under {
        "" => Some(followed(case.api, case.scale).await?),
        _ => None,
    };
    measure(case, World::script(case.scale, under)?, followed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_origin_and_scale() {
        let scale = Scale { pods: 50, apps: 5, policies: 0 };
        assert_eq!(planned("script/50:5:0"), Ok(Planned { origin: Origin::Script, scale }));
        assert_eq!(planned("cluster/50:5:0"), Ok(Planned { origin: Origin::Cluster, scale }));
        for wrong in ["50:5:0", "script/50:5", "script/0:5:1", "script/50:5:1:1", "x/50:5:1"] {
            assert!(planned(wrong).is_err(), "{wrong}");
        }
    }
}
