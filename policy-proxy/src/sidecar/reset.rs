//! Ends connections by a reset, so that what was cut does not look whole.

use super::io::{ClientIo, Metered, Prefixed};
use crate::diagnosis::{ConnectionQuery, Diagnosis};
use crate::outbound::server_io::{self, ServerIo};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// A side of a connection that can be reset.
pub(crate) trait Resettable {
    /// The socket; none of a stream in memory.
    fn socket(&self) -> Option<&TcpStream>;

    /// Makes the connection's end a reset, which discards what the peer's system has not
    /// acknowledged, and precedes any closing message of TLS.
    fn reset_on_close(&self) {
        if let Some(socket) = self.socket() {
            server_io::reset_on_close(socket);
        }
    }
}

impl Resettable for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Resettable for ServerIo {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self.socket())
    }
}

impl Resettable for ClientIo {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self.socket())
    }
}

impl<S: Resettable> Resettable for Metered<S> {
    fn socket(&self) -> Option<&TcpStream> {
        self.get_ref().socket()
    }
}

impl<S: Resettable> Resettable for Prefixed<S> {
    fn socket(&self) -> Option<&TcpStream> {
        self.get_ref().socket()
    }
}

#[cfg(test)]
impl Resettable for tokio::io::DuplexStream {
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// Waits until the peer's system has what was written to `stream`, or has taken nothing of it for
/// [`STUCK`].
pub(super) async fn delivered(stream: &impl Resettable) {
    let Some(socket) = stream.socket() else { return };
    let (Ok(mut diagnosis), Ok(question)) = (Diagnosis::open(), ConnectionQuery::of(socket)) else {
        return sleep(UNKNOWN).await;
    };
    let (mut before, mut since, mut pause) = (u32::MAX, Instant::now(), MIN_PAUSE);
    loop {
        let known = diagnosis.ask(&question);
        match known.map(|known| known.map_or(0, |known| known.unacknowledged)) {
            Ok(0) => return,
            Ok(left) if left != before => (before, since) = (left, Instant::now()),
            Ok(_) if since.elapsed() > STUCK => return,
            Ok(_) => {}
            Err(_) => return sleep(UNKNOWN).await,
        }
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(MAX_PAUSE);
    }
}

/// Time for which a side may take nothing of what precedes a reset.
pub(super) const STUCK: Duration = Duration::from_secs(30);
/// Time after which written bytes count as delivered where the system tells nothing about them.
const UNKNOWN: Duration = Duration::from_secs(1);
const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);
