//! Result of publishing the roots, by namespace.

use std::collections::BTreeSet;

/// Result of publishing roots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PublishResult {
    /// Namespaces that have the roots.
    pub(super) namespaces: BTreeSet<String>,
    /// Namespaces whose ConfigMap had other roots and was overwritten: after a change by another
    /// client, or because the roots are new.
    pub(super) restored: Vec<String>,
    /// Namespaces without the roots, and the reason: a rotation waits for them.
    pub(super) pending: Vec<(String, String)>,
    /// Namespaces that refused the roots just now, until [`super::refusals`] says what becomes of
    /// them.
    pub(super) refused: Vec<(String, String)>,
    /// Namespaces that had these roots and refuse them now: a rotation does not wait.
    pub(super) changing: Vec<(String, String)>,
    /// Namespaces that keep refusing the roots: a rotation does not wait.
    pub(super) left_behind: Vec<String>,
}
