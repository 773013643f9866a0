//! The issuer's serving certificate, which it signs itself: clients connect over TLS and verify its
//! name.

use super::authority::Lifetime;
use super::ca_secret::certificates;
use super::csr::PublicKey;
use super::signer::{SignError, Signer};
use policy_server::TlsHandle;
use policy_tls::identity::{Credentials, IdentityError, TlsIdentity};
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Percentage of its lifetime after which it is renewed.
const RENEW_AFTER: u32 = 70;

/// Renews the serving certificate.
#[derive(Debug)]
pub(super) struct ServingCertificate {
    identity: Arc<str>,
    lifetime: Lifetime,
    signer: Signer,
    tls: TlsHandle,
    inputs: Option<SigningInputs>,
}

/// The inputs of the current serving certificate.
#[derive(Debug)]
struct SigningInputs {
    bundle: String,
    authority: Vec<u8>,
    renew: SystemTime,
}

/// Error of renewing the serving certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServingCertificateError {
    #[error("generating a key failed")]
    Key,
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the roots cannot be read: {0}")]
    Roots(String),
}

impl ServingCertificate {
    pub(super) fn new(
        identity: Arc<str>,
        lifetime: Lifetime,
        signer: Signer,
        tls: TlsHandle,
    ) -> Self {
        Self { identity, lifetime, signer, tls, inputs: None }
    }

    /// Renews the certificate if it is due, or if `authority` (its certificate) or the roots have
    /// changed.
    pub(super) fn refresh(
        &mut self,
        authority: &[u8],
        bundle: &str,
        now: SystemTime,
    ) -> Result<(), ServingCertificateError> {
        let good = self.inputs.as_ref().is_some_and(|inputs| {
            inputs.bundle == bundle && inputs.authority == authority && now < inputs.renew
        });
        if good {
            return Ok(());
        }
        let key = KeyPair::generate().map_err(|_| ServingCertificateError::Key)?;
        let public = PublicKey { info: key.subject_public_key_info() };
        let at = (Instant::now(), now);
        let signed = self.signer.sign(&public, &self.identity, self.lifetime, at)?;
        let ends = signed.leaf.not_after;
        let chain = std::iter::once(signed.leaf.certificate).chain(signed.intermediates);
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|_| ServingCertificateError::Key)?;
        let roots = policy_tls::identity::certificates(bundle.as_bytes());
        let identity = TlsIdentity::new(Credentials {
            server_name: self.identity.clone(),
            roots: roots.map_err(ServingCertificateError::Roots)?,
            chain: chain.collect(),
            key,
        })?;
        self.tls.put(Arc::new(identity), Some(ends));
        let life = ends.duration_since(now).unwrap_or_default();
        let renew = life.checked_div(100).unwrap_or_default().saturating_mul(RENEW_AFTER);
        let renew = now.checked_add(renew.max(Duration::from_secs(1))).unwrap_or(ends);
        tracing::info!(
            identity = %self.identity,
            serial = %signed.leaf.serial,
            roots = certificates(bundle.as_bytes()).len(),
            "renewed the issuer's serving certificate"
        );
        let (bundle, authority) = (bundle.to_owned(), authority.to_vec());
        self.inputs = Some(SigningInputs { bundle, authority, renew });
        Ok(())
    }
}
