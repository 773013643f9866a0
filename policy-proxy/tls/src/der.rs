//! Elements of DER (ITU-T X.690), as far as certificates and certificate requests need them: strict
//! in reading, so that nothing is ambiguous, and exact in writing.
//!
//! **Invariant.** Reading never trusts a length: truncated, overlong or unexpected elements are
//! `None`. Nothing read here is proof of anything; chains are verified by `webpki`.

/// BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// OBJECT IDENTIFIER.
pub const OID: u8 = 0x06;
/// UTF8String.
pub const UTF8_STRING: u8 = 0x0c;
/// PrintableString.
pub const PRINTABLE_STRING: u8 = 0x13;
/// UTCTime.
pub const UTC_TIME: u8 = 0x17;
/// GeneralizedTime.
pub const GENERALIZED_TIME: u8 = 0x18;
/// SEQUENCE, SEQUENCE OF.
pub const SEQUENCE: u8 = 0x30;
/// SET, SET OF.
pub const SET: u8 = 0x31;

/// Returns the tag of a constructed, context-specific element, up to 30.
pub const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// Reads the element of this tag at the start of `input`; its content and the rest.
pub fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = next(input)?;
    (found == tag).then_some((content, rest))
}

/// Reads the element at the start of `input`: tag, content, and the rest. A length that could be
/// shorter or is indefinite is invalid (X.690 section 10.1), and so is a tag of several bytes.
pub fn next(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // Number of length bytes that follow; four are more than any certificate needs.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = bytes.iter().try_fold(0usize, |length, byte| {
                length.checked_mul(256)?.checked_add(usize::from(*byte))
            })?;
            let shortest = length > 0x7f && bytes.first() != Some(&0);
            shortest.then_some((length, rest))?
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Reads the content of the element of this tag that is all of `input`.
pub fn only(input: &[u8], tag: u8) -> Option<&[u8]> {
    element(input, tag).filter(|(_, rest)| rest.is_empty()).map(|(content, _)| content)
}

/// Reads the element of this tag at the start of `input`, including tag and length; the element and
/// the rest.
pub fn whole(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (_, rest) = element(input, tag)?;
    input.split_at_checked(input.len().checked_sub(rest.len())?)
}

/// Writes an element of this tag whose content is the concatenation of `parts`.
pub fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
    let mut out = vec![tag];
    let bytes = length.to_be_bytes();
    let significant = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let bytes = bytes.get(significant..).unwrap_or_default();
    match (u8::try_from(length), u8::try_from(bytes.len())) {
        (Ok(short), _) if short < 0x80 => out.push(short),
        (_, count) => {
            out.push(0x80 | count.unwrap_or_default());
            out.extend_from_slice(bytes);
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Writes a non-negative number, most significant byte first.
pub fn number(bytes: &[u8]) -> Vec<u8> {
    let significant = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let bytes = bytes.get(significant..).unwrap_or_default();
    let sign: &[u8] = if bytes.first().is_none_or(|byte| *byte >= 0x80) { &[0] } else { &[] };
    write(INTEGER, &[sign, bytes])
}

/// Writes a bit string of whole bytes.
pub fn bits(bytes: &[u8]) -> Vec<u8> {
    write(BIT_STRING, &[&[0], bytes])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_written_as_short_as_can_be_and_read_in_no_other_way() {
        for (length, head) in [
            (0, vec![0x04, 0x00]),
            (127, vec![0x04, 0x7f]),
            (128, vec![0x04, 0x81, 0x80]),
            (256, vec![0x04, 0x82, 0x01, 0x00]),
            (70_000, vec![0x04, 0x83, 0x01, 0x11, 0x70]),
        ] {
            let content = vec![7; length];
            let written = write(OCTET_STRING, &[&content]);
            assert_eq!(written[..head.len()], head);
            assert_eq!(only(&written, OCTET_STRING), Some(&*content));
        }
        for other in
            [&[0x04, 0x81, 0x01, 7][..], &[4, 0x82, 0, 1, 7], &[4, 0x80, 7, 0, 0], &[0x1f, 1, 0]]
        {
            assert_eq!(next(other), None, "{other:?}");
        }
        assert_eq!(only(&[4, 1, 7, 9], OCTET_STRING), None, "something follows");
        assert_eq!(element(&[4, 2, 7], OCTET_STRING), None, "something is missing");
    }

    #[test]
    fn numbers_are_never_negative() {
        assert_eq!(number(&[]), [2, 1, 0]);
        assert_eq!(number(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(number(&[0x80]), [2, 2, 0, 0x80]);
    }

    proptest! {
        #[test]
        fn what_is_read_is_within_the_input(input in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some((tag, content, rest)) = next(&input) {
                let read = write(tag, &[content]);
                prop_assert_eq!([read, rest.to_vec()].concat(), input);
            }
        }
    }
}
