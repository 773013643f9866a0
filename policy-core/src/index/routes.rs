//! Route tables: by host, and inside a host's table by path.

use super::bounds::BuildError;
use crate::compact_list::OneOrMany;
use crate::decision::{Denied, RuleId};
use crate::index::automaton::{RegexCompiler, RegexSet};
use crate::index::candidates::{Best, Candidate, List, MatchContext, Slot};
use crate::index::name_table::{NameTable, suffixes};
use crate::index::request_predicates::RequestPredicates;
use crate::index::trie::Trie;
use crate::index::{at, next_id};
use crate::match_result::MatchResult;
use crate::matching::{HostPattern, PathPattern, RequestMatch};
use crate::pattern::Pattern;
use crate::policy::{PathHandling, Route, Unmatched};
use crate::precedence::Precedence;
use crate::request::RequestView;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The result of the route tables for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteMatch {
    /// This rule.
    Rule(RuleId),
    /// The match of this rule is indeterminate.
    Indeterminate(RuleId),
    /// No rule; the Server's authorizations decide.
    Server,
    /// No rule; refused.
    Deny(Denied),
}

/// An index of routes.
#[derive(Debug)]
pub(crate) struct Routes {
    wanted: Vec<RequestPredicates>,
    /// The rank of each match.
    ranks: Box<[u32]>,
    trie: Trie,
    lists: Box<[List]>,
    route_sets: Vec<RouteSet>,
    exact: NameTable<HostTable>,
    suffix: NameTable<HostTable>,
    hostless: HostTable,
}

/// The table of one host.
#[derive(Clone, Copy, Debug)]
struct HostTable {
    route_set: u32,
    unmatched: Unmatched,
}

/// The routes of a table; tables with the same routes share one.
#[derive(Debug)]
struct RouteSet {
    root: u32,
    groups: Vec<RegexSet>,
    /// The matches of each expression, by its number in the groups.
    expressions: Box<[Slot]>,
    /// The best rank of any expression.
    best_expression: u32,
}

/// Routes that are to be indexed.
#[derive(Clone, Copy)]
pub(crate) struct RouteList<'a> {
    /// The routes, and the number that each is known by.
    pub(crate) routes: &'a [(u32, &'a Route)],
    /// The result of each host if none of its rules matches.
    pub(crate) hosts: &'a BTreeMap<HostPattern, Unmatched>,
    /// The result if nothing matches at all.
    pub(crate) otherwise: Unmatched,
    /// True if hosts without a route get a table too.
    pub(crate) all_hosts: bool,
    /// The form in which paths are compared.
    pub(crate) paths: PathHandling,
}

impl Routes {
    /// Arranges `listed`. `rank` gives each match its place in the order of precedence.
    pub(crate) fn build<'a>(
        listed: RouteList<'a>,
        rank: impl FnOnce(&[MatchEntry<'a>]) -> Vec<u32>,
        compiler: &mut RegexCompiler,
    ) -> Result<Self, BuildError> {
        let mut draft = RoutesBuilder::new(listed, rank, compiler)?;
        let mut of_host: BTreeMap<Option<&HostPattern>, Vec<u32>> = BTreeMap::new();
        if listed.all_hosts {
            of_host.extend(listed.hosts.keys().map(|host| (Some(host), Vec::new())));
        }
        of_host.insert(None, Vec::new());
        for (number, (_, route)) in listed.routes.iter().enumerate() {
            let number = next_id(number, "route table")?;
            let hosts = route.hosts.iter().map(Some);
            let none = if route.hosts.is_empty() { Some(None) } else { None };
            for host in hosts.chain(none) {
                let routes = of_host.entry(host).or_default();
                if routes.last() != Some(&number) {
                    routes.push(number);
                }
            }
        }
        let (mut exact, mut suffix) = (NameTable::default(), NameTable::default());
        let mut hostless = HostTable { route_set: 0, unmatched: listed.otherwise };
        for (host, routes) in of_host {
            let route_set = draft.route_set(routes, compiler)?;
            let Some(host) = host else {
                hostless.route_set = route_set;
                continue;
            };
            let unmatched = listed.hosts.get(host).copied().unwrap_or(Unmatched::FallThrough);
            let entry = HostTable { route_set, unmatched };
            match host {
                HostPattern::Exact(name) => exact.entry(name, || entry),
                HostPattern::Suffix(name) => suffix.entry(name, || entry),
            };
        }
        Ok(draft.finish(exact, suffix, hostless))
    }

    /// The matches, in the order in which they were listed.
    pub(crate) fn wanted(&self) -> &[RequestPredicates] {
        &self.wanted
    }

    /// Returns true if the most specific table that names `host` denies as `not_delegated` what none of its
    /// routes matches. Such a host belongs to the trees of routes in its table.
    pub(crate) fn is_closed(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return false };
        let exact = self.exact.get(host);
        let table = exact.or_else(|| suffixes(host).find_map(|suffix| self.suffix.get(suffix)));
        table.is_some_and(|table| table.unmatched == Unmatched::Deny(Denied::NotDelegated))
    }

    /// Looks for the best match in `table`. `places`: as in [`MatchContext`].
    fn search(
        &self,
        table: &HostTable,
        request: &RequestView<'_>,
        places: Option<&[u32]>,
        best: &mut Best,
    ) {
        let Some(route_set) = at(&self.route_sets, table.route_set) else { return };
        let Self { wanted, ranks, lists, .. } = self;
        let context = MatchContext { request, wanted, ranks, lists, places };
        match request.path.strip_prefix('/') {
            Some(path) => {
                self.trie.find(route_set.root, Some(path), context, best);
            }
            None => context.check(self.trie.everything(route_set.root), best),
        }
        if route_set.best_expression < best.rank {
            for group in &route_set.groups {
                group.each_match(request.path, |number| {
                    if let Some(slot) = at(&route_set.expressions, number) {
                        context.check(*slot, best);
                    }
                });
            }
        }
    }
}

/// An index, and routes that have changed since it was made.
#[derive(Clone, Copy)]
pub(crate) struct LayeredRoutes<'a> {
    pub(crate) base: &'a Routes,
    pub(crate) overlay: Option<(&'a Routes, &'a [u32])>,
}

impl<'a> LayeredRoutes<'a> {
    /// Returns the result of the routes for `request`.
    pub(crate) fn find(self, request: &RequestView<'_>) -> RouteMatch {
        if let Some(host) = request.host {
            if let Some(found) = self.search_host(|routes| routes.exact.get(host), request) {
                return found;
            }
            let named = |routes: &Routes| !routes.suffix.is_empty();
            if named(self.base) || self.overlay.is_some_and(|(routes, _)| named(routes)) {
                for suffix in suffixes(host) {
                    let found = self.search_host(|routes| routes.suffix.get(suffix), request);
                    if let Some(found) = found {
                        return found;
                    }
                }
            }
        }
        let found = self.search_host(|routes| Some(&routes.hostless), request);
        found.unwrap_or(RouteMatch::Deny(Denied::NoRoute))
    }

    /// Searches one host's tables in the base and in the overlay. Both have the same result where
    /// nothing matches.
    fn search_host(
        self,
        table: impl Fn(&'a Routes) -> Option<&'a HostTable>,
        request: &RequestView<'_>,
    ) -> Option<RouteMatch> {
        let mut best = Best::none();
        let own = table(self.base);
        let mut unmatched = own.map(|table| table.unmatched);
        match self.overlay {
            None => self.base.search(own?, request, None, &mut best),
            Some((overlay, places)) => {
                for (routes, table) in [(self.base, own), (overlay, table(overlay))] {
                    if let Some(table) = table {
                        unmatched = Some(table.unmatched);
                        routes.search(table, request, Some(places), &mut best);
                    }
                }
            }
        }
        if let Some((id, judgement)) = best.found {
            return Some(match judgement {
                MatchResult::Match => RouteMatch::Rule(id),
                MatchResult::Indeterminate | MatchResult::NoMatch => RouteMatch::Indeterminate(id),
            });
        }
        match unmatched? {
            Unmatched::DefaultRoute => Some(RouteMatch::Server),
            Unmatched::NotFound => Some(RouteMatch::Deny(Denied::NoRoute)),
            Unmatched::Deny(reason) => Some(RouteMatch::Deny(reason)),
            Unmatched::FallThrough => None,
        }
    }
}

/// A match that is to be indexed.
pub(crate) struct MatchEntry<'a> {
    /// The precedence of the match.
    pub(crate) precedence: Precedence,
    /// Its rule.
    pub(crate) id: RuleId,
    path: Cow<'a, PathPattern>,
}

/// Tables while they are being built.
struct RoutesBuilder<'a> {
    matches: Vec<MatchEntry<'a>>,
    /// The rank of each match.
    ranks: Vec<u32>,
    wanted: Vec<RequestPredicates>,
    /// The numbers of the matches of each route.
    of_route: Vec<std::ops::Range<u32>>,
    trie: Trie,
    /// The matches of each path that has several, in order of rank.
    lists: Vec<Vec<u32>>,
    route_sets: Vec<RouteSet>,
    known: HashMap<Vec<u32>, u32>,
}

/// The path of a rule without matches.
static EVERY_PATH: std::sync::LazyLock<PathPattern> =
    std::sync::LazyLock::new(|| PathPattern::Segments { segments: OneOrMany::new(), rest: true });

impl<'a> RoutesBuilder<'a> {
    fn new(
        listed: RouteList<'a>,
        rank: impl FnOnce(&[MatchEntry<'a>]) -> Vec<u32>,
        compiler: &mut RegexCompiler,
    ) -> Result<Self, BuildError> {
        let mut matches = Vec::with_capacity(listed.routes.len());
        let mut wanted = Vec::with_capacity(listed.routes.len());
        let mut of_route = Vec::with_capacity(listed.routes.len());
        let everything = RequestMatch::everything();
        for (route, entry) in listed.routes {
            let start = next_id(wanted.len(), "list of matches")?;
            for (rule, entry) in entry.rules.iter().enumerate() {
                let id = RuleId { route: *route, rule: next_id(rule, "route")? };
                if entry.matches.is_empty() {
                    let precedence = Precedence::of(&everything);
                    matches.push(MatchEntry { precedence, id, path: Cow::Borrowed(&EVERY_PATH) });
                    wanted.push(RequestPredicates::new(&everything, id, compiler));
                }
                for one in &entry.matches {
                    let precedence = Precedence::of(one);
                    let path = match listed.paths {
                        PathHandling::Canonical => one.path.in_match_form(),
                        PathHandling::Raw => Cow::Borrowed(&one.path),
                    };
                    matches.push(MatchEntry { precedence, id, path });
                    wanted.push(RequestPredicates::new(one, id, compiler));
                }
            }
            of_route.push(start..next_id(wanted.len(), "list of matches")?);
        }
        let ranks = rank(&matches);
        Ok(Self {
            matches,
            ranks,
            wanted,
            of_route,
            trie: Trie::default(),
            lists: Vec::new(),
            route_sets: Vec::new(),
            known: HashMap::new(),
        })
    }

    fn route_set(
        &mut self,
        routes: Vec<u32>,
        compiler: &mut RegexCompiler,
    ) -> Result<u32, BuildError> {
        if let Some(known) = self.known.get(&routes) {
            return Ok(*known);
        }
        let mut ordered: Vec<u32> = routes
            .iter()
            .filter_map(|route| at(&self.of_route, *route))
            .cloned()
            .flatten()
            .collect();
        ordered.sort_unstable_by_key(|wanted| at(&self.ranks, *wanted).copied());
        let root = self.trie.root()?;
        let mut expressions: Vec<(Pattern, Slot)> = Vec::new();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut best_expression = u32::MAX;
        for wanted in ordered {
            let listed = at(&self.matches, wanted).zip(at(&self.ranks, wanted).copied());
            let Some((MatchEntry { path, .. }, rank)) = listed else { continue };
            let slot = match &**path {
                PathPattern::Segments { segments, rest } => {
                    Some(self.trie.slot(root, (segments, *rest), rank)?)
                }
                PathPattern::Regex(pattern) => {
                    best_expression = best_expression.min(rank);
                    let number = *numbers.entry(pattern.source()).or_insert_with(|| {
                        expressions.push((pattern.clone(), Slot::EMPTY));
                        expressions.len().saturating_sub(1)
                    });
                    expressions.get_mut(number).map(|(_, slot)| slot)
                }
            };
            if let Some(slot) = slot {
                slot.add(wanted, &mut self.lists)?;
            }
        }
        let (patterns, expressions): (Vec<_>, Vec<_>) = expressions.into_iter().unzip();
        let groups = compiler.many(&patterns);
        let expressions = expressions.into();
        let route_set = RouteSet { root, groups, expressions, best_expression };
        let id = next_id(self.route_sets.len(), "list of host tables")?;
        self.route_sets.push(route_set);
        self.known.insert(routes, id);
        Ok(id)
    }

    fn finish(
        mut self,
        exact: NameTable<HostTable>,
        suffix: NameTable<HostTable>,
        hostless: HostTable,
    ) -> Routes {
        self.trie.shrink();
        self.wanted.shrink_to_fit();
        let Self { wanted, ranks, lists, .. } = self;
        let candidate = |wanted: &u32| {
            let rank = at(&ranks, *wanted).copied().unwrap_or(u32::MAX);
            Candidate { rank, wanted: *wanted }
        };
        let list = |list: Vec<u32>| List::new(list.iter().map(candidate).collect(), &wanted);
        let lists = lists.into_iter().map(list).collect();
        Routes {
            wanted,
            ranks: ranks.into(),
            trie: self.trie,
            lists,
            route_sets: self.route_sets,
            exact,
            suffix,
            hostless,
        }
    }
}
