//! The identity among the names of a certificate.

use policy_core::Identity;
use rustls::pki_types::{CertificateDer, ServerName};

const SPIFFE: &str = "spiffe://";

/// Returns the identity that a certificate proves once its chain has been verified: exactly one
/// `spiffe://` URI, DNS names beside it are ignored; without any, exactly one DNS name; else
/// `None`.
pub fn identity_of(leaf: &CertificateDer<'_>) -> Option<Identity> {
    let certificate = webpki::EndEntityCert::try_from(leaf).ok()?;
    let mut spiffe = certificate.valid_uri_names().filter(|uri| is_spiffe(uri));
    match (spiffe.next(), spiffe.next()) {
        (Some(uri), None) => return is_spiffe_id(uri).then(|| Identity::Spiffe(uri.into())),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let mut dns = certificate.valid_dns_names();
    match (dns.next(), dns.next()) {
        (Some(name), None) if !name.contains('*') => {
            Some(Identity::Dns(name.to_ascii_lowercase().into()))
        }
        (Some(_), _) | (None, _) => None,
    }
}

/// Returns true if this is a DNS name, which SNI may carry.
pub fn is_dns_name(text: &str) -> bool {
    matches!(ServerName::try_from(text), Ok(ServerName::DnsName(_)))
}

/// Returns true for a `spiffe` URI. Schemes are case-insensitive (RFC 3986 section 3.1).
fn is_spiffe(uri: &str) -> bool {
    uri.get(..SPIFFE.len()).is_some_and(|head| head.eq_ignore_ascii_case(SPIFFE))
}

/// Returns true for a SPIFFE ID (SPIFFE ID section 2): lower-case trust domain, then segments of
/// `[a-zA-Z0-9._-]`, none of them empty, `.` or `..`; at most 2048 bytes.
pub fn is_spiffe_id(uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix(SPIFFE) else { return false };
    let mut parts = rest.split('/');
    let domain = parts.next().unwrap_or_default();
    let in_domain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    uri.len() <= 2048
        && !domain.is_empty()
        && domain.bytes().all(in_domain)
        && parts.all(|p| !p.is_empty() && p != "." && p != ".." && p.bytes().all(in_path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SanType};

    fn leaf(names: &[SanType]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    fn uri(name: &str) -> SanType {
        SanType::URI(name.try_into().unwrap())
    }

    #[track_caller]
    fn check(names: &[SanType], want: Option<&str>) {
        let identity = identity_of(&leaf(names));
        assert_eq!(identity.as_ref().map(Identity::as_str), want);
    }

    #[test]
    fn one_dns_name_is_the_identity_in_lower_case() {
        check(&[dns("Web.NS.example")], Some("web.ns.example"));
    }

    #[test]
    fn one_spiffe_uri_decides_and_dns_names_beside_it_are_ignored() {
        check(&[dns("a.example"), uri("spiffe://td/ns/x/sa/y")], Some("spiffe://td/ns/x/sa/y"));
        check(&[uri("spiffe://td/a"), dns("a.example"), dns("b.example")], Some("spiffe://td/a"));
    }

    #[test]
    fn several_names_prove_nothing() {
        check(&[dns("a.example"), dns("b.example")], None);
        check(&[uri("spiffe://td/a"), uri("spiffe://td/b")], None);
        check(&[uri("spiffe://td/a"), uri("SPIFFE://td/b"), dns("a.example")], None);
    }

    #[test]
    fn no_name_a_wildcard_and_a_malformed_uri_prove_nothing() {
        check(&[], None);
        check(&[SanType::IpAddress("10.0.0.1".parse().unwrap())], None);
        check(&[dns("*.ns.example")], None);
        check(&[uri("spiffe://td/../a"), dns("a.example")], None);
        check(&[uri("spiffe:///a")], None);
        check(&[uri("spiffe://td/a?x")], None);
    }

    #[test]
    fn another_uri_beside_one_dns_name_is_ignored() {
        check(&[uri("https://td/a"), dns("a.example")], Some("a.example"));
    }
}
