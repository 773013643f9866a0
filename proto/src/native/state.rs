//! The client's side: what is in force on a port, changed by updates, each whole or not at all.
//!
//! What an update does not mention is shared with the state before: a change of one route of ten
//! thousand copies lists of numbers and of pointers, and reads one route.

use super::change::{Change, Fresh, Piece};
use super::names::Names;
use super::sets::{Pool, Sets};
use super::{decode_revision, lean, read};
use crate::error::{At, DecodeError, each, required};
use crate::messages as m;
use policy_core::authorization::AuthorizationSet;
use policy_core::feature::Feature;
use policy_core::policy::{Exemption, Route, RouteTable, ServerPolicy};
use policy_core::revision::Revision;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// What a client has of one port.
#[derive(Clone, Debug, Default)]
pub struct PortState {
    inner: Option<Arc<State>>,
}

/// Why an update was not applied. The state is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// It changes something else than what is here. Ask for the full state (`Resync`).
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

/// Route by route as in the policy: `order` holds their keys, `of_route` the numbers of their sets.
#[derive(Debug, Default)]
struct State {
    header: Option<Arc<m::PortHeader>>,
    authorizations: Arc<Pool>,
    server: Arc<[u64]>,
    order: Arc<[u64]>,
    of_route: Box<[u32]>,
    sets: Sets,
    revision: Revision,
    policy: Option<Arc<ServerPolicy>>,
}

/// Routes in order, the number of each one's set of grants, and the sets.
type Table = (Vec<Arc<Route>>, Box<[u32]>, Sets);

impl PortState {
    /// Nothing yet.
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
        self.change(&Change::of(update), &update.authorizations, &update.routes)
    }

    /// [`PortState::apply`] for an update whose routes and grants are still encoded: they are read one
    /// at a time, so that it takes little more room than what it leads to.
    ///
    /// # Errors
    /// [`ApplyError`]; nothing has changed then.
    pub fn apply_encoded(
        &mut self,
        update: &lean::Update,
    ) -> Result<Arc<ServerPolicy>, ApplyError> {
        self.change(&Change::of_encoded(update), &update.authorizations, &update.routes)
    }

    fn change(
        &mut self,
        change: &Change<'_>,
        grants: &[impl Piece<m::Authorization>],
        routes: &[impl Piece<m::Route>],
    ) -> Result<Arc<ServerPolicy>, ApplyError> {
        let have = self.inner.as_ref().map(|state| state.revision.content);
        let nothing = State::default();
        let before = match (change.base, &self.inner) {
            (None, _) => &nothing,
            (Some(base), Some(state)) if have == Some(base) => state,
            (Some(base), _) => return Err(ApplyError::Base { base, have }),
        };
        let (state, policy) = before.changed_by(change, grants, routes)?;
        self.inner = Some(Arc::new(state));
        Ok(policy)
    }
}

impl State {
    fn changed_by(
        &self,
        change: &Change<'_>,
        grants: &[impl Piece<m::Authorization>],
        routes: &[impl Piece<m::Route>],
    ) -> Result<(State, Arc<ServerPolicy>), DecodeError> {
        each("required_features", change.required_features, |name| known(name))?;
        let revision = required("revision", change.revision, decode_revision)?;
        let names = Names::new();
        let (authorizations, renewed) = self.pool(&names, change, grants)?;
        let fresh = Fresh::read(&names, routes)?;
        let server = match change.server_authorizations {
            Some(list) => splice(&self.server, list).at("server_authorizations")?,
            None => Arc::clone(&self.server),
        };
        let order = match change.route_order {
            Some(list) => splice(&self.order, list).at("route_order")?,
            None => Arc::clone(&self.order),
        };
        let sets = self.sets.renewed(&renewed);
        let (table, of_route, sets) =
            self.routes(&order, fresh, change, (sets, &authorizations))?;
        let header = match (change.header, &self.header) {
            (Some(header), _) => Arc::new(header.clone()),
            (None, Some(header)) => Arc::clone(header),
            (None, None) => return Err(DecodeError::missing()).at("header"),
        };
        let own = set(&authorizations, &server).at("server_authorizations")?;
        let policy = policy(&names, &header, (own, table), &authorizations).at("header")?;
        let policy = Arc::new(policy);
        let held = Some(Arc::clone(&policy));
        let header = Some(header);
        let state =
            State { header, authorizations, server, order, of_route, sets, revision, policy: held };
        Ok((state, policy))
    }

    /// The grants by key, and the keys of those that are others now.
    fn pool(
        &self,
        names: &Names,
        change: &Change<'_>,
        grants: &[impl Piece<m::Authorization>],
    ) -> Result<(Arc<Pool>, HashSet<u64>), DecodeError> {
        let mut renewed = HashSet::new();
        if grants.is_empty() && change.removed_authorizations.is_empty() {
            return Ok((Arc::clone(&self.authorizations), renewed));
        }
        let mut read = Vec::with_capacity(grants.len());
        for (number, grant) in grants.iter().enumerate() {
            let one = grant.read(|grant| read::authorization(names, grant));
            let (key, grant) = one.item("authorizations", number)?;
            if !renewed.insert(key) {
                return Err(twice(key)).at("authorizations");
            }
            read.push((key, Arc::new(grant)));
        }
        renewed.extend(change.removed_authorizations);
        Ok((Arc::new(self.authorizations.with(&renewed, read)), renewed))
    }

    /// The routes in `order`, with the numbers of their sets.
    fn routes(
        &self,
        order: &Arc<[u64]>,
        mut fresh: Fresh,
        change: &Change<'_>,
        (mut sets, pool): (super::sets::Renewed<'_>, &Pool),
    ) -> Result<Table, DecodeError> {
        let same = Arc::ptr_eq(order, &self.order);
        let removed: HashSet<u64> = change.removed_routes.iter().copied().collect();
        let places = Places::new(self, order);
        let mut seen = HashSet::with_capacity(if same { 0 } else { order.len() });
        let mut table = Vec::with_capacity(order.len());
        let mut of_route = Vec::with_capacity(order.len());
        let mut kept = 0_usize;
        for (place, key) in order.iter().enumerate() {
            if !same && !seen.insert(*key) {
                return Err(DecodeError::here("names a route twice")).at("route_order");
            }
            if let Some((keys, mut route)) = fresh.take(*key) {
                let (number, set) = sets.of(&keys, pool).at(&grants_of(*key))?;
                route.authorizations = set;
                of_route.push(number);
                table.push(Arc::new(route));
                continue;
            }
            let old = places.before(place, *key).filter(|_| !removed.contains(key));
            let old = old.ok_or_else(|| absent("route", *key)).at("route_order")?;
            kept = kept.saturating_add(1);
            let route = self.route(old).ok_or_else(|| absent("route", *key))?;
            let number = self.of_route.get(old).copied().unwrap_or(u32::MAX);
            let (number, set) = sets.kept(number, pool).at(&grants_of(*key))?;
            of_route.push(number);
            table.push(match set {
                None => Arc::clone(route),
                Some(authorizations) => Arc::new(Route { authorizations, ..Route::clone(route) }),
            });
        }
        let left = self.order.iter().filter(|key| !removed.contains(key) && !fresh.had(**key));
        if fresh.left() > 0 || (!same || fresh.any()) && left.clone().count() > kept {
            let placed: HashSet<u64> = order.iter().copied().collect();
            let lost = fresh.keys().chain(left.copied()).find(|key| !placed.contains(key));
            let message = format!("route {:016x} has no place in it", lost.unwrap_or(0));
            return Err(DecodeError::here(message)).at("route_order");
        }
        Ok((table, of_route.into(), sets.finish()))
    }

    fn route(&self, place: usize) -> Option<&Arc<Route>> {
        self.policy.as_ref()?.routes.routes.get(place)
    }
}

fn grants_of(route: u64) -> String {
    format!("routes[key {route:016x}].authorizations")
}

/// Where routes were before: mostly where they are now, counted from the beginning or from the end.
struct Places<'a> {
    old: &'a [u64],
    /// What the place of a key near the end of the new list is less by in the old one; wrapping.
    shift: usize,
    by_key: std::cell::OnceCell<HashMap<u64, usize>>,
}

impl<'a> Places<'a> {
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

fn policy(
    names: &Names,
    header: &m::PortHeader,
    (authorizations, routes): (AuthorizationSet, Vec<Arc<Route>>),
    pool: &Pool,
) -> Result<ServerPolicy, DecodeError> {
    let m::PortHeader {
        owner,
        protocol,
        deny,
        paths,
        no_informational_headers,
        exemptions,
        rate_limit,
        effects,
        withheld,
        hosts,
        otherwise,
    } = header;
    let limit = |limit| read::rate_limit(names, limit);
    Ok(ServerPolicy {
        owner: required("owner", owner.as_ref(), |owner| read::owner(names, owner))?,
        protocol: required("protocol", protocol.as_ref(), read::protocol)?,
        deny: deny.as_deref().map(read::denied).transpose().at("deny")?,
        paths: read::paths(*paths).at("paths")?,
        informational_headers: read::informational_headers(*no_informational_headers),
        authorizations,
        exemptions: each("exemptions", exemptions, |one| exemption(names, one, pool))?,
        routes: RouteTable {
            routes,
            hosts: table(names, hosts)?,
            otherwise: required("otherwise", otherwise.as_ref(), read::unmatched)?,
        },
        rate_limit: rate_limit.as_ref().map(limit).transpose().at("rate_limit")?,
        effects: each("effects", effects, |effect| read::effect(names, effect))?,
        withheld: each("withheld", withheld, |one| read::withheld(names, one))?,
    })
}

fn exemption(
    names: &Names,
    exemption: &m::Exemption,
    pool: &Pool,
) -> Result<Exemption, DecodeError> {
    let m::Exemption { request, authorization: key } = exemption;
    let grant = pool.get(*key).ok_or_else(|| absent("authorization", *key));
    let request = request.as_ref().map(|wanted| read::request(names, wanted));
    Ok(Exemption {
        request: request.transpose().at("request")?,
        authorization: Arc::clone(grant.at("authorization")?),
    })
}

fn table(
    names: &Names,
    hosts: &[m::HostRule],
) -> Result<BTreeMap<policy_core::HostPattern, policy_core::Unmatched>, DecodeError> {
    let host = |rule: &m::HostRule| {
        Ok((
            required("host", rule.host.as_ref(), |host| read::host(names, host))?,
            required("unmatched", rule.unmatched.as_ref(), read::unmatched)?,
        ))
    };
    let mut table = BTreeMap::new();
    for (number, (name, unmatched)) in each("hosts", hosts, host)?.into_iter().enumerate() {
        if table.insert(name, unmatched).is_some() {
            return Err(DecodeError::here("names a host twice")).item("hosts", number);
        }
    }
    Ok(table)
}

fn known(name: &str) -> Result<Feature, DecodeError> {
    Feature::parse(name)
        .ok_or_else(|| DecodeError::here(format!("feature `{name}` is not known here")))
}

/// The grants that `keys` stand for.
pub(super) fn set(pool: &Pool, keys: &[u64]) -> Result<AuthorizationSet, DecodeError> {
    keys.iter()
        .map(|key| pool.get(*key).cloned().ok_or_else(|| absent("authorization", *key)))
        .collect()
}

fn absent(what: &str, key: u64) -> DecodeError {
    DecodeError::here(format!("there is no {what} {key:016x}"))
}

pub(super) fn twice(key: u64) -> DecodeError {
    DecodeError::here(format!("key {key:016x} appears twice"))
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
