//! How metrics are declared: a name, labels and a help text, once. Every crate lists its own.

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

/// A metric's name without what its type adds (`_total`, `_bucket`, …), its labels, and its help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Labels and groups of labels, separated by blanks, in the order they are written.
    pub labels: &'static str,
    /// What it says.
    pub help: &'static str,
}

/// A set of labels. The library escapes values when it writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Vec<(&'static str, String)>);

impl Labels {
    /// Adds a label after the others.
    pub fn push(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, value.into()));
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

/// Declares metrics, `NAME = "name", "labels", "help";` each, as constants of the crate and as `ALL`
/// in the order of the list.
#[macro_export]
macro_rules! metrics {
    ($($id:ident = $name:literal, $labels:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(crate) const $id: $crate::metric::Metric =
                $crate::metric::Metric { name: $name, labels: $labels, help: $help };
        )*

        /// All of them, in the order of this file.
        pub const ALL: &[$crate::metric::Metric] = &[$($id),*];
    };
}
