//! A policy compiled into indexes for decisions.
//!
//! It shares no rule with [`crate::naive`], which it is checked against, save the forms in which paths
//! and hosts are compared (`match_form`, [`crate::host`]) and what a regular expression matches
//! ([`crate::pattern`]).

pub use crate::index::bounds::{BuildError, MAX_SEGMENTS};
pub use crate::memo::Memo;

use crate::authorization::{Authorization, AuthorizationSet};
use crate::change::RouteChange;
use crate::decision::{AuthorizationId, Decision, Denied, Permit, RuleId, TargetFault};
use crate::filter::Filter;
use crate::index::automaton::RegexCompiler;
use crate::index::changes::RouteIndex;
use crate::index::exempt::CompiledExemption;
use crate::index::grants::{self, ConnectionGrants, Grants};
use crate::index::routes::RouteMatch;
use crate::index::{at, next_id};
use crate::match_form;
use crate::match_result::has_ambiguous_bytes;
use crate::policy::{Protocol, Route, Rule, ServerPolicy};
use crate::request::{Connection, RequestView, Subject, Tls};
use hashbrown::HashSet;
use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;

/// A [`ServerPolicy`] compiled for decisions: rules that do not match cost nothing. Tables are
/// built once and only read afterwards.
#[derive(Debug)]
pub struct Evaluator {
    policy: Arc<ServerPolicy>,
    matched_headers: Arc<HeaderNames>,
    exempt: Arc<[CompiledExemption]>,
    routes: RouteIndex,
    whole: Arc<BaseIndex>,
    /// The sets that are not in `whole`.
    more: Grants,
}

/// The index of the policy that was last indexed as a whole.
#[derive(Debug)]
struct BaseIndex {
    grants: Grants,
    matched_headers: Arc<HeaderNames>,
}

/// Names of headers, as a sorted list and as a set.
#[derive(Debug)]
struct HeaderNames {
    sorted: Arc<[HeaderName]>,
    set: HashSet<HeaderName, foldhash::fast::FixedState>,
}

/// The Server's own set of authorizations, for a [`Memo`].
const SERVER: u32 = 0;

/// Up to this number, the names are looked up in the request.
const FEW_NAMES: usize = 4;

impl Evaluator {
    /// Compiles `policy`. Fails only for policies of absurd size.
    pub fn build(policy: Arc<ServerPolicy>) -> Result<Self, BuildError> {
        let mut compiler = RegexCompiler::default();
        let mut exempt = Vec::new();
        for (index, exemption) in policy.exemptions.iter().enumerate() {
            let index = next_id(index, "list of exemptions")?;
            if let Some(request) = &exemption.request {
                let context = (policy.paths, &mut compiler);
                exempt.push(CompiledExemption::new(index, exemption, request, context));
            }
        }
        let routes = RouteIndex::new(&policy, &mut compiler)?;
        let grants = Grants::new(sets(&policy, &policy.routes.routes), |_| None);
        let matched_headers = Arc::new(HeaderNames::of(&policy));
        Ok(Self {
            matched_headers: Arc::clone(&matched_headers),
            exempt: exempt.into(),
            routes,
            whole: Arc::new(BaseIndex { grants, matched_headers }),
            more: Grants::default(),
            policy,
        })
    }

    /// Compiles `policy`, whose routes differ by `change` from those of this evaluator's policy.
    /// Indexes only the changed routes where they are few. Equivalent to [`Evaluator::build`],
    /// which it calls if `change` is from another policy.
    ///
    /// # Errors
    /// As [`Evaluator::build`].
    pub fn changed_to(
        &self,
        policy: Arc<ServerPolicy>,
        change: &RouteChange,
    ) -> Result<Self, BuildError> {
        let Some(places) = change.since(&self.policy) else { return Self::build(policy) };
        debug_assert!(change.leads_to(&policy), "routes differ that the change does not name");
        if self.policy.exemptions != policy.exemptions || self.policy.paths != policy.paths {
            return Self::build(policy);
        }
        match self.routes.changed_to(&policy.routes, places)? {
            Some(routes) => Ok(self.with(policy, routes)),
            None => Self::build(policy),
        }
    }

    fn with(&self, policy: Arc<ServerPolicy>, routes: RouteIndex) -> Self {
        let base = &routes.base().routes.routes;
        let (gone, fresh) =
            routes.since().map_or((&[][..], &[][..]), |s| (s.removed(), s.inserted()));
        let gone = gone.iter().filter_map(|place| base.get(*place));
        let fresh = fresh.iter().filter_map(|place| policy.routes.routes.get(*place));
        let known = |set: &AuthorizationSet| self.grant_index(set).cloned();
        let more = Grants::new(sets(&policy, fresh.clone()), known);
        let matched_headers = if gone.chain(fresh).any(|route| matches_headers(route)) {
            Arc::new(HeaderNames::of(&policy))
        } else {
            Arc::clone(&self.whole.matched_headers)
        };
        Self {
            matched_headers,
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

    /// Decides on a connection that is not HTTP. The rules are those of [`crate::naive`]. Grants that
    /// depend on a request permit none.
    pub fn decide_connection(&self, connection: &Connection<'_>) -> Decision {
        let policy = &*self.policy;
        if let Some(reason) = policy.deny {
            return Decision::deny(reason, None);
        }
        let subject = Subject::of_connection(connection);
        if let Some(exempted) = self.exempted_connection(&subject) {
            return exempted;
        }
        if !policy.admits_bytes() {
            return Decision::deny(Denied::ProtocolMismatch, None);
        }
        if matches!((policy.protocol, connection.tls), (Protocol::Tls, Tls::Absent)) {
            return Decision::deny(Denied::TlsRequired, None);
        }
        self.by_server(None, &mut Memo::new(), &subject)
            .unwrap_or_else(|| Decision::deny(Denied::Unauthorized, None))
    }

    fn exempted_connection(&self, subject: &Subject<'_>) -> Option<Decision> {
        let mut exemptions = (0_u32..).zip(&self.policy.exemptions);
        let (index, exemption) = exemptions.find(|(_, exemption)| {
            exemption.request.is_none() && exemption.authorization.holds(subject)
        })?;
        let id = AuthorizationId::Exemption(index);
        Some(Decision::permit(None, id, exemption.authorization.audit))
    }

    /// Decides on a request. The rules are those of [`crate::naive`]. `memo` must belong to this
    /// connection and this evaluator; conditions on the request are evaluated for each request.
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
            return Decision::deny(reason, None);
        }
        if !self.policy.protocol.is_http() {
            return Decision::deny(Denied::NoRoute, None);
        }
        if self.has_obs_text(request.headers) {
            return Decision::deny(Denied::Target(TargetFault::ObsText), None);
        }
        let path = match_form::matched(request.path, self.policy.paths);
        let request = &RequestView { path: &path, ..*request };
        let subject = &Subject::of_request(connection, request);
        if let Some(exempt) = self.exempt.iter().find(|e| e.holds(subject, request)) {
            let id = AuthorizationId::Exemption(exempt.index);
            return Decision::permit(None, id, exempt.authorization.audit);
        }
        // A sidecar reads no request there; an application that enforces its own policy does.
        if connection.tls == Tls::Passthrough
            && let Some(exempted) = self.exempted_connection(&Subject::of_connection(connection))
        {
            return exempted;
        }
        match self.routes.find(request) {
            RouteMatch::Rule(id) => self.by_route(id, memo, subject),
            RouteMatch::Indeterminate(id) => Decision::deny(Denied::CannotTell, Some(id)),
            RouteMatch::Deny(reason) => Decision::deny(reason, None),
            RouteMatch::Server => self
                .by_server(None, memo, subject)
                .unwrap_or_else(|| Decision::deny(Denied::Unauthorized, None)),
        }
    }

    fn has_obs_text(&self, headers: &HeaderMap) -> bool {
        let ambiguous = |line: &HeaderValue| has_ambiguous_bytes(line.as_bytes());
        let HeaderNames { sorted, set } = &*self.matched_headers;
        if sorted.len() <= FEW_NAMES {
            let mut lines = sorted.iter().flat_map(|name| headers.get_all(name));
            return lines.any(ambiguous);
        }
        // Bytes first: such values are rare, names cost a look-up.
        headers.iter().any(|(name, line)| ambiguous(line) && set.contains(name))
    }

    fn by_route(&self, id: RuleId, memo: &mut Memo, subject: &Subject<'_>) -> Decision {
        let Some(route) = at(&self.policy.routes.routes, id.route) else {
            return Decision::deny(Denied::NoRoute, None);
        };
        if let Some(reason) = route.origin.refusal() {
            return Decision::deny(reason, Some(id));
        }
        let own = &route.authorizations;
        let whose = id.route.saturating_add(1);
        if !own.is_empty()
            && let Some(index) = self.first_of((whose, own), memo, subject)
        {
            return granted(own, index, Some(id), AuthorizationId::Route(id.route, index));
        }
        let server =
            if route.inherits_server { self.by_server(Some(id), memo, subject) } else { None };
        server.unwrap_or_else(|| Decision::deny(Denied::Unauthorized, Some(id)))
    }

    fn by_server(
        &self,
        route: Option<RuleId>,
        memo: &mut Memo,
        subject: &Subject<'_>,
    ) -> Option<Decision> {
        let own = &self.policy.authorizations;
        let index = self.first_of((SERVER, own), memo, subject)?;
        Some(granted(own, index, route, AuthorizationId::Server(index)))
    }

    /// Returns the first authorization of a set that holds. `whose` is the key of the set in
    /// `memo`.
    fn first_of(
        &self,
        (whose, set): (u32, &AuthorizationSet),
        memo: &mut Memo,
        subject: &Subject<'_>,
    ) -> Option<u32> {
        let grant_index = || if grants::is_small(set) { None } else { self.grant_index(set) };
        let ConnectionGrants { first, has_request_grants } =
            memo.get_or_insert_with(whose, || match grant_index() {
                Some(index) => index.for_connection(set, subject.connection),
                None => grants::for_connection(set, subject.connection),
            });
        if !has_request_grants {
            return first;
        }
        let earlier = match grant_index() {
            Some(index) => index.for_request(set, first, subject),
            None => grants::for_request(set, first, subject),
        };
        earlier.or(first)
    }

    fn grant_index(&self, set: &AuthorizationSet) -> Option<&Arc<grants::GrantIndex>> {
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
    pub fn effects(&self, permit: &Permit) -> impl Iterator<Item = &Filter> {
        let rule = permit.route.and_then(|id| self.rule(id));
        rule.into_iter().flat_map(|(_, rule)| &rule.effects).chain(&self.policy.effects)
    }

    /// The effects on a permitted request that apply to `request`, which is as it was received, in the
    /// same order.
    pub fn effects_on(&self, permit: &Permit, request: &RequestView<'_>) -> Vec<&Filter> {
        let path = match_form::matched(request.path, self.policy.paths);
        let request = &RequestView { path: &path, ..*request };
        self.effects(permit).filter(|effect| effect.kind.applies_to(request)).collect()
    }

    /// Returns the headers that any match reads, sorted by name. An open request must keep them to
    /// be decided again. `host` is not among them, because matches read the canonical host.
    pub fn matched_headers(&self) -> &[HeaderName] {
        &self.matched_headers.sorted
    }

    /// Returns the same names, shared, so that they may outlive the evaluator.
    pub fn matched_headers_shared(&self) -> &Arc<[HeaderName]> {
        &self.matched_headers.sorted
    }
}

impl HeaderNames {
    /// The headers that any match looks at.
    fn of(policy: &ServerPolicy) -> Self {
        let rules = policy.routes.routes.iter().flat_map(|route| &route.rules);
        let exempt = policy.exemptions.iter().filter_map(|exemption| exemption.request.as_deref());
        let matches = rules.flat_map(|rule| &rule.matches).chain(exempt);
        let names = matches.flat_map(|wanted| wanted.headers()).map(|header| &header.name);
        let names = names.filter(|name| **name != HOST);
        let names: HashSet<&HeaderName, foldhash::fast::FixedState> = names.collect();
        let mut sorted: Vec<HeaderName> = names.into_iter().cloned().collect();
        sorted.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let set = sorted.iter().cloned().collect();
        Self { sorted: sorted.into(), set }
    }
}

/// Returns true if a route matches on any header.
fn matches_headers(route: &Route) -> bool {
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
        Some(grant) => Decision::permit(route, id, grant.audit),
        None => Decision::deny(Denied::Unauthorized, route),
    }
}

#[cfg(test)]
mod tests;
