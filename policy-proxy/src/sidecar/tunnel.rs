//! Forwards the bytes behind a protocol upgrade while its request is permitted.

use super::copy::{CopyBidirectional, CopyEnd, HttpWatch};
use super::inflight::InflightGuard;
use super::io::{ClientIo, Metered, Prefixed};
use policy_enforce::middleware::timer::{Progress, Timer};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;
use tokio::net::TcpStream;

/// A protocol upgrade that the application accepted.
pub(super) struct Upgrade {
    /// The application's stream, behind its 101.
    pub(super) server: Prefixed<Metered<TcpStream>>,
    /// The in-flight request of the upgrade.
    pub(super) guard: InflightGuard,
    /// The timer of its bound on time without a byte, if it has one.
    pub(super) timer: Option<Pin<Box<Timer>>>,
}

/// Copies until both sides have closed, permission is lost, or neither side has sent a byte for the
/// time that the policy bounds. The latter two reset both sides.
pub(super) async fn forward(client: Prefixed<Metered<ClientIo>>, upgrade: Upgrade) {
    let Upgrade { server, guard, mut timer } = upgrade;
    let mut copy = pin!(CopyBidirectional::new(
        client.without_timeout(),
        server.without_timeout(),
        HttpWatch::Off
    ));
    // Counted by the tunnel, because the request is over.
    let (mut passed, mut active) = ((0, 0), Instant::now());
    let end = poll_fn(|cx| {
        if guard.poll_revoked(cx).is_some() {
            return Poll::Ready(CopyEnd::Cut);
        }
        if let ended @ Poll::Ready(_) = copy.as_mut().poll_copy(cx) {
            return ended;
        }
        if copy.passed() != passed {
            (passed, active) = (copy.passed(), Instant::now());
            guard.moved();
        }
        let Some(timer) = &mut timer else { return Poll::Pending };
        let progress = || Progress { last_frame: Some(active), ..Progress::default() };
        timer.as_mut().poll(cx, progress).map_or(Poll::Pending, |_| Poll::Ready(CopyEnd::Cut))
    })
    .await;
    if end == CopyEnd::Broken {
        copy.deliver(|cx| guard.poll_revoked(cx).is_some()).await;
    }
}
