//! Exemptions. Linkerd's proxies have none: they become a grant on the Server where there are no
//! requests, else a route named `probe`.

use super::grant::Grants;
use super::route_kind::{LinkerdRoute, RoutePlan, RulePlan};
use crate::linkerd::inbound::Authz;
use crate::unsupported::{Part, Report};
use http::Method;
use policy_core::filter::FilterKind;
use policy_core::match_form;
use policy_core::matching::{PathPattern, RequestMatch, Segment};
use policy_core::name::Origin;
use policy_core::policy::{Exemption, PathHandling, Route, ServerPolicy, Unmatched};
use policy_core::precedence::Precedence;
use std::collections::BTreeMap;

/// Exemptions of connections as grants, for ports that have nothing else.
pub(super) fn connections(exemptions: &[Exemption], grants: &mut Grants<'_>) -> Vec<Authz> {
    let connections = exemptions.iter().filter(|exemption| exemption.request.is_none());
    connections.filter_map(|exemption| grants.one(&exemption.authorization)).collect()
}

/// Reports exemptions of connections as not sent: on a port with requests, a grant on the Server
/// would permit the requests too.
pub(super) fn note_connections(exemptions: &[Exemption], report: &mut Report) {
    for exemption in exemptions.iter().filter(|exemption| exemption.request.is_none()) {
        report.left_out(part(exemption), "for connections that are not HTTP: not sent");
    }
}

fn part(exemption: &Exemption) -> Part {
    Part::Exemption(exemption.authorization.source.clone())
}

/// Other clients that may send the requests of an exemption: those that the route permits that
/// would have matched them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OtherClients {
    Nobody,
    /// Clients with a grant on the Server.
    Server,
    /// Clients permitted by this route, with the filters of this rule.
    Rule(usize, usize),
}

/// Matches in order of their paths, each once.
type Matches<'p, F> = BTreeMap<(String, Option<&'p str>), <F as LinkerdRoute>::Match>;

/// The routes that stand in for the exemptions. `real` are the policy's own routes, planned in the
/// same order; `filters` are the Server's, which apply to exempt requests too.
pub(super) fn probes<F: LinkerdRoute>(
    policy: &ServerPolicy,
    real: &[RoutePlan<F>],
    filters: &[F::Filter],
    grants: &mut Grants<'_>,
) -> Vec<RoutePlan<F>> {
    // By grant and by who else: the matches, in order of their paths.
    let mut groups: BTreeMap<_, Matches<'_, F>> = BTreeMap::new();
    for exemption in &policy.exemptions {
        let Some(request) = &exemption.request else { continue };
        let expressible = exact(request).zip(F::matched(request, grants.options()));
        let Some((path, matched)) = expressible else {
            grants.report().left_out(part(exemption), "not an exact path and a method: not sent");
            continue;
        };
        let others = others(policy, &path, request.method());
        if others == OtherClients::Nobody && !policy.routes.routes.is_empty() {
            let message = format!("`{path}`: no one else is let through there");
            grants.report().otherwise(part(exemption), message);
        }
        let key = (exemption.authorization.clone(), others);
        let method = request.method().map(Method::as_str);
        groups.entry(key).or_default().insert((path, method), matched);
    }
    let mut planned = Vec::new();
    for ((authorization, others), matches) in groups {
        let Some(grant) = grants.one(&authorization) else { continue };
        let (own, inherits, applied) = match others {
            OtherClients::Nobody => (Vec::new(), false, filters.to_vec()),
            OtherClients::Server => (Vec::new(), true, filters.to_vec()),
            OtherClients::Rule(route, rule) => shared(real, (route, rule), filters),
        };
        let rule = RulePlan { matches: matches.into_values().collect(), filters: applied };
        planned.push(RoutePlan {
            metadata: RoutePlan::<F>::named(&Origin::Probe),
            hosts: Vec::new(),
            rules: vec![rule],
            grants: [vec![grant], own].concat(),
            inherits,
        });
    }
    planned
}

fn shared<F: LinkerdRoute>(
    real: &[RoutePlan<F>],
    (route, rule): (usize, usize),
    filters: &[F::Filter],
) -> (Vec<Authz>, bool, Vec<F::Filter>) {
    let found = real.get(route).and_then(|route| Some((route, route.rules.get(rule)?)));
    match found {
        Some((route, rule)) => (route.grants.clone(), route.inherits, rule.filters.clone()),
        None => (Vec::new(), false, filters.to_vec()),
    }
}

/// Returns the exact path of a match that has no other predicates but a method.
fn exact(wanted: &RequestMatch) -> Option<String> {
    let (path, _, headers, query) = wanted.parts();
    let PathPattern::Segments { segments, rest: false } = path else { return None };
    if !headers.is_empty() || !query.is_empty() || segments.is_empty() {
        return None;
    }
    let mut text = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(literal) if !literal.contains('/') => {
                text.push('/');
                text.push_str(literal);
            }
            Segment::Literal(_) | Segment::Parameter(_) => return None,
        }
    }
    Some(text)
}

/// Returns the clients that may send a request for `path` that no route for its host matches.
fn others(policy: &ServerPolicy, path: &str, method: Option<&Method>) -> OtherClients {
    let everything = [RequestMatch::everything()];
    let path = match policy.paths {
        PathHandling::Canonical => match_form(path),
        PathHandling::Raw => path.into(),
    };
    let mut best: Option<(Precedence, OtherClients)> = None;
    for (index, route) in policy.routes.routes.iter().enumerate() {
        if !route.hosts.is_empty() {
            continue;
        }
        for (number, rule) in route.rules.iter().enumerate() {
            let matches = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
            let matches = matches.iter().map(|wanted| wanted.on_port(policy.paths));
            for wanted in matches.filter(|wanted| may_match(wanted, &path, method)) {
                let rank = Precedence::of(&wanted);
                if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                    let certain = is_certain(&wanted, method) && !answers(&rule.effects);
                    let others = if certain && !denies(route) {
                        OtherClients::Rule(index, number)
                    } else {
                        OtherClients::Nobody
                    };
                    best = Some((rank, others));
                }
            }
        }
    }
    match (best, policy.routes.otherwise) {
        (Some((_, others)), _) => others,
        (None, Unmatched::DefaultRoute) => OtherClients::Server,
        (None, Unmatched::NotFound | Unmatched::Deny(_) | Unmatched::FallThrough) => {
            OtherClients::Nobody
        }
    }
}

fn denies(route: &Route) -> bool {
    route.origin.refusal().is_some()
}

/// Returns true if the rule responds in place of the workload; probes must reach the workload.
fn answers(effects: &[policy_core::filter::Filter]) -> bool {
    effects.iter().any(|effect| match effect.kind {
        FilterKind::Redirect(_) | FilterKind::Failure(_) => true,
        FilterKind::RequestHeaders(_)
        | FilterKind::ResponseHeaders(_)
        | FilterKind::Timeout(_)
        | FilterKind::Timeouts(_)
        | FilterKind::Rewrite(_) => false,
    })
}

fn may_match(wanted: &RequestMatch, path: &str, method: Option<&Method>) -> bool {
    let same_method = match (&wanted.method(), method) {
        (Some(wanted), Some(method)) => wanted == method,
        (None, _) | (_, None) => true,
    };
    same_method && wanted.path.admits(path)
}

/// Returns true if it matches every request that it may match.
fn is_certain(wanted: &RequestMatch, method: Option<&Method>) -> bool {
    let by_method = wanted.method().is_none() || method.is_some();
    by_method && wanted.headers().is_empty() && wanted.query().is_empty()
}
