//! Carries what follows an upgrade, for as long as the request that asked for it is permitted.

use super::copy::Copy;
use super::open::OpenGuard;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Waits for both sides to switch, then copies until both have ended or permission is lost.
pub(super) async fn carry(client: OnUpgrade, server: OnUpgrade, guard: OpenGuard) {
    // A side that does not switch after its 101 has closed; so does the other then.
    let (Ok(client), Ok(server)) = (client.await, server.await) else { return };
    let copy = Copy::new(TokioIo::new(client), TokioIo::new(server), false);
    let mut copy = pin!(copy);
    let _ = poll_fn(|cx| match guard.poll_lost(cx) {
        Some(_) => Poll::Ready(Ok(())),
        None => copy.as_mut().poll_copy(cx).map_ok(drop),
    })
    .await;
}
