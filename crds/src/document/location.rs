//! Places in a text.

use std::ops::Range;

/// A location in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The bytes it covers. Empty: a point.
    pub bytes: Range<usize>,
}

/// The place at which a part of a text begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    /// Bytes before it.
    pub(super) bytes: usize,
    /// Lines before it.
    lines: usize,
    /// Characters before it in its line.
    characters: usize,
}

impl Origin {
    /// Returns the place after a byte order mark of this length.
    pub(super) fn after(mark: usize) -> Self {
        Self { bytes: mark, ..Self::default() }
    }

    /// Moves it to the end of `text`, which begins at it.
    pub(super) fn pass(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        self.lines = self.lines.saturating_add(text.matches('\n').count());
        self.characters = match text.rsplit_once('\n') {
            Some((_, last)) => last.chars().count(),
            None => self.characters.saturating_add(text.chars().count()),
        };
    }

    /// Returns the line and the column of a place in the part. Lines count from 1, columns from 0.
    pub(super) fn place(self, line: usize, column: usize) -> (usize, usize) {
        let before = if line <= 1 { self.characters } else { 0 };
        (line.saturating_add(self.lines), column.saturating_add(before))
    }
}
