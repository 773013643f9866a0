//! A connection that has arrived, and what ends it.

use super::handshake::Arrived;
use super::settings::{jittered, random};
use super::stream::ListenerStream;
use crate::allowance::Peer;
use crate::capacity::Share;
use crate::tls::TlsHandle;
use policy_core::Identity;
use policy_tls::identity::Proof;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A connection that may be served.
#[derive(Debug)]
pub struct Accepted {
    /// Its bytes.
    pub stream: ListenerStream,
    /// The address of its client.
    pub remote: SocketAddr,
    /// The identity that its client proved.
    pub identity: Option<Identity>,
    /// The credentials that the port has shown; absent: plaintext, or TLS in which clients prove
    /// nothing.
    pub tls: Option<TlsHandle>,
    /// The room that it takes. A service marks it while it is used.
    pub share: Arc<Share>,
    /// What ends it.
    pub end: ConnectionEnd,
}

impl Accepted {
    pub(super) fn new(arrived: Arrived, remote: SocketAddr, share: Share) -> Self {
        let Arrived { stream, identity, expires, proof, tls } = arrived;
        let end = ConnectionEnd { last: expires.map(instant_of), proof, drain: Default::default() };
        Self { stream, remote, identity, tls, share: Arc::new(share), end }
    }

    /// Returns the client that the connection counts as.
    pub fn peer(&self) -> Peer {
        peer(self.remote, self.identity.as_ref())
    }
}

/// Returns the client of an address, with the identity that it proved.
pub(super) fn peer(remote: SocketAddr, identity: Option<&Identity>) -> Peer {
    let identity = identity.map(|identity| identity.as_str().into());
    Peer { identity, ..Peer::at(remote.ip()) }
}

/// What ends a connection: its age, the expiry of what its client proved, the last root that vouched
/// for it, or the end of the listener.
#[derive(Debug)]
pub struct ConnectionEnd {
    last: Option<Instant>,
    /// The client's proof, and the credentials that verified it.
    proof: Option<(TlsHandle, Arc<Proof>)>,
    drain: CancellationToken,
}

impl ConnectionEnd {
    pub(super) fn with(self, age: Option<Duration>, drain: CancellationToken) -> Self {
        let old = age.and_then(|age| Instant::now().checked_add(jittered(age, random())));
        let last = [old, self.last].into_iter().flatten().min();
        Self { last, drain, ..self }
    }

    /// Waits until the connection is to end.
    pub async fn due(&self) {
        tokio::select! {
            () = until(self.last) => {}
            () = lost(self.proof.as_ref()) => {
                tracing::info!("the certificate of a connection's client is not trusted any more");
            }
            () = self.drain.cancelled() => {}
        }
    }

    /// Drives `connection` until it ends by itself or is due. In the latter case it is asked to end
    /// by `ask`, and has the time `drain` for that. `None`: it did not end in time.
    pub async fn drive<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        drain: Duration,
        ask: impl FnOnce(Pin<&mut C>),
    ) -> Option<C::Output> {
        tokio::select! {
            ended = connection.as_mut() => return Some(ended),
            () = self.due() => {}
        }
        ask(connection.as_mut());
        tokio::time::timeout(drain, connection).await.ok()
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until no root vouches for the client's certificate any more.
async fn lost(proof: Option<&(TlsHandle, Arc<Proof>)>) {
    match proof {
        Some((tls, proof)) => tls.lost(proof).await,
        None => std::future::pending().await,
    }
}

/// Returns the time on the clock that timers use.
fn instant_of(time: SystemTime) -> Instant {
    let left = time.duration_since(SystemTime::now()).unwrap_or_default();
    let now = Instant::now();
    now.checked_add(left).unwrap_or(now)
}
