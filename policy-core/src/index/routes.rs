//! Route tables: by host, and inside a host's table by path.

use super::bounds::BuildError;
use crate::decision::{Denied, RuleId};
use crate::index::automaton::{Group, Workshop};
use crate::index::candidates::{Best, Candidate, List, Trial};
use crate::index::names::Names;
use crate::index::trie::Trie;
use crate::index::wanted::Wanted;
use crate::index::{at, next_id};
use crate::judge::Judgement;
use crate::matching::{HostPattern, PathPattern, RequestMatch};
use crate::naive::Precedence;
use crate::pattern::Pattern;
use crate::policy::{RouteTable, Unmatched};
use crate::request::RequestView;
use std::collections::{BTreeMap, HashMap};

/// What the routes say about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This rule.
    Rule(RuleId),
    /// Whether this rule matches cannot be told.
    CannotTell(RuleId),
    /// No rule; the Server's authorizations decide.
    Server,
    /// No rule; refused.
    Deny(Denied),
}

/// All routes of a policy.
#[derive(Debug)]
pub(crate) struct Routes {
    wanted: Vec<Wanted>,
    trie: Trie,
    lists: Vec<List>,
    arrangements: Vec<Arrangement>,
    exact: Names<Table>,
    suffix: Names<Table>,
    hostless: Table,
}

/// The table of one host.
#[derive(Clone, Copy, Debug)]
struct Table {
    arrangement: u32,
    unmatched: Unmatched,
}

/// The routes of a table; tables with the same routes share one.
#[derive(Debug)]
struct Arrangement {
    root: u32,
    groups: Vec<Group>,
    /// The list of each expression, by its number in the groups.
    expressions: Vec<u32>,
    /// The best rank of any expression.
    best_expression: u32,
}

impl Routes {
    pub(crate) fn build(table: &RouteTable, workshop: &mut Workshop) -> Result<Self, BuildError> {
        let mut draft = Draft::new(table, workshop)?;
        let mut of_host: BTreeMap<Option<&HostPattern>, Vec<u32>> =
            table.hosts.keys().map(|host| (Some(host), Vec::new())).collect();
        of_host.insert(None, Vec::new());
        for (number, route) in table.routes.iter().enumerate() {
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
        let (mut exact, mut suffix) = (Names::default(), Names::default());
        let mut hostless = Table { arrangement: 0, unmatched: table.otherwise };
        for (host, routes) in of_host {
            let arrangement = draft.arrange(routes, workshop)?;
            let Some(host) = host else {
                hostless.arrangement = arrangement;
                continue;
            };
            let unmatched = table.hosts.get(host).copied().unwrap_or(Unmatched::FallThrough);
            let entry = Table { arrangement, unmatched };
            match host {
                HostPattern::Exact(name) => exact.entry(name, || entry),
                HostPattern::Suffix(name) => suffix.entry(name, || entry),
            };
        }
        Ok(draft.finish(exact, suffix, hostless))
    }

    /// What the routes say about `request`.
    pub(crate) fn find(&self, request: &RequestView<'_>) -> Found {
        if let Some(host) = request.host {
            let named = self.exact.get(host).into_iter().chain(self.suffix.suffixes(host));
            for table in named {
                if let Some(found) = self.ask(table, request) {
                    return found;
                }
            }
        }
        self.ask(&self.hostless, request).unwrap_or(Found::Deny(Denied::NoRoute))
    }

    fn ask(&self, table: &Table, request: &RequestView<'_>) -> Option<Found> {
        let arrangement = at(&self.arrangements, table.arrangement)?;
        let mut best = Best::none();
        let trial = Trial { request, wanted: &self.wanted, lists: &self.lists };
        match request.path.strip_prefix('/') {
            Some(path) => {
                self.trie.find(arrangement.root, Some(path), trial, &mut best);
            }
            None => {
                if let Some(list) = self.trie.everything(arrangement.root, &self.lists) {
                    list.find(trial, &mut best);
                }
            }
        }
        if arrangement.best_expression < best.rank {
            for group in &arrangement.groups {
                group.each_match(request.path, |number| {
                    let list = at(&arrangement.expressions, number);
                    if let Some(list) = list.and_then(|list| at(&self.lists, *list)) {
                        list.find(trial, &mut best);
                    }
                });
            }
        }
        if let Some((wanted, judgement)) = best.found
            && let Some(wanted) = at(&self.wanted, wanted)
        {
            return Some(match judgement {
                Judgement::Matches => Found::Rule(wanted.id),
                Judgement::CannotTell | Judgement::Differs => Found::CannotTell(wanted.id),
            });
        }
        match table.unmatched {
            Unmatched::DefaultRoute => Some(Found::Server),
            Unmatched::NotFound => Some(Found::Deny(Denied::NoRoute)),
            Unmatched::Deny(reason) => Some(Found::Deny(reason)),
            Unmatched::FallThrough => None,
        }
    }
}

/// Tables while they are being built.
struct Draft<'a> {
    /// The precedence and path of each match.
    matches: Vec<(Precedence, &'a PathPattern)>,
    wanted: Vec<Wanted>,
    /// The numbers of the matches of each route.
    of_route: Vec<std::ops::Range<u32>>,
    trie: Trie,
    lists: Vec<Vec<Candidate>>,
    arrangements: Vec<Arrangement>,
    known: HashMap<Vec<u32>, u32>,
}

/// The path of a rule without matches.
static EVERY_PATH: PathPattern = PathPattern::Segments { segments: Vec::new(), rest: true };

impl<'a> Draft<'a> {
    fn new(table: &'a RouteTable, workshop: &mut Workshop) -> Result<Self, BuildError> {
        let mut matches = Vec::new();
        let mut wanted = Vec::new();
        let mut of_route = Vec::with_capacity(table.routes.len());
        let everything = RequestMatch::everything();
        for (route, entry) in table.routes.iter().enumerate() {
            let route = next_id(route, "route table")?;
            let start = next_id(wanted.len(), "list of matches")?;
            for (rule, entry) in entry.rules.iter().enumerate() {
                let id = RuleId { route, rule: next_id(rule, "route")? };
                if entry.matches.is_empty() {
                    matches.push((Precedence::of(&everything), &EVERY_PATH));
                    wanted.push(Wanted::new(&everything, id, workshop));
                }
                for one in &entry.matches {
                    matches.push((Precedence::of(one), &one.path));
                    wanted.push(Wanted::new(one, id, workshop));
                }
            }
            of_route.push(start..next_id(wanted.len(), "list of matches")?);
        }
        Ok(Self {
            matches,
            wanted,
            of_route,
            trie: Trie::default(),
            lists: Vec::new(),
            arrangements: Vec::new(),
            known: HashMap::new(),
        })
    }

    fn arrange(&mut self, routes: Vec<u32>, workshop: &mut Workshop) -> Result<u32, BuildError> {
        if let Some(known) = self.known.get(&routes) {
            return Ok(*known);
        }
        let mut ordered: Vec<u32> = routes
            .iter()
            .filter_map(|route| at(&self.of_route, *route))
            .cloned()
            .flatten()
            .collect();
        // Stable: what ties stays in the order of the list.
        ordered.sort_by(|a, b| {
            let rank = |id: &u32| at(&self.matches, *id).map(|(precedence, _)| precedence);
            rank(a).cmp(&rank(b))
        });
        let root = self.trie.root()?;
        let mut expressions: Vec<(Pattern, u32)> = Vec::new();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut best_expression = u32::MAX;
        for (rank, wanted) in ordered.into_iter().enumerate() {
            let rank = next_id(rank, "host table")?;
            let Some((_, path)) = at(&self.matches, wanted) else { continue };
            let new = next_id(self.lists.len(), "path table")?;
            let list = match path {
                PathPattern::Segments { segments, rest } => {
                    self.trie.list(root, (segments, *rest), rank, new)?
                }
                PathPattern::Regex(pattern) => {
                    best_expression = best_expression.min(rank);
                    *numbers.entry(pattern.source()).or_insert_with(|| {
                        expressions.push((pattern.clone(), new));
                        new
                    })
                }
            };
            if list == new {
                self.lists.push(Vec::new());
            }
            if let Some(list) = usize::try_from(list).ok().and_then(|at| self.lists.get_mut(at)) {
                list.push(Candidate { rank, wanted });
            }
        }
        let (patterns, expressions): (Vec<_>, Vec<_>) = expressions.into_iter().unzip();
        let groups = workshop.many(&patterns);
        let arrangement = Arrangement { root, groups, expressions, best_expression };
        let id = next_id(self.arrangements.len(), "list of host tables")?;
        self.arrangements.push(arrangement);
        self.known.insert(routes, id);
        Ok(id)
    }

    fn finish(mut self, exact: Names<Table>, suffix: Names<Table>, hostless: Table) -> Routes {
        self.trie.shrink();
        self.wanted.shrink_to_fit();
        let wanted = self.wanted;
        let lists = self.lists.into_iter().map(|list| List::new(list, &wanted)).collect();
        Routes {
            wanted,
            trie: self.trie,
            lists,
            arrangements: self.arrangements,
            exact,
            suffix,
            hostless,
        }
    }
}
