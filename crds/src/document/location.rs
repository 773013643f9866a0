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
