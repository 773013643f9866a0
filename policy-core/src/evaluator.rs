//! A policy arranged for deciding.

pub use crate::index::bounds::{BuildError, MAX_SEGMENTS};

use crate::authorization::{Authorization, AuthorizationSet};
use crate::decision::{AuthorizationId, Decision, Denied, Permit, RuleId, TargetFault};
use crate::effect::Effect;
use crate::index::automaton::Workshop;
use crate::index::exempt::Exempt;
use crate::index::grants::Grants;
use crate::index::routes::{Found, Routes};
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
    looks_at: Arc<[HeaderName]>,
    looks_at_set: HashSet<HeaderName, foldhash::fast::FixedState>,
    exempt: Vec<Exempt>,
    routes: Routes,
    /// The distinct authorization sets; the first is the Server's.
    grants: Vec<Grants>,
    /// The number of each route's set.
    of_route: Vec<u32>,
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

/// The Server's own set of authorizations.
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
        let routes = Routes::build(&policy.routes, &mut workshop)?;
        let (grants, of_route) = sets(&policy)?;
        let looks_at: Arc<[HeaderName]> = naive::looks_at(&policy).into();
        let looks_at_set = looks_at.iter().cloned().collect();
        Ok(Self { policy, looks_at, looks_at_set, exempt, routes, grants, of_route })
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
        if self.looks_at.len() <= FEW_NAMES {
            let mut lines = self.looks_at.iter().flat_map(|name| headers.get_all(name));
            return lines.any(ambiguous);
        }
        // Bytes first: such values are rare, names cost a look-up.
        headers.iter().any(|(name, line)| ambiguous(line) && self.looks_at_set.contains(name))
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
        memo.recall(set, || at(&self.grants, set)?.first(connection))
    }

    fn granted(
        &self,
        set: u32,
        index: u32,
        route: Option<RuleId>,
        id: AuthorizationId,
    ) -> Decision {
        match at(&self.grants, set).and_then(|grants| grants.get(index)) {
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
        &self.looks_at
    }

    /// The same names, to be kept longer than the evaluator.
    pub fn looks_at_shared(&self) -> &Arc<[HeaderName]> {
        &self.looks_at
    }
}

/// The distinct authorization sets of a policy, the Server's first, and which one each route has.
fn sets(policy: &ServerPolicy) -> Result<(Vec<Grants>, Vec<u32>), BuildError> {
    let server = &policy.authorizations;
    let mut grants = vec![Grants::new(server)];
    // Sets are mostly shared; comparing addresses first saves hashing their contents.
    let mut by_address: HashMap<(usize, usize), u32> = HashMap::new();
    let mut by_content: HashMap<&AuthorizationSet, u32> = HashMap::from([(server, SERVER)]);
    let mut of_route = Vec::with_capacity(policy.routes.routes.len());
    for route in &policy.routes.routes {
        let set = &route.authorizations;
        let address = (Arc::as_ptr(set).addr(), set.len());
        let id = match by_address.get(&address).or_else(|| by_content.get(set)) {
            Some(known) => *known,
            None => {
                let new = next_id(grants.len(), "list of authorization sets")?;
                grants.push(Grants::new(set));
                by_content.insert(set, new);
                new
            }
        };
        by_address.insert(address, id);
        of_route.push(id);
    }
    Ok((grants, of_route))
}
