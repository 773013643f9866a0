//! Forwards the bytes behind a protocol upgrade while its request is permitted.

use super::copy::{CopyBidirectional, HttpWatch};
use super::inflight::InflightGuard;
use super::io::{ClientIo, Metered, Prefixed};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::net::TcpStream;

/// A protocol upgrade that the application accepted.
pub(super) struct Upgrade {
    /// The application's stream, behind its 101.
    pub(super) server: Prefixed<Metered<TcpStream>>,
    /// The in-flight request of the upgrade.
    pub(super) guard: InflightGuard,
}

/// Copies until both sides have closed or permission is lost.
pub(super) async fn forward(client: Prefixed<Metered<ClientIo>>, upgrade: Upgrade) {
    let Upgrade { server, guard } = upgrade;
    let mut copy = pin!(CopyBidirectional::new(
        client.without_timeout(),
        server.without_timeout(),
        HttpWatch::Off
    ));
    poll_fn(|cx| match guard.poll_revoked(cx) {
        Some(_) => Poll::Ready(()),
        None => copy.as_mut().poll_copy(cx).map(|_| ()),
    })
    .await;
}
