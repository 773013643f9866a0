//! The identity in force, replaced as a whole.

use super::credentials::TlsIdentity;
use arc_swap::{ArcSwapOption, Guard};
use rustls::pki_types::CertificateDer;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// Where the identity in force is found; empty until the first certificate arrives. Handshakes in
/// progress and open connections keep what they began with, save for clients that only a root vouches
/// for that was taken out meanwhile.
#[derive(Clone, Debug, Default)]
pub struct IdentityHandle(Arc<HandleState>);

#[derive(Debug, Default)]
struct HandleState {
    current: ArcSwapOption<TlsIdentity>,
    /// The last one there was, for its roots.
    last: ArcSwapOption<TlsIdentity>,
    /// Told of each one that is put in force.
    replaced: Notify,
}

impl IdentityHandle {
    /// No identity yet: every connection is treated as plaintext or as TLS for somebody else.
    pub fn empty() -> Self {
        Self::default()
    }

    /// This identity.
    pub fn new(identity: TlsIdentity) -> Self {
        let handle = Self::default();
        handle.replace(identity);
        handle
    }

    /// Puts a new identity in force for handshakes that begin from now on.
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
            // Before it is looked at, so that none falls in between.
            replaced.as_mut().enable();
            if self.current().is_some() {
                return;
            }
            replaced.await;
        }
    }

    /// Takes the identity back: there is none until the next.
    pub fn clear(&self) {
        self.0.current.store(None);
    }

    /// The identity in force.
    pub fn current(&self) -> Guard<Option<Arc<TlsIdentity>>> {
        self.0.current.load()
    }
}
