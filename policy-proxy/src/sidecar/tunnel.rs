//! Carries what follows an upgrade, for as long as the request that asked for it is permitted.

use super::copy::{CopyBidirectional, HttpWatch};
use super::inflight::InflightGuard;
use super::io::{ClientIo, Metered, Prefixed};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::net::TcpStream;

/// What the application switched to.
pub(super) struct Upgrade {
    /// Its side, behind its 101.
    pub(super) server: Prefixed<Metered<TcpStream>>,
    /// The request that asked for it.
    pub(super) guard: InflightGuard,
}

/// Copies until both sides have ended. Ends at any time once permission is lost.
pub(super) async fn forward(client: Prefixed<Metered<ClientIo>>, upgrade: Upgrade) {
    let Upgrade { server, guard } = upgrade;
    let mut copy =
        pin!(CopyBidirectional::new(client.for_ever(), server.for_ever(), HttpWatch::Off));
    poll_fn(|cx| match guard.poll_lost(cx) {
        Some(_) => Poll::Ready(()),
        None => copy.as_mut().poll_copy(cx).map(|_| ()),
    })
    .await;
}
