//! The match form of a path: the form that routes are matched on.
//!
//! The canonical form (see [`crate::target`]) keeps reserved characters as the client wrote them,
//! because it is what is forwarded. Nearly every application decodes them before it routes: it reads
//! `/a%3Ab` as `/a:b`. Two spellings that an application takes for one path have one match form, so
//! that no spelling passes by a tighter route.
//!
//! In the match form every character that may stand in a path segment (RFC 3986 section 3.3, `pchar`)
//! is written plainly and every other one percent-encoded. The exception is `;`, which stays as it was
//! written: requests with it are refused in both spellings. Decoding is one pass: in `/a%253Ab` the
//! `%25` stays, because an application decodes it to `/a%3Ab` and no further. An encoded slash stays
//! encoded, so that a form has the segments of its path.

use crate::matching::{PathPattern, RequestMatch, Segment, WrittenMatch};
use crate::path_form::match_form;
use crate::path_handling::PathHandling;
use crate::policy::Route;
use std::borrow::Cow;

/// Returns the form of a request's path that routes are matched on.
pub(crate) fn matched(path: &str, handling: PathHandling) -> Cow<'_, str> {
    match handling {
        PathHandling::Canonical => match_form(path),
        PathHandling::Raw => Cow::Borrowed(path),
    }
}

impl PathPattern {
    /// The pattern over match forms. A regular expression that has none, which no object may have, stays
    /// as it is.
    pub fn in_match_form(&self) -> Cow<'_, Self> {
        let is_form = |segment: &Segment| match segment {
            Segment::Literal(text) => matches!(match_form(text), Cow::Borrowed(_)),
            Segment::Parameter(_) => true,
        };
        match self {
            Self::Segments { segments, rest } if !segments.iter().all(is_form) => {
                let segments = segments.iter().map(Segment::in_match_form).collect();
                Cow::Owned(Self::Segments { segments, rest: *rest })
            }
            Self::Regex(pattern) => match pattern.in_match_form() {
                Ok(Some(form)) => Cow::Owned(Self::Regex(form.clone())),
                Ok(None) | Err(_) => Cow::Borrowed(self),
            },
            Self::Segments { .. } => Cow::Borrowed(self),
        }
    }
}

impl Segment {
    fn in_match_form(&self) -> Self {
        match self {
            Self::Literal(text) => Self::Literal(match match_form(text) {
                Cow::Borrowed(_) => text.clone(),
                Cow::Owned(form) => form.into(),
            }),
            Self::Parameter(_) => self.clone(),
        }
    }
}

impl RequestMatch {
    /// Returns the match for a port with this path handling.
    pub fn on_port(&self, handling: PathHandling) -> Cow<'_, Self> {
        let path = match (handling, self.path.in_match_form()) {
            (PathHandling::Raw, _) | (_, Cow::Borrowed(_)) => return Cow::Borrowed(self),
            (PathHandling::Canonical, Cow::Owned(path)) => path,
        };
        let own = self.clone().with_path(path);
        Cow::Owned(match &self.path {
            PathPattern::Regex(pattern) => {
                own.with_written(WrittenMatch::Path(pattern.source().into()))
            }
            PathPattern::Segments { .. } => own,
        })
    }
}

impl Route {
    /// Returns the route with its regular expressions as they are on a port with this path handling;
    /// `None` if they are so already.
    #[must_use]
    pub fn with_expressions_on(&self, handling: PathHandling) -> Option<Self> {
        let differs = |wanted: &RequestMatch| {
            matches!(wanted.path, PathPattern::Regex(_))
                && matches!(wanted.on_port(handling), Cow::Owned(_))
        };
        if !self.rules.iter().flat_map(|rule| &rule.matches).any(differs) {
            return None;
        }
        let mut own = self.clone();
        for rule in &mut own.rules {
            let form = |wanted: &RequestMatch| match wanted.path {
                PathPattern::Regex(_) => wanted.on_port(handling).into_owned(),
                PathPattern::Segments { .. } => wanted.clone(),
            };
            rule.matches = rule.matches.iter().map(form).collect();
        }
        Some(own)
    }
}
