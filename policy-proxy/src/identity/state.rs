//! How an identity source is doing: what it has put in force, whether others would accept that, and
//! what went wrong last.

use super::{IdentityHandle, TlsIdentity};
use crate::civil::shown;
use crate::telemetry::IdentityMetrics;
use policy_core::Identity;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// How an identity source is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityState {
    /// The certificate in force; absent: none was received yet, or it was taken back.
    pub certificate: Option<CertificateState>,
    /// What went wrong at the last attempt; absent: nothing.
    pub failure: Option<Failure>,
}

/// The certificate in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateState {
    /// The identity that it proves, if it proves one.
    pub name: Option<Identity>,
    /// When it becomes valid.
    pub not_before: SystemTime,
    /// When it expires.
    pub not_after: SystemTime,
    /// When it was put in force.
    pub since: SystemTime,
    /// How many roots are trusted with it.
    pub roots: usize,
    /// Why others would not accept it now, as far as we can tell; checked every few seconds.
    pub doubt: Option<Arc<str>>,
}

/// What went wrong at the last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub kind: FailureKind,
    /// What, in words for an operator.
    pub message: Arc<str>,
    /// When.
    pub at: SystemTime,
}

/// Where an attempt went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The roots cannot be read or are none.
    Roots,
    /// Certificate or key on disk cannot be read or used.
    Files,
    /// The token cannot be read or is empty.
    Token,
    /// The issuer or agent cannot be connected to, or is not who it should be.
    Unreachable,
    /// The issuer or agent answered with an error, or not in time.
    Refused,
    /// The issuer or agent answered with something that cannot be accepted.
    Answer,
    /// What is in force is not accepted by others any more.
    Certificate,
}

impl FailureKind {
    /// As it is shown in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::Files => "files",
            Self::Token => "token",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Answer => "answer",
            Self::Certificate => "certificate",
        }
    }
}

impl IdentityState {
    /// Why there is no identity that others would accept now; `None`: there is one.
    pub fn missing(&self, now: SystemTime) -> Option<String> {
        let because = |reason: String| match &self.failure {
            Some(failure) => Some(format!("{reason}: {}", failure.message)),
            None => Some(reason),
        };
        let Some(held) = &self.certificate else {
            return because("no certificate yet".to_owned());
        };
        if now >= held.not_after {
            return because(format!("the certificate expired at {}", shown(held.not_after)));
        }
        if now < held.not_before {
            let (begins, now) = (shown(held.not_before), shown(now));
            return because(format!("the certificate is not valid before {begins}; it is {now}"));
        }
        held.doubt.as_ref().map(|doubt| doubt.to_string())
    }
}

/// How a source is doing, to be looked at from anywhere; clones see the same.
#[derive(Clone, Debug)]
pub struct IdentityStatus(watch::Receiver<IdentityState>);

impl IdentityStatus {
    /// Of a source that has nothing yet.
    #[cfg(test)]
    pub(crate) fn waiting() -> Self {
        Publisher::new(IdentityMetrics::default()).status()
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

/// The sources' side: puts identities in force and says so.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    identity: IdentityHandle,
    state: Arc<watch::Sender<IdentityState>>,
    metrics: IdentityMetrics,
}

impl Publisher {
    pub(super) fn new(metrics: IdentityMetrics) -> Self {
        metrics.begin();
        let state = Arc::new(watch::Sender::new(IdentityState::default()));
        Self { identity: IdentityHandle::empty(), state, metrics }
    }

    pub(super) fn identity(&self) -> &IdentityHandle {
        &self.identity
    }

    pub(super) fn status(&self) -> IdentityStatus {
        IdentityStatus(self.state.subscribe())
    }

    /// A new certificate: in force for handshakes from now on.
    pub(super) fn renew(&self, identity: TlsIdentity) {
        let now = SystemTime::now();
        tracing::info!(
            name = identity.name().map(Identity::as_str),
            until = identity.validity().map(|(_, end)| shown(end)),
            roots = identity.roots().len(),
            "identity renewed"
        );
        self.metrics.renewed(now);
        self.put(identity, now, now);
    }

    /// Other roots for the certificate in force.
    pub(super) fn reroot(&self, identity: TlsIdentity) {
        let since = self.state.borrow().certificate.as_ref().map(|held| held.since);
        let now = SystemTime::now();
        tracing::info!(roots = identity.roots().len(), "trust roots changed");
        self.metrics.roots_changed();
        self.put(identity, since.unwrap_or(now), now);
    }

    fn put(&self, identity: TlsIdentity, since: SystemTime, now: SystemTime) {
        // What cannot be read is valid at no time; handshakes would fail all the same.
        let (not_before, not_after) = identity.validity().unwrap_or((now, now));
        let held = CertificateState {
            name: identity.name().cloned(),
            not_before,
            not_after,
            since,
            roots: identity.roots().len(),
            doubt: identity.verify(now).err().map(Arc::from),
        };
        self.metrics.in_force(&held, identity.roots());
        self.identity.replace(identity);
        self.state.send_replace(IdentityState { certificate: Some(held), failure: None });
    }

    /// Looks again whether others would accept what is in force, for clocks move and roots expire.
    /// True: they would not.
    pub(super) fn check(&self) -> bool {
        let now = SystemTime::now();
        let current = self.identity.current().clone();
        let doubt = current.and_then(|own| own.verify(now).err()).map(Arc::<str>::from);
        let state = self.state.borrow().clone();
        let Some(held) = state.certificate else { return true };
        if held.doubt != doubt {
            match &doubt {
                Some(doubt) => {
                    tracing::warn!(%doubt, "our certificate is not acceptable to others")
                }
                None => tracing::info!("our certificate is acceptable to others again"),
            }
            self.state.send_modify(|state| {
                if let Some(held) = &mut state.certificate {
                    held.doubt.clone_from(&doubt);
                }
            });
        }
        self.metrics.usable(doubt.is_none());
        doubt.is_some()
    }

    /// What went wrong before is right again, and nothing had to be changed for it.
    pub(super) fn settle(&self) {
        self.state.send_if_modified(|state| state.failure.take().is_some());
    }

    /// The roots, if they were what went wrong last, are as they were again.
    pub(super) fn settle_roots(&self) {
        self.state.send_if_modified(|state| {
            let roots = |failure: &mut Failure| failure.kind == FailureKind::Roots;
            state.failure.take_if(roots).is_some()
        });
    }

    /// An attempt went wrong; what is in force stays.
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

    /// Whoever gave the identity has taken it back.
    pub(super) fn revoke(&self, kind: FailureKind, message: &str) {
        self.identity.clear();
        self.metrics.revoked();
        self.state.send_modify(|state| state.certificate = None);
        self.fail(kind, message);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn held() -> CertificateState {
        CertificateState {
            name: Some(Identity::Dns("web.example".into())),
            not_before: at(100),
            not_after: at(200),
            since: at(100),
            roots: 1,
            doubt: None,
        }
    }

    #[test]
    fn an_identity_is_missing_before_its_certificate_while_it_is_not_valid_and_after() {
        let none = IdentityState::default();
        assert_eq!(none.missing(at(0)).unwrap(), "no certificate yet");
        let state = IdentityState { certificate: Some(held()), failure: None };
        assert_eq!(
            state.missing(at(99)).unwrap(),
            "the certificate is not valid before 1970-01-01T00:01:40Z; it is 1970-01-01T00:01:39Z"
        );
        assert_eq!(state.missing(at(100)), None);
        assert_eq!(state.missing(at(199)), None);
        assert_eq!(
            state.missing(at(200)).unwrap(),
            "the certificate expired at 1970-01-01T00:03:20Z"
        );
    }

    #[test]
    fn what_went_wrong_is_told_where_it_matters() {
        let failure = Failure { kind: FailureKind::Refused, message: "away".into(), at: at(150) };
        let mut state = IdentityState { certificate: Some(held()), failure: Some(failure) };
        assert_eq!(state.missing(at(150)), None, "what is in force stays");
        let said = "the certificate expired at 1970-01-01T00:03:20Z: away";
        assert_eq!(state.missing(at(300)).as_deref(), Some(said));
        state.certificate = None;
        assert_eq!(state.missing(at(150)).as_deref(), Some("no certificate yet: away"));
        state.certificate =
            Some(CertificateState { doubt: Some("unknown issuer".into()), ..held() });
        assert_eq!(state.missing(at(150)).as_deref(), Some("unknown issuer"));
    }
}
