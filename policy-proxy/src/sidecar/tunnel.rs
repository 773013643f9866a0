//! Carries what follows an upgrade, for as long as the request that asked for it is permitted.

use super::copy::Copy;
use super::io::{ClientIo, Metered, Prefixed};
use super::open::OpenGuard;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// What the application switched to.
pub(super) struct Switch {
    /// Its side, once its 101 is behind.
    pub(super) server: OnUpgrade,
    /// The request that asked for it.
    pub(super) guard: OpenGuard,
}

/// Copies until both sides have ended. Ends at any time once permission is lost.
pub(super) async fn carry(client: Prefixed<Metered<ClientIo>>, switch: Switch) {
    let Switch { server, guard } = switch;
    let carried = async {
        // A side that does not switch after its 101 has closed; so does the other then.
        let Ok(server) = server.await else { return };
        let mut copy = pin!(Copy::new(client, TokioIo::new(server), false));
        let _ = poll_fn(|cx| copy.as_mut().poll_copy(cx)).await;
    };
    let mut carried = pin!(carried);
    poll_fn(|cx| match guard.poll_lost(cx) {
        Some(_) => Poll::Ready(()),
        None => carried.as_mut().poll(cx),
    })
    .await;
}
