//! A policy arranged for deciding.

pub use crate::index::bounds::{BuildError, MAX_SEGMENTS};

use crate::authorization::{Authorization, AuthorizationSet};
use crate::decision::{AuthorizationId, Decision, Denied, Permit, RuleId, TargetFault};
use crate::effect::Effect;
use crate::index::automaton::Workshop;
use crate::index::changes::Index;
use crate::index::exempt::Exempt;
use crate::index::grants::{self, Grants};
use crate::index::routes::Found;
use crate::index::{at, next_id};
use crate::judge::has_ambiguous_bytes;
use crate::match_form;
use crate::naive;
use crate::name::Origin;
use crate::policy::{Route, Rule, ServerPolicy};
use crate::request::{Connection, RequestView};
use hashbrown::HashSet;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;

/// A [`ServerPolicy`] arranged for deciding: what does not match costs nothing. Tables are made
/// once; deciding only reads them.
#[derive(Debug)]
pub struct Evaluator {
    policy: Arc<ServerPolicy>,
    looks_at: Arc<Names>,
    exempt: Arc<[Exempt]>,
    routes: Index,
    whole: Arc<Whole>,
    /// The sets that are not in `whole`.
    more: Grants,
}

/// What belongs to the policy that is indexed as a whole.
#[derive(Debug)]
struct Whole {
    grants: Grants,
    looks_at: Arc<Names>,
}

/// Names of headers, sorted and to be looked up.
#[derive(Debug)]
struct Names {
    sorted: Arc<[HeaderName]>,
    set: HashSet<HeaderName, foldhash::fast::FixedState>,
}

/// The number of routes whose authorizations a [`Memo`] remembers.
const REMEMBERED: usize = 8;

/// What was found out about one connection under one [`Evaluator`]: which authorization of a set
/// holds. Make a new one for each connection, and whenever the evaluator or the workload's facts
/// change. Takes 64 bytes.
#[derive(Clone, Debug)]
pub struct Memo {
    /// Whose set it is, plus one, and the number of the authorization plus one; zero is none.
    slots: [(u32, u32); REMEMBERED],
}

impl Memo {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self { slots: [(0, 0); REMEMBERED] }
    }

    /// What is known of a set, or else what `find` says. `whose`: [`SERVER`], or a route's number plus
    /// one.
    fn recall(&mut self, whose: u32, find: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let place = usize::try_from(whose).unwrap_or(0) % REMEMBERED;
        let key = whose.saturating_add(1);
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

/// The Server's own set of authorizations, for a [`Memo`].
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
                let request = request.on_port(policy.paths);
                exempt.push(Exempt::new(index, exemption, &request, &mut workshop));
            }
        }
        let routes = Index::new(&policy, &mut workshop)?;
        let grants = Grants::new(sets(&policy, &policy.routes.routes), |_| None);
        let looks_at = Arc::new(Names::of(&policy));
        Ok(Self {
            looks_at: Arc::clone(&looks_at),
            exempt: exempt.into(),
            routes,
            whole: Arc::new(Whole { grants, looks_at }),
            more: Grants::default(),
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
        if self.policy.exemptions != policy.exemptions || self.policy.paths != policy.paths {
            return Self::build(policy);
        }
        match self.routes.changed_to(&policy.routes)? {
            Some(routes) => Ok(self.with(policy, routes)),
            None => Self::build(policy),
        }
    }

    fn with(&self, policy: Arc<ServerPolicy>, routes: Index) -> Self {
        let table = &policy.routes.routes;
        let base = &routes.base().routes.routes;
        let places = routes.places().unwrap_or_default();
        let (old, fresh) = places.split_at_checked(base.len()).unwrap_or((places, &[]));
        let gone = base.iter().zip(old).filter(|(_, place)| at(table, **place).is_none());
        let fresh = fresh.iter().filter_map(|place| at(table, *place));
        let known = |set: &AuthorizationSet| self.filed(set).cloned();
        let more = Grants::new(sets(&policy, fresh.clone()), known);
        let changed = gone.map(|(route, _)| route).chain(fresh);
        let looks_at = if changed.into_iter().any(|route| asks(route)) {
            Arc::new(Names::of(&policy))
        } else {
            Arc::clone(&self.whole.looks_at)
        };
        Self {
            looks_at,
            exempt: Arc::clone(&self.exempt),
            whole: Arc::clone(&self.whole),
            more,
            routes,
            policy,
        }
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
        self.by_server(None, &mut Memo::new(), connection)
            .unwrap_or_else(|| naive::deny(Denied::Unauthorized, None))
    }

    /// Decides on a request. The rules are those of [`naive`]. `memo` must belong to this
    /// connection and this evaluator.
    ///
    /// Allocates nothing, save where a regular expression is too large for a table or meets a
    /// parameter value that is not ASCII, and where the path's match form is another one.
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
        let path = match_form::matched(request.path, self.policy.paths);
        let request = &RequestView { path: &path, ..*request };
        if let Some(exempt) = self.exempt.iter().find(|e| e.holds(connection, request)) {
            let id = AuthorizationId::Exemption(exempt.index);
            return naive::permit(None, id, &exempt.authorization);
        }
        match self.routes.find(request) {
            Found::Rule(id) => self.by_route(id, memo, connection),
            Found::CannotTell(id) => naive::deny(Denied::CannotTell, Some(id)),
            Found::Deny(reason) => naive::deny(reason, None),
            Found::Server => self
                .by_server(None, memo, connection)
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
        let own = &route.authorizations;
        let whose = id.route.saturating_add(1);
        if !own.is_empty()
            && let Some(index) = self.first_of((whose, own), memo, connection)
        {
            return granted(own, index, Some(id), AuthorizationId::Route(id.route, index));
        }
        let server =
            if route.inherits_server { self.by_server(Some(id), memo, connection) } else { None };
        server.unwrap_or_else(|| naive::deny(Denied::Unauthorized, Some(id)))
    }

    fn by_server(
        &self,
        route: Option<RuleId>,
        memo: &mut Memo,
        connection: &Connection<'_>,
    ) -> Option<Decision> {
        let own = &self.policy.authorizations;
        let index = self.first_of((SERVER, own), memo, connection)?;
        Some(granted(own, index, route, AuthorizationId::Server(index)))
    }

    /// The first authorization of a set that holds. The set is known to `memo` by whose it is.
    fn first_of(
        &self,
        (whose, set): (u32, &AuthorizationSet),
        memo: &mut Memo,
        connection: &Connection<'_>,
    ) -> Option<u32> {
        let filed = || if grants::is_small(set) { None } else { self.filed(set) };
        memo.recall(whose, || match filed() {
            Some(filed) => filed.first(set, connection),
            None => grants::first(set, connection),
        })
    }

    fn filed(&self, set: &AuthorizationSet) -> Option<&Arc<grants::Filed>> {
        self.whole.grants.of(set).or_else(|| self.more.of(set))
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
    route.rules.iter().flat_map(|rule| &rule.matches).any(|wanted| !wanted.headers().is_empty())
}

/// The Server's set of authorizations and those of `routes`.
fn sets<'a>(
    policy: &'a ServerPolicy,
    routes: impl IntoIterator<Item = &'a Arc<Route>>,
) -> impl Iterator<Item = &'a AuthorizationSet> {
    let own = routes.into_iter().map(|route| &route.authorizations);
    std::iter::once(&policy.authorizations).chain(own)
}

fn granted(
    set: &AuthorizationSet,
    index: u32,
    route: Option<RuleId>,
    id: AuthorizationId,
) -> Decision {
    match at(set, index) {
        Some(grant) => naive::permit(route, id, grant),
        None => naive::deny(Denied::Unauthorized, route),
    }
}
