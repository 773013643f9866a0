//! Verifiers of peers beyond the chain: a server by its identity, which must be among the names of
//! its certificate; a client by its trust domain, if our roots are trusted for one only.

use super::name::identity_of;
use policy_core::Identity;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// Verifies servers of the mesh by their identity. SNI is not used.
#[derive(Debug)]
pub(super) struct IdentityVerifier {
    roots: Arc<RootCertStore>,
    expected: Identity,
    provider: Arc<CryptoProvider>,
}

impl IdentityVerifier {
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        expected: Identity,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { roots, expected, provider }
    }

    /// Returns true if any name is the expected identity: a server may have several (as Linkerd's
    /// proxies accept).
    fn is_expected(&self, leaf: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = webpki::EndEntityCert::try_from(leaf) else { return false };
        match &self.expected {
            Identity::Dns(name) => {
                certificate.valid_dns_names().any(|dns| dns.eq_ignore_ascii_case(name))
            }
            Identity::Spiffe(name) => certificate.valid_uri_names().any(|uri| *uri == **name),
        }
    }
}

impl ServerCertVerifier for IdentityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let leaf = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &leaf,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        if self.is_expected(end_entity) {
            Ok(ServerCertVerified::assertion())
        } else {
            let (expected, presented) = (server_name.to_owned(), names(end_entity));
            Err(CertificateError::NotValidForNameContext { expected, presented }.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The first names of a certificate, for logs.
fn names(leaf: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(leaf) else { return Vec::new() };
    let names = certificate.valid_uri_names().chain(certificate.valid_dns_names());
    let cut = |name: &str| name.chars().take(SHOWN_LENGTH).collect();
    names.take(SHOWN_NAMES).map(cut).collect()
}

/// Names of a rejected certificate that are shown, and the characters of each.
const SHOWN_NAMES: usize = 3;
const SHOWN_LENGTH: usize = 256;

/// Verifies clients, and rejects SPIFFE identities of other trust domains.
#[derive(Debug)]
pub(super) struct TrustDomainVerifier {
    chain: Arc<dyn ClientCertVerifier>,
    /// `spiffe://domain/`.
    prefix: String,
}

impl TrustDomainVerifier {
    pub(super) fn new(chain: Arc<dyn ClientCertVerifier>, domain: &str) -> Self {
        Self { chain, prefix: format!("spiffe://{domain}/") }
    }
}

impl ClientCertVerifier for TrustDomainVerifier {
    fn offer_client_auth(&self) -> bool {
        self.chain.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        match identity_of(end_entity) {
            Some(Identity::Spiffe(id)) if !id.starts_with(&self.prefix) => {
                Err(CertificateError::UnknownIssuer.into())
            }
            Some(Identity::Spiffe(_) | Identity::Dns(_)) | None => Ok(verified),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
