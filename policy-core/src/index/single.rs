//! One match, compiled apart from the tables of routes: those of exemptions, and those that come before
//! all routes. They are few and tried in order.

use crate::decision::RuleId;
use crate::index::automaton::{CompiledRegex, RegexCompiler};
use crate::index::request_predicates::RequestPredicates;
use crate::match_result::MatchResult;
use crate::matching::{PathPattern, RequestMatch};
use crate::policy::PathHandling;
use crate::request::RequestView;
use std::sync::Arc;

/// A match.
#[derive(Debug)]
pub(crate) struct CompiledMatch {
    path: Path,
    wanted: RequestPredicates,
}

#[derive(Debug)]
enum Path {
    Pattern(PathPattern),
    Regex(Arc<CompiledRegex>),
}

impl CompiledMatch {
    /// Compiles a match of the rule `id`, for a port that handles paths so.
    pub(crate) fn new(
        request: &RequestMatch,
        id: RuleId,
        paths: PathHandling,
        compiler: &mut RegexCompiler,
    ) -> Self {
        let request = request.on_port(paths);
        let path = match &request.path {
            PathPattern::Regex(pattern) => Path::Regex(compiler.single(pattern)),
            PathPattern::Segments { .. } => Path::Pattern(request.path.clone()),
        };
        Self { path, wanted: RequestPredicates::new(&request, id, compiler) }
    }

    /// The rule that it belongs to.
    pub(crate) fn id(&self) -> RuleId {
        self.wanted.id
    }

    /// Evaluates a request, whose path is in match form.
    pub(crate) fn evaluate(&self, request: &RequestView<'_>) -> MatchResult {
        let path = match &self.path {
            Path::Pattern(pattern) => pattern.admits(request.path),
            Path::Regex(single) => single.matches(request.path),
        };
        if path { self.wanted.evaluate(request) } else { MatchResult::NoMatch }
    }
}
