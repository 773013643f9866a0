//! Whom the webhook's port is open to.

use policy_core::Denied;
use std::net::SocketAddr;

/// Decides which connections the webhook's port takes.
pub trait PortGuard: Send + Sync {
    /// Whether a connection of `client` is let through. It speaks TLS that is not the mesh's.
    ///
    /// # Errors
    /// The reason to refuse it.
    fn admission(&self, client: SocketAddr) -> Result<(), Denied>;
}
