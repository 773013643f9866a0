//! Attackers as measurements use them: their number, and what they did.

use crate::child::{Launch, Process};
use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ChildStdout;

/// Attackers.
#[derive(Args, Clone, Debug)]
pub struct Attack {
    /// Address at which the proxy speaks HTTP/1.1.
    #[arg(long)]
    pub http1: SocketAddr,
    /// Address at which it speaks HTTP/2.
    #[arg(long)]
    pub http2: SocketAddr,
    /// Attackers, from a network (/24) of 127.1.0.0/16 each.
    #[arg(long, default_value_t = 20)]
    pub attackers: u8,
    /// Connections of each.
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
}

/// Counts of what attackers did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Times that something was sent.
    pub acts: u64,
    /// Connections that were opened.
    pub connections: u64,
}

/// Attackers at work. Dropping it ends them.
#[derive(Debug)]
pub struct Attacking {
    process: Process,
    output: BufReader<ChildStdout>,
}

impl Attack {
    /// Starts it on certain cores, and waits until every connection was open once.
    pub fn start(&self, program: &Path, cores: Option<&str>) -> anyhow::Result<Attacking> {
        let arguments = [
            format!("--http1={}", self.http1),
            format!("--http2={}", self.http2),
            format!("--attackers={}", self.attackers),
            format!("--connections={}", self.connections),
        ];
        let launch = Launch::new(program).args(arguments).on(cores);
        let mut process = launch.with_stdin().with_stdout().start()?;
        let mut output = BufReader::new(process.stdout().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.trim() != "attacking" {
            bail!("the attackers did not reach {} and {}", self.http1, self.http2);
        }
        Ok(Attacking { process, output })
    }
}

impl Attacking {
    /// The attackers' process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it, and says what was done.
    pub fn finish(mut self) -> anyhow::Result<Made> {
        drop(self.process.stdin());
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let made = serde_json::from_str(&line).context("what the attackers did")?;
        self.process.finish()?;
        Ok(made)
    }
}
