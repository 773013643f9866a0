//! Conditions on a request that a route, a grant or an effect may have besides its match.
//!
//! They look at the request as the policy sees it: the match form of the path, and headers as they were
//! received. A condition is met or not; there is no third result, because negation has operators of its
//! own and each says what it means of a part that is absent.

use crate::path_form::match_form;
use crate::request::RequestView;
use crate::target::canonical_path;
use http::header::HOST;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A condition on one path segment: the text that a path parameter captured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentCondition {
    /// The name of the parameter, for explanations.
    pub parameter: Arc<str>,
    /// The place of the segment, counted from 0 behind the leading `/`.
    pub place: u32,
    /// The operator.
    pub operator: SegmentOperator,
    /// The texts, in match form.
    values: Vec<Arc<str>>,
}

/// The operator of a [`SegmentCondition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentOperator {
    /// The segment is one of the texts. Without texts it holds for no request.
    In,
    /// The segment is none of the texts.
    NotIn,
}

/// A condition on a header, by the operators of Kubernetes' label selectors. `host` means the
/// canonical host, because HTTP/2 has no such header.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeaderCondition {
    /// The name, as text because `HeaderName` has no order.
    pub name: Arc<str>,
    /// The operator.
    pub operator: HeaderOperator,
}

/// The operator of a [`HeaderCondition`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderOperator {
    /// A line of the header is one of these.
    In(Vec<Arc<str>>),
    /// No line of the header is one of these, or there is none.
    NotIn(Vec<Arc<str>>),
    /// There is a line.
    Exists,
    /// There is no line.
    DoesNotExist,
}

/// A condition of an effect. An effect applies where all of its conditions are met.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectCondition {
    /// On a path segment.
    Segment(SegmentCondition),
    /// On a header.
    Header(HeaderCondition),
}

impl SegmentCondition {
    /// A condition on the segment at `place`. The texts are brought to the match form, in which paths
    /// are compared.
    pub fn new(
        parameter: &str,
        place: u32,
        operator: SegmentOperator,
        values: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let form = |value: &str| Arc::from(&*match_form(value));
        let values = values.into_iter().map(|value| form(value.as_ref())).collect();
        Self { parameter: parameter.into(), place, operator, values }
    }

    /// The texts, in match form.
    pub fn values(&self) -> &[Arc<str>] {
        &self.values
    }

    /// Returns true if the segment of `request` meets the condition. A segment that is absent or empty
    /// meets neither operator. Nor does any of a path that two parsers could read differently, which
    /// occurs on ports with raw paths: the application may read the segment as one of the texts.
    pub fn holds(&self, request: &RequestView<'_>) -> bool {
        self.is_met(request) && is_unambiguous(request.path)
    }

    /// Returns true if the condition holds, or may hold as the application reads the path. An effect must
    /// not be avoided by a path that two parsers could read differently.
    pub fn may_hold(&self, request: &RequestView<'_>) -> bool {
        // `*`, and the empty path of `CONNECT`, have no segments.
        let has_segments = request.path.starts_with('/');
        self.is_met(request) || (has_segments && !is_unambiguous(request.path))
    }

    fn is_met(&self, request: &RequestView<'_>) -> bool {
        let Some(text) = segment(request.path, self.place) else { return false };
        let named = self.values.iter().any(|value| **value == *text);
        let meets = match self.operator {
            SegmentOperator::In => named,
            SegmentOperator::NotIn => !named,
        };
        meets && !text.is_empty()
    }
}

fn segment(path: &str, place: u32) -> Option<&str> {
    path.strip_prefix('/')?.split('/').nth(usize::try_from(place).ok()?)
}

/// Returns true if `path` is canonical, and a match form.
fn is_unambiguous(path: &str) -> bool {
    matches!(canonical_path(path), Ok(Cow::Borrowed(_)))
        && matches!(match_form(path), Cow::Borrowed(_))
}

impl HeaderCondition {
    /// Returns true if the headers of `request` meet the condition.
    pub fn holds(&self, request: &RequestView<'_>) -> bool {
        let named = |values: &[Arc<str>]| {
            self.any_line(request, |line| values.iter().any(|value| value.as_bytes() == line))
        };
        match &self.operator {
            HeaderOperator::In(values) => named(values),
            HeaderOperator::NotIn(values) => !named(values),
            HeaderOperator::Exists => self.any_line(request, |_| true),
            HeaderOperator::DoesNotExist => !self.any_line(request, |_| true),
        }
    }

    fn any_line(&self, request: &RequestView<'_>, test: impl Fn(&[u8]) -> bool) -> bool {
        if *self.name == *HOST.as_str() {
            return request.host.is_some_and(|host| test(host.as_bytes()));
        }
        request.headers.get_all(&*self.name).iter().any(|line| test(line.as_bytes()))
    }
}

impl EffectCondition {
    /// Returns true if `request` meets the condition, or may meet it by a path that two parsers could read
    /// differently. The path of `request` is a match form.
    pub fn may_hold(&self, request: &RequestView<'_>) -> bool {
        match self {
            Self::Segment(condition) => condition.may_hold(request),
            Self::Header(condition) => condition.holds(request),
        }
    }
}

/// Texts, joined by commas.
struct Texts<'a>(&'a [Arc<str>]);

impl fmt::Display for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, text) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{text}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SegmentCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            SegmentOperator::In => "In",
            SegmentOperator::NotIn => "NotIn",
        };
        write!(f, "path parameter {} {operator} [{}]", self.parameter, Texts(&self.values))
    }
}

impl fmt::Display for HeaderCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {} ", self.name)?;
        match &self.operator {
            HeaderOperator::In(values) => write!(f, "In [{}]", Texts(values)),
            HeaderOperator::NotIn(values) => write!(f, "NotIn [{}]", Texts(values)),
            HeaderOperator::Exists => f.write_str("Exists"),
            HeaderOperator::DoesNotExist => f.write_str("DoesNotExist"),
        }
    }
}

impl fmt::Display for EffectCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(condition) => condition.fmt(f),
            Self::Header(condition) => condition.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
