//! The predicates of a match besides its path, evaluated without allocating or copying parameters.

use crate::decision::RuleId;
use crate::index::automaton::{CompiledRegex, RegexCompiler};
use crate::index::form_urlencoded::{FormDecoder, pairs};
use crate::match_result::MatchResult;
use crate::matching::{RequestMatch, ValueMatch};
use crate::request::RequestView;
use http::header::HOST;
use http::{HeaderName, Method};
use std::sync::Arc;

/// The predicates of a match besides its path.
#[derive(Debug)]
pub(crate) struct RequestPredicates {
    /// The rule it belongs to.
    pub(crate) id: RuleId,
    /// Absent: nothing.
    more: Option<Box<NonPathPredicates>>,
}

/// Predicates over method, headers and parameters.
#[derive(Debug)]
struct NonPathPredicates {
    method: Option<Method>,
    headers: Box<[(HeaderName, Value)]>,
    query: Box<[(Arc<str>, Value)]>,
}

/// A predicate over a header or parameter value.
#[derive(Debug)]
pub(crate) enum Value {
    Exact(Arc<[u8]>),
    Regex(Arc<CompiledRegex>),
}

impl RequestPredicates {
    pub(crate) fn new(wanted: &RequestMatch, id: RuleId, compiler: &mut RegexCompiler) -> Self {
        let mut value = |value: &ValueMatch| match value {
            ValueMatch::Exact(bytes) => Value::Exact(bytes.clone()),
            ValueMatch::Regex(pattern) => Value::Regex(compiler.single(pattern)),
        };
        let (_, method, headers, query) = wanted.parts();
        if method.is_none() && headers.is_empty() && query.is_empty() {
            return Self { id, more: None };
        }
        let more = NonPathPredicates {
            method: method.cloned(),
            headers: headers.iter().map(|h| (h.name.clone(), value(&h.compared_value()))).collect(),
            query: query.iter().map(|q| (q.name.clone(), value(&q.value))).collect(),
        };
        Self { id, more: Some(Box::new(more)) }
    }

    /// Returns the required method, if any.
    pub(crate) fn method(&self) -> Option<&Method> {
        self.more.as_ref()?.method.as_ref()
    }

    /// Returns the predicates over headers.
    pub(crate) fn headers(&self) -> &[(HeaderName, Value)] {
        self.more.as_ref().map_or(&[], |more| &more.headers)
    }

    /// Returns the predicates over query parameters.
    pub(crate) fn query(&self) -> &[(Arc<str>, Value)] {
        self.more.as_ref().map_or(&[], |more| &more.query)
    }

    /// Evaluates a request whose path has been matched already.
    pub(crate) fn evaluate(&self, request: &RequestView<'_>) -> MatchResult {
        let Some(more) = &self.more else { return MatchResult::Match };
        if more.method.as_ref().is_some_and(|method| method != request.method) {
            return MatchResult::NoMatch;
        }
        let mut joined = MatchResult::Match;
        for (name, value) in &more.headers {
            let header = if *name == HOST {
                // The canonical host: HTTP/2 has it in `:authority`, HTTP/1 in any spelling.
                let host = request.host.into_iter();
                MatchResult::over_lines(host.map(|host| value.line(host.as_bytes())))
            } else {
                let lines = request.headers.get_all(name).iter();
                MatchResult::over_lines(lines.map(|line| value.line(line.as_bytes())))
            };
            joined = joined.and(header);
            if joined == MatchResult::NoMatch {
                return joined;
            }
        }
        for (name, value) in &more.query {
            let named = pairs(request.query)
                .filter(|(written, _)| FormDecoder::new(written).is(name.as_bytes()));
            let values = named.map(|(_, written)| value.parameter(written));
            joined = joined.and(MatchResult::over_lines(values));
            if joined == MatchResult::NoMatch {
                return joined;
            }
        }
        joined
    }
}

impl Value {
    fn line(&self, line: &[u8]) -> MatchResult {
        match self {
            Self::Exact(bytes) => MatchResult::of(**bytes == *line),
            Self::Regex(single) => match std::str::from_utf8(line) {
                Ok(text) => MatchResult::of(single.matches(text)),
                Err(_) => MatchResult::Indeterminate,
            },
        }
    }

    fn parameter(&self, written: &str) -> MatchResult {
        let bytes = FormDecoder::new(written);
        match self {
            Self::Exact(exact) => MatchResult::of(bytes.is(exact)),
            Self::Regex(single) => {
                if bytes.into_iter().all(|byte| byte.is_ascii())
                    && let Some(matched) = single.matches_ascii(bytes)
                {
                    return MatchResult::of(matched);
                }
                // Not one piece of text and not plain ASCII: rare enough to be copied.
                match String::from_utf8(bytes.collect()) {
                    Ok(text) => MatchResult::of(single.matches(&text)),
                    Err(_) => MatchResult::Indeterminate,
                }
            }
        }
    }
}
