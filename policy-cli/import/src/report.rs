//! The report of an import: what became of each part of its source.

use std::fmt;
use std::sync::Arc;

/// The faithfulness of a translation. There is no value for a wider one, because none is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fidelity {
    /// It permits, or describes, what the source does.
    Exact,
    /// It permits, or describes, less.
    Narrower,
    /// Nothing of it was written.
    Omitted,
}

impl Fidelity {
    /// The word of the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Narrower => "narrower",
            Self::Omitted => "not at all",
        }
    }
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One part of a source, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRow {
    /// The line at which it begins; absent in sources without lines.
    pub place: Option<SourceLine>,
    /// The part, in the words of the source.
    pub subject: String,
    /// The faithfulness of its translation.
    pub fidelity: Fidelity,
    /// The object that it became, the difference, or the reason why there is none.
    pub note: String,
}

impl ReportRow {
    /// The row of a part with a line.
    pub(crate) fn at(
        place: SourceLine,
        subject: impl Into<String>,
        fidelity: Fidelity,
        note: impl Into<String>,
    ) -> Self {
        Self { place: Some(place), subject: subject.into(), fidelity, note: note.into() }
    }

    /// The row of a part of a source that has no lines.
    pub(crate) fn without_line(
        subject: impl Into<String>,
        fidelity: Fidelity,
        note: impl Into<String>,
    ) -> Self {
        Self { place: None, subject: subject.into(), fidelity, note: note.into() }
    }
}
