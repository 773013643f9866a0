//! As much DER (ITU-T X.690) as identities need: reading what the verifier keeps to itself of a
//! certificate, and writing a request for one.
//!
//! **Invariant.** Reading never trusts a length: whatever is cut off, too long or of another kind is
//! `None`. Nothing read here is proof of anything; chains are verified by `webpki`.

use crate::civil::{self, Civil};
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// The times before and after which a certificate is not valid (RFC 5280 section 4.1.2.5). `None` if
/// there is no reading it.
pub fn validity(certificate: &[u8]) -> Option<(SystemTime, SystemTime)> {
    let body = after_issuer(certificate)?;
    let (validity, _) = element(body, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some((not_before, not_after))
}

/// The kinds (context tags) and contents of a certificate's subject alternative names, in order. Empty
/// if it has none; `None` if there is no reading it.
pub(crate) fn alternative_names(certificate: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (_validity, body) = element(after_issuer(certificate)?, SEQUENCE)?;
    let (_subject, body) = element(body, SEQUENCE)?;
    let (_key, mut body) = element(body, SEQUENCE)?;
    // Unique identifiers, which nobody has.
    for tag in [ISSUER_UNIQUE_ID, SUBJECT_UNIQUE_ID] {
        if let Some((_, rest)) = element(body, tag) {
            body = rest;
        }
    }
    let Some((extensions, _)) = element(body, EXTENSIONS) else {
        return body.is_empty().then(Vec::new);
    };
    let (mut extensions, _) = element(extensions, SEQUENCE)?;
    while !extensions.is_empty() {
        let (extension, rest) = element(extensions, SEQUENCE)?;
        extensions = rest;
        let (id, extension) = element(extension, OBJECT_IDENTIFIER)?;
        if id != SUBJECT_ALT_NAME {
            continue;
        }
        let extension = element(extension, BOOLEAN).map_or(extension, |(_, rest)| rest);
        let (value, _) = element(extension, OCTET_STRING)?;
        let (mut names, _) = element(value, SEQUENCE)?;
        let mut found = Vec::new();
        while let Some((tag, content, rest)) = any(names) {
            found.push((tag, content));
            names = rest;
        }
        return names.is_empty().then_some(found);
    }
    Some(Vec::new())
}

/// The public key that a certificate request (RFC 2986) is made for, with its algorithm.
pub(crate) fn requested_key(request: &[u8]) -> Option<&[u8]> {
    let (request, after) = element(request, SEQUENCE)?;
    let (body, _) = element(request, SEQUENCE)?;
    let (_version, body) = element(body, INTEGER)?;
    let (_subject, body) = element(body, SEQUENCE)?;
    let (_, rest) = element(body, SEQUENCE)?;
    let length = body.len().checked_sub(rest.len())?;
    body.get(..length).filter(|_| after.is_empty())
}

/// Certificates that stand one behind the other (as SPIFFE has them). `None` if anything else does, or
/// nothing.
pub(crate) fn concatenated(mut input: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        let (_, rest) = element(input, SEQUENCE)?;
        let length = input.len().checked_sub(rest.len())?;
        found.push(CertificateDer::from(input.get(..length)?.to_vec()));
        input = rest;
    }
    (!found.is_empty()).then_some(found)
}

/// One element of this kind. Contents beyond four bytes of length are cut to nothing, which no reader
/// takes for an element; nothing written here comes near.
pub(crate) fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u32::try_from(content.len()).unwrap_or(0).to_be_bytes();
    let mut written = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short @ 0..=0x7f) => written.push(short),
        Ok(_) | Err(_) => {
            let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            let count = u8::try_from(significant.len()).unwrap_or_default();
            written.push(0x80 | count);
            written.extend(significant);
        }
    }
    written.extend(content);
    written
}

/// What follows the issuer in a certificate's signed part.
fn after_issuer(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, after) = element(certificate, SEQUENCE)?;
    if !after.is_empty() {
        return None;
    }
    let (mut body, _) = element(certificate, SEQUENCE)?;
    // The version is left out where it is 1.
    if let Some((_, rest)) = element(body, VERSION) {
        body = rest;
    }
    let (_serial, body) = element(body, INTEGER)?;
    let (_algorithm, body) = element(body, SEQUENCE)?;
    let (_issuer, body) = element(body, SEQUENCE)?;
    Some(body)
}

/// The content of the element of this kind that `input` begins with, and what follows it.
fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    any(input).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Kind and content of the element that `input` begins with, and what follows it.
fn any(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // So many bytes of length follow; four are more than any certificate has.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = bytes.iter().try_fold(0_usize, |length, byte| {
                length.checked_mul(256)?.checked_add(usize::from(*byte))
            })?;
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `[YY]YYMMDDHHMMSSZ`; RFC 5280 section 4.1.2.5 allows no other form.
fn time(input: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (tag, text, rest) = any(input)?;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
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
    let parts: Vec<u64> = digits.chunks(2).filter_map(number).collect();
    let &[month, day, hour, minute, second] = parts.as_slice() else { return None };
    if digits.len() != 10 {
        return None;
    }
    let at = civil::instant(Civil { year, month, day, hour, minute, second })?;
    Some((at, rest))
}

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// `dNSName` among general names (RFC 5280 section 4.2.1.6).
pub(crate) const DNS_NAME: u8 = 0x82;
/// `[0] attributes` of a request.
pub(crate) const ATTRIBUTES: u8 = 0xa0;
/// id-ce-subjectAltName, 2.5.29.17.
pub(crate) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const VERSION: u8 = 0xa0;
const ISSUER_UNIQUE_ID: u8 = 0x81;
const SUBJECT_UNIQUE_ID: u8 = 0x82;
const EXTENSIONS: u8 = 0xa3;

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, SanType, date_time_ymd};
    use std::time::{Duration, UNIX_EPOCH};

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
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
        assert_eq!(alternative_names(&der), Some(expected));
        let none = made(|params| params.subject_alt_names.clear());
        assert_eq!(alternative_names(&none), Some(Vec::new()));
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
            assert_eq!((validity(&der[..length]), alternative_names(&der[..length])), (None, None));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(content: Vec<u8>, tag: u8, more: Vec<u8>) {
            let mut written = write(tag, &[&content]);
            written.extend(&more);
            prop_assert_eq!(super::any(&written), Some((tag, content.as_slice(), more.as_slice())));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            validity(&bytes);
            alternative_names(&bytes);
            requested_key(&bytes);
            concatenated(&bytes);
        }

        #[test]
        fn no_change_of_a_certificate_panics(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut der = made(|_| {});
            let place = at.index(der.len());
            der[place] = byte;
            validity(&der);
            alternative_names(&der);
            concatenated(&der);
            der.truncate(cut.index(der.len()));
            validity(&der);
            alternative_names(&der);
            concatenated(&der);
        }
    }

    /// The lengths at which the form of a length changes.
    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        for (length, head) in [
            (0, vec![4, 0]),
            (127, vec![4, 127]),
            (128, vec![4, 0x81, 128]),
            (255, vec![4, 0x81, 255]),
            (256, vec![4, 0x82, 1, 0]),
            (65_536, vec![4, 0x83, 1, 0, 0]),
        ] {
            let written = write(OCTET_STRING, &[&vec![7; length]]);
            assert_eq!(&written[..head.len()], head);
            assert_eq!(written.len(), head.len() + length);
        }
    }
}
