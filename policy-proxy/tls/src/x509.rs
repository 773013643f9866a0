//! The parts of a certificate (RFC 5280 section 4.1) that the verifier does not expose, and its
//! times, read and written.
//!
//! Names are kept as encoded: two names with different encodings are two names to verifiers,
//! whatever they mean.

use crate::datetime;
use crate::der::{
    BOOLEAN, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, UTC_TIME, context, element,
    next, only, whole, write,
};
use crate::oid;
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// The tag of a `dNSName` among general names (RFC 5280 section 4.2.1.6).
pub const DNS_NAME: u8 = 0x82;
const ISSUER_UNIQUE_ID: u8 = 0x81;
const SUBJECT_UNIQUE_ID: u8 = 0x82;

/// A certificate whose signature was not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// The issuer's name, DER.
    pub issuer: &'a [u8],
    /// Start of the validity.
    pub not_before: SystemTime,
    /// End of the validity.
    pub not_after: SystemTime,
    /// The subject's name, DER.
    pub subject: &'a [u8],
    /// The subject's public key with its algorithm (SubjectPublicKeyInfo), DER.
    pub key: &'a [u8],
    /// Identifiers and values.
    extensions: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate, DER.
    pub fn read(der: &'a [u8]) -> Option<Self> {
        let (body, _) = element(only(der, SEQUENCE)?, SEQUENCE)?;
        // The version is omitted if it is 1.
        let body = element(body, context(0)).map_or(body, |(_version, rest)| rest);
        let (_serial, body) = element(body, INTEGER)?;
        let (_algorithm, body) = element(body, SEQUENCE)?;
        let (issuer, body) = whole(body, SEQUENCE)?;
        let (validity, body) = element(body, SEQUENCE)?;
        let (not_before, validity) = read_time(validity)?;
        let (not_after, _) = read_time(validity)?;
        let (subject, body) = whole(body, SEQUENCE)?;
        let (key, mut rest) = whole(body, SEQUENCE)?;
        // Obsolete unique identifiers may precede the extensions.
        for tag in [ISSUER_UNIQUE_ID, SUBJECT_UNIQUE_ID] {
            rest = element(rest, tag).map_or(rest, |(_, rest)| rest);
        }
        let extensions = match rest {
            [] => Vec::new(),
            rest => extensions(only(only(rest, context(3))?, SEQUENCE)?)?,
        };
        Some(Self { issuer, not_before, not_after, subject, key, extensions })
    }

    /// Returns the types (context tags) and contents of the subject's alternative names, in order.
    /// Empty if there are none; `None` if they are malformed.
    pub fn alternative_names(&self) -> Option<Vec<(u8, &'a [u8])>> {
        let Some(value) = self.extension(oid::SUBJECT_ALT_NAME) else { return Some(Vec::new()) };
        let mut names = only(value, SEQUENCE)?;
        let mut found = Vec::new();
        while !names.is_empty() {
            let (tag, content, rest) = next(names)?;
            found.push((tag, content));
            names = rest;
        }
        Some(found)
    }

    /// Returns the identifier of the subject's key.
    pub fn key_id(&self) -> Option<&'a [u8]> {
        only(self.extension(oid::SUBJECT_KEY_IDENTIFIER)?, OCTET_STRING)
    }

    /// Returns true if it may issue certificates (basicConstraints CA:TRUE).
    pub fn is_authority(&self) -> bool {
        let constraints = self.extension(oid::BASIC_CONSTRAINTS);
        let constraints = constraints.and_then(|value| only(value, SEQUENCE));
        constraints.and_then(|of| element(of, BOOLEAN)).is_some_and(|(value, _)| value == [0xff])
    }

    fn extension(&self, id: &[u8]) -> Option<&'a [u8]> {
        self.extensions.iter().find(|(found, _)| *found == id).map(|(_, value)| *value)
    }
}

fn extensions(mut list: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !list.is_empty() {
        let (extension, rest) = element(list, SEQUENCE)?;
        list = rest;
        let (id, value) = element(extension, OID)?;
        let value = element(value, BOOLEAN).map_or(value, |(_critical, value)| value);
        found.push((id, only(value, OCTET_STRING)?));
    }
    Some(found)
}

/// Returns the validity of a certificate; `None` if it is malformed.
pub fn validity(certificate: &[u8]) -> Option<(SystemTime, SystemTime)> {
    Certificate::read(certificate).map(|read| (read.not_before, read.not_after))
}

/// Returns the public key of a certificate request (RFC 2986), with its algorithm.
pub(crate) fn requested_key(request: &[u8]) -> Option<&[u8]> {
    let (body, _) = element(only(request, SEQUENCE)?, SEQUENCE)?;
    let (_version, body) = element(body, INTEGER)?;
    let (_subject, body) = element(body, SEQUENCE)?;
    whole(body, SEQUENCE).map(|(key, _)| key)
}

/// Parses concatenated certificates (as SPIFFE encodes them). `None` if there are none, or other
/// bytes.
pub(crate) fn concatenated(mut input: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        let (certificate, rest) = whole(input, SEQUENCE)?;
        found.push(CertificateDer::from(certificate.to_vec()));
        input = rest;
    }
    (!found.is_empty()).then_some(found)
}

/// Reads the time at the start of `input`; the time and the rest: `[YY]YYMMDDHHMMSSZ`. RFC 5280,
/// section 4.1.2.5, allows no other form.
fn read_time(input: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (tag, text, rest) = next(input)?;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i16>().ok();
    let (year, digits) = match tag {
        UTC_TIME => {
            let (year, digits) = digits.split_at_checked(2)?;
            // RFC 5280 section 4.1.2.5.1.
            let century = if number(year)? >= 50 { 1900 } else { 2000 };
            (number(year)?.checked_add(century)?, digits)
        }
        GENERALIZED_TIME => {
            let (year, digits) = digits.split_at_checked(4)?;
            (number(year)?, digits)
        }
        _ => return None,
    };
    let pair = |pair: &[u8]| i8::try_from(number(pair)?).ok();
    let parts: Vec<i8> = digits.chunks(2).filter_map(pair).collect();
    let parts = <[i8; 5]>::try_from(parts).ok().filter(|_| digits.len() == 10)?;
    Some((datetime::from_parts(year, parts)?, rest))
}

/// Writes a time as certificates have it: UTCTime until 2049, GeneralizedTime from 2050 on (RFC
/// 5280, section 4.1.2.5).
pub fn write_time(at: SystemTime) -> Vec<u8> {
    let text = datetime::compact(at);
    match text.split_at_checked(2) {
        Some((_century, rest)) if text.as_str() < "2050" => write(UTC_TIME, &[rest.as_bytes()]),
        _ => write(GENERALIZED_TIME, &[text.as_bytes()]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;
    use rcgen::{
        BasicConstraints, CertificateParams, IsCa, KeyIdMethod, KeyPair, PublicKeyData as _,
        SanType, date_time_ymd,
    };
    use std::time::{Duration, UNIX_EPOCH};

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn names(der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
        Certificate::read(der)?.alternative_names()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        for (year, month, seconds) in
            [(2030, 2, 1_896_134_400), (2049, 12, 2_521_929_600_u64), (2060, 1, 2_840_140_800)]
        {
            let der = made(|params| {
                params.not_before = date_time_ymd(1999, 12, 31);
                params.not_after = date_time_ymd(year, month, 1);
            });
            let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(validity(&der), Some((at(946_598_400), at(seconds))), "{year}");
        }
        // The end of the year 9999 stands for no end (RFC 5280 section 4.1.2.5).
        let endless = made(|params| params.not_after = date_time_ymd(9999, 12, 31));
        let last_day = UNIX_EPOCH + Duration::from_secs(253_402_214_400);
        assert_eq!(validity(&endless).unwrap().1, last_day);
    }

    #[test]
    fn names_are_found_in_their_order_with_their_kinds() {
        let der = made(|params| {
            params.subject_alt_names = vec![
                SanType::DnsName("b.example".try_into().unwrap()),
                SanType::URI("spiffe://td/a".try_into().unwrap()),
                SanType::IpAddress("10.0.0.1".parse().unwrap()),
            ];
        });
        let expected: Vec<(u8, &[u8])> =
            vec![(DNS_NAME, b"b.example"), (0x86, b"spiffe://td/a"), (0x87, &[10, 0, 0, 1])];
        assert_eq!(names(&der), Some(expected));
        let none = made(|params| params.subject_alt_names.clear());
        assert_eq!(names(&none), Some(Vec::new()));
    }

    #[test]
    fn certificates_one_behind_the_other_are_told_apart() {
        let (one, two) = (made(|_| {}), made(|_| {}));
        let both: Vec<Vec<u8>> = concatenated(&[one.clone(), two.clone()].concat())
            .unwrap()
            .iter()
            .map(|c| c.to_vec())
            .collect();
        assert_eq!(both, [one.clone(), two]);
        assert_eq!(concatenated(&[]), None);
        assert_eq!(concatenated(&[one.as_slice(), b"x"].concat()), None);
        assert_eq!(concatenated(&one[..one.len() - 1]), None);
    }

    #[test]
    fn whatever_is_cut_off_is_nothing() {
        let der = made(|_| {});
        for length in 0..der.len() {
            assert_eq!(Certificate::read(&der[..length]), None);
        }
    }

    #[test]
    fn what_an_authority_is_known_by_is_read() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        let leaf = params.self_signed(&key).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_identifier_method = KeyIdMethod::PreSpecified(vec![7; 20]);
        let authority = params.self_signed(&key).unwrap();
        let read = Certificate::read(authority.der()).unwrap();
        assert!(read.is_authority() && !Certificate::read(leaf.der()).unwrap().is_authority());
        assert_eq!(read.key_id(), Some(&[7; 20][..]));
        assert_eq!(read.issuer, read.subject);
        assert_eq!(read.key, key.subject_public_key_info());
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_was_written(seconds in 0_u64..253_402_300_800) {
            let at = UNIX_EPOCH + Duration::from_secs(seconds);
            let written = write_time(at);
            prop_assert_eq!(read_time(&written), Some((at, &[][..])));
            let tag = if seconds < 2_524_608_000 { UTC_TIME } else { GENERALIZED_TIME };
            prop_assert_eq!(written[0], tag);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            Certificate::read(&bytes);
            requested_key(&bytes);
            concatenated(&bytes);
        }

        #[test]
        fn no_change_of_a_certificate_panics(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut der = made(|_| {});
            let place = at.index(der.len());
            der[place] = byte;
            names(&der);
            concatenated(&der);
            der.truncate(cut.index(der.len()));
            names(&der);
            concatenated(&der);
        }
    }
}
