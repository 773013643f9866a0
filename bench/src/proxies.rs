//! The proxies: ours, and the peers it is measured beside, each set up as its documentation
//! recommends for so many workers, all on loopback and without redirection.

mod envoy;
mod haproxy;
mod nginx;
mod portcullis;

use crate::child::{Launch, Process};
use crate::{machine, process};
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

pub use portcullis::metric;

/// Most that a start may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A proxy that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Ours.
    Portcullis,
    /// hyper without any policy.
    Bare,
    /// HAProxy without policy.
    Haproxy,
    /// nginx without policy.
    Nginx,
    /// Envoy without policy.
    Envoy,
    /// Envoy with as many RBAC rules as there are rules.
    EnvoyRbac,
}

impl Kind {
    /// What tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portcullis => "Portcullis",
            Self::Bare => "bare hyper",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Envoy => "Envoy",
            Self::EnvoyRbac => "Envoy, RBAC",
        }
    }

    /// Whether it decides by rules.
    pub fn has_policy(self) -> bool {
        matches!(self, Self::Portcullis | Self::EnvoyRbac)
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `policy-proxy`.
    pub proxy: PathBuf,
    /// `policy-controller`.
    pub controller: PathBuf,
    /// `load-generator`.
    pub generator: PathBuf,
    /// `echo-application`.
    pub application: PathBuf,
    /// `bare-proxy`.
    pub bare: PathBuf,
    /// Envoy, if it is there.
    pub envoy: PathBuf,
}

impl Programs {
    /// Those beside this program, the proxies as [`shipped`]; `proxy` names another one of ours, as of
    /// another commit.
    pub fn beside(proxy: Option<&Path>) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let beside = |name: &str| own.with_file_name(name);
        let envoy = std::env::var_os("BENCH_ENVOY").map_or("envoy".into(), PathBuf::from);
        Ok(Self {
            proxy: proxy.map_or_else(|| shipped("policy-proxy"), |proxy| Ok(proxy.to_owned()))?,
            controller: beside("policy-controller"),
            generator: beside("load-generator"),
            application: beside("echo-application"),
            bare: shipped("bare-proxy")?,
            envoy,
        })
    }

    /// What a proxy says of its version; nothing where it is not there.
    pub fn version(&self, kind: Kind) -> Option<String> {
        let path = |path: &Path| path.display().to_string();
        let said = match kind {
            Kind::Portcullis => machine::said(&path(&self.proxy), &["--version"]),
            Kind::Bare if self.bare.exists() => "hyper 1".to_owned(),
            Kind::Bare => String::new(),
            Kind::Haproxy => machine::said("haproxy", &["-v"]),
            Kind::Nginx => machine::said("nginx", &["-v"]),
            Kind::Envoy | Kind::EnvoyRbac => {
                let said = machine::said(&path(&self.envoy), &["--version"]);
                // Before it stands where the program is.
                said.split_once("version: ").map_or(said.clone(), |(_, own)| format!("envoy {own}"))
            }
        };
        (!said.is_empty()).then_some(said)
    }
}

/// Where a proxy is that was built with the profile of the sidecar, if this program was built with that of
/// release; else it is beside this one, of the same profile.
pub fn shipped(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name(name);
    let folder = own.parent().filter(|folder| folder.ends_with("release"));
    let sidecar = folder.map(|release| release.with_file_name("sidecar").join(name));
    Ok(sidecar.unwrap_or(beside))
}

/// The application behind every proxy. It ends when this is dropped.
#[derive(Debug)]
pub struct Application {
    /// The process.
    pub process: Process,
    /// Where it serves HTTP.
    pub http: SocketAddr,
    /// Where it serves raw TCP.
    pub raw: SocketAddr,
}

impl Application {
    /// Starts ours on certain cores.
    pub fn start(program: &Path, cores: Option<&str>) -> anyhow::Result<Self> {
        let mut process = Launch::new(program).on(cores).with_stdout().start()?;
        let said = process.stdout().context("no output")?;
        let line = BufReader::new(said).lines().next().context("the application ended")??;
        let (http, raw) = line.split_once(' ').context("the application's addresses")?;
        Ok(Self { http: http.parse()?, raw: raw.parse()?, process })
    }
}

/// How a proxy is to be set up.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The programs.
    pub programs: &'a Programs,
    /// For its files, its own alone.
    pub folder: PathBuf,
    /// With [`crate::certificates`].
    pub certificates: &'a Path,
    /// The application's addresses: HTTP, raw.
    pub application: (SocketAddr, SocketAddr),
    /// Rules, for those that have policy.
    pub rules: usize,
    /// Worker threads or processes.
    pub workers: usize,
    /// The cores it runs on.
    pub cores: Option<&'a str>,
}

/// Where a running proxy listens.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// HTTP/1.1.
    pub http1: SocketAddr,
    /// HTTP/2.
    pub http2: SocketAddr,
    /// gRPC.
    pub grpc: SocketAddr,
    /// Raw TCP.
    pub raw: SocketAddr,
    /// HTTP/1.1 under mutual TLS.
    pub tls1: SocketAddr,
    /// HTTP/2 under mutual TLS.
    pub tls2: SocketAddr,
    /// HTTP/1.1 where nothing but `/zz/` is let through.
    pub routed: SocketAddr,
    /// HTTP/1.1 where callers without a certificate are refused.
    pub meshed: SocketAddr,
}

impl Ports {
    fn free() -> anyhow::Result<Self> {
        Ok(Self {
            http1: free()?,
            http2: free()?,
            grpc: free()?,
            raw: free()?,
            tls1: free()?,
            tls2: free()?,
            routed: free()?,
            meshed: free()?,
        })
    }
}

/// A proxy that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Which one.
    pub kind: Kind,
    /// Where it listens.
    pub ports: Ports,
    /// Its process, and what it needs to live.
    processes: Vec<Process>,
    /// Where it serves metrics, if it does.
    pub admin: Option<SocketAddr>,
}

impl Proxy {
    /// Starts one, and waits until it forwards.
    pub fn start(kind: Kind, setup: &Setup<'_>) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&setup.folder)?;
        Self::begin(kind, setup).with_context(|| logs(&setup.folder))
    }

    fn begin(kind: Kind, setup: &Setup<'_>) -> anyhow::Result<Self> {
        let ports = Ports::free()?;
        let mut proxy = match kind {
            Kind::Portcullis => portcullis::start(setup, ports)?,
            Kind::Bare => {
                let addresses = [ports.http1.to_string(), setup.application.0.to_string()];
                let launch = Launch::new(&setup.programs.bare).args(addresses).on(setup.cores);
                Self { kind, ports, processes: vec![launch.start()?], admin: None }
            }
            Kind::Haproxy => haproxy::start(setup, ports)?,
            Kind::Nginx => nginx::start(setup, ports)?,
            Kind::Envoy | Kind::EnvoyRbac => envoy::start(kind, setup, ports)?,
        };
        let Some(process) = proxy.processes.first_mut() else { bail!("no process") };
        process.wait_for(ports.http1, PATIENCE)?;
        Ok(proxy)
    }

    /// The processes that do its work.
    pub fn pids(&self) -> Vec<u32> {
        let own = self.processes.first().map(Process::pid);
        own.into_iter().flat_map(|pid| [vec![pid], process::descendants(pid)].concat()).collect()
    }

    /// The memory of all of them, in bytes.
    pub fn memory(&self) -> anyhow::Result<process::Memory> {
        let mut sum = process::Memory::default();
        for pid in self.pids() {
            let process::Memory { resident, peak, anonymous, file } = process::memory(pid)?;
            sum.resident += resident;
            sum.peak += peak;
            sum.anonymous += anonymous;
            sum.file += file;
        }
        Ok(sum)
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.processes.iter_mut().try_for_each(Process::check)
    }
}

/// The ends of the logs in a folder, which is gone when somebody reads of it.
fn logs(folder: &Path) -> String {
    let files = folder.read_dir().into_iter().flatten().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().ends_with(".log"));
    let ends = logs.filter_map(|file| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let skipped = text.lines().count().saturating_sub(5);
        Some(text.lines().skip(skipped).collect::<Vec<_>>().join("\n"))
    });
    ends.collect::<Vec<_>>().join("\n")
}

/// A loopback address that nobody listens on, outside of the ports that connections are opened from.
pub fn free() -> anyhow::Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Measurements that run at a time begin at different places.
    let base = u16::try_from(std::process::id() % 8000)?;
    for _ in 0..10_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (base + step) % 12_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port is free")
}
