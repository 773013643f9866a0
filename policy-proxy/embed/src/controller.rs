//! Policies from a controller.

use crate::error::EmbedError;
use crate::mesh_tls::MeshTls;
use crate::policies::Policies;
pub use policy_proxy::discover::ControllerAddress;
use policy_proxy::discover::{DiscoverConfig, run, workload_name};
use policy_tls::identity::IdentityHandle;
use tokio_util::sync::CancellationToken;

impl Policies {
    /// Follows the policies of a workload at a controller. `token` is the workload's, as the injector
    /// writes it: `namespace:pod`, or JSON. Over anything but loopback the service proves the
    /// workload's identity by `tls`. Returns at once; every failure is retried.
    ///
    /// # Errors
    /// The store cannot be made.
    pub fn connect(
        controller: ControllerAddress,
        token: &str,
        tls: Option<&MeshTls>,
    ) -> Result<Self, EmbedError> {
        let store = Self::store()?;
        let identity = tls.map_or_else(IdentityHandle::empty, |tls| tls.identity().clone());
        let config = DiscoverConfig::new(controller, token);
        let follow = run(config, store.clone(), identity, CancellationToken::new());
        Ok(Self::new(store, &workload_name(token), follow))
    }
}
