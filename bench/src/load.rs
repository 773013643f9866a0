//! The load generator as measurements use it: what is asked for, what came out.

use crate::child::{Launch, Process};
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Protocol of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// HTTP/1.1, a request at a time on each connection.
    Http1,
    /// HTTP/2 with prior knowledge, or by ALPN under TLS.
    Http2,
    /// A unary call: one message each way, and trailers.
    Grpc,
    /// Calls that stay open; an operation is a message and its echo.
    GrpcStream,
    /// Raw TCP; an operation is 64 bytes and their echo.
    Echo,
    /// Raw TCP; the application sends as fast as it can. An operation is what was read at once.
    Download,
    /// Raw TCP; the client sends as fast as it can. An operation is what was written at once.
    Upload,
}

/// One load.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// Address to connect to.
    #[arg(long)]
    pub target: SocketAddr,
    /// Protocol to speak.
    #[arg(long, value_enum, default_value = "http1")]
    pub protocol: Protocol,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    pub connections: usize,
    /// Requests in flight per connection of HTTP/2.
    #[arg(long, default_value_t = 1)]
    pub streams: usize,
    /// For how long is measured.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// For how long is not measured before.
    #[arg(long, default_value_t = 0.3)]
    pub warm_up: f64,
    /// Operations per second over all connections, whether they are answered or not; without it
    /// each follows the answer to the one before.
    #[arg(long)]
    pub rate: Option<f64>,
    /// The path; the application sends as many bytes as the number after a `?`.
    #[arg(long, default_value = "/zz/x")]
    pub path: String,
    /// Bytes of a request's body.
    #[arg(long, default_value_t = 0)]
    pub body: usize,
    /// The status of every answer; another one is an error.
    #[arg(long, default_value_t = 200)]
    pub expect: u16,
    /// Folder with `ca.crt`, `client.crt`, `client.key`: mutual TLS 1.3 with X25519 and
    /// AES-128-GCM, every handshake a full one.
    #[arg(long)]
    pub tls: Option<PathBuf>,
    /// The name asked for under TLS.
    #[arg(long, default_value = "web.bench.serviceaccount.identity.linkerd.cluster.local")]
    pub server_name: String,
    /// A new connection for every request of HTTP/1.1.
    #[arg(long)]
    pub new_connection: bool,
    /// Requests that fail are counted instead of ending the load. Of HTTP/1.1 alone.
    #[arg(long)]
    pub count_failures: bool,
    /// Instead of a load: connections that stay open after one request of HTTP/1.1 each. A line
    /// says when they are there; the end of standard input ends them.
    #[arg(long)]
    pub hold: bool,
    /// Addresses to connect from: 127.0.0.1 and those after it, in turn.
    #[arg(long, default_value_t = 1)]
    pub sources: u8,
    /// Processes whose processor time is measured meanwhile.
    #[arg(long, value_delimiter = ',')]
    pub pid: Vec<u32>,
}

impl Load {
    /// HTTP/1.1 as in the base case: 32 connections, closed loop.
    pub fn to(target: SocketAddr) -> Self {
        Self {
            target,
            protocol: Protocol::Http1,
            connections: 32,
            streams: 1,
            seconds: 3.0,
            warm_up: 0.3,
            rate: None,
            path: "/zz/x".to_owned(),
            body: 0,
            expect: 200,
            tls: None,
            server_name: crate::policy::IDENTITY.to_owned(),
            new_connection: false,
            count_failures: false,
            hold: false,
            sources: 1,
            pid: Vec::new(),
        }
    }

    /// The same as arguments of the load generator.
    pub fn arguments(&self) -> Vec<String> {
        let protocol = self.protocol.to_possible_value();
        let mut all = vec![
            format!("--target={}", self.target),
            format!("--protocol={}", protocol.as_ref().map_or("http1", |value| value.get_name())),
            format!("--connections={}", self.connections),
            format!("--streams={}", self.streams),
            format!("--seconds={}", self.seconds),
            format!("--warm-up={}", self.warm_up),
            format!("--path={}", self.path),
            format!("--body={}", self.body),
            format!("--expect={}", self.expect),
            format!("--server-name={}", self.server_name),
            format!("--sources={}", self.sources),
        ];
        all.extend(self.rate.map(|rate| format!("--rate={rate}")));
        all.extend(self.tls.iter().map(|tls| format!("--tls={}", tls.display())));
        all.extend(self.new_connection.then(|| "--new-connection".to_owned()));
        all.extend(self.count_failures.then(|| "--count-failures".to_owned()));
        all.extend(self.hold.then(|| "--hold".to_owned()));
        all.extend(self.pid.iter().map(|pid| format!("--pid={pid}")));
        all
    }

    /// Makes this load by the generator, on certain cores. An answer that is not what it should be
    /// is an error.
    pub fn run(&self, generator: &Path, cores: Option<&str>) -> anyhow::Result<Outcome> {
        self.start(generator, cores)?.finish()
    }

    /// Starts to make this load.
    pub fn start(&self, generator: &Path, cores: Option<&str>) -> anyhow::Result<Running> {
        let launch = Launch::new(generator).args(self.arguments()).on(cores);
        let process = launch.with_stdin().with_stdout().with_stderr().start()?;
        Ok(Running { process, target: self.target })
    }
}

/// A load that is being made. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    process: Process,
    target: SocketAddr,
}

impl Running {
    /// The generator's process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until connections that are to be held are there; they are until this is dropped.
    pub fn held(&mut self) -> anyhow::Result<()> {
        let said = self.process.stdout().context("no output")?;
        let line = BufReader::new(said).lines().next().transpose()?;
        if line.as_deref() == Some("held") { Ok(()) } else { bail!("{}", self.wrong()) }
    }

    /// Waits for its end.
    pub fn finish(mut self) -> anyhow::Result<Outcome> {
        let mut said = String::new();
        self.process.stdout().context("no output")?.read_to_string(&mut said)?;
        let wrong = self.wrong();
        self.process.finish().with_context(|| wrong.clone())?;
        let outcome: Outcome =
            serde_json::from_str(&said).context("the load generator's result")?;
        ensure!(outcome.operations > 0, "nothing was answered: {wrong}");
        Ok(outcome)
    }

    fn wrong(&mut self) -> String {
        let mut wrong = String::new();
        if let Some(mut stderr) = self.process.stderr() {
            // Whatever it has said is enough.
            _ = stderr.read_to_string(&mut wrong);
        }
        format!("{}: {}", self.target, wrong.trim())
    }
}

/// Results of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Answered within the time that is measured.
    pub operations: u64,
    /// That time.
    pub seconds: f64,
    /// Bytes of bodies, both ways.
    pub bytes: u64,
    /// Answers by status, those outside of that time too.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests that got no answer, where these are counted.
    #[serde(default)]
    pub failures: u64,
    /// Connections that were opened, those outside of that time too.
    pub connections: u64,
    /// Processor time of the processes.
    pub cpu_seconds: f64,
    /// Processor time of the generator.
    pub own_cpu_seconds: f64,
    /// Latency in microseconds: half, 99 and 99.9 of a hundred, the longest. With a rate from when
    /// an operation was to start, not from when it could.
    pub p50: f64,
    /// See [`Self::p50`].
    pub p99: f64,
    /// See [`Self::p50`].
    pub p999: f64,
    /// See [`Self::p50`].
    pub greatest: f64,
}

impl Outcome {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        crate::stats::wide(self.operations) / self.seconds
    }

    /// Microseconds of the processes per operation.
    pub fn cpu(&self) -> f64 {
        self.cpu_seconds * 1e6 / crate::stats::wide(self.operations)
    }

    /// Megabytes per second of the processes.
    pub fn bytes_per_cpu_second(&self) -> f64 {
        crate::stats::wide(self.bytes) / 1e6 / self.cpu_seconds
    }
}
