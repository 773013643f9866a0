//! Header lines in a file of expectations.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Expected headers by name. `null`: there is no such header.
pub type ExpectedHeaders = BTreeMap<String, Option<HeaderValues>>;

/// One or several header lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum HeaderValues {
    /// One.
    One(String),
    /// Several, in order.
    Several(Vec<String>),
}

impl HeaderValues {
    /// The lines.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(line) => std::slice::from_ref(line),
            Self::Several(lines) => lines,
        }
    }
}

/// Differences between the lines of `expected` headers and those found by `lines_of`.
pub(super) fn differences<'a>(
    expected: &ExpectedHeaders,
    lines_of: impl Fn(&str) -> Vec<&'a str>,
) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, values) in expected {
        let found = lines_of(name);
        let wanted = values.as_ref().map_or(&[][..], HeaderValues::as_slice);
        if found != wanted {
            differences.push(format!("header {name} is {found:?}, expected {wanted:?}"));
        }
    }
    differences
}
