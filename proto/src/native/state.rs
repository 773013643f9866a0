//! The client's side: the state of a port. Updates apply as a whole or not at all.
//!
//! Parts that an update does not mention are shared with the state before: a change of one route of
//! ten thousand copies lists of numbers and of pointers, and reads one route.

use super::header;
use super::revision::decode_revision;
use super::update::{NewRoutes, Update, find, missing_key, set};
use crate::error::{At, DecodeError, each, required};
use crate::messages as m;
use policy_core::authorization::{Authorization, AuthorizationSet};
use policy_core::change::{ListDiff, RouteChange};
use policy_core::feature::Feature;
use policy_core::policy::{Route, ServerPolicy};
use policy_core::revision::Revision;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The client's state of one port.
#[derive(Clone, Debug, Default)]
pub struct PortState {
    inner: Option<Arc<State>>,
}

/// The result of an update.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The policy that results: the one before, where the update changed nothing.
    pub policy: Arc<ServerPolicy>,
    /// The difference of its routes to those of the policy before; absent if there is none before,
    /// or too many differ.
    pub change: Option<RouteChange>,
}

/// Error of an update that was not applied. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Its base is not the state here. Request the full state (`Resync`).
    #[error("changes revision {base:016x}, but {} is in force", shown(*.have))]
    Base {
        /// Content of the revision that it changes.
        base: u64,
        /// Content of the revision that is here.
        have: Option<u64>,
    },
    /// It cannot be read or enforced. Answer `Nack`.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

fn shown(have: Option<u64>) -> String {
    have.map_or_else(|| "nothing".to_owned(), |content| format!("{content:016x}"))
}

/// The grants of a state, ascending by key.
type GrantsByKey = [(u64, Arc<Authorization>)];

/// Keys of replaced or removed grants, by the address of the old grant.
type ReplacedGrants = HashMap<usize, u64, foldhash::fast::RandomState>;

/// Route by route as in the policy: `order` holds their keys.
#[derive(Debug, Default)]
struct State {
    header: Option<Arc<m::PortHeader>>,
    grants: Arc<GrantsByKey>,
    server: Arc<[u64]>,
    order: Arc<[u64]>,
    revision: Revision,
    policy: Option<Arc<ServerPolicy>>,
}

impl PortState {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of the last update applied.
    pub fn policy(&self) -> Option<&Arc<ServerPolicy>> {
        self.inner.as_ref().and_then(|state| state.policy.as_ref())
    }

    /// The revision of the last update applied.
    pub fn revision(&self) -> Option<&Revision> {
        self.inner.as_ref().map(|state| &state.revision)
    }

    /// Applies an update and returns the policy that results. Routes that the update does not
    /// mention are shared with the policy before.
    ///
    /// # Errors
    /// [`ApplyError`]; nothing has changed then.
    pub fn apply(&mut self, update: &m::PortUpdate) -> Result<Arc<ServerPolicy>, ApplyError> {
        Ok(self.apply_read(Update::of(update))?.policy)
    }

    /// [`PortState::apply`] for an update that was read piece by piece.
    ///
    /// # Errors
    /// [`ApplyError`]; nothing has changed then.
    pub fn apply_read(&mut self, update: Update) -> Result<Applied, ApplyError> {
        let have = self.inner.as_ref().map(|state| state.revision.content);
        let nothing = State::default();
        let before = match (update.rest.base, &self.inner) {
            (None, _) => &nothing,
            (Some(base), Some(state)) if have == Some(base) => state,
            (Some(base), _) => return Err(ApplyError::Base { base, have }),
        };
        let (state, applied) = before.changed_by(update)?;
        self.inner = Some(Arc::new(state));
        Ok(applied)
    }
}

impl State {
    fn changed_by(&self, mut update: Update) -> Result<(State, Applied), DecodeError> {
        each("required_features", &update.rest.required_features, |name| known(name))?;
        let revision = required("revision", update.rest.revision.as_ref(), decode_revision)?;
        update.finish()?;
        let Update { rest, names, grants, routes, .. } = update;
        let (grants, replaced) = self.pool(&rest, grants);
        let server = match &rest.server_authorizations {
            Some(list) => splice(&self.server, list).at("server_authorizations")?,
            None => Arc::clone(&self.server),
        };
        let order = match &rest.route_order {
            Some(list) => splice(&self.order, list).at("route_order")?,
            None => Arc::clone(&self.order),
        };
        let removed = &rest.removed_routes;
        let (table, places) = self.routes(&order, routes, removed, (&replaced, &grants))?;
        let header = match (rest.header, &self.header) {
            (Some(header), _) => Arc::new(header),
            (None, Some(header)) => Arc::clone(header),
            (None, None) => return Err(DecodeError::missing()).at("header"),
        };
        let own = set(&grants, &server).at("server_authorizations")?;
        let policy = header::policy(&names, &header, (own, table), &grants).at("header")?;
        let change = self.policy.clone().zip(places);
        let change = change.and_then(|(before, places)| RouteChange::new(before, places));
        let policy = match (&change, &self.policy) {
            // Keep the same policy, because later changes refer to it.
            (Some(change), Some(before)) if change.is_empty() && **before == policy => {
                Arc::clone(before)
            }
            (_, _) => Arc::new(policy),
        };
        let (header, held) = (Some(header), Some(Arc::clone(&policy)));
        let state = State { header, grants, server, order, revision, policy: held };
        Ok((state, Applied { policy, change }))
    }

    /// Returns the grants by key, including `fresh`, and the replaced ones.
    fn pool(
        &self,
        rest: &m::PortUpdate,
        fresh: Vec<(u64, Arc<Authorization>)>,
    ) -> (Arc<GrantsByKey>, ReplacedGrants) {
        let removed = &rest.removed_authorizations;
        if fresh.is_empty() && removed.is_empty() {
            return (Arc::clone(&self.grants), ReplacedGrants::default());
        }
        let gone: HashSet<u64> = fresh.iter().map(|(key, _)| key).chain(removed).copied().collect();
        let old = |key: &u64| Some((Arc::as_ptr(find(&self.grants, *key)?).addr(), *key));
        let replaced = gone.iter().filter_map(old).collect();
        if self.grants.is_empty() {
            return (fresh.into(), replaced);
        }
        let kept = self.grants.iter().filter(|(key, _)| !gone.contains(key)).cloned();
        let mut all: Vec<_> = kept.chain(fresh).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        (all.into(), replaced)
    }

    /// Returns the routes in `order`, and the difference to those before.
    fn routes(
        &self,
        order: &Arc<[u64]>,
        mut fresh: NewRoutes,
        removed: &[u64],
        (replaced, grants): (&ReplacedGrants, &GrantsByKey),
    ) -> Result<(Vec<Arc<Route>>, Option<ListDiff>), DecodeError> {
        let same = Arc::ptr_eq(order, &self.order);
        let removed: HashSet<u64> = removed.iter().copied().collect();
        let places = PreviousPositions::new(self, order);
        let mut sets = GrantSets::new(replaced, grants);
        let mut seen = HashSet::with_capacity(if same { 0 } else { order.len() });
        let mut table = Vec::with_capacity(order.len());
        let mut draft = ListDiff::builder(self.order.len());
        let mut kept = 0_usize;
        for (place, key) in order.iter().enumerate() {
            if !same && !seen.insert(*key) {
                return Err(DecodeError::here("names a route twice")).at("route_order");
            }
            let before = || places.before(place, *key);
            if let Some((mut route, waiting)) = fresh.take(*key) {
                if let Some(keys) = waiting {
                    let old = before().and_then(|old| self.route(old));
                    let own = sets.of(keys, old.map(|old| &old.authorizations));
                    Arc::make_mut(&mut route).authorizations = own.at(&grants_path(*key))?;
                }
                draft.insert();
                table.push(route);
                continue;
            }
            let old = before().filter(|_| !removed.contains(key));
            let old = old.ok_or_else(|| missing_key("route", *key)).at("route_order")?;
            kept = kept.saturating_add(1);
            let route = self.route(old).ok_or_else(|| missing_key("route", *key))?;
            table.push(match sets.replacement(&route.authorizations).at(&grants_path(*key))? {
                None => {
                    draft.retain(old);
                    Arc::clone(route)
                }
                Some(authorizations) => {
                    draft.insert();
                    Arc::new(Route { authorizations, ..Route::clone(route) })
                }
            });
        }
        let left = self.order.iter().filter(|key| !removed.contains(key) && !fresh.contains(**key));
        if fresh.left() > 0 || (!same || fresh.any()) && left.clone().count() > kept {
            let placed: HashSet<u64> = order.iter().copied().collect();
            let lost = fresh.keys().chain(left.copied()).find(|key| !placed.contains(key));
            let message = format!("route {:016x} has no place in it", lost.unwrap_or(0));
            return Err(DecodeError::here(message)).at("route_order");
        }
        Ok((table, draft.finish()))
    }

    fn route(&self, place: usize) -> Option<&Arc<Route>> {
        self.policy.as_ref()?.routes.routes.get(place)
    }
}

/// The sets of grants of routes. Those of several grants are shared where they are alike.
struct GrantSets<'a> {
    replaced: &'a ReplacedGrants,
    grants: &'a GrantsByKey,
    /// Replacements of sets of unchanged routes, by the address of the old set.
    became: HashMap<usize, Option<AuthorizationSet>, foldhash::fast::RandomState>,
    /// Sets of new routes, by the keys of their grants.
    made: HashMap<Vec<u64>, AuthorizationSet, foldhash::fast::RandomState>,
}

impl<'a> GrantSets<'a> {
    fn new(replaced: &'a ReplacedGrants, grants: &'a GrantsByKey) -> Self {
        Self { replaced, grants, became: HashMap::default(), made: HashMap::default() }
    }

    /// The set of these keys, for a route that had `old`.
    fn of(
        &mut self,
        keys: Vec<u64>,
        old: Option<&AuthorizationSet>,
    ) -> Result<AuthorizationSet, DecodeError> {
        let new = || set(self.grants, &keys);
        if keys.len() < 2 {
            return new();
        }
        if let Some(known) = self.made.get(&keys) {
            return Ok(known.clone());
        }
        let new = new()?;
        // Equal is not enough: the replacement of a set is found by the addresses of its grants,
        // and grants of another key may be equal to the old ones.
        let alike = |old: &&AuthorizationSet| {
            old.len() == new.len() && old.iter().zip(&*new).all(|(old, new)| Arc::ptr_eq(old, new))
        };
        let new = old.filter(alike).cloned().unwrap_or(new);
        self.made.insert(keys, new.clone());
        Ok(new)
    }

    /// Returns the set that replaces `old`; `None` if it is unchanged.
    fn replacement(
        &mut self,
        old: &AuthorizationSet,
    ) -> Result<Option<AuthorizationSet>, DecodeError> {
        if self.replaced.is_empty() {
            return Ok(None);
        }
        if old.len() < 2 {
            return self.replace(old);
        }
        if let Some(known) = self.became.get(&old.address()) {
            return Ok(known.clone());
        }
        let new = self.replace(old)?;
        self.became.insert(old.address(), new.clone());
        Ok(new)
    }

    fn replace(&self, old: &AuthorizationSet) -> Result<Option<AuthorizationSet>, DecodeError> {
        let key = |grant: &Arc<Authorization>| self.replaced.get(&Arc::as_ptr(grant).addr());
        if old.iter().all(|grant| key(grant).is_none()) {
            return Ok(None);
        }
        let grant = |grant: &Arc<Authorization>| match key(grant) {
            None => Ok(Arc::clone(grant)),
            Some(key) => {
                let new = find(self.grants, *key).map(Arc::clone);
                new.ok_or_else(|| missing_key("authorization", *key))
            }
        };
        let new = old.iter().map(grant).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(new.into()))
    }
}

fn grants_path(route: u64) -> String {
    format!("routes[key {route:016x}].authorizations")
}

/// Lookup of a route's previous index: mostly the same index, counted from the beginning or from
/// the end.
struct PreviousPositions<'a> {
    old: &'a [u64],
    /// Length of the new list less that of the old one, wrapping: the place of a key near the end of
    /// the new list is greater by this than in the old one.
    shift: usize,
    by_key: std::cell::OnceCell<HashMap<u64, usize>>,
}

impl<'a> PreviousPositions<'a> {
    fn new(state: &'a State, order: &[u64]) -> Self {
        let shift = order.len().wrapping_sub(state.order.len());
        Self { old: &state.order, shift, by_key: std::cell::OnceCell::new() }
    }

    fn before(&self, place: usize, key: u64) -> Option<usize> {
        for guess in [place, place.wrapping_sub(self.shift)] {
            if self.old.get(guess) == Some(&key) {
                return Some(guess);
            }
        }
        let all = || self.old.iter().enumerate().map(|(place, key)| (*key, place)).collect();
        self.by_key.get_or_init(all).get(&key).copied()
    }
}

fn known(name: &str) -> Result<Feature, DecodeError> {
    Feature::parse(name)
        .ok_or_else(|| DecodeError::here(format!("feature `{name}` is not known here")))
}

fn splice(old: &[u64], list: &m::KeyList) -> Result<Arc<[u64]>, DecodeError> {
    let m::KeyList { keep_first, keys, keep_last } = list;
    let length = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let (first, last) = (length(*keep_first), length(*keep_last));
    let kept = first.checked_add(last).filter(|kept| *kept <= old.len());
    let head = old.get(..first);
    let tail = old.len().checked_sub(last).and_then(|from| old.get(from..));
    match (kept, head, tail) {
        (Some(_), Some(head), Some(tail)) => Ok([head, keys, tail].concat().into()),
        (_, _, _) => {
            let message = format!("keeps {first} and {last} keys of {}", old.len());
            Err(DecodeError::here(message))
        }
    }
}
