//! Request matching: Gateway API match types over the canonical request.

use crate::compact_list::OneOrMany;
use crate::host::canonical_host;
use crate::pattern::Pattern;
use http::header::HOST;
use http::{HeaderName, Method};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A conjunction: a request matches if every part that is present matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestMatch {
    /// Path pattern. `PathPattern::prefix("/")` matches every path.
    pub path: PathPattern,
    /// Predicates besides the path and the text as written, if any. Most matches have a path alone.
    more: Option<Box<NonPathMatch>>,
}

/// The predicates of a match besides its path, and its text; at least one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct NonPathMatch {
    method: Option<Method>,
    headers: Vec<HeaderMatch>,
    query: Vec<QueryMatch>,
    written: Option<Box<WrittenMatch>>,
}

/// The text of a match where it differs from its meaning. It decides nothing; Linkerd's API may send
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WrittenMatch {
    /// No match: the rule has none, which means every request.
    Nothing,
    /// This path: an exact one, a prefix or a regular expression.
    Path(Box<str>),
}

impl RequestMatch {
    /// Matches by all that a match may ask for; no method: any.
    pub fn new(
        path: PathPattern,
        method: Option<Method>,
        headers: Vec<HeaderMatch>,
        query: Vec<QueryMatch>,
    ) -> Self {
        Self { path, more: None }.with_rest(NonPathMatch { method, headers, query, written: None })
    }

    /// Matches by path alone.
    pub fn path(path: PathPattern) -> Self {
        Self { path, more: None }
    }

    /// The path, the method, and the predicates over headers and parameters: all that decides.
    pub fn parts(&self) -> (&PathPattern, Option<&Method>, &[HeaderMatch], &[QueryMatch]) {
        (&self.path, self.method(), self.headers(), self.query())
    }

    /// Method; absent: any.
    pub fn method(&self) -> Option<&Method> {
        self.more.as_ref()?.method.as_ref()
    }

    /// Returns the header predicates; all must match.
    pub fn headers(&self) -> &[HeaderMatch] {
        self.more.as_ref().map_or(&[], |more| &more.headers)
    }

    /// Returns the query parameter predicates; all must match.
    pub fn query(&self) -> &[QueryMatch] {
        self.more.as_ref().map_or(&[], |more| &more.query)
    }

    /// The text that it was read from, if that differs from what it means.
    pub fn written(&self) -> Option<&WrittenMatch> {
        self.more.as_ref()?.written.as_deref()
    }

    /// The same, read from this text.
    #[must_use]
    pub fn with_written(mut self, written: WrittenMatch) -> Self {
        let more = self.take();
        self.with_rest(NonPathMatch { written: Some(Box::new(written)), ..more })
    }

    /// The same with this path.
    #[must_use]
    pub fn with_path(self, path: PathPattern) -> Self {
        Self { path, ..self }
    }

    /// The same with this method.
    #[must_use]
    pub fn with_method(mut self, method: Option<Method>) -> Self {
        let more = self.take();
        self.with_rest(NonPathMatch { method, ..more })
    }

    /// The same with these header predicates.
    #[must_use]
    pub fn with_headers(mut self, headers: Vec<HeaderMatch>) -> Self {
        let more = self.take();
        self.with_rest(NonPathMatch { headers, ..more })
    }

    /// The same with these parameter predicates.
    #[must_use]
    pub fn with_query(mut self, query: Vec<QueryMatch>) -> Self {
        let more = self.take();
        self.with_rest(NonPathMatch { query, ..more })
    }

    fn take(&mut self) -> NonPathMatch {
        self.more.take().map(|more| *more).unwrap_or_default()
    }

    fn with_rest(self, more: NonPathMatch) -> Self {
        let nothing = more == NonPathMatch::default();
        Self { more: if nothing { None } else { Some(Box::new(more)) }, ..self }
    }

    /// Matches every request.
    pub fn everything() -> Self {
        Self::path(PathPattern::prefix("/"))
    }

    /// A gRPC call: `POST` and two path segments; an absent service or method is a wildcard
    /// (GRPCMethodMatch).
    pub fn grpc(service: Option<&str>, method: Option<&str>) -> Self {
        Self::path(PathPattern::grpc(service, method)).with_method(Some(Method::POST))
    }
}

/// A pattern over paths. The evaluator brings it to the match form, save where the port takes paths
/// as they come.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathPattern {
    /// Segment by segment.
    Segments {
        /// The segments after the leading `/`. `/a/` has the segments `a` and the empty one.
        segments: OneOrMany<Segment>,
        /// True if any number of further segments may follow, none included (a prefix).
        rest: bool,
    },
    /// The whole path matches a regular expression.
    Regex(Pattern),
}

/// One segment of a [`PathPattern`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// Exactly this text; may be empty only as the last segment.
    Literal(Arc<str>),
    /// Any one non-empty segment, captured under this name.
    Parameter(Arc<str>),
}

impl PathPattern {
    /// Exactly this path. `/a` and `/a/` differ.
    pub fn exact(path: &str) -> Self {
        Self::Segments { segments: literals(path.strip_prefix('/').unwrap_or(path)), rest: false }
    }

    /// This path and everything below it, by whole segments; a trailing `/` changes nothing
    /// (Gateway API PathPrefix).
    pub fn prefix(path: &str) -> Self {
        let trimmed = path.trim_matches('/');
        let segments = if trimmed.is_empty() { OneOrMany::new() } else { literals(trimmed) };
        Self::Segments { segments, rest: true }
    }

    /// `/service/method`; what is absent is any one segment.
    pub fn grpc(service: Option<&str>, method: Option<&str>) -> Self {
        let segment = |text: Option<&str>, name: &str| match text {
            Some(text) if !text.is_empty() => Segment::Literal(text.into()),
            Some(_) | None => Segment::Parameter(name.into()),
        };
        Self::Segments {
            segments: [segment(service, "service"), segment(method, "method")].into(),
            rest: false,
        }
    }
}

impl PathPattern {
    /// Returns true if it is the prefix `/`, which matches every path in every form. Other patterns may
    /// match one form of a path and not another.
    pub fn is_every_path(&self) -> bool {
        matches!(self, Self::Segments { segments, rest: true } if segments.is_empty())
    }

    /// Returns true if the pattern matches `path`, a canonical path or, if the pattern is one over
    /// match forms, that form. Only patterns for every path and regular expressions match `*` and
    /// the empty path of `CONNECT`.
    pub fn admits(&self, path: &str) -> bool {
        let (patterns, rest) = match self {
            Self::Regex(pattern) => return pattern.matches(path),
            Self::Segments { segments, rest } => (segments, *rest),
        };
        let Some(path) = path.strip_prefix('/') else {
            return patterns.is_empty() && rest;
        };
        let mut texts = path.split('/');
        let each = patterns.iter().all(|p| texts.next().is_some_and(|text| p.admits(text)));
        each && (rest || texts.next().is_none())
    }
}

impl Segment {
    /// Returns true if it matches `text`, one segment.
    pub fn admits(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            Self::Parameter(_) => !text.is_empty(),
        }
    }
}

fn literals(path: &str) -> OneOrMany<Segment> {
    path.split('/').map(|s| Segment::Literal(s.into())).collect()
}

/// A predicate over a header. A header on several lines is evaluated line by line: if all match it
/// is a match, if none matches it is none, and a mixed result is indeterminate and denies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderMatch {
    /// Header name, lower-case by construction.
    pub name: HeaderName,
    /// The predicate over each line.
    pub value: ValueMatch,
}

impl HeaderMatch {
    /// Returns the value in the form that is compared: that of `host` without a port and in lower
    /// case, as the canonical host is. A value that is no host stays as it is and matches nothing.
    pub(crate) fn compared_value(&self) -> Cow<'_, ValueMatch> {
        match &self.value {
            ValueMatch::Exact(bytes) if self.name == HOST => {
                let host =
                    std::str::from_utf8(bytes).ok().and_then(|text| canonical_host(text).ok());
                match host {
                    Some(host) => Cow::Owned(ValueMatch::Exact(host.name.as_bytes().into())),
                    None => Cow::Borrowed(&self.value),
                }
            }
            ValueMatch::Exact(_) | ValueMatch::Regex(_) => Cow::Borrowed(&self.value),
        }
    }
}

/// A predicate over a query parameter, after form decoding. Repeated parameters are evaluated like
/// repeated headers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueryMatch {
    /// Parameter name, decoded, case-sensitive.
    pub name: Arc<str>,
    /// The predicate over each value.
    pub value: ValueMatch,
}

/// A predicate over a header or parameter value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueMatch {
    /// Exactly these bytes.
    Exact(Arc<[u8]>),
    /// The whole value matches. A header value with bytes outside visible ASCII is indeterminate
    /// and denies.
    Regex(Pattern),
}

/// A pattern over canonical hosts (lower-case, no port, no trailing dot).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// Exactly this name.
    Exact(Arc<str>),
    /// Names that end in `.` and this text, with at least one label before it; stored without the
    /// leading `*.`.
    Suffix(Arc<str>),
}

/// The name without its first label.
fn parent_name(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, rest)| rest)
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Suffix(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

impl HostPattern {
    /// Reads `name` or `*.rest`, lower-cased and without a trailing dot.
    pub fn parse(text: &str) -> Self {
        let canonical = text.to_ascii_lowercase();
        let canonical = canonical.strip_suffix('.').unwrap_or(&canonical);
        match canonical.strip_prefix("*.") {
            Some(rest) => Self::Suffix(rest.into()),
            None => Self::Exact(canonical.into()),
        }
    }

    /// The name; of a wildcard, the text behind `*.`.
    pub fn name(&self) -> &str {
        match self {
            Self::Exact(name) | Self::Suffix(name) => name,
        }
    }

    /// The names above it, the nearest first: `b.c` and `c` of `a.b.c` and of `*.a.b.c`.
    pub fn names_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(parent_name(self.name()), |name| parent_name(name))
    }

    /// Returns true if every host that has `other` has this pattern, too: the same one, or a wildcard
    /// above it.
    pub fn covers(&self, other: &Self) -> bool {
        match self {
            Self::Exact(_) => self == other,
            Self::Suffix(_) => self == other || self.admits(other.name()),
        }
    }

    /// Returns true if some host has both patterns.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Returns true if the pattern names `host`, a canonical host.
    pub fn admits(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => **name == *host,
            Self::Suffix(suffix) => host
                .strip_suffix(&**suffix)
                .is_some_and(|head| head.len() > 1 && head.ends_with('.')),
        }
    }
}
