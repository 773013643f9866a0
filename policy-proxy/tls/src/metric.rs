//! Declared metrics, and dynamic label sets.

pub use policy_core::metric::Metric;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

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
