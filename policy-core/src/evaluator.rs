//! A policy arranged for deciding.

pub use crate::index::bounds::{BuildError, MAX_SEGMENTS};

use crate::authorization::{Authorization, AuthorizationSet};
use crate::decision::{AuthorizationId, Decision, Denied, Permit, RuleId, TargetFault};
use crate::effect::Effect;
use crate::index::automaton::Workshop;
use crate::index::changes::Index;
use crate::index::exempt::Exempt;
use crate::index::grants::Grants;
use crate::index::routes::Found;
use crate::index::{at, next_id};
use crate::judge::has_ambiguous_bytes;
use crate::naive;
use crate::name::Origin;
use crate::policy::{Route, Rule, ServerPolicy};
use crate::request::{Connection, RequestView};
use hashbrown::HashSet;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::HashMap;
use std::sync::Arc;

/// A [`ServerPolicy`] arranged for deciding: what does not match costs nothing. Tables are made
/// once; deciding only reads them.
#[derive(Debug)]
pub struct Evaluator {
    policy: Arc<ServerPolicy>,
    looks_at: Arc<Names>,
    exempt: Arc<[Exempt]>,
    routes: Index,
    server: Arc<Grants>,
    whole: Arc<Whole>,
    /// The sets of routes that are not in `whole`, numbered after those.
    more: Box<[Grants]>,
    /// The number of each route's set.
    of_route: Box<[u32]>,
}

/// What belongs to the policy that is indexed as a whole.
#[derive(Debug)]
struct Whole {
    /// The distinct authorization sets of its routes.
    grants: Box<[Grants]>,
    /// The number of each route's set.
    of_route: Box<[u32]>,
    looks_at: Arc<Names>,
}

/// Names of headers, sorted and to be looked up.
#[derive(Debug)]
struct Names {
    sorted: Arc<[HeaderName]>,
    set: HashSet<HeaderName, foldhash::fast::FixedState>,
}

/// The number of authorization sets that a [`Memo`] remembers.
const REMEMBERED: usize = 8;

/// What was found out about one connection under one [`Evaluator`]: which authorization of a set
/// holds. Make a new one for each connection, and whenever the evaluator or the workload's facts
/// change. Takes 64 bytes.
#[derive(Clone, Debug)]
pub struct Memo {
    /// A set's number plus one, and the number of the authorization plus one; zero is none.
    slots: [(u32, u32); REMEMBERED],
}

impl Memo {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self { slots: [(0, 0); REMEMBERED] }
    }

    /// What is known of a set, or else what `find` says.
    fn recall(&mut self, set: u32, find: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let place = usize::try_from(set).unwrap_or(0) % REMEMBERED;
        let key = set.saturating_add(1);
        match self.slots.get(place) {
            Some((known, result)) if *known == key => result.checked_sub(1),
            Some(_) | None => {
                let found = find();
                if let Some(slot) = self.slots.get_mut(place) {
                    *slot = (key, found.map_or(0, |index| index.saturating_add(1)));
                }
                found
            }
        }
    }
}

impl Default for Memo {
    fn default() -> Self {
        Self::new()
    }
}

/// The Server's own set of authorizations; those of routes are numbered from 1.
const SERVER: u32 = 0;

/// Up to here the names that are looked at are looked up in the request.
const FEW_NAMES: usize = 4;

impl Evaluator {
    /// Arranges `policy`. Fails only for policies of absurd size.
    pub fn build(policy: Arc<ServerPolicy>) -> Result<Self, BuildError> {
        let mut workshop = Workshop::default();
        let mut exempt = Vec::new();
        for (index, exemption) in policy.exemptions.iter().enumerate() {
            let index = next_id(index, "list of exemptions")?;
            if let Some(request) = &exemption.request {
                exempt.push(Exempt::new(index, exemption, request, &mut workshop));
            }
        }
        let routes = Index::new(&policy, &mut workshop)?;
        let whole = Whole::new(&policy)?;
        Ok(Self {
            looks_at: Arc::clone(&whole.looks_at),
            exempt: exempt.into(),
            routes,
            server: Arc::new(Grants::new(&policy.authorizations)),
            of_route: whole.of_route.clone(),
            whole: Arc::new(whole),
            more: Box::default(),
            policy,
        })
    }

    /// Arranges `policy`, which may share routes with the policy of this evaluator. Where few others
    /// differ, it costs little more than comparing where routes are stored. Decides as
    /// [`Evaluator::build`] would.
    ///
    /// # Errors
    /// As [`Evaluator::build`].
    pub fn changed_to(&self, policy: Arc<ServerPolicy>) -> Result<Self, BuildError> {
        if self.policy.exemptions != policy.exemptions {
            return Self::build(policy);
        }
        match self.routes.changed_to(&policy.routes)? {
            Some(routes) => self.with(policy, routes),
            None => Self::build(policy),
        }
    }

    fn with(&self, policy: Arc<ServerPolicy>, routes: Index) -> Result<Self, BuildError> {
        let table = &policy.routes.routes;
        let base = &routes.base().routes.routes;
        let places = routes.places().unwrap_or_default();
        let (old, fresh) = places.split_at_checked(base.len()).unwrap_or((places, &[]));
        let mut of_route = vec![SERVER; table.len()];
        let mut set = |place: u32, set: u32| {
            let place = usize::try_from(place).ok();
            if let Some(own) = place.and_then(|place| of_route.get_mut(place)) {
                *own = set;
            }
        };
        old.iter().zip(&self.whole.of_route).for_each(|(place, own)| set(*place, *own));
        let mut more = Vec::with_capacity(fresh.len());
        for place in fresh {
            let known = self.whole.grants.len().saturating_add(more.len());
            set(*place, next_id(known.saturating_add(1), "list of authorization sets")?);
            more.extend(at(table, *place).map(|route| Grants::new(&route.authorizations)));
        }
        let gone = base.iter().zip(old).filter(|(_, place)| at(table, **place).is_none());
        let fresh = fresh.iter().filter_map(|place| at(table, *place));
        let changed = gone.map(|(route, _)| route).chain(fresh);
        let looks_at = if changed.into_iter().any(|route| asks(route)) {
            Arc::new(Names::of(&policy))
        } else {
            Arc::clone(&self.whole.looks_at)
        };
        let server = if Arc::ptr_eq(&policy.authorizations, &self.policy.authorizations) {
            Arc::clone(&self.server)
        } else {
            Arc::new(Grants::new(&policy.authorizations))
        };
        Ok(Self {
            looks_at,
            exempt: Arc::clone(&self.exempt),
            server,
            whole: Arc::clone(&self.whole),
            more: more.into(),
            of_route: of_route.into(),
            routes,
            policy,
        })
    }

    /// The policy it was built from.
    pub fn policy(&self) -> &Arc<ServerPolicy> {
        &self.policy
    }

    /// Decides on a connection that is not HTTP. The rules are those of [`naive`].
    pub fn decide_connection(&self, connection: &Connection<'_>) -> Decision {
        if let Some(decision) = naive::before_grants(&self.policy, connection) {
            return decision;
        }
        self.by_set(SERVER, None, &mut Memo::new(), connection)
            .unwrap_or_else(|| naive::deny(Denied::Unauthorized, None))
    }

    /// Decides on a request. The rules are those of [`naive`]. `memo` must belong to this
    /// connection and this evaluator.
    ///
    /// Allocates nothing, save where a regular expression is too large for a table or meets a
    /// parameter value that is not ASCII.
    pub fn decide_request(
        &self,
        connection: &Connection<'_>,
        memo: &mut Memo,
        request: &RequestView<'_>,
    ) -> Decision {
        if let Some(reason) = self.policy.deny {
            return naive::deny(reason, None);
        }
        if !self.policy.protocol.is_http() {
            return naive::deny(Denied::NoRoute, None);
        }
        if self.has_obs_text(request.headers) {
            return naive::deny(Denied::Target(TargetFault::ObsText), None);
        }
        if let Some(exempt) = self.exempt.iter().find(|e| e.holds(connection, request)) {
            let id = AuthorizationId::Exemption(exempt.index);
            return naive::permit(None, id, &exempt.authorization);
        }
        match self.routes.find(request) {
            Found::Rule(id) => self.by_route(id, memo, connection),
            Found::CannotTell(id) => naive::deny(Denied::CannotTell, Some(id)),
            Found::Deny(reason) => naive::deny(reason, None),
            Found::Server => self
                .by_set(SERVER, None, memo, connection)
                .unwrap_or_else(|| naive::deny(Denied::Unauthorized, None)),
        }
    }

    fn has_obs_text(&self, headers: &HeaderMap) -> bool {
        let ambiguous = |line: &HeaderValue| has_ambiguous_bytes(line.as_bytes());
        let Names { sorted, set } = &*self.looks_at;
        if sorted.len() <= FEW_NAMES {
            let mut lines = sorted.iter().flat_map(|name| headers.get_all(name));
            return lines.any(ambiguous);
        }
        // Bytes first: such values are rare, names cost a look-up.
        headers.iter().any(|(name, line)| ambiguous(line) && set.contains(name))
    }

    fn by_route(&self, id: RuleId, memo: &mut Memo, connection: &Connection<'_>) -> Decision {
        let Some(route) = at(&self.policy.routes.routes, id.route) else {
            return naive::deny(Denied::NoRoute, None);
        };
        if let Origin::Deny(reason) = route.origin {
            return naive::deny(reason, Some(id));
        }
        let own = at(&self.of_route, id.route).copied();
        let own = own.filter(|_| !route.authorizations.is_empty());
        if let Some(set) = own
            && let Some(index) = self.first_of(set, memo, connection)
        {
            return self.granted(set, index, Some(id), AuthorizationId::Route(id.route, index));
        }
        let server = if route.inherits_server {
            self.by_set(SERVER, Some(id), memo, connection)
        } else {
            None
        };
        server.unwrap_or_else(|| naive::deny(Denied::Unauthorized, Some(id)))
    }

    fn by_set(
        &self,
        set: u32,
        route: Option<RuleId>,
        memo: &mut Memo,
        connection: &Connection<'_>,
    ) -> Option<Decision> {
        let index = self.first_of(set, memo, connection)?;
        Some(self.granted(set, index, route, AuthorizationId::Server(index)))
    }

    fn first_of(&self, set: u32, memo: &mut Memo, connection: &Connection<'_>) -> Option<u32> {
        memo.recall(set, || self.grants(set)?.first(connection))
    }

    fn grants(&self, set: u32) -> Option<&Grants> {
        let Some(own) = set.checked_sub(1) else { return Some(&self.server) };
        let more = || {
            let known = u32::try_from(self.whole.grants.len()).ok()?;
            at(&self.more, own.checked_sub(known)?)
        };
        at(&self.whole.grants, own).or_else(more)
    }

    fn granted(
        &self,
        set: u32,
        index: u32,
        route: Option<RuleId>,
        id: AuthorizationId,
    ) -> Decision {
        match self.grants(set).and_then(|grants| grants.get(index)) {
            Some(grant) => naive::permit(route, id, grant),
            None => naive::deny(Denied::Unauthorized, route),
        }
    }

    /// The rule with this id, and its route; `None` for an id of another policy.
    pub fn rule(&self, id: RuleId) -> Option<(&Route, &Rule)> {
        let route = at(&self.policy.routes.routes, id.route)?;
        Some((route, at(&route.rules, id.rule)?))
    }

    /// The authorization with this id; `None` for an id of another policy.
    pub fn authorization(&self, id: AuthorizationId) -> Option<&Authorization> {
        match id {
            AuthorizationId::Server(own) => at(&self.policy.authorizations, own).map(|g| &**g),
            AuthorizationId::Route(route, own) => {
                at(&at(&self.policy.routes.routes, route)?.authorizations, own).map(|g| &**g)
            }
            AuthorizationId::Exemption(own) => {
                at(&self.policy.exemptions, own).map(|exemption| &*exemption.authorization)
            }
        }
    }

    /// The effects on a permitted request, in the order in which they apply: those of its rule,
    /// then those of the Server.
    pub fn effects(&self, permit: &Permit) -> impl Iterator<Item = &Effect> {
        let rule = permit.route.and_then(|id| self.rule(id));
        rule.into_iter().flat_map(|(_, rule)| &rule.effects).chain(&self.policy.effects)
    }

    /// The headers that any match looks at, sorted by name. An open request must keep them to be
    /// decided again.
    pub fn looks_at(&self) -> &[HeaderName] {
        &self.looks_at.sorted
    }

    /// The same names, to be kept longer than the evaluator.
    pub fn looks_at_shared(&self) -> &Arc<[HeaderName]> {
        &self.looks_at.sorted
    }
}

impl Names {
    /// The headers that any match looks at.
    fn of(policy: &ServerPolicy) -> Self {
        let sorted: Arc<[HeaderName]> = naive::looks_at(policy).into();
        let set = sorted.iter().cloned().collect();
        Self { sorted, set }
    }
}

/// Whether a route looks at any header.
fn asks(route: &Route) -> bool {
    route.rules.iter().flat_map(|rule| &rule.matches).any(|wanted| !wanted.headers.is_empty())
}

impl Whole {
    fn new(policy: &ServerPolicy) -> Result<Self, BuildError> {
        let mut grants = Vec::new();
        // Sets are mostly shared; comparing addresses first saves hashing their contents.
        let mut by_address: HashMap<(usize, usize), u32> = HashMap::new();
        let mut by_content: HashMap<&AuthorizationSet, u32> = HashMap::new();
        let mut of_route = Vec::with_capacity(policy.routes.routes.len());
        for route in &policy.routes.routes {
            let set = &route.authorizations;
            let address = (Arc::as_ptr(set).addr(), set.len());
            let id = match by_address.get(&address).or_else(|| by_content.get(set)) {
                Some(known) => *known,
                None => {
                    let new = next_id(grants.len(), "list of authorization sets")?;
                    let new = new.saturating_add(1);
                    grants.push(Grants::new(set));
                    by_content.insert(set, new);
                    new
                }
            };
            by_address.insert(address, id);
            of_route.push(id);
        }
        let looks_at = Arc::new(Names::of(policy));
        Ok(Self { grants: grants.into(), of_route: of_route.into(), looks_at })
    }
}
