//! The admin port of a process.

use super::error::RunError;
use super::supervisor::Supervisor;
use crate::admin;
use crate::admin::{Admin, Readiness};
use policy_server::ProcessMetrics;
use prometheus_client::registry::Registry;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The admin port, which answers before anything else does and until everything else has ended.
pub(super) struct AdminPort {
    pub(super) admin: Admin,
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl AdminPort {
    pub(super) async fn open(
        address: SocketAddr,
        guarded: bool,
        readiness: Readiness,
        supervisor: &Supervisor,
    ) -> Result<Self, RunError> {
        let listener = admin::bind("/live, /ready and /metrics (--admin-addr)", address).await?;
        let address = listener.local_addr()?;
        let mut admin = Admin::new(readiness, Registry::default());
        if guarded {
            admin = admin.with_pending_policy();
        }
        admin.register(|registry| ProcessMetrics.register(registry));
        let stop = CancellationToken::new();
        let task = supervisor.spawn("the admin port", admin.clone().run(listener, stop.clone()));
        Ok(Self { admin, address, task, stop })
    }

    pub(super) async fn close(self) {
        self.stop.cancel();
        // A panic of it was reported where it happened.
        _ = self.task.await;
    }
}

/// The number of a port that is bound.
pub(super) fn number(address: SocketAddr) -> Result<NonZeroU16, io::Error> {
    let unbound = || io::Error::other(format!("{address} is not bound"));
    NonZeroU16::new(address.port()).ok_or_else(unbound)
}
