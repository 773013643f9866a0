//! Signals of shutdown.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals of shutdown.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Ends the process at once, after a second signal.
pub(super) fn abort() -> ! {
    tracing::warn!("second signal: not waiting for connections");
    std::process::exit(1);
}
