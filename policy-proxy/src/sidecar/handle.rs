//! Starts the workers, drains and stops them, and waits for them.

use super::listen::{self, BoundListener, StartError};
use super::permits::{ConnectionPermits, RequestPermits};
use super::settings::{Listener, SidecarConfig};
use super::worker::{OpenConnections, Phase, SidecarState};
use crate::outbound::clients::MeshClients;
use crate::outbound::refusal_log::RefusalLog;
use policy_enforce::record::{Recorder, Sampler};
use policy_enforce::store::PolicyStore;
use policy_tls::identity::IdentityHandle;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};

/// A running sidecar. Dropping it stops it at once, without waiting.
#[derive(Debug)]
pub struct Sidecar {
    addresses: Vec<SocketAddr>,
    phase: watch::Sender<Phase>,
    /// Closed once the last worker has ended; nothing is ever sent.
    ended: mpsc::Receiver<()>,
}

impl Sidecar {
    /// Binds the listeners and starts the workers. Returns once every address is bound. `recorder`
    /// receives one record per decision; without it none is made.
    ///
    /// # Errors
    /// The address that cannot be listened on, or the worker that cannot be started.
    pub fn start(
        config: SidecarConfig,
        store: PolicyStore,
        identity: IdentityHandle,
        recorder: Option<Arc<dyn Recorder>>,
    ) -> Result<Self, StartError> {
        let mut workers = listen::bind(&config.listeners, config.workers, &config.sockets)?;
        let addresses = workers
            .first()
            .map(|own| own.iter().map(|bound: &BoundListener| bound.address).collect());
        let addresses: Vec<SocketAddr> = addresses.unwrap_or_default();
        let (phase, phase_changes) = watch::channel(Phase::Running);
        let (alive, ended) = mpsc::channel(1);
        let listening = workers.first().into_iter().flatten();
        let listening =
            listening.map(|own| Listener { address: own.address, target: own.target }).collect();
        let mesh_clients = MeshClients::new(identity.clone());
        let shared = Arc::new(SidecarState {
            config,
            store,
            identity,
            recorder,
            listening,
            connection_permits: ConnectionPermits::default(),
            request_permits: RequestPermits::default(),
            sampler: Sampler::new(LOG_INTERVAL, Instant::now()),
            outbound_permits: ConnectionPermits::default(),
            mesh_clients,
            refusals: RefusalLog::default(),
            open: OpenConnections::default(),
        });
        for (number, listeners) in workers.drain(..).enumerate() {
            let (shared, phase_changes, alive) =
                (shared.clone(), phase_changes.clone(), alive.clone());
            let (made, is_made) = std::sync::mpsc::sync_channel(1);
            std::thread::Builder::new()
                .name(format!("proxy-{number}"))
                .spawn(move || {
                    // Built on the worker's thread, because it cannot move.
                    let mut runtime = Builder::new_current_thread();
                    match runtime.enable_all().build_local(LocalOptions::default()) {
                        Ok(runtime) => {
                            let _ = made.send(Ok(()));
                            super::serve::run(runtime, shared, listeners, phase_changes);
                        }
                        Err(error) => {
                            let _ = made.send(Err(error));
                        }
                    }
                    drop(alive);
                })
                .map_err(StartError::Worker)?;
            let made = is_made.recv().unwrap_or_else(|ended| Err(io::Error::other(ended)));
            made.map_err(StartError::Worker)?;
        }
        Ok(Self { addresses, phase, ended })
    }

    /// The addresses it listens on, in the order of the configuration's listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops accepting on behalf of the workload; its own connections are accepted until the end. Open
    /// connections end after the response in progress (HTTP/1), after the
    /// streams in progress (HTTP/2 GOAWAY), or by themselves; those still open after the grace
    /// period are closed.
    pub fn drain(&self) {
        self.phase.send_if_modified(|phase| {
            let running = *phase == Phase::Running;
            if running {
                *phase = Phase::Draining;
            }
            running
        });
    }

    /// Closes everything at once.
    pub fn stop(&self) {
        self.phase.send_replace(Phase::Stopped);
    }

    /// Waits until every worker has ended. Call [`Sidecar::drain`] or [`Sidecar::stop`] first.
    pub async fn ended(&mut self) {
        while self.ended.recv().await.is_some() {}
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Interval in which errors of one kind are logged once.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
