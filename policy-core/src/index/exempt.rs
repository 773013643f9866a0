//! Exemptions, compiled. They are few and tried in order.

use crate::authorization::Authorization;
use crate::decision::RuleId;
use crate::index::automaton::{CompiledRegex, RegexCompiler};
use crate::index::request_predicates::RequestPredicates;
use crate::match_result::MatchResult;
use crate::matching::{PathPattern, RequestMatch};
use crate::policy::Exemption;
use crate::request::{RequestView, Subject};
use std::sync::Arc;

/// One exemption for requests.
#[derive(Debug)]
pub(crate) struct CompiledExemption {
    /// Its place in the policy.
    pub(crate) index: u32,
    path: Path,
    wanted: RequestPredicates,
    pub(crate) authorization: Arc<Authorization>,
}

#[derive(Debug)]
enum Path {
    Pattern(PathPattern),
    Regex(Arc<CompiledRegex>),
}

impl CompiledExemption {
    pub(crate) fn new(
        index: u32,
        exemption: &Exemption,
        request: &RequestMatch,
        compiler: &mut RegexCompiler,
    ) -> Self {
        let path = match &request.path {
            PathPattern::Regex(pattern) => Path::Regex(compiler.single(pattern)),
            PathPattern::Segments { .. } => Path::Pattern(request.path.clone()),
        };
        // Exemptions have no rule; the id is never shown.
        let wanted = RequestPredicates::new(request, RuleId { route: 0, rule: 0 }, compiler);
        Self { index, path, wanted, authorization: exemption.authorization.clone() }
    }

    /// Returns true if it permits this request of `subject`, whose path is in match form.
    pub(crate) fn holds(&self, subject: &Subject<'_>, request: &RequestView<'_>) -> bool {
        let path = match &self.path {
            Path::Pattern(pattern) => pattern.admits(request.path),
            Path::Regex(single) => single.matches(request.path),
        };
        path && self.wanted.evaluate(request) == MatchResult::Match
            && self.authorization.holds(subject)
    }
}
