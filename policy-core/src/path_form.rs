//! The match form of a path as text (see [`crate::match_form`] for what it is).

use crate::target::hex_pair;
use std::borrow::Cow;

/// The match form of `path`, a canonical path. Does not allocate if both forms are equal.
pub fn match_form(path: &str) -> Cow<'_, str> {
    if path.bytes().all(is_plain) || is_match_form(path) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(rewrite(path))
    }
}

/// Takes an octet off the front of `path`: as it is written, whether it is percent-encoded, and the
/// rest. A `%` that encodes nothing stands for itself; no canonical path has one.
pub(crate) fn next(path: &[u8]) -> Option<(u8, OctetEncoding, &[u8])> {
    match path {
        [b'%', high, low, rest @ ..] if hex_pair(*high, *low).is_some() => {
            let lower = high.is_ascii_lowercase() || low.is_ascii_lowercase();
            let written = if lower { OctetEncoding::Lower } else { OctetEncoding::Upper };
            Some((hex_pair(*high, *low)?, written, rest))
        }
        [byte, rest @ ..] => Some((*byte, OctetEncoding::Plain, rest)),
        [] => None,
    }
}

/// The spelling of an octet: as itself, or percent-encoded in upper or lower case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OctetEncoding {
    Plain,
    Upper,
    Lower,
}

impl OctetEncoding {
    /// The spelling of `octet` in the match form.
    pub(crate) fn canonical(self, octet: u8) -> Self {
        match self {
            // `;` and a stray `%` stay.
            Self::Plain if is_plain(octet) || matches!(octet, b';' | b'%') => Self::Plain,
            Self::Upper | Self::Lower if is_segment_character(octet) => Self::Plain,
            Self::Plain | Self::Upper | Self::Lower => Self::Upper,
        }
    }
}

fn is_match_form(path: &str) -> bool {
    let mut rest = path.as_bytes();
    while let Some((octet, written, after)) = next(rest) {
        if written != written.canonical(octet) {
            return false;
        }
        rest = after;
    }
    true
}

fn rewrite(path: &str) -> String {
    let mut form = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((octet, written, after)) = next(rest) {
        push(octet, written.canonical(octet) == OctetEncoding::Plain, &mut form);
        rest = after;
    }
    form
}

/// Writes an octet: as itself, or percent-encoded in upper case.
pub(crate) fn push(octet: u8, plainly: bool, form: &mut String) {
    if plainly {
        form.push(char::from(octet));
        return;
    }
    form.push('%');
    for digit in [octet >> 4, octet & 0xf] {
        form.extend(char::from_digit(digit.into(), 16).map(|digit| digit.to_ascii_uppercase()));
    }
}

/// Returns true if the byte stands for itself in both forms.
pub(crate) fn is_plain(byte: u8) -> bool {
    byte == b'/' || is_segment_character(byte)
}

/// RFC 3986 section 3.3: `pchar`, without `;`.
pub(crate) fn is_segment_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~')
        || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=')
        || matches!(byte, b':' | b'@')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical_path;
    use proptest::prelude::*;

    #[track_caller]
    fn check(path: &str, want: &str) {
        assert_eq!(match_form(path), want);
    }

    #[test]
    fn every_segment_character_is_written_plainly_and_every_other_one_encoded() {
        check("/admin%3Ax", "/admin:x");
        check("/%21%24%26%27%28%29%2A%2B%2C%3D%3A%40", "/!$&'()*+,=:@");
        check("/a%20%22%3C%3E%5B%5D%5E%60%7B%7C%7D", "/a%20%22%3C%3E%5B%5D%5E%60%7B%7C%7D");
        check("/a|b[c]{d}^\"", "/a%7Cb%5Bc%5D%7Bd%7D%5E%22");
        check("/caf%c3%a9", "/caf%C3%A9");
    }

    #[test]
    fn decoding_is_one_pass_and_splits_no_segment() {
        check("/a%253Ab", "/a%253Ab");
        check("/a%2Fb%5Cc%3Bd;e", "/a%2Fb%5Cc%3Bd;e");
        check("/a%", "/a%");
        check("/a%zz%4", "/a%zz%4");
    }

    proptest! {
        // Without broken percent-encodings, which are refused before: of `/%%30a` the form is `/%0a`,
        // which reads as an encoding.
        #[test]
        fn the_form_of_a_form_is_itself(text in "/([a-c/.:@!*|\\[]|%[0-9a-fA-F]{2}){0,12}") {
            let form = match_form(&text);
            prop_assert_eq!(match_form(&form), form.clone());
        }

        #[test]
        fn two_spellings_of_one_text_have_one_form(
            text in "[a-c!$&'()*+,=:@|\\[\\]{}^\"]{0,12}",
            encoded in prop::collection::vec(any::<bool>(), 12),
        ) {
            let mut other = String::from("/");
            for (byte, encoded) in text.bytes().zip(encoded) {
                push(byte, !encoded, &mut other);
            }
            let other = canonical_path(&other).unwrap();
            let plain = format!("/{text}");
            prop_assert_eq!(match_form(&other), match_form(&plain));
        }

        #[test]
        fn a_form_has_as_many_segments(text in "/([a-c/.:;|]|%[0-9a-fA-F]{2}){0,12}") {
            prop_assert_eq!(match_form(&text).split('/').count(), text.split('/').count());
        }
    }
}
