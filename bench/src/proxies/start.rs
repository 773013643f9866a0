//! Starts proxies.

use super::ports::Ports;
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::{PATIENCE, Setup};
use super::{envoy, haproxy, nginx, portcullis};
use crate::child::Launch;
use anyhow::{Context, bail};
use std::path::Path;

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
