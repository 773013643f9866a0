//! Cost of destination discovery by its use of gRPC streams: memory of many subscriptions, and the
//! time until all clients are back at a server that has started again. `bench/README.md` says how to
//! repeat it.
//!
//! The server is synthetic, with the HTTP/2 stack and the settings of the controller's. What is
//! compared is therefore the streams, not what finds the answers.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod clients;
mod codec;
mod report;
mod round;
mod server;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use clients::{Case, Clients, Way};
use policy_bench::child::{Launch, Process};
use policy_bench::process;
use policy_bench::{limits, stats};
use round::Round;
use server::Settings;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Measures subscriptions to destinations and prints a table.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// Uses of streams.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Way::StreamPerName, Way::StreamPerClient])]
    ways: Vec<Way>,
    /// Number of clients, each with a connection of its own.
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// Lookups of each client.
    #[arg(long, default_value_t = 20)]
    lookups: usize,
    /// Destinations that clients share.
    #[arg(long, default_value_t = 1000)]
    answers: u16,
    /// Endpoints of each.
    #[arg(long, default_value_t = 10)]
    endpoints: u8,
    /// Most bytes that a stream has written and the connection has not sent: the controller's window,
    /// and little.
    #[arg(long, value_delimiter = ',', default_values_t = [65_536, 4096])]
    send_buffers: Vec<usize>,
    /// Number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Part {
    /// The server that the measurement starts.
    #[command(hide = true)]
    Serve {
        listen: SocketAddr,
        #[command(flatten)]
        settings: Settings,
    },
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let descriptors = limits::many_descriptors()?;
    if let Some(Part::Serve { listen, settings }) = cli.part {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        return runtime.enable_all().build()?.block_on(server::run(listen, settings));
    }
    let needed = u64::try_from(cli.clients)?.saturating_add(100);
    ensure!(
        descriptors >= needed,
        "{} clients need {needed} descriptors, and {descriptors} are allowed",
        cli.clients
    );
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    let mut all: Vec<(Case, Vec<Round>)> =
        cases(&cli).into_iter().map(|case| (case, Vec::new())).collect();
    for (round, at) in stats::interleaved(cli.rounds, all.len()) {
        let Some((case, rounds)) = all.get_mut(at) else { continue };
        let measured = runtime.block_on(measure(*case))?;
        eprintln!("{case:?}, round {}: {measured:.1?}", round + 1);
        rounds.push(measured);
    }
    report::document(&all).finish(cli.json.as_deref())
}

fn cases(cli: &Cli) -> Vec<Case> {
    let Cli { clients, lookups, answers, endpoints, .. } = *cli;
    let of = |send_buffer: &usize| {
        let settings = Settings { answers, endpoints, send_buffer: *send_buffer };
        cli.ways.iter().map(move |way| Case { way: *way, clients, lookups, settings })
    };
    cli.send_buffers.iter().flat_map(of).collect()
}

async fn measure(case: Case) -> anyhow::Result<Round> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let server = start(address, case.settings)?;
    let pid = server.pid();
    let empty = process::memory(pid)?;
    let clients = Clients::start(case, address);
    clients.connected().await?;
    sleep(Duration::from_secs(2)).await;
    let connected = process::memory(pid)?;

    let (used, began) = (process::cpu(pid)?, Instant::now());
    clients.ask();
    let opened = clients.answered().await? - began;
    sleep(Duration::from_secs(1)).await;
    let opening = process::cpu(pid)? - used;
    sleep(Duration::from_secs(2)).await;
    let subscribed = process::memory(pid)?;

    let own = std::process::id();
    let (used, tried) = (process::cpu(own)?, clients.attempts());
    let began = Instant::now();
    drop(server);
    clients.forget();
    let server = start(address, case.settings)?;
    let back = clients.answered().await? - began;
    let (pid, attempts) = (server.pid(), clients.attempts() - tried);
    sleep(Duration::from_secs(1)).await;
    let (returning, spent) = (process::cpu(pid)?, process::cpu(own)? - used);
    sleep(Duration::from_secs(2)).await;
    let again = process::memory(pid)?;
    drop(clients);
    Ok(Round {
        empty,
        connected,
        subscribed,
        opened,
        opening,
        back,
        returning,
        spent,
        attempts,
        again,
    })
}

fn start(address: SocketAddr, settings: Settings) -> anyhow::Result<Process> {
    let Settings { answers, endpoints, send_buffer } = settings;
    let arguments = [
        "serve".to_owned(),
        address.to_string(),
        format!("--answers={answers}"),
        format!("--endpoints={endpoints}"),
        format!("--send-buffer={send_buffer}"),
    ];
    let mut server = Launch::new(std::env::current_exe()?).args(arguments).start()?;
    server.wait_for(address, Duration::from_secs(10))?;
    Ok(server)
}
