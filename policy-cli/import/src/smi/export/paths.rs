//! Paths in the words of SMI, which knows regular expressions alone and decides on paths as they are sent.

use policy_core::matching::Segment;
use policy_core::{OneOrMany, PathPattern};
use std::fmt::Write;

/// One segment of a path that means itself in every form of the path: not empty, neither `.` nor `..`, and
/// without percent-encoding, `\` and `;`.
const SEGMENT: &str = r"(\.{0,2}[^/.%\\;][^/%\\;]*|\.{3,}[^/%\\;]*)";

/// A path in the words of SMI.
pub(super) struct SmiPath {
    /// A pattern that matches all that is matched, for comparison with others.
    pub(super) bound: PathPattern,
    /// A regular expression that matches nothing else, and whether it matches all of it; absent: none is
    /// known.
    pub(super) said: Option<(String, bool)>,
}

/// A pattern over match forms, in the words of SMI.
pub(super) fn smi_path(pattern: &PathPattern) -> SmiPath {
    let pattern = pattern.in_match_form().into_owned();
    let source = match &pattern {
        PathPattern::Segments { segments, rest } => {
            let said = Some(of_segments(segments, *rest));
            return SmiPath { bound: pattern, said };
        }
        PathPattern::Regex(regex) => regex.source(),
    };
    let source = source.strip_suffix('$').unwrap_or(source);
    if let Some(path) = plain(source) {
        return smi_path(&PathPattern::exact(&path));
    }
    if let Some(path) = source.strip_suffix(&below()).and_then(plain) {
        return smi_path(&PathPattern::prefix(&path));
    }
    match source.strip_suffix(".*").and_then(plain).filter(|path| path.ends_with('/')) {
        Some(path) => {
            let said = format!("{}({SEGMENT}{})?$", escaped(&path), below());
            SmiPath { bound: PathPattern::prefix(&path), said: Some((said, false)) }
        }
        None => SmiPath { bound: pattern, said: None },
    }
}

/// Any number of further segments.
fn below() -> String {
    format!("(/{SEGMENT})*/?")
}

fn of_segments(segments: &OneOrMany<Segment>, rest: bool) -> (String, bool) {
    if rest && segments.is_empty() {
        return (".*".to_owned(), true);
    }
    let (mut text, mut is_exact) = (String::new(), !rest);
    for segment in segments {
        match segment {
            Segment::Literal(literal) => {
                // Writing to a text cannot fail.
                let _ = write!(text, "/{}", escaped(literal));
            }
            Segment::Parameter(_) => {
                is_exact = false;
                let _ = write!(text, "/{SEGMENT}");
            }
        }
    }
    if rest {
        text.push_str(&below());
    }
    text.push('$');
    (text, is_exact)
}

/// The path that an expression without operators stands for; `None`: it has some, or no path has its form.
fn plain(source: &str) -> Option<String> {
    let (mut path, mut escape) = (String::new(), false);
    for c in source.chars() {
        let is_text = c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '~' | ':' | '@');
        if escape && META.contains(c) || !escape && is_text {
            path.push(c);
            escape = false;
        } else if !escape && c == '\\' {
            escape = true;
        } else {
            return None;
        }
    }
    let inner = path.strip_prefix('/')?;
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_sound = inner.is_empty() || !inner.split('/').any(|it| matches!(it, "" | "." | ".."));
    (!escape && is_sound).then_some(path)
}

/// Characters that mean something else in an expression.
const META: &str = r"\.+*?()|[]{}^$";

/// An expression for a text.
pub(super) fn escaped(text: &str) -> String {
    let mut found = String::new();
    for c in text.chars() {
        if META.contains(c) {
            found.push('\\');
        }
        found.push(c);
    }
    found
}

/// True if some path may match both patterns.
pub(super) fn may_overlap(one: &PathPattern, other: &PathPattern) -> bool {
    let (
        PathPattern::Segments { segments: one, rest: one_rest },
        PathPattern::Segments { segments: other, rest: other_rest },
    ) = (one, other)
    else {
        return true;
    };
    let differ = one.iter().zip(other.iter()).any(|pair| match pair {
        (Segment::Literal(one), Segment::Literal(other)) => one != other,
        (Segment::Literal(_) | Segment::Parameter(_), Segment::Parameter(_))
        | (Segment::Parameter(_), Segment::Literal(_)) => false,
    });
    let fits = (one.len() >= other.len() || *one_rest) && (other.len() >= one.len() || *other_rest);
    !differ && fits
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use policy_core::Pattern;

    fn said(pattern: &PathPattern) -> Option<(Pattern, bool)> {
        let (text, is_exact) = smi_path(pattern).said?;
        Some((Pattern::parse(&text).unwrap(), is_exact))
    }

    fn regex(source: &str) -> PathPattern {
        PathPattern::Regex(Pattern::parse(source).unwrap())
    }

    #[test]
    fn what_is_said_matches_no_path_that_means_another() {
        let prefix = PathPattern::prefix("/pub");
        let (pattern, is_exact) = said(&prefix).unwrap();
        assert!(!is_exact);
        for path in ["/pub", "/pub/", "/pub/a", "/pub/a.b/c", "/pub/.a", "/pub/..a", "/pub/.../x/"]
        {
            assert!(pattern.matches(path), "{path}");
        }
        let strange = [
            "/pub/../x",
            "/pub/..",
            "/pub/.",
            "/pub/./x",
            "/pub//x",
            "/pub/%2e%2e/x",
            "/pub/a;b",
            "/pub/..\\x",
            "/public",
            "/x/pub",
            "/pub/a/../../x",
            "/pub/../",
            "/pub/.%2e/x",
        ];
        for path in strange {
            assert!(!pattern.matches(path), "{path}");
        }
        let (parameter, _) = said(&PathPattern::grpc(Some("s.v1.S"), None)).unwrap();
        assert!(parameter.matches("/s.v1.S/Get") && !parameter.matches("/sxv1.S/Get"));
        assert!(!parameter.matches("/s.v1.S/..") && !parameter.matches("/s.v1.S/"));
    }

    #[test]
    fn expressions_are_said_where_they_are_texts_and_what_is_below() {
        let is_exact = |source: &str| said(&regex(source)).map(|(_, is_exact)| is_exact);
        assert_eq!(is_exact("/metrics"), Some(true));
        assert_eq!(is_exact(r"/a/b\.json"), Some(true));
        assert_eq!(is_exact("/api/.*"), Some(false));
        for source in ["/a.b", "/a.*", "/(a|b)", r"/a/\.\.", "/a//b", "a", r"/\d", "(?i)/a"] {
            assert_eq!(is_exact(source), None, "{source}");
        }
        let (api, _) = said(&regex("/api/.*")).unwrap();
        for (path, matches) in
            [("/api/", true), ("/api/a/b", true), ("/api", false), ("/api/../b", false)]
        {
            assert_eq!(api.matches(path), matches, "{path}");
        }
        // What was said is recognised when it comes back.
        let (text, _) = smi_path(&PathPattern::prefix("/a/b")).said.unwrap();
        assert_eq!(smi_path(&regex(&text)).bound, PathPattern::prefix("/a/b"));
    }

    #[test]
    fn patterns_overlap_unless_they_cannot() {
        let [a, ab, c] = ["/a", "/a/b", "/c"].map(PathPattern::exact);
        let below = PathPattern::prefix("/a");
        let table = [
            (&a, &a, true),
            (&a, &ab, false),
            (&a, &c, false),
            (&below, &a, true),
            (&below, &ab, true),
            (&below, &c, false),
            (&PathPattern::prefix("/"), &c, true),
            (&PathPattern::grpc(None, Some("b")), &ab, true),
            (&regex("/.*"), &a, true),
        ];
        for (one, other, expected) in table {
            assert_eq!(may_overlap(one, other), expected, "{one:?} {other:?}");
            assert_eq!(may_overlap(other, one), expected, "{other:?} {one:?}");
        }
    }
}
