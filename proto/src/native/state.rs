//! The client's side: what is in force on a port, changed by updates, each whole or not at all.

use super::{decode_revision, read};
use crate::error::{At, DecodeError, each, required};
use crate::messages as m;
use policy_core::authorization::{Authorization, AuthorizationSet};
use policy_core::feature::Feature;
use policy_core::policy::{Exemption, Route, RouteTable, ServerPolicy};
use policy_core::revision::Revision;
use std::collections::{BTreeMap, BTreeSet, HashMap};
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

#[derive(Clone, Debug)]
struct State {
    header: m::PortHeader,
    authorizations: BTreeMap<u64, Arc<Authorization>>,
    server: Vec<u64>,
    routes: BTreeMap<u64, Entry>,
    order: Vec<u64>,
    revision: Revision,
    policy: Arc<ServerPolicy>,
}

#[derive(Clone, Debug)]
struct Entry {
    keys: Arc<[u64]>,
    route: Arc<Route>,
}

impl PortState {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of the last update applied.
    pub fn policy(&self) -> Option<&Arc<ServerPolicy>> {
        self.inner.as_ref().map(|state| &state.policy)
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
        let have = self.inner.as_ref().map(|state| state.revision.content);
        let before = match (update.base, &self.inner) {
            (None, _) => Draft::default(),
            (Some(base), Some(state)) if have == Some(base) => Draft::of(state),
            (Some(base), _) => return Err(ApplyError::Base { base, have }),
        };
        let state = before.changed_by(update)?;
        let policy = Arc::clone(&state.policy);
        self.inner = Some(Arc::new(state));
        Ok(policy)
    }
}

/// A state that is being changed.
#[derive(Default)]
struct Draft {
    header: Option<m::PortHeader>,
    authorizations: BTreeMap<u64, Arc<Authorization>>,
    server: Vec<u64>,
    routes: BTreeMap<u64, Entry>,
    order: Vec<u64>,
    /// Keys of grants that this update brought.
    renewed: BTreeSet<u64>,
}

impl Draft {
    fn of(state: &State) -> Self {
        Self {
            header: Some(state.header.clone()),
            authorizations: state.authorizations.clone(),
            server: state.server.clone(),
            routes: state.routes.clone(),
            order: state.order.clone(),
            renewed: BTreeSet::new(),
        }
    }

    fn changed_by(mut self, update: &m::PortUpdate) -> Result<State, DecodeError> {
        let m::PortUpdate {
            port: _,
            revision,
            base: _,
            required_features,
            header,
            authorizations,
            removed_authorizations,
            server_authorizations,
            routes,
            removed_routes,
            route_order,
        } = update;
        each("required_features", required_features, |name| known(name))?;
        let revision = required("revision", revision.as_ref(), decode_revision)?;
        for key in removed_authorizations {
            self.authorizations.remove(key);
        }
        for key in removed_routes {
            self.routes.remove(key);
        }
        self.renew_authorizations(authorizations)?;
        self.renew_routes(routes)?;
        self.rebuild_routes()?;
        if let Some(list) = server_authorizations {
            self.server = splice(&self.server, list).at("server_authorizations")?;
        }
        if let Some(list) = route_order {
            self.order = splice(&self.order, list).at("route_order")?;
        }
        self.header = header.clone().or(self.header);
        self.finish(revision)
    }

    fn renew_authorizations(&mut self, grants: &[m::Authorization]) -> Result<(), DecodeError> {
        for (key, grant) in each("authorizations", grants, read::authorization)? {
            if !self.renewed.insert(key) {
                return Err(twice(key)).at("authorizations");
            }
            self.authorizations.insert(key, Arc::new(grant));
        }
        Ok(())
    }

    /// Reads routes; their grants follow in [`Draft::rebuild_routes`].
    fn renew_routes(&mut self, routes: &[m::Route]) -> Result<(), DecodeError> {
        let mut seen = BTreeSet::new();
        for (key, keys, route) in each("routes", routes, read::route)? {
            if !seen.insert(key) {
                return Err(twice(key)).at("routes");
            }
            self.routes.insert(key, Entry { keys: keys.into(), route: Arc::new(route) });
        }
        Ok(())
    }

    /// Gives every route the grants that its keys stand for now. Equal lists share one set.
    fn rebuild_routes(&mut self) -> Result<(), DecodeError> {
        let mut sets: HashMap<Arc<[u64]>, AuthorizationSet> = HashMap::new();
        for (own, Entry { keys, route }) in &mut self.routes {
            let current = keys.len() == route.authorizations.len()
                && keys.iter().all(|key| {
                    !self.renewed.contains(key) && self.authorizations.contains_key(key)
                });
            if current {
                continue;
            }
            let set = match sets.get(keys) {
                Some(set) => Arc::clone(set),
                None => {
                    let field = format!("routes[key {own:016x}].authorizations");
                    let set = set(&self.authorizations, keys).at(&field)?;
                    sets.insert(Arc::clone(keys), Arc::clone(&set));
                    set
                }
            };
            *route = Arc::new(Route { authorizations: set, ..Route::clone(route) });
        }
        Ok(())
    }

    fn finish(self, revision: Revision) -> Result<State, DecodeError> {
        let Self { header, authorizations, server, routes, order, renewed: _ } = self;
        let header = header.ok_or_else(DecodeError::missing).at("header")?;
        let placed: BTreeSet<u64> = order.iter().copied().collect();
        if placed.len() != order.len() {
            return Err(DecodeError::here("names a route twice")).at("route_order");
        }
        if let Some(key) = routes.keys().find(|key| !placed.contains(key)) {
            let message = format!("route {key:016x} has no place in it");
            return Err(DecodeError::here(message)).at("route_order");
        }
        let mut listed = Vec::with_capacity(order.len());
        for key in &order {
            let entry = routes.get(key).ok_or_else(|| absent("route", *key));
            listed.push(Arc::clone(&entry.at("route_order")?.route));
        }
        let grants = set(&authorizations, &server).at("server_authorizations")?;
        let policy = policy(&header, grants, listed, &authorizations).at("header")?;
        let policy = Arc::new(policy);
        Ok(State { header, authorizations, server, routes, order, revision, policy })
    }
}

fn policy(
    header: &m::PortHeader,
    authorizations: AuthorizationSet,
    routes: Vec<Arc<Route>>,
    pool: &BTreeMap<u64, Arc<Authorization>>,
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
    let exempt = |exemption: &m::Exemption| {
        let key = exemption.authorization;
        let grant = pool.get(&key).ok_or_else(|| absent("authorization", key));
        Ok(Exemption {
            request: exemption.request.as_ref().map(read::request).transpose().at("request")?,
            authorization: Arc::clone(grant.at("authorization")?),
        })
    };
    let host = |rule: &m::HostRule| {
        Ok((
            required("host", rule.host.as_ref(), read::host)?,
            required("unmatched", rule.unmatched.as_ref(), read::unmatched)?,
        ))
    };
    let mut table = BTreeMap::new();
    for (number, (name, unmatched)) in each("hosts", hosts, host)?.into_iter().enumerate() {
        if table.insert(name, unmatched).is_some() {
            return Err(DecodeError::here("names a host twice")).item("hosts", number);
        }
    }
    Ok(ServerPolicy {
        owner: required("owner", owner.as_ref(), read::owner)?,
        protocol: required("protocol", protocol.as_ref(), read::protocol)?,
        deny: deny.as_deref().map(read::denied).transpose().at("deny")?,
        paths: read::paths(*paths).at("paths")?,
        informational_headers: read::informational_headers(*no_informational_headers),
        authorizations,
        exemptions: each("exemptions", exemptions, exempt)?,
        routes: RouteTable {
            routes,
            hosts: table,
            otherwise: required("otherwise", otherwise.as_ref(), read::unmatched)?,
        },
        rate_limit: rate_limit.as_ref().map(read::rate_limit).transpose().at("rate_limit")?,
        effects: each("effects", effects, read::effect)?,
        withheld: each("withheld", withheld, read::withheld)?,
    })
}

fn known(name: &str) -> Result<Feature, DecodeError> {
    Feature::parse(name)
        .ok_or_else(|| DecodeError::here(format!("feature `{name}` is not known here")))
}

fn set(
    pool: &BTreeMap<u64, Arc<Authorization>>,
    keys: &[u64],
) -> Result<AuthorizationSet, DecodeError> {
    keys.iter()
        .map(|key| pool.get(key).cloned().ok_or_else(|| absent("authorization", *key)))
        .collect()
}

fn absent(what: &str, key: u64) -> DecodeError {
    DecodeError::here(format!("there is no {what} {key:016x}"))
}

fn twice(key: u64) -> DecodeError {
    DecodeError::here(format!("key {key:016x} appears twice"))
}

fn splice(old: &[u64], list: &m::KeyList) -> Result<Vec<u64>, DecodeError> {
    let m::KeyList { keep_first, keys, keep_last } = list;
    let length = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let (first, last) = (length(*keep_first), length(*keep_last));
    let kept = first.checked_add(last).filter(|kept| *kept <= old.len());
    let head = old.get(..first);
    let tail = old.len().checked_sub(last).and_then(|from| old.get(from..));
    match (kept, head, tail) {
        (Some(_), Some(head), Some(tail)) => Ok([head, keys, tail].concat()),
        (_, _, _) => {
            let message = format!("keeps {first} and {last} keys of {}", old.len());
            Err(DecodeError::here(message))
        }
    }
}
