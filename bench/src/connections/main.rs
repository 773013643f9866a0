//! Cost of connections: memory of idle ones, processor time of new ones. `bench/README.md` says
//! how to repeat it.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

use anyhow::Context;
use clap::Parser;
use policy_bench::load::{Load, Outcome};
use policy_bench::process::Memory;
use policy_bench::proxies::{Application, Kind, Programs, Proxy, Setup, Side};
use policy_bench::report::{Cell, Document, Table};
use policy_bench::stats::{Spread, interleaved, number, wide};
use policy_bench::{certificates, limits};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measures what connections cost behind each proxy, and prints tables.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The proxies.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["portcullis", "haproxy"])]
    peers: Vec<Kind>,
    /// Idle connections.
    #[arg(long, default_value_t = 8000)]
    connections: usize,
    /// For how long connections are left idle before memory is looked at.
    #[arg(long, default_value_t = 12)]
    settle: u64,
    /// New connections per second: plaintext, under mutual TLS, and leaving in mutual TLS.
    #[arg(long, value_delimiter = ',', num_args = 3, default_values_t = [1000.0, 400.0, 400.0])]
    rates: Vec<f64>,
    /// For how long new connections are opened on each proxy.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// In how many turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Another `policy-proxy` than the one built beside this, as of another commit.
    #[arg(long)]
    proxy: Option<PathBuf>,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Results of one proxy.
struct Measured {
    kind: Kind,
    /// After a second of load that has ended; with every connection idle; after they are gone.
    idle: [Memory; 3],
    new: Vec<Outcome>,
    /// After the last new connection.
    after: Memory,
}

/// Kinds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// In plaintext, to the server's proxy.
    Plaintext,
    /// Under mutual TLS, to the server's proxy.
    Tls,
    /// In plaintext to the client's proxy, which goes on in mutual TLS.
    Outbound,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Plaintext, Self::Tls, Self::Outbound];

    fn title(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Tls => "mutual TLS",
            Self::Outbound => "outbound",
        }
    }

    fn side(self) -> Side {
        match self {
            Self::Plaintext | Self::Tls => Side::Inbound,
            Self::Outbound => Side::Outbound,
        }
    }
}

struct Bench<'a> {
    cli: &'a Cli,
    programs: &'a Programs,
    certificates: &'a Path,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    limits::many_descriptors()?;
    let programs = Programs::beside(cli.proxy.as_deref())?;
    let folder = tempfile::Builder::new().prefix("connections-").tempdir()?;
    certificates::write(folder.path())?;
    let mut document = Document::new("connections");
    let kinds = present(&cli, &programs, &mut document);
    let bench = Bench { cli: &cli, programs: &programs, certificates: folder.path() };
    let mut raw = Map::new();
    for (mode, rate) in Mode::ALL.into_iter().zip(cli.rates.iter().copied()) {
        let title = mode.title();
        let measured = bench.measure(mode, rate, &kinds).or_else(|error| {
            eprintln!("again, because of {error:#}");
            bench.measure(mode, rate, &kinds)
        })?;
        document.tables.push(idle_table(title, cli.connections, &measured));
        document.tables.push(new_table(title, rate, &measured));
        let of = |measured: &Measured| of(measured, cli.connections);
        raw.insert(title.to_owned(), measured.iter().map(of).collect());
    }
    document.raw = Value::Object(raw);
    document.finish(cli.json.as_deref())
}

fn present(cli: &Cli, programs: &Programs, document: &mut Document) -> Vec<Kind> {
    let (mut versions, mut kinds) = (Map::new(), Vec::new());
    for kind in cli.peers.iter().copied() {
        if let Some(version) = programs.version(kind) {
            versions.insert(kind.name().to_owned(), Value::String(version));
            kinds.push(kind);
        } else {
            let note = format!("MISSING: {} is not installed and was not measured.", kind.name());
            eprintln!("{note}");
            document.notes.push(note);
        }
    }
    document.versions = Value::Object(versions);
    kinds
}

impl Bench<'_> {
    fn measure(&self, mode: Mode, rate: f64, kinds: &[Kind]) -> anyhow::Result<Vec<Measured>> {
        let mut all = Vec::new();
        let title = mode.title();
        for kind in kinds {
            eprintln!("{title}: {} idle connections, {}", self.cli.connections, kind.name());
            let idle = self.idle(mode, *kind).with_context(|| kind.name())?;
            let (new, after) = (Vec::new(), Memory::default());
            all.push(Measured { kind: *kind, idle, new, after });
        }
        let application =
            Application::start(&self.programs.application, self.certificates, Some("1"))?;
        let mut running = Vec::new();
        for measured in &mut all {
            running.push((self.proxy(mode, measured.kind, &application)?, measured));
        }
        for (_, at) in interleaved(self.cli.rounds, running.len()) {
            let Some((proxy, measured)) = running.get_mut(at) else { continue };
            eprintln!("{title}: new connections, {}", proxy.kind.name());
            let load = Load {
                rate: Some(rate),
                connections: 64,
                seconds: self.cli.seconds / number(self.cli.rounds),
                new_connection: true,
                count_failures: true,
                pid: proxy.pids(),
                ..self.load(mode, proxy)
            };
            let outcome = load.run(&self.programs.generator, Some("1"));
            measured.new.push(outcome.with_context(|| proxy.kind.name())?);
            measured.after = proxy.memory()?;
        }
        drop(running);
        Ok(all)
    }

    fn proxy(&self, mode: Mode, kind: Kind, application: &Application) -> anyhow::Result<Proxy> {
        let setup = Setup {
            programs: self.programs,
            folder: self.certificates.join(format!("{mode:?}-{kind:?}")),
            certificates: self.certificates,
            side: mode.side(),
            application,
            rules: 1,
            workers: 1,
            cores: Some("0"),
        };
        Proxy::start(kind, &setup)
    }

    fn load(&self, mode: Mode, proxy: &Proxy) -> Load {
        let target = match mode {
            Mode::Plaintext => proxy.ports.http1,
            Mode::Tls => proxy.ports.tls1,
            Mode::Outbound => proxy.ports.out_http,
        };
        let tls = (mode == Mode::Tls).then(|| self.certificates.to_owned());
        Load { tls, sources: 16, ..Load::to(target) }
    }

    fn idle(&self, mode: Mode, kind: Kind) -> anyhow::Result<[Memory; 3]> {
        let application =
            Application::start(&self.programs.application, self.certificates, Some("1"))?;
        let proxy = self.proxy(mode, kind, &application)?;
        // What is there once, however many connections there are, is not theirs.
        let first = Load { seconds: 1.0, ..self.load(mode, &proxy) };
        first.run(&self.programs.generator, Some("1"))?;
        let settle = Duration::from_secs(self.cli.settle);
        std::thread::sleep(settle);
        let before = proxy.memory()?;
        let hold =
            Load { hold: true, connections: self.cli.connections, ..self.load(mode, &proxy) };
        let mut held = hold.start(&self.programs.generator, Some("1"))?;
        held.held()?;
        std::thread::sleep(settle);
        let with = proxy.memory()?;
        drop(held);
        std::thread::sleep(settle);
        Ok([before, with, proxy.memory()?])
    }
}

fn mb(memory: &Memory) -> f64 {
    wide(memory.resident) / 1_048_576.0
}

fn each(measured: &Measured, connections: usize) -> f64 {
    let [before, with, _] = &measured.idle;
    wide(with.anonymous.saturating_sub(before.anonymous)) / 1024.0 / number(connections)
}

fn idle_table(title: &str, connections: usize, all: &[Measured]) -> Table {
    let columns = ["proxy", "KiB each", "MB before", "MB with them", "MB after"];
    let title = format!("{connections} idle connections after one request each, {title}");
    let mut table = Table::new(&title, &columns);
    for measured in all {
        let name: Cell = measured.kind.name().into();
        let memory = measured.idle.iter().map(|memory| mb(memory).into());
        let cells = [name, each(measured, connections).into()].into_iter().chain(memory);
        table.row(cells);
    }
    table
}

fn new_table(title: &str, rate: f64, all: &[Measured]) -> Table {
    let columns = ["proxy", "CPU, µs each", "p50, µs", "p99, µs", "failures", "MB after"];
    let title = format!("{rate} new connections per second with one request each, {title}");
    let mut table = Table::new(&title, &columns);
    for measured in all {
        let of = |of: fn(&Outcome) -> f64| Cell::from(Spread::of(measured.new.iter().map(of)));
        let failures = measured.new.iter().map(|outcome| outcome.failures).sum::<u64>();
        table.row([
            measured.kind.name().into(),
            of(Outcome::cpu),
            of(|one| one.p50),
            of(|one| one.p99),
            wide(failures).into(),
            mb(&measured.after).into(),
        ]);
    }
    table
}

fn of(measured: &Measured, connections: usize) -> Value {
    let idle = measured.idle.map(
        |memory| json!({"resident_bytes": memory.resident, "anonymous_bytes": memory.anonymous}),
    );
    json!({
        "proxy": measured.kind.name(),
        "connections": connections,
        "idle": idle,
        "idle_kib_each": each(measured, connections),
        "new": measured.new,
    })
}
