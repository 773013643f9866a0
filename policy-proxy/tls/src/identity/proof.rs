//! What a client has proved its identity with, judged again while its connection is open: a
//! certificate expires, and a root is taken out.

use super::credentials::TlsIdentity;
use crate::x509::validity;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The chain that a client proved its identity with.
#[derive(Debug)]
pub struct Proof {
    chain: Vec<CertificateDer<'static>>,
    expires: SystemTime,
    /// The newest removal of roots that it has survived.
    verified_removals: AtomicU64,
}

impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

impl Eq for Proof {}

/// Why an identity that was proved does not count any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofError {
    /// The certificate has expired, since then.
    Expired(SystemTime),
    /// No root that is trusted now vouches for it.
    Untrusted,
}

/// Judges proofs at one point in time, each chain once.
pub struct ProofVerifier {
    own: Option<Arc<TlsIdentity>>,
    now: SystemTime,
    verified: HashMap<Vec<CertificateDer<'static>>, bool>,
}

impl Proof {
    /// What the chain of a handshake with `own` proves from now on; `None` if there is no chain. A leaf
    /// whose end cannot be read counts as expired.
    pub fn of(own: &TlsIdentity, chain: Option<&[CertificateDer<'_>]>) -> Option<Arc<Self>> {
        let chain: Vec<_> = chain?.iter().map(|der| der.clone().into_owned()).collect();
        let expires = validity(chain.first()?).map_or(SystemTime::UNIX_EPOCH, |(_, end)| end);
        Some(Arc::new(Self { chain, expires, verified_removals: AtomicU64::new(own.removals()) }))
    }
}

impl ProofVerifier {
    /// By the roots in force now.
    pub fn new(own: Option<Arc<TlsIdentity>>) -> Self {
        Self { own, now: SystemTime::now(), verified: HashMap::new() }
    }

    /// The point in time that it judges by.
    pub fn now(&self) -> SystemTime {
        self.now
    }

    /// Why a proof does not count any longer; `None`: it does. Signatures are looked at only after roots
    /// were taken out.
    pub fn stale(&mut self, proof: &Proof) -> Option<ProofError> {
        if self.now >= proof.expires {
            return Some(ProofError::Expired(proof.expires));
        }
        let own = self.own.as_ref()?;
        if proof.verified_removals.load(Ordering::Relaxed) >= own.removals() {
            return None;
        }
        let accepted = match self.verified.get(&proof.chain) {
            Some(accepted) => *accepted,
            None => {
                let accepted = own.accepts(&proof.chain, self.now);
                self.verified.insert(proof.chain.clone(), accepted);
                accepted
            }
        };
        if !accepted {
            return Some(ProofError::Untrusted);
        }
        proof.verified_removals.store(own.removals(), Ordering::Relaxed);
        None
    }
}
