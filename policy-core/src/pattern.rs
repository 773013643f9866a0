//! Regular expressions of bounded size that always mean the whole text.

use crate::expression_texts::{InHost, InPath, useless_part};
use crate::path_expression::{PathExpressionError, in_match_form, printed};
use regex_automata::meta;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The longest expression accepted, in bytes (Gateway API allows 1,024 for a path, 4,096 for a
/// header value).
pub const MAX_SOURCE: usize = 4096;

/// The largest automaton accepted for one expression, in bytes.
pub const MAX_AUTOMATON: usize = 256 * 1024;

/// A regular expression in the syntax of Rust's `regex`, checked for syntax and size when made. It
/// means and is sent as `^(?:…)$`.
#[derive(Clone)]
pub struct Pattern(Arc<CompiledPattern>);

struct CompiledPattern {
    source: Box<str>,
    /// The bytes that the automaton takes.
    bytes: usize,
    /// The automaton, once something was matched: who only stores and sends expressions holds texts.
    matcher: OnceLock<Option<meta::Regex>>,
    /// The expression over match forms of paths, once it was asked for; `None`: itself.
    form: OnceLock<Result<Option<Pattern>, PathExpressionError>>,
}

/// Error of parsing a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`MAX_SOURCE`].
    #[error("regular expression of {0} bytes is longer than {MAX_SOURCE}")]
    TooLong(usize),
    /// Does not parse, or compiles to more than [`MAX_AUTOMATON`].
    #[error("invalid regular expression: {0}")]
    Invalid(String),
}

impl Pattern {
    /// Checks `source`, without the anchors that are implied.
    pub fn parse(source: &str) -> Result<Self, PatternError> {
        if source.len() > MAX_SOURCE {
            return Err(PatternError::TooLong(source.len()));
        }
        let parse =
            |text: &str| build(text).map_err(|error| PatternError::Invalid(shorten(&error)));
        // Parsed alone first: `a)(b` is only valid once wrapped, and must not be accepted for that.
        parse(source)?;
        let bytes = parse(&anchored(source))?.memory_usage();
        let (source, form, matcher) = (source.into(), OnceLock::new(), OnceLock::new());
        Ok(Self(Arc::new(CompiledPattern { source, bytes, matcher, form })))
    }

    /// The bytes that the automaton of the expression takes while something is matched with it, without
    /// the caches of threads. Of a path whose match form has been made, the larger one of both.
    pub fn compiled_bytes(&self) -> usize {
        let form = self.0.form.get().and_then(|form| form.as_ref().ok()?.as_ref());
        form.map_or(0, |form| form.0.bytes).max(self.0.bytes)
    }

    /// Returns the expression over match forms of paths: characters that a match form encodes are
    /// written percent-encoded. `None`: it is one already.
    pub fn in_match_form(&self) -> Result<Option<&Self>, PathExpressionError> {
        let form = self.0.form.get_or_init(|| {
            let Some(form) = in_match_form(&self.0.source)? else { return Ok(None) };
            let form = Self::parse(&form)
                .map_err(|error| PathExpressionError::TooLarge(error.to_string()))?;
            Ok(Some(form))
        });
        match form {
            Ok(form) => Ok(form.as_ref()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Checks that the expression, and each alternative of it that is not repeated, matches the match
    /// form of some path.
    pub fn check_path(&self) -> Result<(), PathExpressionError> {
        let form = self.in_match_form()?.unwrap_or(self);
        match useless_part::<InPath>(form.source()) {
            None => Ok(()),
            Some(part) => Err(PathExpressionError::MatchesNothing(printed(&part))),
        }
    }

    /// Returns the expression over canonical hosts: in any case, if it would match none as it is
    /// written. `None`: it, or an alternative of it, matches none at all.
    pub fn over_hosts(&self) -> Option<Self> {
        if useless_part::<InHost>(self.source()).is_none() {
            return Some(self.clone());
        }
        let folded = Self::parse(&format!("(?i:{})", self.source())).ok()?;
        useless_part::<InHost>(folded.source()).is_none().then_some(folded)
    }

    /// The expression as written, without the implied anchors.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The expression with the implied anchors, as it is sent to proxies.
    pub fn anchored(&self) -> String {
        anchored(&self.0.source)
    }

    /// Returns true if the whole of `text` matches. Makes the automaton where it is not made yet, and
    /// may allocate on first use per thread.
    pub fn matches(&self, text: &str) -> bool {
        self.matcher().is_some_and(|matcher| matcher.is_match(text))
    }

    /// Makes the automaton, so that no request waits for it.
    pub(crate) fn prepare(&self) {
        self.matcher();
    }

    /// The automaton, which could be made when the expression was parsed.
    fn matcher(&self) -> Option<&meta::Regex> {
        self.0.matcher.get_or_init(|| build(&anchored(&self.0.source)).ok()).as_ref()
    }
}

fn anchored(source: &str) -> String {
    format!("^(?:{source})$")
}

fn build(text: &str) -> Result<meta::Regex, Box<meta::BuildError>> {
    let config = meta::Config::new()
        .nfa_size_limit(Some(MAX_AUTOMATON))
        .onepass_size_limit(Some(MAX_AUTOMATON))
        .hybrid_cache_capacity(MAX_AUTOMATON)
        .dfa_size_limit(Some(MAX_AUTOMATON));
    meta::Builder::new().configure(config).build(text).map_err(Box::new)
}

fn shorten(error: &meta::BuildError) -> String {
    match error.syntax_error() {
        Some(syntax) => {
            let text = syntax.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
        // Only its size can be wrong with an expression that parses.
        None => format!("too large when compiled (at most {MAX_AUTOMATON} bytes)"),
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.source.cmp(&other.0.source)
    }
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.source.hash(state);
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.0.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_grows_too_large_says_so() {
        let error = Pattern::parse("(a{1000}){1000}").unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid regular expression: too large when compiled (at most 262144 bytes)"
        );
    }

    /// 15 KiB of YAML took 18 MB of the controller, which matches nothing.
    #[test]
    fn an_expression_that_matches_nothing_yet_holds_no_automaton() {
        let pattern = Pattern::parse(r"\pL{3}x").unwrap();
        assert!(pattern.0.matcher.get().is_none());
        assert!(pattern.compiled_bytes() > 50 * 1024, "{}", pattern.compiled_bytes());
        assert!(pattern.matches("äöüx") && !pattern.matches("x"));
        assert!(pattern.0.matcher.get().is_some());
    }

    #[test]
    fn only_what_is_an_expression_by_itself_is_accepted() {
        assert!(Pattern::parse("a)(b").is_err());
        assert!(Pattern::parse("a|ab").is_ok_and(|pattern| pattern.matches("ab")));
    }
}
