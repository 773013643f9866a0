//! Proofs of peers' identities, verified again while connections are open: certificates expire,
//! and roots are removed.

use super::credentials::TlsIdentity;
use crate::x509::validity;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The certificate chain that proved a peer's identity.
#[derive(Debug)]
pub struct Proof {
    peer: PeerRole,
    chain: Vec<CertificateDer<'static>>,
    expires: SystemTime,
    /// The newest removal of roots that the chain was verified after.
    verified_removals: AtomicU64,
}

/// The peer's role in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PeerRole {
    Client,
    Server,
}

impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        (self.peer, &self.chain) == (other.peer, &other.chain)
    }
}

impl Eq for Proof {}

/// Reason why a proof is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofError {
    /// The certificate expired at this time.
    Expired(SystemTime),
    /// The certificate does not chain to a trusted root any more.
    Untrusted,
}

/// Verifies proofs at one point in time, each chain once.
pub struct ProofVerifier {
    own: Option<Arc<TlsIdentity>>,
    now: SystemTime,
    verified: HashMap<(PeerRole, Vec<CertificateDer<'static>>), bool>,
}

impl Proof {
    /// Creates the proof of a client's handshake with `own`; `None` without a chain. A leaf with
    /// unreadable validity counts as expired.
    pub fn of(own: &TlsIdentity, chain: Option<&[CertificateDer<'_>]>) -> Option<Arc<Self>> {
        Self::of_peer(PeerRole::Client, own, chain)
    }

    /// Creates the proof of a handshake of `own` with a server, as [`Proof::of`] does.
    pub fn of_server(own: &TlsIdentity, chain: Option<&[CertificateDer<'_>]>) -> Option<Arc<Self>> {
        Self::of_peer(PeerRole::Server, own, chain)
    }

    fn of_peer(
        peer: PeerRole,
        own: &TlsIdentity,
        chain: Option<&[CertificateDer<'_>]>,
    ) -> Option<Arc<Self>> {
        let chain: Vec<_> = chain?.iter().map(|der| der.clone().into_owned()).collect();
        let expires = validity(chain.first()?).map_or(SystemTime::UNIX_EPOCH, |(_, end)| end);
        let verified_removals = AtomicU64::new(own.removals());
        Some(Arc::new(Self { peer, chain, expires, verified_removals }))
    }
}

impl ProofVerifier {
    /// Creates a verifier with the current time and the roots in force.
    pub fn new(own: Option<Arc<TlsIdentity>>) -> Self {
        Self { own, now: SystemTime::now(), verified: HashMap::new() }
    }

    /// Returns the time that proofs are verified at.
    pub fn now(&self) -> SystemTime {
        self.now
    }

    /// Returns the reason if a proof is no longer valid. Signatures are verified only after roots
    /// were removed.
    pub fn stale(&mut self, proof: &Proof) -> Option<ProofError> {
        if self.now >= proof.expires {
            return Some(ProofError::Expired(proof.expires));
        }
        let own = self.own.as_ref()?;
        if proof.verified_removals.load(Ordering::Relaxed) >= own.removals() {
            return None;
        }
        let key = (proof.peer, proof.chain.clone());
        let accepted = *self.verified.entry(key).or_insert_with(|| match proof.peer {
            PeerRole::Client => own.accepts(&proof.chain, self.now),
            PeerRole::Server => own.accepts_server(&proof.chain, self.now),
        });
        if !accepted {
            return Some(ProofError::Untrusted);
        }
        proof.verified_removals.store(own.removals(), Ordering::Relaxed);
        None
    }
}
