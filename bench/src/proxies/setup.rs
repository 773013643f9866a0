//! Configuration of a proxy.

use super::programs::Programs;
use crate::child::{Launch, Process};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most that a start may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The application behind every proxy. It ends when this is dropped.
#[derive(Debug)]
pub struct Application {
    /// The process.
    pub process: Process,
    /// Address at which it serves HTTP.
    pub http: SocketAddr,
    /// Address at which it serves raw TCP.
    pub raw: SocketAddr,
    /// The same under mutual TLS.
    pub secure: Upstreams,
}

/// Addresses that bytes go on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upstreams {
    /// HTTP.
    pub http: SocketAddr,
    /// Raw TCP.
    pub raw: SocketAddr,
}

/// The half of a mesh that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In front of the application, as its server's proxy.
    Inbound,
    /// In front of an application that serves mutual TLS itself, as its clients' proxy.
    Outbound,
    /// Both, one behind the other.
    Pair,
    /// Both, with a port that is opaque to ours.
    OpaquePair,
}

impl Application {
    /// Starts ours on certain cores.
    ///
    /// `certificates` is a folder with [`crate::certificates`].
    pub fn start(program: &Path, certificates: &Path, cores: Option<&str>) -> anyhow::Result<Self> {
        let tls = format!("--tls={}", certificates.display());
        let mut process = Launch::new(program).args([tls]).on(cores).with_stdout().start()?;
        let said = process.stdout().context("no output")?;
        let line = BufReader::new(said).lines().next().context("the application ended")??;
        let all: Vec<SocketAddr> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [http, raw, secure_http, secure_raw] = *all else { bail!("addresses: {line}") };
        let secure = Upstreams { http: secure_http, raw: secure_raw };
        Ok(Self { process, http, raw, secure })
    }
}

/// Settings of a proxy.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The programs.
    pub programs: &'a Programs,
    /// For its files, its own alone.
    pub folder: PathBuf,
    /// With [`crate::certificates`].
    pub certificates: &'a Path,
    /// The half of the mesh.
    pub side: Side,
    /// The application.
    pub application: &'a Application,
    /// Rules, for those that have policy.
    pub rules: usize,
    /// Worker threads or processes.
    pub workers: usize,
    /// The cores it runs on.
    pub cores: Option<&'a str>,
}
