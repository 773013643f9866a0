//! The server's messages. Routes and grants of a port's update are converted to the model one at a
//! time, because ten thousand routes as messages take ten times their size on the wire.

use super::interner::Interner;
use super::{read, read_route};
use crate::error::{At, DecodeError};
use crate::messages as m;
use policy_core::authorization::{Authorization, AuthorizationSet};
use policy_core::policy::Route;
use std::collections::HashMap;
use std::sync::Arc;

/// A port's policy, or a change of it, as [`super::PortState::apply_read`] takes it.
#[derive(Debug, Default)]
pub struct Update {
    /// The message without grants and routes.
    pub(super) rest: m::PortUpdate,
    pub(super) names: Interner,
    pub(super) grants: Vec<(u64, Arc<Authorization>)>,
    /// True if the grants do not ascend by key. Servers send them ascending.
    unordered: bool,
    pub(super) routes: NewRoutes,
    /// Sets of several grants, each once.
    sets: HashMap<Vec<u64>, AuthorizationSet, foldhash::fast::RandomState>,
    /// The first error; nothing is read after it.
    failed: Option<DecodeError>,
}

/// A message of the server: `WatchResponse`.
#[derive(Debug)]
pub enum Response {
    /// The workload.
    Workload(Box<m::Workload>),
    /// A port's policy, or a change of it.
    Port(Box<Update>),
    /// Nothing that is known to this version.
    Unknown,
}

/// The number of the field of grants.
pub(super) const AUTHORIZATIONS: u32 = 6;
/// The number of the field of routes.
pub(super) const ROUTES: u32 = 9;

impl Update {
    /// The port, as sent.
    pub fn port(&self) -> u32 {
        self.rest.port
    }

    /// Returns the revision that the client has after applying this.
    pub fn revision(&self) -> Option<&m::Revision> {
        self.rest.revision.as_ref()
    }

    /// The same of a message that is there as a whole.
    pub(super) fn of(update: &m::PortUpdate) -> Self {
        let m::PortUpdate {
            port,
            revision,
            base,
            required_features,
            header,
            authorizations,
            removed_authorizations,
            server_authorizations,
            routes,
            removed_routes,
            route_order,
        } = update;
        let rest = m::PortUpdate {
            port: *port,
            revision: revision.clone(),
            base: *base,
            required_features: required_features.clone(),
            header: header.clone(),
            removed_authorizations: removed_authorizations.clone(),
            server_authorizations: server_authorizations.clone(),
            removed_routes: removed_routes.clone(),
            route_order: route_order.clone(),
            authorizations: Vec::new(),
            routes: Vec::new(),
        };
        let mut read = Self { rest, ..Self::default() };
        authorizations.iter().for_each(|grant| read.grant(Ok(grant)));
        routes.iter().for_each(|route| read.route(Ok(route)));
        read
    }

    /// Takes the next grant.
    pub(super) fn grant(&mut self, grant: Result<&m::Authorization, DecodeError>) {
        if self.failed.is_some() {
            return;
        }
        let number = self.grants.len();
        let read = grant.and_then(|grant| read::authorization(&self.names, grant));
        match read.item("authorizations", number) {
            Ok((key, grant)) => {
                self.unordered |= self.grants.last().is_some_and(|(last, _)| *last >= key);
                self.grants.push((key, Arc::new(grant)));
            }
            Err(error) => self.fail(error),
        }
    }

    /// Takes the next route.
    pub(super) fn route(&mut self, route: Result<&m::Route, DecodeError>) {
        if self.failed.is_some() {
            return;
        }
        let number = self.routes.routes.len();
        let read = route.and_then(|route| read_route::route(&self.names, route));
        match read.item("routes", number) {
            Ok((key, keys, mut route)) => {
                match self.set(&keys) {
                    Some(set) => route.authorizations = set,
                    None => _ = self.routes.unresolved.insert(key, keys),
                }
                self.routes.routes.push((key, Some(Arc::new(route))));
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: DecodeError) {
        *self =
            Self { rest: std::mem::take(&mut self.rest), failed: Some(error), ..Self::default() };
    }

    /// The grants of these keys, if all of them are here.
    fn set(&mut self, keys: &[u64]) -> Option<AuthorizationSet> {
        if std::mem::take(&mut self.unordered) {
            self.grants.sort_by_key(|(key, _)| *key);
        }
        let several = keys.len() > 1;
        if several && let Some(known) = self.sets.get(keys) {
            return Some(known.clone());
        }
        let set = keys.iter().map(|key| find(&self.grants, *key).cloned());
        let set: AuthorizationSet = set.collect::<Option<Vec<_>>>()?.into();
        if several {
            self.sets.insert(keys.to_vec(), set.clone());
        }
        Some(set)
    }

    /// Ends it, once nothing more comes: grants and routes ascend by key then.
    pub(super) fn finish(&mut self) -> Result<(), DecodeError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.grants.sort_by_key(|(key, _)| *key);
        self.routes.routes.sort_by_key(|(key, _)| *key);
        if let Some(key) = find_duplicate(&self.grants) {
            return Err(duplicate_key(key)).at("authorizations");
        }
        if let Some(key) = find_duplicate(&self.routes.routes) {
            return Err(duplicate_key(key)).at("routes");
        }
        self.routes.left = self.routes.routes.len();
        self.sets = HashMap::default();
        Ok(())
    }
}

/// The routes of an update.
#[derive(Debug, Default)]
pub(super) struct NewRoutes {
    /// A route once taken leaves its key.
    routes: Vec<(u64, Option<Arc<Route>>)>,
    /// Keys of the grants of routes that name grants not read yet.
    unresolved: HashMap<u64, Vec<u64>, foldhash::fast::RandomState>,
    left: usize,
}

impl NewRoutes {
    /// The route of this key, and the keys of its grants if it does not have them yet.
    pub(super) fn take(&mut self, key: u64) -> Option<(Arc<Route>, Option<Vec<u64>>)> {
        let place = self.place(key)?;
        let (_, route) = self.routes.get_mut(place)?;
        let taken = route.take()?;
        self.left = self.left.saturating_sub(1);
        Some((taken, self.unresolved.remove(&key)))
    }

    fn place(&self, key: u64) -> Option<usize> {
        self.routes.binary_search_by_key(&key, |(key, _)| *key).ok()
    }

    /// Number of routes that were not taken.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn any(&self) -> bool {
        !self.routes.is_empty()
    }

    /// Returns true if the update has a route of this key, taken or not.
    pub(super) fn contains(&self, key: u64) -> bool {
        self.place(key).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        self.routes.iter().map(|(key, _)| *key)
    }
}

fn find_duplicate<T>(list: &[(u64, T)]) -> Option<u64> {
    let mut pairs = list.iter().zip(list.iter().skip(1));
    pairs.find(|((one, _), (next, _))| one == next).map(|((key, _), _)| *key)
}

/// Returns the value of a key in a list that ascends by key.
pub(super) fn find<T>(list: &[(u64, T)], key: u64) -> Option<&T> {
    let place = list.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    list.get(place).map(|(_, found)| found)
}

/// The grants that `keys` stand for.
pub(super) fn set(
    grants: &[(u64, Arc<Authorization>)],
    keys: &[u64],
) -> Result<AuthorizationSet, DecodeError> {
    let grant =
        |key: &u64| find(grants, *key).cloned().ok_or_else(|| missing_key("authorization", *key));
    keys.iter().map(grant).collect::<Result<Vec<_>, _>>().map(Into::into)
}

pub(super) fn missing_key(what: &str, key: u64) -> DecodeError {
    DecodeError::here(format!("there is no {what} {key:016x}"))
}

pub(super) fn duplicate_key(key: u64) -> DecodeError {
    DecodeError::here(format!("key {key:016x} appears twice"))
}
