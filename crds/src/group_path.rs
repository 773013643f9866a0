//! The paths of routes in groups: static segments, `:parameter`, and a final `*rest`.

use crate::path::{PathPrefix, in_match_form};
use crate::quote::quote;
use policy_core::PathPattern;
use policy_core::matching::Segment;
use std::fmt;
use std::sync::Arc;

/// Longest name of a parameter.
const MAX_NAME: usize = 63;

/// The path of a route in a group, in the grammar of httprouter. A slash at its end, or at the end of
/// a request's path, changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupPath {
    canonical: Arc<str>,
    segments: Vec<Segment>,
    rest: bool,
}

/// The part of a path that a parameter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterPlace {
    /// The segment with this number, counted from 0 behind the leading slash.
    Segment(u32),
    /// One or more segments at the end.
    Rest,
}

impl GroupPath {
    /// Reads a path. A text in another form than the one in which paths are matched is refused, as by
    /// [`PathPrefix::parse`]. The reason follows the quoted text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(encoded) = encoded_mark(text) {
            let rule = "a segment that begins with `:` or `*` is a parameter and never text";
            return Err(format!("has a segment that begins with `{encoded}`: {rule}"));
        }
        let path = in_match_form(text)?;
        let trimmed = path.strip_suffix('/').unwrap_or(&path);
        let mut segments: Vec<Segment> = Vec::new();
        let mut rest = false;
        for text in trimmed.split('/').skip(1) {
            if rest {
                let rule = "a segment that begins with `*` may be the last one only";
                return Err(format!("goes on behind a `*`: {rule}"));
            }
            rest = text.starts_with('*');
            let segment = segment(text)?;
            if matches!(segment, Segment::Parameter(_)) && segments.contains(&segment) {
                return Err(format!(
                    "has the parameter {} twice",
                    quote(text.trim_start_matches([':', '*']))
                ));
            }
            segments.push(segment);
        }
        let canonical = if trimmed.is_empty() { "/" } else { trimmed };
        Ok(Self { canonical: canonical.into(), segments, rest })
    }

    /// The path of a method of a gRPC service, or with a parameter `method` that of each method. Names of
    /// Protocol Buffers are in match form.
    pub(crate) fn grpc(service: &str, method: Option<&str>) -> Self {
        let last = match method {
            Some(method) => Segment::Literal(method.into()),
            None => Segment::Parameter("method".into()),
        };
        let canonical = format!("/{service}/{}", method.unwrap_or(":method")).into();
        Self { canonical, segments: vec![Segment::Literal(service.into()), last], rest: false }
    }

    /// The text, without a slash at its end unless it is `/`.
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// The segments; none for `/`.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// True if it ends with `*rest`, whose parameter is the last of the segments and stands for one or
    /// more.
    pub fn has_rest(&self) -> bool {
        self.rest
    }

    /// The names of its parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Parameter(name) => Some(&**name),
            Segment::Literal(_) => None,
        })
    }

    /// The place of a parameter; `None` if it has none of this name.
    pub fn place_of(&self, parameter: &str) -> Option<ParameterPlace> {
        let is_it = |segment: &Segment| match segment {
            Segment::Parameter(name) => **name == *parameter,
            Segment::Literal(_) => false,
        };
        let at = self.segments.iter().position(is_it)?;
        let is_last = at.checked_add(1) == Some(self.segments.len());
        Some(match self.rest && is_last {
            true => ParameterPlace::Rest,
            false => ParameterPlace::Segment(u32::try_from(at).ok()?),
        })
    }

    /// True if both have the same segments but for the names of parameters: they match the same paths.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        let same = |(own, other): (&Segment, &Segment)| match (own, other) {
            (Segment::Literal(own), Segment::Literal(other)) => own == other,
            (Segment::Parameter(_), Segment::Parameter(_)) => true,
            (Segment::Literal(_), Segment::Parameter(_))
            | (Segment::Parameter(_), Segment::Literal(_)) => false,
        };
        self.rest == other.rest
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(same)
    }

    /// The patterns that match its requests: one with a slash at the end and one without, but for `/`
    /// and a path with `*rest`, of which one pattern matches both.
    pub fn patterns(&self) -> Vec<PathPattern> {
        if self.segments.is_empty() {
            return vec![PathPattern::exact("/")];
        }
        let own = self.segments.iter().cloned();
        let plain = PathPattern::Segments { segments: own.clone().collect(), rest: self.rest };
        if self.rest {
            return vec![plain];
        }
        let slash = own.chain([Segment::Literal("".into())]).collect();
        vec![plain, PathPattern::Segments { segments: slash, rest: false }]
    }

    /// The longest prefix without a parameter, by whole segments: every request that it matches is
    /// inside of it.
    pub fn static_prefix(&self) -> PathPrefix {
        let literals = self.segments.iter().map_while(|segment| match segment {
            Segment::Literal(text) => Some(&**text),
            Segment::Parameter(_) => None,
        });
        PathPrefix::of_segments(literals)
    }
}

impl fmt::Display for GroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

/// The encoded `:` or `*` at the beginning of a segment.
fn encoded_mark(text: &str) -> Option<&str> {
    let mut beginnings = text.split('/').filter_map(|segment| segment.get(..3));
    beginnings.find(|mark| ["%3A", "%2A"].iter().any(|it| it.eq_ignore_ascii_case(mark)))
}

/// Reads a segment; `text` is in match form.
fn segment(text: &str) -> Result<Segment, String> {
    match text.strip_prefix([':', '*']) {
        Some(name) if is_parameter_name(name) => Ok(Segment::Parameter(name.into())),
        Some("") => {
            Err(format!("has {} without a name, write one such as `{text}id`", quote(text)))
        }
        Some(_) => {
            let rule = "a letter or `_`, then letters, digits, `_` and `-`";
            Err(format!("has {}, which is not the name of a parameter: {rule}", quote(text)))
        }
        None if text.contains('*') => {
            let rule = "`*` stands for whole segments, as `*rest` at the end";
            Err(format!("has `*` inside the segment {}: {rule}", quote(text)))
        }
        None => Ok(Segment::Literal(text.into())),
    }
}

/// True if a parameter may have this name.
pub(crate) fn is_parameter_name(name: &str) -> bool {
    let first = name.bytes().next();
    name.len() <= MAX_NAME
        && first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
