//! Signals that end the process.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupt, terminate, hang-up.
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    /// Installs the signal handlers.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        let Self([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
