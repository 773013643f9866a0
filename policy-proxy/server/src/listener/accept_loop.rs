//! The loop that accepts connections, and the way of each to its service.

use super::connection::{Accepted, peer};
use super::handshake::{Greeting, TLS_HANDSHAKE, Transport, Turns};
use super::refusal::ConnectionRefusal;
use super::service::ConnectionService;
use super::settings::ListenerSettings;
use crate::accept::after_accept_error;
use crate::allowance::Peer;
use crate::capacity::Share;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A listening port, or several that share their room.
#[derive(Debug)]
pub struct Listener<S> {
    settings: ListenerSettings,
    service: Arc<S>,
    turns: Turns,
    drain: CancellationToken,
    tracker: TaskTracker,
}

impl<S: ConnectionService> Listener<S> {
    /// Creates a listener in front of `service`, which ends when `drain` is cancelled.
    pub fn new(settings: ListenerSettings, service: S, drain: CancellationToken) -> Self {
        let turns = Turns::new(settings.turns);
        let (service, tracker) = (Arc::new(service), TaskTracker::new());
        Self { settings, service, turns, drain, tracker }
    }

    /// Serves until the end of the listener and of every connection.
    pub async fn run(self, sockets: Vec<(TcpListener, Transport)>) {
        let listener = Arc::new(self);
        join_all(sockets.into_iter().map(|socket| listener.clone().accept(socket))).await;
        listener.tracker.close();
        // Connections bound themselves by the time that they have to drain.
        listener.tracker.wait().await;
    }

    async fn accept(self: Arc<Self>, (socket, transport): (TcpListener, Transport)) {
        // It may have been opened on another runtime than this.
        let socket = match socket.into_std().and_then(TcpListener::from_std) {
            Ok(socket) => socket,
            Err(error) => return tracing::error!(%error, "cannot listen"),
        };
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = self.drain.cancelled() => return,
            };
            match accepted {
                Ok((stream, remote)) => self.accepted(stream, remote, &transport),
                Err(error) => after_accept_error(&error).await,
            }
        }
    }

    fn accepted(self: &Arc<Self>, stream: TcpStream, remote: SocketAddr, transport: &Transport) {
        if let Err(reason) = self.service.admits(remote) {
            return self.refused(remote, &ConnectionRefusal::Policy(reason));
        }
        let Ok(share) = self.settings.connections.take(&Peer::at(remote.ip()), 1) else {
            return self.refused(remote, &ConnectionRefusal::TooMany);
        };
        let (listener, transport) = (self.clone(), transport.clone());
        self.tracker.spawn(async move {
            let _open = listener.service.opened();
            if let Err(reason) = listener.connection(stream, remote, transport, share).await {
                listener.refused(remote, &reason);
            }
        });
    }

    fn refused(&self, remote: SocketAddr, reason: &ConnectionRefusal) {
        tracing::debug!(%remote, %reason, "connection ended");
        self.service.refused(remote, reason);
    }

    async fn connection(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        transport: Transport,
        share: Share,
    ) -> Result<(), ConnectionRefusal> {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, %error, "cannot set TCP_NODELAY");
        }
        // Boxed, so that a connection does not keep the handshake's memory.
        let arriving = Box::pin(self.arrive(stream, remote, &transport, share));
        let Some(arrived) = self.drain.run_until_cancelled(arriving).await else { return Ok(()) };
        let accepted = arrived?;
        let share = accepted.share.clone();
        let end = accepted.end.with(self.settings.age, self.drain.clone());
        let served = self.service.clone().serve(Accepted { end, ..accepted });
        tokio::select! {
            () = served => Ok(()),
            () = share.revoked() => Err(ConnectionRefusal::Revoked),
            () = unused(&share, self.settings.first_use) => Err(ConnectionRefusal::Unused),
        }
    }

    /// Waits for the first byte, makes the handshake, and counts a client by what it proved.
    async fn arrive(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        transport: &Transport,
        share: Share,
    ) -> Result<Accepted, ConnectionRefusal> {
        let arriving = async {
            // A socket may be reported as readable without a byte, which a look finds out.
            let mut first = [0; 1];
            let spoke = tokio::time::timeout(self.settings.first_byte, stream.peek(&mut first));
            let first = match spoke.await {
                Ok(Ok(1)) => first,
                Ok(Ok(_) | Err(_)) | Err(_) => return Err(ConnectionRefusal::Silent),
            };
            let timeout = self.settings.handshake;
            // Those who have sent nothing make room before it.
            let _spoke = share.pending();
            let is_tls = first == [TLS_HANDSHAKE];
            let greeting = Greeting { stream, is_tls, remote, timeout };
            self.turns.arrive(transport, greeting).await
        };
        let arrived = tokio::select! {
            arrived = arriving => arrived?,
            () = share.revoked() => return Err(ConnectionRefusal::Revoked),
        };
        let proved = self.settings.proved.as_ref().filter(|_| arrived.identity.is_some());
        let share = match proved {
            Some(proved) => {
                let peer = peer(remote, arrived.identity.as_ref());
                proved.take(&peer, 1).map_err(|_| ConnectionRefusal::TooMany)?
            }
            None => share,
        };
        Ok(Accepted::new(arrived, remote, share))
    }
}

/// Completes if a connection was not used in time. Until then it counts as in use.
async fn unused(share: &Share, time: Option<Duration>) {
    if let Some(time) = time {
        let pending = share.pending();
        tokio::time::sleep(time).await;
        drop(pending);
        if !share.was_used() {
            return;
        }
    }
    std::future::pending().await
}
