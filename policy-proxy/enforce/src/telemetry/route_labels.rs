//! Labels of routes as metrics show them.

use foldhash::{HashSet, HashSetExt};
use policy_core::{Route, RouteLabel};
use std::sync::Arc;

/// The labels of one policy's routes that metrics show: the first ones of its table, where the
/// oldest routes are, so that a new route does not hide another.
#[derive(Debug)]
pub(super) struct RouteLabels(HashSet<RouteLabel>);

/// Maximum number of different labels of a policy's routes.
pub(super) const MAX_LABELS: usize = 256;
/// Maximum length of a label, in bytes.
pub(super) const MAX_LEN: usize = 256;
/// Stands for all labels beyond the limits.
const OTHER: &str = "other";

impl RouteLabels {
    pub(super) fn of(routes: &[Arc<Route>]) -> Self {
        let mut shown = HashSet::new();
        let labels = routes.iter().filter_map(|route| route.label.as_ref());
        for label in labels.filter(|label| label.as_str().len() <= MAX_LEN) {
            if shown.len() >= MAX_LABELS {
                break;
            }
            shown.insert(label.clone());
        }
        Self(shown)
    }

    /// Returns the label of a route; empty if it has none.
    pub(super) fn text<'a>(&self, route: Option<&'a Route>) -> &'a str {
        match route.and_then(|route| route.label.as_ref()) {
            None => "",
            Some(label) if self.0.contains(label) => label.as_str(),
            Some(_) => OTHER,
        }
    }
}
