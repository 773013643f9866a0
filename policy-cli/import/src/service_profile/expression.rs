//! Regular expressions of paths that say what a path of a group says.

/// Expressions of one segment, with what a parameter does not match of them.
const SEGMENTS: &[(&str, Option<&str>)] = &[
    ("(?:[^/]+)", None),
    ("([^/]+)", None),
    ("[^/]+", None),
    ("(?:[^/]*)", Some(EMPTY)),
    ("([^/]*)", Some(EMPTY)),
    ("[^/]*", Some(EMPTY)),
];
const EMPTY: &str = "a parameter is never empty, which the expression allows";
/// Expressions of everything behind a slash.
const RESTS: &[&str] = &["(?:.*)", "(.*)", ".*", "(.+)", ".+"];
const REST: &str = "`*rest` is one or more segments, none of them empty";

/// A path of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecognisedPath {
    /// The path.
    pub(super) text: String,
    /// The part of the expression that it does not match.
    pub(super) narrower: Option<&'static str>,
}

/// The path of a group that matches nothing but what an expression matches as a whole, a slash at the end
/// left aside. `None`: it has parts that no path says.
pub(super) fn recognise(expression: &str) -> Option<RecognisedPath> {
    let inner = expression.strip_prefix('^').unwrap_or(expression);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    // Both say that a slash at the end changes nothing.
    let inner = inner.strip_suffix("/?").unwrap_or(inner);
    let mut rest = inner;
    let (mut text, mut narrower, mut number) = (String::new(), None, 1_usize);
    while !rest.is_empty() {
        rest = rest.strip_prefix('/')?;
        text.push('/');
        if RESTS.contains(&rest) {
            text.push_str("*rest");
            return Some(RecognisedPath { text, narrower: Some(REST) });
        }
        let segment = SEGMENTS.iter().find_map(|(known, lost)| {
            let after = rest.strip_prefix(known)?;
            (after.is_empty() || after.starts_with('/')).then_some((after, lost))
        });
        if let Some((after, lost)) = segment {
            text.push_str(&format!(":p{number}"));
            number = number.saturating_add(1);
            narrower = narrower.or(*lost);
            rest = after;
            continue;
        }
        let (literal, after) = literal(rest)?;
        if literal.starts_with(':') || literal.contains('*') {
            return None;
        }
        text.push_str(&literal);
        rest = after;
    }
    if text.is_empty() {
        text.push('/');
    }
    (expression.contains('/')).then_some(RecognisedPath { text, narrower })
}

/// The text of a segment without parts that stand for others, and what is behind it.
fn literal(rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '/' => return Some((text, rest.get(at..)?)),
            '\\' => match chars.next()? {
                // Of letters and digits, an escape is a class or a number.
                (_, escaped) if escaped.is_ascii_punctuation() => text.push(escaped),
                _ => return None,
            },
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return None;
            }
            plain => text.push(plain),
        }
    }
    Some((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_says_is_recognised_and_nothing_else() {
        let path = |text: &str| recognise(text).map(|path| (path.text, path.narrower.is_some()));
        let exact = |text: &str| Some((text.to_owned(), false));
        let narrower = |text: &str| Some((text.to_owned(), true));
        assert_eq!(path("/"), exact("/"));
        assert_eq!(path("/books"), exact("/books"));
        assert_eq!(path("^/books/?$"), exact("/books"));
        assert_eq!(path("/books/[^/]+"), exact("/books/:p1"));
        assert_eq!(path("/books/[^/]*/delete"), narrower("/books/:p1/delete"));
        assert_eq!(path("/a/([^/]+)/b/(?:[^/]+)"), exact("/a/:p1/b/:p2"));
        assert_eq!(path(r"/v1\.json"), exact("/v1.json"));
        assert_eq!(path("/files/.*"), narrower("/files/*rest"));
        for other in [
            "", "books", "/v1.json", r"/\d+", "/a|/b", "/[^/]+x", "/x[^/]+", "/a.*", "/(a|b)",
            r"/\*", "/:id",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
