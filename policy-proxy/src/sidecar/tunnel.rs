//! Carries what follows an upgrade, for as long as the request that asked for it is permitted.

use super::copy::Copy;
use super::open::OpenGuard;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Waits for both sides to switch, then copies until both have ended. Ends at any time once permission
/// is lost.
pub(super) async fn carry(client: OnUpgrade, server: OnUpgrade, guard: OpenGuard) {
    let carried = async {
        // A side that does not switch after its 101 has closed; so does the other then.
        let (Ok(client), Ok(server)) = (client.await, server.await) else { return };
        let mut copy = pin!(Copy::new(TokioIo::new(client), TokioIo::new(server), false));
        let _ = poll_fn(|cx| copy.as_mut().poll_copy(cx)).await;
    };
    let mut carried = pin!(carried);
    poll_fn(|cx| match guard.poll_lost(cx) {
        Some(_) => Poll::Ready(()),
        None => carried.as_mut().poll(cx),
    })
    .await;
}
