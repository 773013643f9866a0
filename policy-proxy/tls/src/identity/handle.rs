//! The identity in force, replaced atomically.

use super::credentials::TlsIdentity;
use arc_swap::{ArcSwapOption, Guard};
use rustls::pki_types::CertificateDer;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// Handle of the identity in force; empty until the first certificate arrives. Handshakes in
/// progress and open connections continue with the previous one, except for clients whose only root
/// was removed.
#[derive(Clone, Debug, Default)]
pub struct IdentityHandle(Arc<HandleState>);

#[derive(Debug, Default)]
struct HandleState {
    current: ArcSwapOption<TlsIdentity>,
    /// The last identity, for its roots.
    last: ArcSwapOption<TlsIdentity>,
    /// Notified when an identity is put in force.
    replaced: Notify,
}

impl IdentityHandle {
    /// Creates a handle without an identity: every connection is treated as plaintext or as TLS
    /// passed through.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a handle of this identity.
    pub fn new(identity: TlsIdentity) -> Self {
        let handle = Self::default();
        handle.replace(identity);
        handle
    }

    /// Puts a new identity in force for future handshakes.
    pub fn replace(&self, mut identity: TlsIdentity) {
        let removals = self.0.last.load().as_ref().map_or(0, |last| {
            let missing = |root: &CertificateDer<'_>| !identity.roots().contains(root);
            last.removals().saturating_add(u64::from(last.roots().iter().any(missing)))
        });
        identity.set_removals(removals);
        let identity = Arc::new(identity);
        self.0.last.store(Some(Arc::clone(&identity)));
        self.0.current.store(Some(identity));
        self.0.replaced.notify_waiters();
    }

    /// Waits until there is an identity.
    pub async fn present(&self) {
        loop {
            let mut replaced = pin!(self.0.replaced.notified());
            // Before the check, so that no notification is missed.
            replaced.as_mut().enable();
            if self.current().is_some() {
                return;
            }
            replaced.await;
        }
    }

    /// Removes the identity until the next one.
    pub fn clear(&self) {
        self.0.current.store(None);
    }

    /// Returns the identity in force.
    pub fn current(&self) -> Guard<Option<Arc<TlsIdentity>>> {
        self.0.current.load()
    }
}
