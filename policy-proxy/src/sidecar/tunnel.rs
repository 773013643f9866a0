//! Carries what follows an upgrade, for as long as the request that asked for it is permitted.

use super::copy::{Copy, Look};
use super::io::{ClientIo, Metered, Prefixed};
use super::open::OpenGuard;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::net::TcpStream;

/// What the application switched to.
pub(super) struct Switch {
    /// Its side, behind its 101.
    pub(super) server: Prefixed<Metered<TcpStream>>,
    /// The request that asked for it.
    pub(super) guard: OpenGuard,
}

/// Copies until both sides have ended. Ends at any time once permission is lost.
pub(super) async fn carry(client: Prefixed<Metered<ClientIo>>, switch: Switch) {
    let Switch { server, guard } = switch;
    let mut copy = pin!(Copy::new(client.for_ever(), server.for_ever(), Look::Never));
    poll_fn(|cx| match guard.poll_revoked(cx) {
        Some(_) => Poll::Ready(()),
        None => copy.as_mut().poll_copy(cx).map(|_| ()),
    })
    .await;
}
