//! Differences between the rules that our proxies and Linkerd's pick.

use policy_crds::ObjectKey;
use std::fmt;
use std::sync::Arc;

/// The differences among the routes of a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PrecedenceDifferencesOf(pub(crate) ObjectKey);

/// See [`PrecedenceDifferencesOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PrecedenceDifferences {
    /// Pairs of rules, each once.
    pub(crate) found: Vec<PrecedenceDifference>,
    /// True if the search stopped early, so that there may be more.
    pub(crate) cut: bool,
}

/// Two rules of which our proxies and Linkerd's pick different ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrecedenceDifference {
    /// The rule that our proxies pick.
    pub(crate) ours: RuleRef,
    /// The rule that Linkerd's proxies pick.
    pub(crate) linkerds: RuleRef,
    /// A path that both match.
    pub(crate) path: Arc<str>,
}

/// A rule of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleRef {
    /// The route.
    pub(crate) name: Arc<str>,
    /// The number of the rule.
    pub(crate) rule: usize,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} spec.rules[{}]", self.name, self.rule)
    }
}

impl fmt::Display for PrecedenceDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, linkerds, path } = self;
        write!(
            f,
            "requests like `{path}` that both {ours} and {linkerds} match belong to {ours}, but to \
             {linkerds} in Linkerd's proxies, which order by length, headers, query parameters, method"
        )
    }
}
