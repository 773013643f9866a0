//! Exemptions, compiled.

use crate::authorization::Authorization;
use crate::decision::RuleId;
use crate::index::automaton::RegexCompiler;
use crate::index::single::CompiledMatch;
use crate::match_result::MatchResult;
use crate::matching::RequestMatch;
use crate::policy::{Exemption, PathHandling};
use crate::request::{RequestView, Subject};
use std::sync::Arc;

/// One exemption for requests.
#[derive(Debug)]
pub(crate) struct CompiledExemption {
    /// Its place in the policy.
    pub(crate) index: u32,
    wanted: CompiledMatch,
    pub(crate) authorization: Arc<Authorization>,
}

impl CompiledExemption {
    pub(crate) fn new(
        index: u32,
        exemption: &Exemption,
        request: &RequestMatch,
        (paths, compiler): (PathHandling, &mut RegexCompiler),
    ) -> Self {
        // Exemptions have no rule; the id is never shown.
        let id = RuleId { route: 0, rule: 0 };
        let wanted = CompiledMatch::new(request, id, paths, compiler);
        Self { index, wanted, authorization: exemption.authorization.clone() }
    }

    /// Returns true if it permits this request of `subject`, whose path is in match form.
    pub(crate) fn holds(&self, subject: &Subject<'_>, request: &RequestView<'_>) -> bool {
        self.wanted.evaluate(request) == MatchResult::Match && self.authorization.holds(subject)
    }
}
