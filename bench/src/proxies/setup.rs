//! Configuration of a proxy.

use super::programs::Programs;
use crate::child::{Launch, Process};
use anyhow::Context;
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

/// Settings of a proxy.
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
