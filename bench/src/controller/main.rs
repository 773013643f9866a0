//! What the policy controller costs: processor time per event, time until the last concerned
//! watcher has it, memory, time to ready. `bench/README.md` says how to repeat it.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod cluster;
mod fixture;
mod measure;
mod report;
mod script;
mod watchers;
mod world;

use clap::{Parser, Subcommand};
use cluster::Cluster;
use fixture::Scale;
use measure::{Case, measure};
use std::path::PathBuf;
use watchers::Api;
use world::{Origin, World};

/// Measures the policy controller and prints a table.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// Where objects come from; several are measured one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Origin::Script])]
    objects: Vec<Origin>,
    /// The APIs that watchers use.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Api::Compatible, Api::Native])]
    api: Vec<Api>,
    /// Pods and apps of each row, as `pods:apps`.
    #[arg(long, value_delimiter = ',', value_parser = scale, default_value = "200:10,1000:10,5000:50")]
    rows: Vec<Scale>,
    /// How many times the policy is applied and deleted again.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// The cluster to measure on; absent: a control plane of its own. Our definitions must be
    /// installed there.
    #[arg(long, env = "KUBECONFIG_UNDER_TEST")]
    kubeconfig: Option<PathBuf>,
    /// A command to run the controller of a script under, as `valgrind --tool=massif`.
    #[arg(long, default_value = "")]
    under: String,
    /// Where to write what was measured as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Part {
    /// The controller that the measurement starts; it is told of objects on standard input.
    #[command(hide = true)]
    Script { pods: usize, apps: usize },
}

fn scale(text: &str) -> Result<Scale, String> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
    let parts = text.split_once(':').and_then(|(p, a)| Some((number(p)?, number(a)?)));
    let (pods, apps) = parts.ok_or("expected `pods:apps`, both at least 1")?;
    Ok(Scale { pods, apps })
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if let Some(Part::Script { pods, apps }) = cli.part {
        return script::run(Scale { pods, apps });
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    let mut rows = Vec::new();
    println!("{}", report::head());
    for &origin in &cli.objects {
        let mut cluster = match origin {
            Origin::Script => None,
            Origin::Cluster => Some(runtime.block_on(Cluster::open(cli.kubeconfig.as_deref()))?),
        };
        for &scale in &cli.rows {
            for &api in &cli.api {
                let case = Case { origin, api, scale, rounds: cli.rounds };
                let row = runtime.block_on(async {
                    let world = match cluster.as_mut() {
                        Some(cluster) => World::cluster(cluster, scale).await?,
                        None => World::script(scale, &cli.under)?,
                    };
                    measure(case, world).await
                })?;
                println!("{}", report::line(&row));
                rows.push(row);
            }
        }
    }
    println!("\n{}", report::ANCHOR);
    if let Some(path) = cli.json {
        std::fs::write(path, serde_json::to_string_pretty(&report::document(&rows))?)?;
    }
    Ok(())
}
