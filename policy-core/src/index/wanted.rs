//! What a match asks besides the path, ready to be judged without allocating or copying parameters.

use crate::decision::RuleId;
use crate::index::automaton::{Single, Workshop};
use crate::judge::Judgement;
use crate::matching::{RequestMatch, ValueMatch};
use crate::request::RequestView;
use http::{HeaderName, Method};
use std::sync::Arc;

/// Everything that a match asks besides the path.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The rule it belongs to.
    pub(crate) id: RuleId,
    /// Absent: nothing.
    more: Option<Box<More>>,
}

/// What a match asks of method, headers and parameters.
#[derive(Debug)]
struct More {
    method: Option<Method>,
    headers: Box<[(HeaderName, Value)]>,
    query: Box<[(Arc<str>, Value)]>,
}

/// What a value must be.
#[derive(Debug)]
pub(crate) enum Value {
    Exact(Arc<[u8]>),
    Regex(Arc<Single>),
}

impl Wanted {
    pub(crate) fn new(wanted: &RequestMatch, id: RuleId, workshop: &mut Workshop) -> Self {
        let mut value = |value: &ValueMatch| match value {
            ValueMatch::Exact(bytes) => Value::Exact(bytes.clone()),
            ValueMatch::Regex(pattern) => Value::Regex(workshop.single(pattern)),
        };
        let (_, method, headers, query) = wanted.parts();
        if method.is_none() && headers.is_empty() && query.is_empty() {
            return Self { id, more: None };
        }
        let more = More {
            method: method.cloned(),
            headers: headers.iter().map(|h| (h.name.clone(), value(&h.value))).collect(),
            query: query.iter().map(|q| (q.name.clone(), value(&q.value))).collect(),
        };
        Self { id, more: Some(Box::new(more)) }
    }

    /// The method, if one is asked for.
    pub(crate) fn method(&self) -> Option<&Method> {
        self.more.as_ref()?.method.as_ref()
    }

    /// What headers must be.
    pub(crate) fn headers(&self) -> &[(HeaderName, Value)] {
        self.more.as_ref().map_or(&[], |more| &more.headers)
    }

    /// What parameters must be.
    pub(crate) fn query(&self) -> &[(Arc<str>, Value)] {
        self.more.as_ref().map_or(&[], |more| &more.query)
    }

    /// Judges a request whose path has been matched already.
    pub(crate) fn judge(&self, request: &RequestView<'_>) -> Judgement {
        let Some(more) = &self.more else { return Judgement::Matches };
        if more.method.as_ref().is_some_and(|method| method != request.method) {
            return Judgement::Differs;
        }
        let mut joined = Judgement::Matches;
        for (name, value) in &more.headers {
            let lines = request.headers.get_all(name).iter();
            let header = Judgement::over_lines(lines.map(|line| value.line(line.as_bytes())));
            joined = joined.and(header);
            if joined == Judgement::Differs {
                return joined;
            }
        }
        for (name, value) in &more.query {
            let named = pairs(request.query)
                .filter(|(written, _)| FormBytes::new(written).is(name.as_bytes()));
            let values = named.map(|(_, written)| value.parameter(written));
            joined = joined.and(Judgement::over_lines(values));
            if joined == Judgement::Differs {
                return joined;
            }
        }
        joined
    }
}

impl Value {
    fn line(&self, line: &[u8]) -> Judgement {
        match self {
            Self::Exact(bytes) => Judgement::of(**bytes == *line),
            Self::Regex(single) => match std::str::from_utf8(line) {
                Ok(text) => Judgement::of(single.matches(text)),
                Err(_) => Judgement::CannotTell,
            },
        }
    }

    fn parameter(&self, written: &str) -> Judgement {
        let bytes = FormBytes::new(written);
        match self {
            Self::Exact(exact) => Judgement::of(bytes.is(exact)),
            Self::Regex(single) => {
                if bytes.into_iter().all(|byte| byte.is_ascii())
                    && let Some(matched) = single.matches_ascii(bytes)
                {
                    return Judgement::of(matched);
                }
                // Not one piece of text and not plain ASCII: rare enough to be copied.
                match String::from_utf8(bytes.collect()) {
                    Ok(text) => Judgement::of(single.matches(&text)),
                    Err(_) => Judgement::CannotTell,
                }
            }
        }
    }
}

/// The bytes that one name or value of a form stands for (WHATWG URL, 5.1): `+` is a space, `%XX`
/// a byte, and a `%` without two hex digits stands for itself.
#[derive(Clone, Copy)]
pub(crate) struct FormBytes<'a>(&'a [u8]);

impl<'a> FormBytes<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    /// Whether it stands for exactly these bytes.
    pub(crate) fn is(self, bytes: &[u8]) -> bool {
        self.eq(bytes.iter().copied())
    }
}

impl Iterator for FormBytes<'_> {
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

/// The parameters of a query, names and values as written.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    pairs.filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}
