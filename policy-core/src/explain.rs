//! Explanations of decisions: the failed condition of each authorization, nearest miss first.

use crate::authorization::{Authorization, Condition, Predicate, Requirement, UnresolvedGrant};
use crate::decision::{AuthorizationId, Decision, Denied, RuleId};
use crate::effect::{EffectsExplanation, explain_effects};
use crate::limit::RateLimit;
use crate::match_form;
use crate::matching::RequestMatch;
use crate::naive;
use crate::name::{Origin, Source};
use crate::network::NetworkTerm;
use crate::policy::{Owner, Protocol, Route, ServerPolicy};
use crate::request::{Connection, RequestView, Subject, Tls};
use std::fmt;
use std::sync::Arc;

pub use crate::naive::{MatchPart, MatchPrecedence, OtherRule, RuleOutcome};

/// The most authorizations that an explanation names.
pub const MAX_CONSIDERED: usize = 16;

/// The explanation of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The owner of the port.
    pub owner: Owner,
    /// The protocol of the port.
    pub protocol: Protocol,
    /// The origin of the matched route, if one matched.
    pub route: Option<Origin>,
    /// The match of that route that took the request; absent where the route was not found by one.
    pub matched: Option<RequestMatch>,
    /// Other matches of the port's routes: those that the request fulfils and that lost, then those that
    /// it misses, fewest parts first. At most [`MAX_CONSIDERED`]; none where no route was looked for.
    pub others: Vec<OtherRule>,
    /// The authorizations that were considered: first the one that holds, if any, then those that
    /// do not, fewest failed conditions first, in the order of the policy where they tie. At most
    /// [`MAX_CONSIDERED`].
    pub considered: Vec<GrantEvaluation>,
    /// Number of further authorizations that were considered.
    pub omitted: usize,
    /// Grants of the route and the Server that resolved to nothing. At most [`MAX_CONSIDERED`].
    pub withheld: Vec<UnresolvedGrant>,
    /// The rate limit of the port, which is spent after the decision.
    pub rate_limit: Option<RateLimit>,
    /// The effects on the request; none where it is denied.
    pub effects: EffectsExplanation,
}

/// One authorization that was considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantEvaluation {
    /// Id of the authorization.
    pub id: AuthorizationId,
    /// The object that would grant.
    pub source: Source,
    /// The first condition that failed; none if the authorization holds.
    pub failed: Option<FailedCondition>,
    /// Number of conditions that failed.
    pub failures: usize,
}

/// A condition that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCondition {
    /// The object that set it; none where the authorization has no condition at all, which holds
    /// for nobody.
    pub condition: Option<Condition>,
    /// The reason why the client does not meet it.
    pub unmet: FailureReason,
    /// The client's own value: its address, its identity or the path segment, in words where it has none.
    pub client: String,
}

/// The reason why a client does not meet a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The condition names nobody.
    NamesNobody,
    /// The client's address is in none of the networks.
    OutsideNetworks,
    /// The client's address is in a network but also in one of its exceptions.
    InException,
    /// The connection is not mesh TLS.
    NoMeshTls,
    /// The connection is mesh TLS but the client proved no identity.
    NoIdentity,
    /// The client's identity is not named.
    IdentityNotNamed,
    /// The connection is not TLS that is passed through.
    NoPassthrough,
    /// The path parameter that the condition is on has another text, or the connection has no request.
    OtherSegment,
}

impl FailureReason {
    /// Returns the reason in words that follow "the client".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NamesNobody => "is not named, because the condition names nobody",
            Self::OutsideNetworks => "has an address outside the networks",
            Self::InException => "has an address that is excepted",
            Self::NoMeshTls => "does not use mesh TLS",
            Self::NoIdentity => "uses mesh TLS without an identity",
            Self::IdentityNotNamed => "has an identity that is not named",
            Self::NoPassthrough => "does not use TLS that the workload terminates",
            Self::OtherSegment => "sends a request with another path parameter",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Explains the decision on a connection, or on a request of it. Takes time in the size of the
/// policy: the caller limits how often.
pub fn explain(
    policy: &ServerPolicy,
    connection: &Connection<'_>,
    request: Option<&RequestView<'_>>,
) -> Explanation {
    let decision = match request {
        Some(request) => naive::decide_request(policy, connection, request),
        None => naive::decide_connection(policy, connection),
    };
    let route = match decision {
        Decision::Permit(permit) => permit.route,
        Decision::Deny(denial) => denial.route,
    };
    let effects = match (&decision, request) {
        (Decision::Permit(permit), Some(request)) => explain_effects(policy, permit, request),
        (Decision::Deny(_), _) | (_, None) => EffectsExplanation::default(),
    };
    let path = request.map(|request| match_form::matched(request.path, policy.paths));
    let request = request.zip(path.as_deref());
    let request = request.map(|(request, path)| RequestView { path, ..*request });
    let subject = Subject { connection, request: request.as_ref() };
    let (matched, others) = match &request {
        Some(request) if looked_for_route(policy, &decision) => rules(policy, route, request),
        Some(_) | None => (None, Vec::new()),
    };
    let mut grants = reached(policy, &decision, route);
    if matches!(decision, Decision::Deny(denial) if denial.reason == Denied::Unauthorized) {
        grants.extend(request.iter().flat_map(|request| beside_routes(policy, request)));
    }
    let total = grants.len();
    let mut considered: Vec<GrantEvaluation> =
        grants.into_iter().map(|(id, grant)| consider(id, grant, &subject)).collect();
    considered.sort_by_key(|entry| entry.failures);
    considered.truncate(MAX_CONSIDERED);
    let route = route.and_then(|id| find(policy, id));
    let own = route.map(|route| &route.withheld[..]).unwrap_or_default();
    let inherits = route.is_none_or(|route| route.inherits_server);
    let server = if inherits { &policy.withheld[..] } else { &[] };
    Explanation {
        decision,
        owner: policy.owner.clone(),
        protocol: policy.protocol,
        route: route.map(|route| route.origin.clone()),
        matched,
        others,
        omitted: total.saturating_sub(considered.len()),
        considered,
        withheld: own.iter().chain(server).take(MAX_CONSIDERED).cloned().collect(),
        rate_limit: policy.rate_limit.clone(),
        effects,
    }
}

/// Returns true unless something else settled the decision before any route was looked for.
fn looked_for_route(policy: &ServerPolicy, decision: &Decision) -> bool {
    let settled = match decision {
        Decision::Permit(permit) => matches!(permit.authorization, AuthorizationId::Exemption(_)),
        Decision::Deny(denial) => matches!(denial.reason, Denied::Target(_)),
    };
    policy.deny.is_none() && policy.protocol.is_http() && !settled
}

/// The match that took the request, and the others.
fn rules(
    policy: &ServerPolicy,
    route: Option<RuleId>,
    request: &RequestView<'_>,
) -> (Option<RequestMatch>, Vec<OtherRule>) {
    let matched = route.and_then(|id| naive::governing_match(policy, id, request)).cloned();
    let mut others = naive::other_rules(policy, route, request);
    others.truncate(MAX_CONSIDERED);
    (matched, others)
}

/// The route that `id` names.
fn find(policy: &ServerPolicy, id: RuleId) -> Option<&Arc<Route>> {
    policy.routes.routes.get(usize::try_from(id.route).ok()?)
}

type Grant<'a> = (AuthorizationId, &'a Arc<Authorization>);

/// The grants of objects for certain requests, which permit them beside all routes, that this is one of.
fn beside_routes<'a>(
    policy: &'a ServerPolicy,
    request: &'a RequestView<'_>,
) -> impl Iterator<Item = Grant<'a>> {
    let numbered = (0_u32..).zip(&policy.exemptions);
    let of_objects = numbered.filter(|(_, exemption)| {
        matches!(exemption.authorization.source, Source::Object(_))
            && naive::is_meant(policy, exemption, request)
    });
    of_objects.map(|(id, exemption)| (AuthorizationId::Exemption(id), &exemption.authorization))
}

/// The authorizations that the decision depended on: none where something else settled it.
fn reached<'a>(
    policy: &'a ServerPolicy,
    decision: &Decision,
    route: Option<RuleId>,
) -> Vec<Grant<'a>> {
    match decision {
        Decision::Deny(denial) if denial.reason != Denied::Unauthorized => return Vec::new(),
        Decision::Deny(_) | Decision::Permit(_) => {}
    }
    if let Decision::Permit(permit) = decision
        && let AuthorizationId::Exemption(index) = permit.authorization
    {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let exemption = policy.exemptions.get(index);
        return exemption.map(|e| (permit.authorization, &e.authorization)).into_iter().collect();
    }
    let mut grants: Vec<Grant<'a>> = Vec::new();
    let mut inherits = true;
    if let Some((id, entry)) = route.and_then(|id| Some((id, find(policy, id)?))) {
        let numbered = (0_u32..).zip(entry.authorizations.iter());
        grants.extend(numbered.map(|(own, g)| (AuthorizationId::Route(id.route, own), g)));
        inherits = entry.inherits_server;
    }
    if inherits {
        let numbered = (0_u32..).zip(policy.authorizations.iter());
        grants.extend(numbered.map(|(own, g)| (AuthorizationId::Server(own), g)));
    }
    grants
}

fn consider(id: AuthorizationId, grant: &Authorization, subject: &Subject<'_>) -> GrantEvaluation {
    let source = grant.source.clone();
    let Requirement::All(conditions) = &grant.requirement else {
        return GrantEvaluation { id, source, failed: None, failures: 0 };
    };
    if conditions.is_empty() {
        let (condition, unmet) = (None, FailureReason::NamesNobody);
        let failed = FailedCondition { condition, unmet, client: identity(subject) };
        return GrantEvaluation { id, source, failed: Some(failed), failures: usize::MAX };
    }
    let mut unmet = conditions.iter().filter(|c| !c.test.holds(subject));
    let failed = unmet.next().map(|condition| FailedCondition {
        unmet: lacking(&condition.test, subject.connection),
        condition: Some(condition.clone()),
        client: value(&condition.test, subject),
    });
    let failures = usize::from(failed.is_some()).saturating_add(unmet.count());
    GrantEvaluation { id, source, failed, failures }
}

/// Returns what the client has where `test` looks.
fn value(test: &Predicate, subject: &Subject<'_>) -> String {
    match test {
        Predicate::Network(_) => subject.connection.client.to_string(),
        Predicate::MeshTls | Predicate::Identity(_) | Predicate::TlsPassthrough => {
            identity(subject)
        }
        Predicate::Segment(condition) => {
            let Some(request) = subject.request else { return "no request".to_owned() };
            let place = usize::try_from(condition.place).unwrap_or(usize::MAX);
            let inner = request.path.strip_prefix('/').unwrap_or_default();
            let text = inner.split('/').nth(place).filter(|text| !text.is_empty());
            text.map_or_else(|| "no such segment".to_owned(), str::to_owned)
        }
    }
}

/// Returns the client's identity, or the state of TLS in words.
fn identity(subject: &Subject<'_>) -> String {
    match subject.connection.tls {
        Tls::Terminated(Some(identity)) => identity.as_str().to_owned(),
        Tls::Terminated(None) => "mesh TLS without an identity".to_owned(),
        Tls::Passthrough => "TLS for the application".to_owned(),
        Tls::Absent => "no mesh TLS".to_owned(),
    }
}

/// Returns the reason why `test` does not hold.
fn lacking(test: &Predicate, connection: &Connection<'_>) -> FailureReason {
    match test {
        Predicate::Network(networks) if networks.is_empty() => FailureReason::NamesNobody,
        Predicate::Network(networks) => {
            let inside = networks.iter().any(|network| match network.term {
                NetworkTerm::Net(net) => net.contains(&connection.client),
                NetworkTerm::Symbol(symbol) => {
                    let blocks = connection.facts.resolve(symbol);
                    blocks.iter().any(|net| net.contains(&connection.client))
                }
            });
            if inside { FailureReason::InException } else { FailureReason::OutsideNetworks }
        }
        Predicate::MeshTls => FailureReason::NoMeshTls,
        Predicate::Identity(names) if names.is_empty() => FailureReason::NamesNobody,
        Predicate::Identity(_) => match connection.tls {
            Tls::Absent | Tls::Passthrough => FailureReason::NoMeshTls,
            Tls::Terminated(None) => FailureReason::NoIdentity,
            Tls::Terminated(Some(_)) => FailureReason::IdentityNotNamed,
        },
        Predicate::TlsPassthrough => FailureReason::NoPassthrough,
        Predicate::Segment(_) => FailureReason::OtherSegment,
    }
}
