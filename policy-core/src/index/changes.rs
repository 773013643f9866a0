//! The index of a policy that differs in few routes from one that is indexed already: the old index,
//! what of it is gone, and a small index of what is new.
//!
//! Every match has a rank, its place in the order of precedence of all of them. The old index leaves
//! room between two ranks, so that what is new finds its place among what is there.

use crate::decision::RuleId;
use crate::index::automaton::Workshop;
use crate::index::bounds::BuildError;
use crate::index::candidates::NONE;
use crate::index::routes::{Both, Found, Listed, Listing, Routes};
use crate::index::{at, next_id};
use crate::matching::RequestMatch;
use crate::policy::{Route, RouteTable, ServerPolicy};
use crate::precedence::Precedence;
use crate::request::RequestView;
use std::sync::Arc;

/// The routes that may differ before everything is indexed anew: twice as much is looked through for
/// each request, and the old index keeps what is gone.
const MOST: usize = 64;

/// All routes of a policy.
#[derive(Debug)]
pub(crate) struct Index {
    base: Arc<Base>,
    changed: Option<Changed>,
}

/// What was indexed as a whole.
#[derive(Debug)]
struct Base {
    policy: Arc<ServerPolicy>,
    routes: Routes,
    /// The numbers of the matches by rank.
    sorted: Box<[u32]>,
    /// The room between two ranks.
    gap: u32,
}

/// What differs from the [`Base`].
#[derive(Debug)]
struct Changed {
    routes: Routes,
    /// Where the routes of the base are, then those that are new.
    places: Box<[u32]>,
}

/// How the routes of a base lie in a new table.
struct Alignment {
    places: Vec<u32>,
    /// The places of routes that are new, each with the number of the base's that come before it.
    fresh: Vec<(u32, u32)>,
}

impl Index {
    /// Indexes all routes of `policy`.
    pub(crate) fn new(
        policy: &Arc<ServerPolicy>,
        workshop: &mut Workshop,
    ) -> Result<Self, BuildError> {
        let RouteTable { routes: table, hosts, otherwise } = &policy.routes;
        let paths = policy.paths;
        let mut routes = Vec::with_capacity(table.len());
        for (number, route) in table.iter().enumerate() {
            routes.push((next_id(number, "route table")?, &**route));
        }
        let otherwise = *otherwise;
        let listed = Listed { routes: &routes, hosts, otherwise, all_hosts: true, paths };
        let (mut sorted, mut gap) = (Vec::new(), 1);
        let rank = |matches: &[Listing<'_>]| {
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
        let routes = Routes::build(listed, rank, workshop)?;
        let policy = Arc::clone(policy);
        let base = Base { policy, routes, sorted: sorted.into(), gap };
        Ok(Self { base: Arc::new(base), changed: None })
    }

    /// The index of `table`, made of this one; `None`: they have too little in common. Both handle
    /// paths alike.
    pub(crate) fn changed_to(&self, table: &RouteTable) -> Result<Option<Self>, BuildError> {
        let base = &self.base;
        let old = &base.policy.routes;
        if old.hosts != table.hosts || old.otherwise != table.otherwise {
            return Ok(None);
        }
        let Some(Alignment { mut places, fresh }) = align(&old.routes, &table.routes)? else {
            return Ok(None);
        };
        let mut routes = Vec::with_capacity(fresh.len());
        for (place, _) in &fresh {
            let number = next_id(places.len(), "route table")?;
            places.push(*place);
            routes.extend(at(&table.routes, *place).map(|route| (number, &**route)));
        }
        let RouteTable { hosts, otherwise, .. } = table;
        let (otherwise, paths) = (*otherwise, base.policy.paths);
        let listed = Listed { routes: &routes, hosts, otherwise, all_hosts: false, paths };
        let mut room = true;
        let first = next_id(old.routes.len(), "route table")?;
        let rank = |matches: &[Listing<'_>]| {
            let ranks = base.ranks(matches, first, &fresh);
            room = ranks.is_some();
            ranks.unwrap_or_default()
        };
        let routes = Routes::build(listed, rank, &mut Workshop::default())?;
        let changed = Changed { routes, places: places.into() };
        Ok(room.then(|| Self { base: Arc::clone(base), changed: Some(changed) }))
    }

    /// What the routes say about `request`.
    pub(crate) fn find(&self, request: &RequestView<'_>) -> Found {
        let changed = self.changed.as_ref().map(|changed| (&changed.routes, &*changed.places));
        Both { base: &self.base.routes, changed }.find(request)
    }

    /// The policy that was indexed as a whole.
    pub(crate) fn base(&self) -> &Arc<ServerPolicy> {
        &self.base.policy
    }

    /// Where each route of [`Index::base`] is now, [`NONE`] where it is gone, and then where those are
    /// that are new; absent: nothing has changed.
    pub(crate) fn places(&self) -> Option<&[u32]> {
        self.changed.as_ref().map(|changed| &*changed.places)
    }
}

impl Base {
    /// The ranks of matches of new routes, whose numbers begin at `first`; none: there is no room.
    fn ranks(&self, matches: &[Listing<'_>], first: u32, fresh: &[(u32, u32)]) -> Option<Vec<u32>> {
        // By what comes before it in the base, then by precedence; in order of the list else.
        let mut order = Vec::with_capacity(matches.len());
        for (wanted, one) in matches.iter().enumerate() {
            let (_, anchor) = at(fresh, one.id.route.checked_sub(first)?)?;
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

    /// Whether a match of the base comes before one of this precedence that stands after `anchor`
    /// routes of it.
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

/// How the routes of `old` lie in `new`, the same ones being told by where they are stored. `None`: too
/// many differ.
fn align(old: &[Arc<Route>], new: &[Arc<Route>]) -> Result<Option<Alignment>, BuildError> {
    let same = |slot: usize, place: usize| {
        old.get(slot).zip(new.get(place)).is_some_and(|(old, new)| Arc::ptr_eq(old, new))
    };
    let mut places = Vec::with_capacity(old.len().saturating_add(MOST));
    let mut fresh = Vec::new();
    let (mut gone, mut place) = (0_usize, 0_usize);
    while place < new.len() {
        let slot = places.len();
        let number = next_id(place, "route table")?;
        if same(slot, place) {
            places.push(number);
            place = place.saturating_add(1);
            continue;
        }
        let ahead = |by: &usize| same(slot.saturating_add(*by), place);
        let missing = (1..=MOST).find(ahead);
        if let Some(missing) = missing {
            gone = gone.saturating_add(missing);
            places.resize(slot.saturating_add(missing), NONE);
        } else {
            fresh.push((number, next_id(slot, "route table")?));
            let added = (1..=MOST).any(|by| same(slot, place.saturating_add(by)));
            place = place.saturating_add(1);
            if slot < old.len() && !added {
                gone = gone.saturating_add(1);
                places.push(NONE);
            }
        }
        if gone > MOST || fresh.len() > MOST {
            return Ok(None);
        }
    }
    gone = gone.saturating_add(old.len().saturating_sub(places.len()));
    places.resize(old.len(), NONE);
    Ok((gone <= MOST).then_some(Alignment { places, fresh }))
}
