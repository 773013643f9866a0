//! An identity source as others see it.

use super::state::IdentityState;
use std::time::SystemTime;
use tokio::sync::watch;

/// How a source is doing, to be looked at from anywhere; clones see the same.
#[derive(Clone, Debug)]
pub struct IdentityStatus(watch::Receiver<IdentityState>);

/// The status of a source that has nothing yet and never will.
impl Default for IdentityStatus {
    fn default() -> Self {
        Self(watch::Sender::default().subscribe())
    }
}

impl IdentityStatus {
    pub(super) fn new(state: watch::Receiver<IdentityState>) -> Self {
        Self(state)
    }

    /// How it is doing.
    pub fn state(&self) -> IdentityState {
        self.0.borrow().clone()
    }

    /// Why there is no identity that others would accept now; `None`: there is one.
    pub fn missing(&self) -> Option<String> {
        self.0.borrow().missing(SystemTime::now())
    }

    /// Waits for the next change: another certificate, other roots, success or failure. Pending for
    /// ever once the source is gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until there is an identity that others would accept.
    pub async fn ready(&mut self) {
        while self.missing().is_some() {
            self.changed().await;
        }
    }
}
