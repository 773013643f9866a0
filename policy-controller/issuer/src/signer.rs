//! Signs certificates with the authority in use.

use super::authority::{Authority, AuthorityError, Leaf, Lifetime};
use super::csr::PublicKey;
use super::plan::MAX_READ_AGE;
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The authority in use; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Signer {
    in_use: Arc<RwLock<Option<ActiveAuthority>>>,
}

#[derive(Clone, Debug)]
struct ActiveAuthority {
    authority: Arc<Authority>,
    /// Time at which the Secret was last read; absent if no other client may change the authority.
    confirmed: Option<Instant>,
    /// Maximum validity of signed certificates, clock skew included.
    longest: Duration,
}

/// Error of a certificate that is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// There is no authority yet.
    #[error("there is no authority yet; see the issuer's log")]
    None,
    /// The authority may have been replaced.
    #[error(
        "the Secret of the authority was last read {0} s ago (allowed: {allowed} s)",
        allowed = MAX_READ_AGE.as_secs()
    )]
    Stale(u64),
    /// The authority cannot sign.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// A certificate and its intermediates, without the root.
#[derive(Clone, Debug)]
pub(super) struct SignedCertificate {
    pub(super) leaf: Leaf,
    pub(super) intermediates: Vec<CertificateDer<'static>>,
}

impl Signer {
    /// Signs with this authority from now on. `confirmed`: the time at which it was read, if other
    /// clients may change it.
    pub(super) fn put(
        &self,
        authority: Arc<Authority>,
        confirmed: Option<Instant>,
        longest: Duration,
    ) {
        *self.in_use.write() = Some(ActiveAuthority { authority, confirmed, longest });
    }

    /// Signs a certificate for `identity`.
    pub(super) fn sign(
        &self,
        key: &PublicKey,
        identity: &str,
        lifetime: Lifetime,
        now: (Instant, SystemTime),
    ) -> Result<SignedCertificate, SignError> {
        let in_use = self.in_use.read().clone().ok_or(SignError::None)?;
        if let Some(confirmed) = in_use.confirmed {
            let age = now.0.saturating_duration_since(confirmed);
            if age > MAX_READ_AGE {
                return Err(SignError::Stale(age.as_secs()));
            }
        }
        let longest = in_use.longest.saturating_sub(lifetime.skew);
        let lifetime = Lifetime { lifetime: lifetime.lifetime.min(longest), ..lifetime };
        let leaf = in_use.authority.sign(key, identity, lifetime, now.1)?;
        let intermediates = in_use.authority.intermediates().cloned().collect();
        Ok(SignedCertificate { leaf, intermediates })
    }
}
