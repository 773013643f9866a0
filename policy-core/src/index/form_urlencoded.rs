//! `application/x-www-form-urlencoded`: query parameters, decoded without allocating.

/// Iterator over the decoded bytes of one name or value (WHATWG URL, 5.1): `+` is a space, `%XX` a
/// byte, and a `%` without two hex digits stands for itself.
#[derive(Clone, Copy)]
pub(crate) struct FormDecoder<'a>(&'a [u8]);

impl<'a> FormDecoder<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    /// Returns true if it decodes to exactly these bytes.
    pub(crate) fn is(self, bytes: &[u8]) -> bool {
        self.eq(bytes.iter().copied())
    }
}

impl Iterator for FormDecoder<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        match first {
            b'+' => Some(b' '),
            b'%' => match rest {
                [high, low, after @ ..] => match hex(*high).zip(hex(*low)) {
                    Some((high, low)) => {
                        self.0 = after;
                        Some((high << 4) | low)
                    }
                    None => Some(b'%'),
                },
                [] | [_] => Some(b'%'),
            },
            other => Some(*other),
        }
    }
}

fn hex(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

/// Iterator over the parameters of a query: names and values, still encoded.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    pairs.filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}
