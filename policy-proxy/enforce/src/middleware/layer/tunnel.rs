//! Tunnels behind a switch of protocols (101), which end with their grant.

use super::body::{EndedByPolicy, Watch};
use crate::middleware::open_request::OpenRequest;
use http::request::Parts;
use http::{Response, StatusCode, header};
use std::future::poll_fn;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Says when a tunnel has to end.
///
/// Each request that asks for an upgrade has one in its extensions. Behind an acceptor that ends its
/// connections itself, it is the acceptor's ([`TunnelGuard::new`]). Behind another one, an
/// application that switches protocols has to take it before it answers: it calls
/// [`ended`](Self::ended), and closes the tunnel when that future completes. The layer answers 502
/// in place of a 101 whose guard nobody has taken.
#[derive(Clone, Debug)]
pub struct TunnelGuard(Arc<watch::Sender<Option<EndedByPolicy>>>);

impl TunnelGuard {
    /// Creates the guard of a connection, and takes it for the acceptor.
    pub fn new() -> (Self, TunnelEnd) {
        let guard = Self::untaken();
        let end = guard.take();
        (guard, end)
    }

    fn untaken() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    fn take(&self) -> TunnelEnd {
        TunnelEnd(self.0.subscribe())
    }

    /// Takes the guard. The tunnel has to end when the future completes; its output is the reason.
    /// Dropping the future says that the tunnel is over.
    pub fn ended(&self) -> impl Future<Output = EndedByPolicy> + Send + use<> {
        let mut end = self.take();
        async move { end.wait().await }
    }

    /// True if something ends the tunnel.
    fn is_taken(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// The end of a tunnel, as its acceptor waits for it.
#[derive(Clone, Debug)]
pub struct TunnelEnd(watch::Receiver<Option<EndedByPolicy>>);

impl TunnelEnd {
    /// Waits until the tunnel has to end. Never completes for a connection without a tunnel, or for
    /// one whose grant holds.
    pub async fn wait(&mut self) -> EndedByPolicy {
        let ended = match self.0.wait_for(Option::is_some).await {
            Ok(ended) => *ended,
            Err(_) => None,
        };
        match ended {
            Some(ended) => ended,
            // The guard is gone, and nothing can end the tunnel any more.
            None => std::future::pending().await,
        }
    }
}

/// Returns the guard of a request that asks for an upgrade.
pub(super) fn guard(head: &mut Parts) -> Option<TunnelGuard> {
    if !head.headers.contains_key(header::UPGRADE) {
        return None;
    }
    Some(head.extensions.get_or_insert_with(TunnelGuard::untaken).clone())
}

/// True if a response may be passed on: it switches no protocols, or something ends the tunnel.
pub(super) fn may_pass<R>(response: &Response<R>, guard: Option<&TunnelGuard>) -> bool {
    let guarded = || guard.is_some_and(TunnelGuard::is_taken) && Handle::try_current().is_ok();
    response.status() != StatusCode::SWITCHING_PROTOCOLS || guarded()
}

/// Ends the tunnel of a request when its permission is revoked.
pub(super) fn follow(mut request: Box<Watch>, guard: TunnelGuard) {
    tokio::spawn(async move {
        let revoked = poll_fn(|cx| match request.poll_revoked(cx) {
            Some(reason) => std::task::Poll::Ready(reason),
            None => std::task::Poll::Pending,
        });
        tokio::select! {
            reason = revoked => {
                guard.0.send_replace(Some(EndedByPolicy::Denied(reason)));
            }
            // The tunnel is over.
            () = guard.0.closed() => {}
        }
    });
}
