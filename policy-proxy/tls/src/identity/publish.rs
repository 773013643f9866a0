//! Publication of identities by their sources.

use super::credentials::TlsIdentity;
use super::handle::IdentityHandle;
use super::metrics::IdentityMetrics;
use super::state::{CertificateState, Failure, FailureKind, IdentityState};
use super::status::IdentityStatus;
use crate::datetime::rfc3339_seconds;
use policy_core::Identity;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// Puts identities in force and publishes the status and the metrics.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    identity: IdentityHandle,
    state: Arc<watch::Sender<IdentityState>>,
    metrics: IdentityMetrics,
}

impl Publisher {
    pub(super) fn new(metrics: IdentityMetrics) -> Self {
        metrics.start();
        let state = Arc::new(watch::Sender::new(IdentityState::default()));
        Self { identity: IdentityHandle::empty(), state, metrics }
    }

    pub(super) fn identity(&self) -> &IdentityHandle {
        &self.identity
    }

    pub(super) fn status(&self) -> IdentityStatus {
        IdentityStatus::new(self.state.subscribe())
    }

    /// Publishes a new certificate, for future handshakes.
    pub(super) fn renew(&self, identity: TlsIdentity) {
        let now = SystemTime::now();
        tracing::info!(
            name = identity.name().map(Identity::as_str),
            until = identity.validity().map(|(_, end)| rfc3339_seconds(end)),
            roots = identity.roots().len(),
            "identity renewed"
        );
        self.metrics.renewed(now);
        self.publish(identity, now, now);
    }

    /// Publishes the current certificate with other roots.
    pub(super) fn replace_roots(&self, identity: TlsIdentity) {
        let since = self.state.borrow().certificate.as_ref().map(|certificate| certificate.since);
        let now = SystemTime::now();
        tracing::info!(roots = identity.roots().len(), "trust roots changed");
        self.metrics.roots_changed();
        self.publish(identity, since.unwrap_or(now), now);
    }

    fn publish(&self, identity: TlsIdentity, since: SystemTime, now: SystemTime) {
        // An unreadable certificate is never valid; handshakes would fail anyway.
        let (not_before, not_after) = identity.validity().unwrap_or((now, now));
        let certificate = CertificateState {
            name: identity.name().cloned(),
            not_before,
            not_after,
            since,
            roots: identity.roots().len(),
            rejection: identity.verify(now).err().map(Arc::from),
        };
        self.metrics.in_force(&certificate, identity.roots());
        self.identity.replace(identity);
        self.state.send_replace(IdentityState { certificate: Some(certificate), failure: None });
    }

    /// Verifies the current certificate again, because clocks move and roots expire. Returns true
    /// if other members of the mesh would reject it.
    pub(super) fn check(&self) -> bool {
        let now = SystemTime::now();
        let current = self.identity.current().clone();
        let rejection = current.and_then(|own| own.verify(now).err()).map(Arc::<str>::from);
        let state = self.state.borrow().clone();
        let Some(certificate) = state.certificate else { return true };
        if certificate.rejection != rejection {
            match &rejection {
                Some(rejection) => {
                    tracing::warn!(doubt = %rejection, "peers would reject our certificate")
                }
                None => tracing::info!("peers accept our certificate again"),
            }
            self.state.send_modify(|state| {
                if let Some(certificate) = &mut state.certificate {
                    certificate.rejection.clone_from(&rejection);
                }
            });
        }
        self.metrics.usable(rejection.is_none());
        rejection.is_some()
    }

    /// Clears the failure: the source recovered without a change.
    pub(super) fn clear_failure(&self) {
        self.state.send_if_modified(|state| state.failure.take().is_some());
    }

    /// Clears the failure if it was one of the roots.
    pub(super) fn clear_roots_failure(&self) {
        self.state.send_if_modified(|state| {
            let roots = |failure: &mut Failure| failure.kind == FailureKind::Roots;
            state.failure.take_if(roots).is_some()
        });
    }

    /// Publishes a failed attempt; the current identity stays.
    pub(super) fn fail(&self, kind: FailureKind, message: &str) {
        let now = SystemTime::now();
        self.metrics.failed(kind, now);
        let known =
            self.state.borrow().failure.as_ref().is_some_and(|last| *last.message == *message);
        if known {
            tracing::debug!(error = message, kind = kind.as_str(), "identity not renewed");
        } else {
            tracing::warn!(error = message, kind = kind.as_str(), "identity not renewed");
        }
        let failure = Some(Failure { kind, message: message.into(), at: now });
        self.state.send_modify(|state| state.failure = failure);
        self.check();
    }

    /// Publishes that the agent revoked the identity.
    pub(super) fn revoke(&self, kind: FailureKind, message: &str) {
        self.identity.clear();
        self.metrics.revoked();
        self.state.send_modify(|state| state.certificate = None);
        self.fail(kind, message);
    }
}
