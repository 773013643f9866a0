//! The policies of one workload, kept current.

use crate::error::EmbedError;
use crate::follower::Follower;
use crate::server::Server;
use policy_enforce::{PolicyLayer, PolicyStore, StoreConfig, Telemetry};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// The policies of one workload, kept current until the last clone is dropped, with its layers, their
/// services, and its servers.
#[derive(Clone, Debug)]
pub struct Policies {
    store: PolicyStore,
    workload: Arc<str>,
    follower: Arc<Follower>,
}

/// Interval of the check of [`Policies::ready`].
const CHECK: Duration = Duration::from_millis(20);

impl Policies {
    /// Creates a store without policies: its ports refuse.
    pub(crate) fn store() -> Result<PolicyStore, EmbedError> {
        Ok(PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1)))?)
    }

    /// Hands out a store that `follower` keeps current.
    pub(crate) fn new(
        store: PolicyStore,
        workload: &str,
        follower: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let follower = Arc::new(Follower::start(follower));
        Self { store, workload: workload.into(), follower }
    }

    /// Waits until each port that the workload declares has a policy.
    pub async fn ready(&self) {
        while !self.is_ready() {
            tokio::time::sleep(CHECK).await;
        }
    }

    /// True if each port that the workload declares has a policy, for a probe of readiness.
    pub fn is_ready(&self) -> bool {
        self.store.unready().is_none()
    }

    /// Returns the metrics of decisions and of the policies in force, as OpenMetrics text.
    ///
    /// # Errors
    /// None in practice: writing to memory does not fail.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.store.telemetry().encode(&self.store.status())
    }

    /// Returns the check alone, for a server of one's own. It goes around the whole service; inside
    /// of a router it refuses more ([`PolicyLayer::whole_service`]).
    ///
    /// # Errors
    /// [`EmbedError::Port`] for port 0.
    pub fn layer(&self, port: u16) -> Result<PolicyLayer, EmbedError> {
        let layer = PolicyLayer::new(&self.store, number(port)?, &self.workload);
        // Else the layer would go on with the policies of the moment, and no revocation would reach it.
        Ok(layer.keeping(self.follower.clone()))
    }

    /// Returns a server behind the policy of `port`.
    ///
    /// # Errors
    /// [`EmbedError::Port`] for port 0.
    pub fn server(&self, port: u16) -> Result<Server, EmbedError> {
        let layer = self.layer(port)?.whole_service();
        Ok(Server::new(Arc::clone(&self.follower), self.store.port(number(port)?), layer))
    }
}

fn number(port: u16) -> Result<NonZeroU16, EmbedError> {
    NonZeroU16::new(port).ok_or(EmbedError::Port)
}
