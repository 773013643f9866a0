//! Starts proxies.

use super::ports::Ports;
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::{PATIENCE, Setup, Side, Upstreams};
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
        match setup.side {
            Side::Inbound => Self::inbound(kind, setup, ports),
            Side::Outbound => Self::outbound(kind, setup, ports, setup.application.secure),
            Side::Pair | Side::OpaquePair => {
                let server = Self::inbound(kind, setup, ports)?;
                let Ports { tls1, raw_tls, .. } = server.ports;
                let to = Upstreams { http: tls1, raw: raw_tls };
                let client = Self::outbound(kind, setup, server.ports, to)?;
                let processes = client.processes.into_iter().chain(server.processes).collect();
                let helpers = client.helpers.into_iter().chain(server.helpers).collect();
                Ok(Self { processes, helpers, ..client })
            }
        }
    }

    fn inbound(kind: Kind, setup: &Setup<'_>, ports: Ports) -> anyhow::Result<Self> {
        let mut proxy = match kind {
            Kind::Portcullis if setup.side == Side::OpaquePair => portcullis::opaque(setup, ports)?,
            Kind::Portcullis | Kind::Unrecorded => portcullis::start(kind, setup, ports)?,
            Kind::Bare => {
                let addresses = [ports.http1.to_string(), setup.application.http.to_string()];
                let launch = Launch::new(&setup.programs.bare).args(addresses).on(setup.cores);
                Self {
                    kind,
                    ports,
                    processes: vec![launch.start()?],
                    helpers: Vec::new(),
                    admin: None,
                }
            }
            Kind::Haproxy => haproxy::start(setup, ports)?,
            Kind::Nginx => nginx::start(setup, ports)?,
            Kind::Envoy | Kind::EnvoyRbac => envoy::start(kind, setup, ports)?,
        };
        let Some(process) = proxy.processes.first_mut() else { bail!("no process") };
        process.wait_for(ports.http1, PATIENCE)?;
        Ok(proxy)
    }

    fn outbound(
        kind: Kind,
        setup: &Setup<'_>,
        ports: Ports,
        to: Upstreams,
    ) -> anyhow::Result<Self> {
        let mut proxy = match kind {
            Kind::Portcullis => portcullis::outbound(setup, ports, to)?,
            Kind::Haproxy => haproxy::outbound(setup, ports, to)?,
            Kind::Envoy => envoy::outbound(setup, ports, to)?,
            Kind::Unrecorded | Kind::Bare | Kind::Nginx | Kind::EnvoyRbac => {
                bail!("{} is not set up for outbound connections", kind.name())
            }
        };
        let Some(process) = proxy.processes.first_mut() else { bail!("no process") };
        process.wait_for(ports.out_http, PATIENCE)?;
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
