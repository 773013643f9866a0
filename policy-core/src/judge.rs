//! What one predicate says about one request: yes, no, or that it cannot be told.

use crate::matching::{HeaderMatch, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch};
use crate::request::RequestView;
use http::HeaderMap;
use percent_encoding::percent_decode;
use std::borrow::Cow;

/// The answer of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It matches.
    Matches,
    /// It does not.
    Differs,
    /// Some lines of a repeated header or parameter match and some do not, or a value cannot be
    /// read. Denies.
    CannotTell,
}

impl Judgement {
    /// Joins two conditions that must both match: a plain no outweighs what cannot be told.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differs, _) | (_, Self::Differs) => Self::Differs,
            (Self::CannotTell, _) | (_, Self::CannotTell) => Self::CannotTell,
            (Self::Matches, Self::Matches) => Self::Matches,
        }
    }

    /// `Matches` or `Differs`.
    pub fn of(yes: bool) -> Self {
        if yes { Self::Matches } else { Self::Differs }
    }

    /// Joins the answers of the lines of one header: all, none, or mixed. No lines: `Differs`.
    pub fn over_lines(lines: impl Iterator<Item = Self>) -> Self {
        let mut joined = None;
        for line in lines {
            joined = match joined {
                None => Some(line),
                Some(before) if before == line => joined,
                Some(_) => Some(Self::CannotTell),
            };
        }
        joined.unwrap_or(Self::Differs)
    }
}

/// The segments of a path after its leading `/`; nothing for `*` and for the empty path of
/// `CONNECT`, which only [`RequestMatch::everything`] and regular expressions match.
pub fn segments(path: &str) -> Option<std::str::Split<'_, char>> {
    Some(path.strip_prefix('/')?.split('/'))
}

impl PathPattern {
    /// Whether the pattern matches `path`, a canonical path.
    pub fn admits(&self, path: &str) -> bool {
        match self {
            Self::Regex(pattern) => pattern.matches(path),
            Self::Segments { segments: patterns, rest } => {
                let Some(mut texts) = segments(path) else {
                    return patterns.is_empty() && *rest;
                };
                let each = patterns.iter().all(|p| texts.next().is_some_and(|t| p.admits(t)));
                each && (*rest || texts.next().is_none())
            }
        }
    }
}

impl Segment {
    /// Whether this is a pattern for `text`, one segment.
    pub fn admits(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            Self::Parameter(_) => !text.is_empty(),
        }
    }
}

impl HeaderMatch {
    /// Judges the lines of this header, each by itself and without splitting at commas.
    pub fn judge(&self, headers: &HeaderMap) -> Judgement {
        let lines = headers.get_all(&self.name).iter();
        Judgement::over_lines(lines.map(|line| self.value.judge(line.as_bytes())))
    }
}

impl QueryMatch {
    /// Judges the values of this parameter.
    pub fn judge(&self, query: Option<&str>) -> Judgement {
        let pairs = query.into_iter().flat_map(|q| q.split('&')).filter(|pair| !pair.is_empty());
        Judgement::over_lines(pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let named = *form_decode(name) == *self.name.as_bytes();
            named.then(|| self.value.judge(&form_decode(value)))
        }))
    }
}

impl ValueMatch {
    /// Judges one value.
    pub fn judge(&self, value: &[u8]) -> Judgement {
        match self {
            Self::Exact(bytes) => Judgement::of(**bytes == *value),
            Self::Regex(pattern) => match std::str::from_utf8(value) {
                Ok(text) => Judgement::of(pattern.matches(text)),
                Err(_) => Judgement::CannotTell,
            },
        }
    }
}

impl RequestMatch {
    /// Judges a request by every part of the match.
    pub fn judge(&self, request: &RequestView<'_>) -> Judgement {
        if !self.path.admits(request.path) {
            return Judgement::Differs;
        }
        if self.method().is_some_and(|method| method != request.method) {
            return Judgement::Differs;
        }
        let headers = self.headers().iter().map(|header| header.judge(request.headers));
        let query = self.query().iter().map(|parameter| parameter.judge(request.query));
        headers.chain(query).fold(Judgement::Matches, Judgement::and)
    }
}

/// `application/x-www-form-urlencoded` decoding of one name or value (WHATWG URL, 5.1): `+` is a
/// space, `%XX` a byte, and a `%` without two hex digits stands for itself.
fn form_decode(text: &str) -> Cow<'_, [u8]> {
    if text.contains('+') {
        Cow::Owned(percent_decode(text.replace('+', " ").as_bytes()).collect())
    } else {
        percent_decode(text.as_bytes()).into()
    }
}

/// Whether a header value has bytes outside visible ASCII, space and tab (`obs-text` and controls,
/// RFC 9110 section 5.5). Such a value has no agreed reading as text.
pub fn has_ambiguous_bytes(value: &[u8]) -> bool {
    value.iter().any(|byte| !matches!(byte, b'\t' | 0x20..=0x7e))
}
