//! The routes that come before all others: those of matches that cannot be read.

use crate::decision::RuleId;
use crate::index::automaton::RegexCompiler;
use crate::index::bounds::BuildError;
use crate::index::next_id;
use crate::index::single::CompiledMatch;
use crate::match_result::MatchResult;
use crate::matching::{HostPattern, RequestMatch};
use crate::policy::{PathHandling, Route, Rule};
use crate::request::RequestView;

/// One such route, whose matches are tried in order.
#[derive(Debug)]
pub(crate) struct UnreadableRoute {
    number: u32,
    hosts: Box<[HostPattern]>,
    matches: Box<[CompiledMatch]>,
}

impl UnreadableRoute {
    /// Compiles the route with this number.
    pub(crate) fn new(
        number: u32,
        route: &Route,
        paths: PathHandling,
        compiler: &mut RegexCompiler,
    ) -> Result<Self, BuildError> {
        let everything = [RequestMatch::everything()];
        let mut matches = Vec::new();
        for (place, Rule { matches: wanted, effects: _ }) in route.rules.iter().enumerate() {
            let id = RuleId { route: number, rule: next_id(place, "route")? };
            let wanted = if wanted.is_empty() { &everything[..] } else { wanted };
            let compiled = wanted.iter().map(|one| CompiledMatch::new(one, id, paths, compiler));
            matches.extend(compiled);
        }
        Ok(Self { number, hosts: route.hosts.to_vec().into(), matches: matches.into() })
    }

    /// Returns its number in the index.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the rule whose match the request fulfils, or may fulfil.
    pub(crate) fn find(&self, request: &RequestView<'_>) -> Option<RuleId> {
        let named = |host: &HostPattern| request.host.is_some_and(|own| host.admits(own));
        if !self.hosts.is_empty() && !self.hosts.iter().any(named) {
            return None;
        }
        let mut matches = self.matches.iter();
        let found = matches.find(|wanted| wanted.evaluate(request) != MatchResult::NoMatch)?;
        Some(found.id())
    }
}
