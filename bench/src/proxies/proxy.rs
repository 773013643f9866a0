//! A proxy that runs.

use super::ports::Ports;
use super::programs::Kind;
use crate::child::Process;
use crate::process;
use std::net::SocketAddr;

/// A proxy that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Kind of the proxy.
    pub kind: Kind,
    /// Its listening ports.
    pub ports: Ports,
    /// The processes that do its work.
    pub(super) processes: Vec<Process>,
    /// The processes that these need to live.
    pub(super) helpers: Vec<Process>,
    /// Address at which it serves metrics, if it does.
    pub admin: Option<SocketAddr>,
}

impl Proxy {
    /// The processes that do its work.
    pub fn pids(&self) -> Vec<u32> {
        let own = self.processes.iter().map(Process::pid);
        own.flat_map(|pid| [vec![pid], process::descendants(pid)].concat()).collect()
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
        self.processes.iter_mut().chain(&mut self.helpers).try_for_each(Process::check)
    }
}
