//! Label selectors as Linkerd's controller reads them (docs/spec/controller.md 2.4).

use std::collections::BTreeMap;
use std::sync::Arc;

/// A conjunction over labels. Empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    pub match_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Expressions that must hold.
    pub match_expressions: Vec<Expression>,
}

/// One expression of a [`LabelSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    /// Label key.
    pub key: Arc<str>,
    /// The condition on its value.
    pub operator: Operator,
}

/// The operator of an expression. `In` and `NotIn` have at least one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label is present and has one of these values.
    In(Vec<Arc<str>>),
    /// The label is absent or has none of these values.
    NotIn(Vec<Arc<str>>),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// True if it selects an object with these labels.
    pub fn matches(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|e| e.holds(labels))
    }
}

impl Expression {
    fn holds(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        self.operator.holds(labels.get(&self.key).map(|value| &**value))
    }
}

impl Operator {
    /// True if it holds of the value of a label; absent: there is no such label.
    pub(crate) fn holds(&self, value: Option<&str>) -> bool {
        let named = |values: &[Arc<str>], value: &str| values.iter().any(|own| **own == *value);
        match self {
            Self::In(values) => value.is_some_and(|value| named(values, value)),
            Self::NotIn(values) => value.is_none_or(|value| !named(values, value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}
