//! Diagnostics: errors of manifests and their locations.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use policy_crds::ObjectKey;
use policy_crds::document::Location;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Lines of an excerpt.
const MAX_LINES: usize = 3;

/// Bytes of an excerpt.
const MAX_BYTES: usize = 600;

/// Something wrong with a file or an object in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as it was found.
    pub file: Arc<str>,
    /// Line, from 1; absent: the file as a whole.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// Path of the field in its object, where one is meant.
    pub field: Option<String>,
    /// Its severity.
    pub severity: Severity,
    /// The error, and the values that are allowed.
    pub message: String,
    /// The object, if it could be identified.
    pub object: Option<ObjectKey>,
    /// The text around it.
    pub excerpt: Option<Excerpt>,
    /// True of a document that does not say that it is an object: it may be for another program.
    pub states_no_kind: bool,
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Something does not take effect.
    Error,
    /// Everything takes effect, perhaps not as meant.
    Warning,
    /// Everything takes effect, and is probably meant.
    Note,
}

impl Severity {
    /// As messages write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A few lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines.
    pub text: Arc<str>,
    /// The number of the first.
    pub first_line: usize,
    /// The bytes of `text` that are meant.
    pub span: Range<usize>,
}

/// `file:line:column: error: field: message`, for logs.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}: {}", self.severity.as_str(), self.sentence())
    }
}

impl Diagnostic {
    /// About a file as a whole.
    pub fn about_file(file: &Arc<str>, message: String) -> Self {
        Self {
            file: file.clone(),
            line: None,
            column: None,
            field: None,
            severity: Severity::Error,
            message,
            object: None,
            excerpt: None,
            states_no_kind: false,
        }
    }

    /// About a place in the text of a file.
    pub fn at(file: &Arc<str>, text: &str, location: &Location, message: String) -> Self {
        Self {
            line: Some(location.line),
            column: Some(location.column),
            excerpt: excerpt(text, location),
            ..Self::about_file(file, message)
        }
    }

    /// The same, about a field of an object.
    pub fn of(self, object: Option<&ObjectKey>, field: &str) -> Self {
        Self {
            object: object.cloned(),
            field: (!field.is_empty()).then(|| field.to_owned()),
            ..self
        }
    }

    /// Renders it for people, with the text it is about.
    pub fn render(&self, coloured: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        let sentence = self.sentence();
        let title = level.primary_title(sentence.as_str());
        let group = match &self.excerpt {
            Some(excerpt) => {
                let label = self.object.as_ref().map(ToString::to_string).unwrap_or_default();
                let mark = AnnotationKind::Primary.span(excerpt.span.clone());
                let mark = if label.is_empty() { mark } else { mark.label(label) };
                let snippet = Snippet::source(&*excerpt.text)
                    .line_start(excerpt.first_line)
                    .path(&*self.file)
                    .annotation(mark);
                title.element(snippet)
            }
            None => title.element(annotate_snippets::Origin::path(&*self.file)),
        };
        renderer.render(&[group])
    }

    fn sentence(&self) -> String {
        match &self.field {
            Some(field) => format!("{field}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// The lines that a place covers, as far as they are few and short.
fn excerpt(text: &str, location: &Location) -> Option<Excerpt> {
    let Range { start, end } = location.bytes;
    let end = end.max(start).min(text.len());
    let before = text.get(..start)?;
    let from = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let rest = text.get(from..)?;
    let mut length: usize = 0;
    for line in rest.split_inclusive('\n').take(MAX_LINES) {
        length = length.saturating_add(line.len());
        if from.saturating_add(length) >= end {
            break;
        }
    }
    while length > MAX_BYTES || !rest.is_char_boundary(length) {
        length = length.min(MAX_BYTES.saturating_add(1)).saturating_sub(1);
    }
    let shown = rest.get(..length)?.trim_end_matches(['\n', '\r']);
    let relative = |at: usize| at.saturating_sub(from).min(shown.len());
    let span = relative(start)..relative(end);
    let whole = shown.is_char_boundary(span.start) && shown.is_char_boundary(span.end);
    whole.then(|| Excerpt { text: shown.into(), first_line: location.line, span })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(text: &str, bytes: Range<usize>) -> Diagnostic {
        let location = Location { line: 2, column: 3, bytes };
        Diagnostic::at(&"a.yaml".into(), text, &location, "expected a number".into())
            .of(None, "spec.port")
    }

    #[test]
    fn a_diagnostic_names_file_line_column_and_field() {
        let diagnostic = diagnostic("spec:\n  port: x\n", 8..15);
        assert_eq!(diagnostic.to_string(), "a.yaml:2:3: error: spec.port: expected a number");
        let rendered = diagnostic.render(false);
        assert!(rendered.contains("port: x"), "{rendered}");
        assert!(rendered.contains("a.yaml:2"), "{rendered}");
    }

    #[test]
    fn excerpts_are_bounded_and_never_split_a_character() {
        let long = format!("a:\n  {}\n", "é".repeat(4000));
        let diagnostic = diagnostic(&long, 5..8000);
        let excerpt = diagnostic.excerpt.clone().unwrap();
        assert!(excerpt.text.len() <= MAX_BYTES);
        assert!(!diagnostic.render(false).is_empty());
    }

    #[test]
    fn a_place_outside_the_text_still_has_a_message() {
        let diagnostic = diagnostic("a", 50..60);
        assert!(diagnostic.excerpt.is_none());
        assert!(diagnostic.render(false).contains("expected a number"));
    }
}
