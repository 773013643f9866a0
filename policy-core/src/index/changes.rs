//! The index of a policy that differs in few routes from one that is indexed already: the old
//! index, the set of removed routes, and a small overlay of inserted routes.
//!
//! Every match has a rank, its place in the order of precedence of all of them. The old index
//! leaves gaps between ranks, so that inserted matches fit between existing ones.

use crate::change::ListDiff;
use crate::decision::{Denied, RuleId};
use crate::index::automaton::RegexCompiler;
use crate::index::bounds::BuildError;
use crate::index::candidates::NONE;
use crate::index::routes::{LayeredRoutes, MatchEntry, RouteList, RouteMatch, Routes};
use crate::index::unreadable::UnreadableRoute;
use crate::index::{at, next_id};
use crate::matching::RequestMatch;
use crate::policy::{Route, RouteTable, ServerPolicy, Unmatched};
use crate::precedence::Precedence;
use crate::request::RequestView;
use std::sync::Arc;

/// All routes of a policy.
#[derive(Debug)]
pub(crate) struct RouteIndex {
    base: Arc<Base>,
    overlay: Option<Overlay>,
}

/// The last policy that was indexed as a whole.
#[derive(Debug)]
struct Base {
    policy: Arc<ServerPolicy>,
    routes: Routes,
    /// The numbers of the matches by rank.
    sorted: Box<[u32]>,
    /// The room between two ranks.
    gap: u32,
    /// The routes that come before all others.
    unreadable: Box<[UnreadableRoute]>,
}

/// The difference to the [`Base`].
#[derive(Debug)]
struct Overlay {
    routes: Routes,
    /// Current indices of the routes of the base, then of the inserted routes.
    places: Box<[u32]>,
    /// The inserted routes that come before all others.
    unreadable: Box<[UnreadableRoute]>,
    /// The difference of the routes to those of the base.
    since: ListDiff,
}

impl RouteIndex {
    /// Indexes all routes of `policy`.
    pub(crate) fn new(
        policy: &Arc<ServerPolicy>,
        compiler: &mut RegexCompiler,
    ) -> Result<Self, BuildError> {
        let RouteTable { routes: table, hosts, otherwise } = &policy.routes;
        let paths = policy.paths;
        let (mut routes, mut unreadable) = (Vec::with_capacity(table.len()), Vec::new());
        for (number, route) in table.iter().enumerate() {
            let number = next_id(number, "route table")?;
            if route.origin.comes_first() {
                unreadable.push(UnreadableRoute::new(number, route, paths, compiler)?);
            } else {
                routes.push((number, &**route));
            }
        }
        let otherwise = *otherwise;
        let listed = RouteList { routes: &routes, hosts, otherwise, all_hosts: true, paths };
        let (mut sorted, mut gap) = (Vec::new(), 1);
        let rank = |matches: &[MatchEntry<'_>]| {
            let count = u32::try_from(matches.len()).unwrap_or(u32::MAX);
            gap = u32::MAX.checked_div(count.saturating_add(2)).unwrap_or(1).max(1);
            sorted = (0..count).collect();
            // Stable: what ties stays in the order of the list.
            sorted.sort_by(|a, b| {
                let precedence = |wanted: &u32| at(matches, *wanted).map(|one| &one.precedence);
                precedence(a).cmp(&precedence(b))
            });
            let mut ranks = vec![0; matches.len()];
            for (wanted, rank) in sorted.iter().zip(1_u32..) {
                let wanted = usize::try_from(*wanted).ok();
                if let Some(own) = wanted.and_then(|wanted| ranks.get_mut(wanted)) {
                    *own = rank.saturating_mul(gap);
                }
            }
            ranks
        };
        let routes = Routes::build(listed, rank, compiler)?;
        let policy = Arc::clone(policy);
        let unreadable = unreadable.into();
        let base = Base { policy, routes, sorted: sorted.into(), gap, unreadable };
        Ok(Self { base: Arc::new(base), overlay: None })
    }

    /// Returns the index of `table`, derived from this one by `change`. `None` if they have too
    /// little in common. Both must handle paths alike.
    pub(crate) fn changed_to(
        &self,
        table: &RouteTable,
        change: &ListDiff,
    ) -> Result<Option<Self>, BuildError> {
        let base = &self.base;
        let old = &base.policy.routes;
        if old.hosts != table.hosts || old.otherwise != table.otherwise {
            return Ok(None);
        }
        let since = match &self.overlay {
            Some(overlay) => overlay.since.then(change),
            None => Some(change.clone()),
        };
        let lengths = (old.routes.len(), table.routes.len());
        let Some(since) = since.filter(|since| since.fit(lengths.0, lengths.1)) else {
            return Ok(None);
        };
        if since.is_empty() {
            return Ok(Some(Self { base: Arc::clone(base), overlay: None }));
        }
        let gone = since.removed().iter().filter_map(|place| old.routes.get(*place));
        let fresh = since.inserted().iter().filter_map(|place| table.routes.get(*place));
        let has_unreadable =
            !base.unreadable.is_empty() || fresh.clone().any(|route| route.origin.comes_first());
        let of_trees = Unmatched::Deny(Denied::NotDelegated);
        let has_trees = || table.hosts.values().any(|unmatched| *unmatched == of_trees);
        if has_unreadable && has_trees() && gone.chain(fresh).any(|one| changes_tables(one, table))
        {
            return Ok(None);
        }
        let first = next_id(old.routes.len(), "route table")?;
        let mut places = kept_places(&since, lengths)?;
        let RouteTable { hosts, otherwise, .. } = table;
        let (otherwise, paths) = (*otherwise, base.policy.paths);
        let mut compiler = RegexCompiler::default();
        let (mut anchors, mut routes, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        for place in since.inserted() {
            let number = next_id(places.len(), "route table")?;
            places.push(next_id(*place, "route table")?);
            anchors.push(next_id(since.anchor(*place), "route table")?);
            let Some(route) = table.routes.get(*place) else { continue };
            if route.origin.comes_first() {
                unreadable.push(UnreadableRoute::new(number, route, paths, &mut compiler)?);
            } else {
                routes.push((number, &**route));
            }
        }
        let listed = RouteList { routes: &routes, hosts, otherwise, all_hosts: false, paths };
        let mut room = true;
        let rank = |matches: &[MatchEntry<'_>]| {
            let ranks = base.ranks(matches, first, &anchors);
            room = ranks.is_some();
            ranks.unwrap_or_default()
        };
        let routes = Routes::build(listed, rank, &mut compiler)?;
        let (places, unreadable) = (places.into(), unreadable.into());
        let overlay = Overlay { routes, places, unreadable, since };
        Ok(room.then(|| Self { base: Arc::clone(base), overlay: Some(overlay) }))
    }

    /// Returns the result of the routes for `request`.
    pub(crate) fn find(&self, request: &RequestView<'_>) -> RouteMatch {
        if let Some(id) = self.unreadable(request) {
            return RouteMatch::Rule(id);
        }
        let base = &self.base.routes;
        let overlay = self.overlay.as_ref().map(|overlay| (&overlay.routes, &*overlay.places));
        LayeredRoutes { base, overlay }.find(request)
    }

    /// Returns the first rule of a route that comes before all others, and that denies `request`.
    fn unreadable(&self, request: &RequestView<'_>) -> Option<RuleId> {
        let (own, overlay) = (&*self.base.unreadable, self.overlay.as_ref());
        let fresh = overlay.map_or(&[][..], |overlay| &overlay.unreadable);
        if (own.is_empty() && fresh.is_empty()) || self.base.routes.is_closed(request.host) {
            return None;
        }
        let current = |number: u32| match overlay {
            Some(overlay) => at(&overlay.places, number).copied().filter(|place| *place != NONE),
            None => Some(number),
        };
        // Those that are kept are in their order, and so are those that are inserted.
        let first = |routes: &[UnreadableRoute]| {
            let mut present = routes.iter().filter_map(|one| Some((one, current(one.number())?)));
            present.find_map(|(one, route)| Some(RuleId { route, ..one.find(request)? }))
        };
        first(own).into_iter().chain(first(fresh)).min_by_key(|id| id.route)
    }

    /// The policy that was indexed as a whole.
    pub(crate) fn base(&self) -> &Arc<ServerPolicy> {
        &self.base.policy
    }

    /// Returns the difference to the routes of [`RouteIndex::base`]; absent if there is none.
    pub(crate) fn since(&self) -> Option<&ListDiff> {
        self.overlay.as_ref().map(|overlay| &overlay.since)
    }
}

/// Returns true if a host has a table for the sake of the route alone: with it or without it, another
/// table may be the one that says whether a host belongs to trees (see [`Routes::is_closed`]).
fn changes_tables(route: &Route, table: &RouteTable) -> bool {
    !route.origin.comes_first() && route.hosts.iter().any(|host| !table.hosts.contains_key(host))
}

/// Returns the current index of each route of a base, [`NONE`] if it is removed. `lengths` are
/// those of the base's list and of the new one.
fn kept_places(since: &ListDiff, lengths: (usize, usize)) -> Result<Vec<u32>, BuildError> {
    next_id(lengths.0.max(lengths.1), "route table")?;
    let mut places = Vec::with_capacity(lengths.0.saturating_add(since.inserted().len()));
    let (mut gone, mut fresh) = (since.removed().iter(), since.inserted().iter());
    let (mut next_gone, mut next_fresh) = (gone.next(), fresh.next());
    let mut place = 0_u32;
    for slot in 0..lengths.0 {
        if next_gone == Some(&slot) {
            next_gone = gone.next();
            places.push(NONE);
            continue;
        }
        while next_fresh.is_some_and(|fresh| u32::try_from(*fresh) == Ok(place)) {
            next_fresh = fresh.next();
            place = place.saturating_add(1);
        }
        places.push(place);
        place = place.saturating_add(1);
    }
    Ok(places)
}

impl Base {
    /// Returns the ranks of matches of inserted routes, whose numbers begin at `first`; `None` if a
    /// gap is exhausted. `anchors` is the number of routes of the base that each inserted one
    /// follows.
    fn ranks(&self, matches: &[MatchEntry<'_>], first: u32, anchors: &[u32]) -> Option<Vec<u32>> {
        // Sorted by position in the base, then by precedence, then by order of the list.
        let mut order = Vec::with_capacity(matches.len());
        for (wanted, one) in matches.iter().enumerate() {
            let anchor = at(anchors, one.id.route.checked_sub(first)?)?;
            let before = self
                .sorted
                .partition_point(|other| self.precedes(*other, &one.precedence, *anchor));
            order.push((before, &one.precedence, wanted));
        }
        order.sort();
        let mut ranks = vec![0; matches.len()];
        let (mut last, mut inside) = (None, 0_u32);
        for (before, _, wanted) in order {
            inside = if last == Some(before) { inside.checked_add(1)? } else { 1 };
            last = Some(before);
            let start = u32::try_from(before).ok()?.checked_mul(self.gap)?;
            *ranks.get_mut(wanted)? = start.checked_add(inside).filter(|_| inside < self.gap)?;
        }
        Some(ranks)
    }

    /// Returns true if a match of the base precedes one of this precedence whose route follows
    /// `anchor` routes of the base.
    fn precedes(&self, wanted: u32, precedence: &Precedence, anchor: u32) -> bool {
        let own = self.id(wanted).and_then(|id| Some((self.precedence(wanted, id)?, id.route)));
        own.is_some_and(|(own, route)| (&own, route >= anchor) < (precedence, true))
    }

    fn id(&self, wanted: u32) -> Option<RuleId> {
        at(self.routes.wanted(), wanted).map(|wanted| wanted.id)
    }

    fn precedence(&self, wanted: u32, id: RuleId) -> Option<Precedence> {
        let rule = at(&at(&self.policy.routes.routes, id.route)?.rules, id.rule)?;
        // The matches of a rule have numbers in a row.
        let alike = (1..).take_while(|back| {
            wanted.checked_sub(*back).and_then(|other| self.id(other)) == Some(id)
        });
        let number = alike.last().unwrap_or(0_u32);
        let everything = RequestMatch::everything();
        Some(Precedence::of(at(&rule.matches, number).unwrap_or(&everything)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::PathPattern;
    use crate::name::Origin;
    use crate::testing::{self, OwnedRequest};

    fn table(routes: &[&Arc<Route>]) -> Arc<ServerPolicy> {
        let mut policy = testing::policy();
        policy.routes.routes = routes.iter().copied().cloned().collect();
        Arc::new(policy)
    }

    fn route(name: &str, path: &str) -> Arc<Route> {
        let path = PathPattern::prefix(path);
        Arc::new(testing::route(name, vec![RequestMatch::path(path)]))
    }

    fn unreadable(name: &str, path: &str) -> Arc<Route> {
        let origin = Origin::Unreadable(testing::object("HTTPRoute", name));
        Arc::new(Route { origin, ..Route::clone(&route(name, path)) })
    }

    /// The number of the route that decides about a path.
    fn found(index: &RouteIndex, path: &str) -> Option<u32> {
        match index.find(&OwnedRequest::get(path).view()) {
            RouteMatch::Rule(id) => Some(id.route),
            RouteMatch::Indeterminate(_) | RouteMatch::Server | RouteMatch::Deny(_) => None,
        }
    }

    #[test]
    fn a_change_beside_a_route_that_cannot_be_read_leaves_the_others_as_they_are() {
        let (a, b, c) = (route("a", "/a"), route("b", "/b"), route("c", "/c"));
        let (x, y) = (unreadable("x", "/x"), unreadable("y", "/"));
        let first = table(&[&a, &x, &b]);
        let index = RouteIndex::new(&first, &mut RegexCompiler::default()).unwrap();
        let change = |index: &RouteIndex, before: usize, kept: &[Option<usize>], after| {
            let mut diff = ListDiff::builder(before);
            for place in kept {
                match place {
                    Some(place) => diff.retain(*place),
                    None => diff.insert(),
                }
            }
            let after: Arc<ServerPolicy> = after;
            let diff = diff.finish().unwrap();
            let index = index.changed_to(&after.routes, &diff).unwrap().unwrap();
            assert!(Arc::ptr_eq(index.base(), &first));
            index
        };
        let more = change(&index, 3, &[None, Some(0), Some(1), Some(2)], table(&[&c, &a, &x, &b]));
        assert_eq!(["/a", "/x", "/b", "/c"].map(|path| found(&more, path)), [1, 2, 3, 0].map(Some));
        let less = change(&more, 4, &[Some(1), Some(3)], table(&[&a, &b]));
        assert_eq!(["/a", "/x", "/b"].map(|path| found(&less, path)), [Some(0), None, Some(1)]);
        let all = change(&less, 2, &[None, Some(0), None, Some(1)], table(&[&y, &a, &x, &b]));
        assert_eq!(["/a", "/x", "/b", "/c"].map(|path| found(&all, path)), [Some(0); 4]);
    }
}
