//! Evaluation of matches, and their precedence.

use crate::match_form;
use crate::match_result::MatchResult;
use crate::matching::{HeaderMatch, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch};
use crate::pattern::Pattern;
use crate::policy::PathHandling;
use crate::request::RequestView;
use http::header::HOST;
use percent_encoding::percent_decode_str;
use std::cmp::Ordering;

/// Evaluates every part of the match for a request whose path is in the form in which the port compares
/// paths.
pub(super) fn evaluate(
    wanted: &RequestMatch,
    paths: PathHandling,
    request: &RequestView<'_>,
) -> MatchResult {
    let (path, method, headers, query) = wanted.parts();
    let same_method = method.is_none_or(|method| method == request.method);
    if !same_method || !has_path(path, paths, request.path) {
        return MatchResult::NoMatch;
    }
    let headers = headers.iter().map(|header| by_header(header, request));
    let query = query.iter().map(|parameter| by_parameter(parameter, request));
    let all: Vec<MatchResult> = headers.chain(query).collect();
    if all.contains(&MatchResult::NoMatch) {
        MatchResult::NoMatch
    } else if all.contains(&MatchResult::Indeterminate) {
        MatchResult::Indeterminate
    } else {
        MatchResult::Match
    }
}

/// Returns true if a path matches. One without a leading `/` (`*`, and the empty one of `CONNECT`)
/// is matched only by patterns for every path and by regular expressions.
pub(super) fn has_path(pattern: &PathPattern, paths: PathHandling, path: &str) -> bool {
    let (patterns, rest) = match pattern {
        PathPattern::Regex(pattern) => return expression(pattern, paths).matches(path),
        PathPattern::Segments { segments, rest } => (segments, *rest),
    };
    let Some(path) = path.strip_prefix('/') else {
        return rest && patterns.is_empty();
    };
    let alike = |(pattern, text): (&Segment, &str)| match pattern {
        Segment::Literal(literal) => *match_form::matched(literal, paths) == *text,
        Segment::Parameter(_) => !text.is_empty(),
    };
    let number = || path.split('/').count();
    patterns.iter().zip(path.split('/')).all(alike)
        && if rest { number() >= patterns.len() } else { number() == patterns.len() }
}

/// The expression over paths in the form in which the port compares them. One that has none stays as it
/// is.
fn expression(pattern: &Pattern, paths: PathHandling) -> &Pattern {
    match paths {
        PathHandling::Canonical => pattern.in_match_form().ok().flatten().unwrap_or(pattern),
        PathHandling::Raw => pattern,
    }
}

/// Evaluates the lines of a header, each by itself and without splitting at commas. A match on `host`
/// looks at the canonical host instead.
pub(super) fn by_header(wanted: &HeaderMatch, request: &RequestView<'_>) -> MatchResult {
    let value = wanted.compared_value();
    if wanted.name == HOST {
        let host = request.host.map(|host| by_value(&value, host.as_bytes()));
        return host.unwrap_or(MatchResult::NoMatch);
    }
    let lines = request.headers.get_all(&wanted.name).iter();
    of_several(lines.map(|line| by_value(&value, line.as_bytes())).collect())
}

/// Evaluates the values of a parameter, form-decoded (WHATWG URL, 5.1).
pub(super) fn by_parameter(wanted: &QueryMatch, request: &RequestView<'_>) -> MatchResult {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).collect::<Vec<u8>>();
    let pairs = request.query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let named = pairs.filter(|(name, _)| decode(name) == wanted.name.as_bytes());
    of_several(named.map(|(_, value)| by_value(&wanted.value, &decode(value))).collect())
}

/// Evaluates one value. A regular expression over bytes that are not text is indeterminate.
fn by_value(wanted: &ValueMatch, value: &[u8]) -> MatchResult {
    match wanted {
        ValueMatch::Exact(bytes) => MatchResult::of(**bytes == *value),
        ValueMatch::Regex(pattern) => match std::str::from_utf8(value) {
            Ok(text) => MatchResult::of(pattern.matches(text)),
            Err(_) => MatchResult::Indeterminate,
        },
    }
}

/// Combines the lines or values of one name: none is no match, and lines that disagree are
/// indeterminate.
fn of_several(lines: Vec<MatchResult>) -> MatchResult {
    match lines.split_first() {
        None => MatchResult::NoMatch,
        Some((first, others)) if others.iter().all(|other| other == first) => *first,
        Some(_) => MatchResult::Indeterminate,
    }
}

/// The order in which matches are tried.
pub(super) fn in_order(a: &RequestMatch, b: &RequestMatch) -> Ordering {
    kind(&a.path)
        .cmp(&kind(&b.path))
        .then_with(|| segments(&a.path).cmp(segments(&b.path)))
        .then_with(|| b.method().is_some().cmp(&a.method().is_some()))
        .then_with(|| b.headers().len().cmp(&a.headers().len()))
        .then_with(|| b.query().len().cmp(&a.query().len()))
}

/// Paths of text alone before regular expressions before others.
fn kind(path: &PathPattern) -> u8 {
    match path {
        PathPattern::Regex(_) => 1,
        PathPattern::Segments { .. } if segments(path).all(|kind| kind == 'a') => 0,
        PathPattern::Segments { .. } => 2,
    }
}

/// For each segment a letter, in the order in which they are tried: text, a parameter, all further
/// segments.
fn segments(path: &PathPattern) -> impl Iterator<Item = char> {
    let (segments, rest) = match path {
        PathPattern::Segments { segments, rest } => (&segments[..], *rest),
        PathPattern::Regex(_) => (&[][..], false),
    };
    let letter = |segment: &Segment| match segment {
        Segment::Literal(_) => 'a',
        Segment::Parameter(_) => 'b',
    };
    segments.iter().map(letter).chain(rest.then_some('c'))
}
