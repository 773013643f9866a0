//! Cost of a policy change for the proxy while it carries requests. `bench/README.md` says how to
//! repeat it.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod controller;
mod load;
mod policy;
mod threads;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use controller::{Controller, Said};
use load::{Answer, Load};
use policy::{PORT, Subject};
use policy_bench::child::{Launch, Process};
use policy_bench::process::memory;
use policy_bench::proxies::shipped;
use policy_bench::report::{Cell, Document, Table};
use policy_bench::stats;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use threads::Threads;
use tokio::sync::mpsc::UnboundedReceiver;

/// Measures what changes of a policy cost the proxy, and prints tables.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Rules on the port.
    #[arg(long, default_value_t = 10_000)]
    rules: usize,
    /// Changes per second, of one rule each.
    #[arg(long, default_value_t = 100)]
    changes: u32,
    /// Requests per second, over all connections.
    #[arg(long, default_value_t = 4000.0)]
    requests: f64,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// For how long each part is measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The proxy; absent: the one built beside this.
    #[arg(long)]
    proxy: Option<PathBuf>,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let mut document = Document::new("policy-change");
    let mut bench = Bench::start(&cli).await?;
    eprintln!("requests alone");
    let quiet = bench.part(&cli, Some(()), false).await?;
    eprintln!("changes alone");
    let idle = bench.part(&cli, None, true).await?;
    eprintln!("both");
    let busy = bench.part(&cli, Some(()), true).await?;
    document.tables.push(latency(&quiet, &busy));
    document.tables.push(costs(&cli, &[("without requests", &idle), ("under load", &busy)]));
    document.tables.push(memory_table(&[
        ("requests alone", &quiet),
        ("changes alone", &idle),
        ("changes under load", &busy),
    ]));
    document.raw = json!({
        "rules": cli.rules, "changes_per_second": cli.changes,
        "requests_alone": quiet.raw(), "changes_alone": idle.raw(), "both": busy.raw(),
    });
    document.finish(cli.json.as_deref())
}

/// A proxy with a controller, an application and the policy that it has.
struct Bench {
    proxy: Process,
    target: SocketAddr,
    controller: Controller,
    said: UnboundedReceiver<(Instant, Said)>,
    subject: Subject,
}

/// Results of one part.
struct Part {
    answers: Vec<Answer>,
    /// The changes that were acknowledged: content, when it was sent, when acknowledged.
    acknowledged: Vec<(u64, Instant, Instant)>,
    sent: u32,
    used: Threads,
    /// Work of the threads from one change to the next.
    each: Vec<Threads>,
    resident: u64,
    peak: u64,
}

impl Bench {
    async fn start(cli: &Cli) -> anyhow::Result<Self> {
        let subject = Subject::new(cli.rules)?;
        let (controller, said) = Controller::new(subject.full.clone());
        let (control, application) = (controller.serve().await?, load::application().await?);
        let target = free()?;
        let program = cli.proxy.clone().map_or_else(|| shipped("policy-proxy"), Ok)?;
        let launch = Launch::new(program)
            .args(["run", "--identity", "none", "--log", "error", "--workload", "bench:web"])
            .args(["--admin", "127.0.0.1:0", "--policy-addr", &control.to_string()])
            .args(["--forward", &format!("{target},{PORT},{application}")]);
        let proxy = launch.start()?;
        let mut bench = Self { proxy, target, controller, said, subject };
        let first = tokio::time::timeout(Duration::from_secs(60), bench.said.recv()).await;
        let (_, first) = first.context("the proxy did not acknowledge")?.context("no stream")?;
        ensure!(first == Said::Ack(bench.subject.content()), "the proxy said {first:?}");
        Ok(bench)
    }

    /// Requests, changes or both for a while.
    async fn part(&mut self, cli: &Cli, load: Option<()>, changes: bool) -> anyhow::Result<Part> {
        let stop = Arc::new(AtomicBool::new(false));
        let load = load.map(|()| {
            let (target, rate) = (self.target, cli.requests);
            let load = Load { target, connections: cli.connections, rate };
            let stop = Arc::clone(&stop);
            // Its own thread, so that neither waits for the other.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(load.run(stop))
            })
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = Threads::of(self.proxy.pid())?;
        let (mut last, mut each) = (before, Vec::new());
        let (mut acknowledged, mut times) = (Vec::new(), std::collections::HashMap::new());
        let mut tick = tokio::time::interval(Duration::from_secs(1) / cli.changes.max(1));
        let count = if changes { cli.changes * u32::try_from(cli.seconds)? } else { 0 };
        for number in 0..count {
            tick.tick().await;
            let now = Threads::of(self.proxy.pid())?;
            // Before the first there was none.
            each.extend((number > 0).then(|| now.since(&last)));
            last = now;
            let update = self.subject.next();
            times.insert(self.subject.content(), Instant::now());
            self.controller.send(update).await?;
            self.hear(&times, &mut acknowledged)?;
        }
        let rest =
            if changes { Duration::from_millis(500) } else { Duration::from_secs(cli.seconds) };
        tokio::time::sleep(rest).await;
        self.hear(&times, &mut acknowledged)?;
        let used = Threads::of(self.proxy.pid())?.since(&before);
        let memory = memory(self.proxy.pid())?;
        stop.store(true, Ordering::Relaxed);
        let answers = match load {
            // Not here, for the application that is to answer what is on its way is of this runtime.
            Some(load) => tokio::task::spawn_blocking(|| load.join())
                .await?
                .map_err(|_| anyhow::anyhow!("the load failed"))??,
            None => Vec::new(),
        };
        let (resident, peak) = (memory.resident, memory.peak);
        Ok(Part { answers, acknowledged, sent: count, used, each, resident, peak })
    }

    fn hear(
        &mut self,
        times: &std::collections::HashMap<u64, Instant>,
        acknowledged: &mut Vec<(u64, Instant, Instant)>,
    ) -> anyhow::Result<()> {
        while let Ok((at, said)) = self.said.try_recv() {
            match said {
                Said::Ack(content) => {
                    acknowledged.extend(times.get(&content).map(|sent| (content, *sent, at)));
                }
                Said::Other(what) => bail!("the proxy said: {what}"),
            }
        }
        Ok(())
    }
}

fn memory_table(parts: &[(&str, &Part)]) -> Table {
    let mut table = Table::new("Resident memory", &["after", "MB", "highest so far, MB"]);
    for (name, part) in parts {
        let mb = |bytes: u64| Cell::from(stats::wide(bytes) / 1_048_576.0);
        table.row([Cell::from(*name), mb(part.resident), mb(part.peak)]);
    }
    table
}

fn latency(quiet: &Part, busy: &Part) -> Table {
    let columns = ["", "requests", "p50, ms", "p99, ms", "p99.9, ms", "longest, ms"];
    let mut table = Table::new("Latency from the moment at which a request was due", &columns);
    for (name, part) in [("no changes", quiet), ("changes", busy)] {
        let took: Vec<f64> =
            part.answers.iter().map(|answer| answer.took.as_secs_f64() * 1e3).collect();
        let at = |share| Cell::from(stats::quantile(&took, share));
        let count = Cell::from(stats::number(took.len()));
        table.row([Cell::from(name), count, at(0.5), at(0.99), at(0.999), at(1.0)]);
    }
    table
}

fn costs(cli: &Cli, parts: &[(&str, &Part)]) -> Table {
    let title = format!(
        "A change of one of {} rules, {} per second; what the worker takes for one, without \
         requests, is the longest pause that a change can make",
        cli.rules, cli.changes
    );
    let columns = [
        "",
        "acknowledged",
        "control thread, µs per change",
        "most for one",
        "worker, µs per change",
        "most for one",
        "sent to ACK p50, ms",
        "p99, ms",
        "decided by an older revision though sent after its ACK",
        "last answer under an older one after the ACK, ms",
    ];
    let mut table = Table::new(&title, &columns);
    for (name, part) in parts {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(part.sent.max(1));
        let waited = part.acknowledged.iter().map(|(_, sent, at)| *at - *sent);
        let waited: Vec<f64> = waited.map(|wait| wait.as_secs_f64() * 1e3).collect();
        let (late, last) = part.stale();
        // With requests the worker's time is mostly theirs.
        let idle = part.answers.is_empty();
        table.row([
            Cell::from(*name),
            Cell::from(format!("{} of {}", part.acknowledged.len(), part.sent)),
            Cell::from(each(part.used.control)),
            Cell::from(most(&part.control())),
            Cell::from(idle.then(|| each(part.used.worker))),
            Cell::from(if idle { most(&part.worker()) } else { None }),
            Cell::from(stats::quantile(&waited, 0.5)),
            Cell::from(stats::quantile(&waited, 0.99)),
            Cell::from(stats::number(late)),
            Cell::from(last.as_secs_f64() * 1e3),
        ]);
    }
    table
}

fn most(values: &[f64]) -> Option<f64> {
    stats::quantile(values, 1.0)
}

impl Part {
    /// Microseconds of the thread that receives policy, for each change.
    fn control(&self) -> Vec<f64> {
        self.each.iter().map(|used| used.control.as_secs_f64() * 1e6).collect()
    }

    /// Microseconds of the worker from each change to the next.
    fn worker(&self) -> Vec<f64> {
        self.each.iter().map(|used| used.worker.as_secs_f64() * 1e6).collect()
    }

    fn raw(&self) -> Value {
        let (late, last) = self.stale();
        json!({
            "sent": self.sent,
            "acknowledged": self.acknowledged.len(),
            "control_us": self.control(),
            "worker_us": self.worker(),
            "answers": self.answers.len(),
            "decided_by_older_after_ack": late,
            "last_answer_by_older_after_ack_ms": last.as_secs_f64() * 1e3,
            "resident_bytes": self.resident,
            "peak_bytes": self.peak,
        })
    }

    /// Number of requests that were decided by an older revision than one acknowledged before they were
    /// sent; and the time from an acknowledgement to the last response under an older one.
    fn stale(&self) -> (usize, Duration) {
        let (mut late, mut last) = (0, Duration::ZERO);
        for answer in self.answers.iter().filter(|answer| answer.revision > 0) {
            // Sorted by content: the first that is newer was acknowledged first.
            let newer = self.acknowledged.partition_point(|(own, ..)| *own <= answer.revision);
            let Some((_, _, at)) = self.acknowledged.get(newer) else { continue };
            late += usize::from(answer.sent > *at);
            last = last.max((answer.sent + answer.took).saturating_duration_since(*at));
        }
        (late, last)
    }
}

/// An address of loopback that nothing listens on.
fn free() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
