//! Status of an identity source.

use super::state::IdentityState;
use std::time::SystemTime;
use tokio::sync::watch;

/// Status of an identity source, which is readable from anywhere; clones share it.
#[derive(Clone, Debug)]
pub struct IdentityStatus(watch::Receiver<IdentityState>);

/// Returns the status of a source without an identity.
impl Default for IdentityStatus {
    fn default() -> Self {
        Self(watch::Sender::default().subscribe())
    }
}

impl IdentityStatus {
    pub(super) fn new(state: watch::Receiver<IdentityState>) -> Self {
        Self(state)
    }

    /// Returns the current state.
    pub fn state(&self) -> IdentityState {
        self.0.borrow().clone()
    }

    /// Returns the reason if there is no identity that other members of the mesh would accept now.
    pub fn missing(&self) -> Option<String> {
        self.0.borrow().missing(SystemTime::now())
    }

    /// Waits for the next change: another certificate, other roots, success or failure. Pending for
    /// ever once the source is dropped.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until there is an identity that other members of the mesh would accept.
    pub async fn ready(&mut self) {
        while self.missing().is_some() {
            self.changed().await;
        }
    }
}
