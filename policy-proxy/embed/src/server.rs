//! A listening port behind policy.

use crate::accept::{Arrival, identify};
use crate::connection::{self, Ends};
use crate::follower::Follower;
use crate::mesh_tls::MeshTls;
use crate::service::{Application, Checked, PerRequest};
use crate::stream::SwitchedStream;
use policy_enforce::PolicyLayer;
use policy_enforce::middleware::layer::TunnelGuard;
use policy_enforce::record::Recorder;
use policy_enforce::store::PortHandle;
use policy_server::after_accept_error;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_layer::Layer;

/// A listening port behind the policy of its port.
#[derive(Clone)]
pub struct Server {
    /// Keeps the policies current.
    _follower: Arc<Follower>,
    handle: PortHandle,
    layer: PolicyLayer,
    tls: Option<MeshTls>,
    wait: Duration,
    connections: usize,
    grace: Duration,
    head: Duration,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("port", &self.handle.port()).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(follower: Arc<Follower>, handle: PortHandle, layer: PolicyLayer) -> Self {
        Self {
            _follower: follower,
            handle,
            layer,
            tls: None,
            wait: Duration::from_secs(10),
            connections: 65_536,
            grace: Duration::from_secs(120),
            head: Duration::from_secs(10),
        }
    }

    /// Terminates TLS where a client speaks it; a client of plaintext has no identity. Without this,
    /// all connections are plaintext.
    #[must_use]
    pub fn tls(self, tls: MeshTls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Passes one record per request to `recorder`, such as an [`AccessLog`](crate::AccessLog).
    #[must_use]
    pub fn recorder(self, recorder: Arc<dyn Recorder>) -> Self {
        Self { layer: self.layer.with_recorder(recorder), ..self }
    }

    /// Sets the time for which a connection waits for the port's first policy; 10 seconds unless
    /// set. Later its requests are refused (`policy_pending`, 503).
    #[must_use]
    pub fn wait_for_policy(self, bound: Duration) -> Self {
        Self { wait: bound, ..self }
    }

    /// Sets the most connections at a time, 65,536 unless set. Further ones are closed.
    #[must_use]
    pub fn max_connections(self, most: usize) -> Self {
        Self { connections: most, ..self }
    }

    /// Sets the time that open connections have when [`Self::serve_until`] ends, 2 minutes unless
    /// set.
    #[must_use]
    pub fn grace(self, bound: Duration) -> Self {
        Self { grace: bound, ..self }
    }

    /// Sets the time in which the first bytes of a connection, its TLS handshake and the head of an HTTP/1
    /// request have to be there, 10 seconds each unless set.
    #[must_use]
    pub fn head_timeout(self, bound: Duration) -> Self {
        Self { head: bound, ..self }
    }

    /// Serves `application` until the future is dropped.
    pub async fn serve<S>(self, listener: TcpListener, application: S)
    where
        S: Application,
    {
        self.serve_until(listener, application, pending()).await;
    }

    /// Serves `application` until `shutdown`. Open connections may then end what they have begun.
    pub async fn serve_until<S>(
        self,
        listener: TcpListener,
        application: S,
        shutdown: impl Future<Output = ()>,
    ) where
        S: Application,
    {
        let room = Arc::new(Semaphore::new(self.connections.min(Semaphore::MAX_PERMITS)));
        let (drain, tracker) = (CancellationToken::new(), TaskTracker::new());
        // Connections end with this future, also if it is dropped.
        let aborted = CancellationToken::new();
        let _abort = aborted.clone().drop_guard();
        let grace = self.grace;
        let (draining, connections) = (drain.clone(), tracker.clone());
        let server = Arc::new(self);
        let accept = async move {
            loop {
                let (stream, remote) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        after_accept_error(&error).await;
                        continue;
                    }
                };
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                    tracing::debug!(%remote, "too many connections");
                    continue;
                };
                let (server, application) = (Arc::clone(&server), application.clone());
                let (drain, aborted) = (draining.clone(), aborted.clone());
                connections.spawn(async move {
                    let _room = permit;
                    let served = server.connection((stream, remote), application, drain);
                    aborted.run_until_cancelled(served).await;
                });
            }
        };
        tokio::select! {
            () = accept => {}
            () = shutdown => {}
        }
        // The listener is closed by now.
        drain.cancel();
        tracker.close();
        // What has not ended by then is dropped.
        let _ = tokio::time::timeout(grace, tracker.wait()).await;
    }

    async fn connection<S>(
        self: Arc<Self>,
        (stream, remote): (TcpStream, SocketAddr),
        application: S,
        drain: CancellationToken,
    ) where
        S: Application,
    {
        // A small answer is not to wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let Arrival { transport, peer } =
            match identify(stream, remote, self.tls.as_ref(), self.head).await {
                Ok(arrival) => arrival,
                Err(error) => {
                    tracing::debug!(%remote, %error, "a connection was not accepted");
                    return;
                }
            };
        // Without a policy by then, requests are refused.
        let _ = self.handle.ready(self.wait).await;
        let (stream, switch) = SwitchedStream::new(transport);
        let (guard, tunnel) = TunnelGuard::new();
        let inner = self.layer.layer(PerRequest(application));
        let service = Checked::new(inner, Arc::clone(&peer), guard);
        let ends = Ends { switch, tunnel, tls: self.tls.clone(), peer, head: self.head };
        connection::serve(stream, service, ends, drain).await;
    }
}
