//! One connection, from its first request to its end.

use crate::mesh_tls::MeshTls;
use crate::service::{Application, Checked};
use crate::stream::{Switch, SwitchedStream};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use policy_enforce::middleware::layer::TunnelEnd;
use policy_tls::identity::ProofVerifier;
use policy_tls::peer::Peer;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval at which the proof of a client's identity is verified again.
const REVERIFY: Duration = Duration::from_secs(1);

/// Silence of an HTTP/2 connection before a PING, and bound on the answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);

/// Streams of an HTTP/2 connection, and the size of a request's head, as the sidecar bounds them.
const STREAMS: u32 = 256;
const HEADERS: u32 = 64 << 10;

/// Serves the requests of a connection, and waits for the end of a tunnel behind it.
pub(crate) async fn serve<S>(
    stream: SwitchedStream,
    service: Checked<S>,
    ends: Ends,
    drain: CancellationToken,
) where
    S: Application,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(ends.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS);
    let Ends { mut switch, mut tunnel, tls, peer, head } = ends;
    let _end = EndOnDrop(switch.clone());
    let stale = stale(tls.as_ref(), &peer);
    let served = async {
        let io = TokioIo::new(stream);
        let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = drain.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(client = %peer.address(), %error, "a connection ended");
        }
    };
    let (mut dropped, silence) = (switch.clone(), switch.clone());
    let over = async {
        served.await;
        // A tunnel has taken the stream, or nothing has it any more.
        dropped.dropped().await;
    };
    tokio::select! {
        () = over => return,
        reason = tunnel.wait() => {
            tracing::info!(client = %peer.address(), %reason, "a tunnel was ended");
        }
        () = silent(&silence, head) => {
            tracing::debug!(client = %peer.address(), "a client said nothing for too long");
        }
        () = stale => {
            tracing::info!(client = %peer.address(), "the certificate of a client is not trusted any more");
        }
    }
    switch.end();
    switch.dropped().await;
}

/// Ends a stream that the application may hold when nobody watches its grant any more.
struct EndOnDrop(Switch);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The parts that end a connection.
pub(crate) struct Ends {
    pub(crate) switch: Switch,
    pub(crate) tunnel: TunnelEnd,
    pub(crate) tls: Option<MeshTls>,
    pub(crate) peer: Arc<Peer>,
    /// Bound on the time of an HTTP/1 request's head, and of the first bytes.
    pub(crate) head: Duration,
}

/// Waits until a client has not said in time which version of HTTP it speaks.
async fn silent(switch: &Switch, bound: Duration) {
    tokio::time::sleep(bound).await;
    if switch.has_begun() {
        std::future::pending::<()>().await;
    }
}

/// Waits until the client's certificate has expired, or no root vouches for it.
async fn stale(tls: Option<&MeshTls>, peer: &Peer) {
    let (Some(tls), Some(proof)) = (tls, peer.proof()) else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(REVERIFY).await;
        let own = tls.identity().current().clone();
        if ProofVerifier::new(own).stale(proof).is_some() {
            return;
        }
    }
}
