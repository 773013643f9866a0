//! Routes: the policy's own, those for probes, and fallbacks for requests that no route matches.

use super::deny_all::{self, Body};
use super::exemption::probes;
use super::filter::{FilterEncoding, is_omitted};
use super::grant::Grants;
use super::options::EncodeOptions;
use super::route_kind::{Grpc, Http, LinkerdRoute, RoutePlan, RulePlan, leading_filters};
use super::table::{CLOSED, is_wider};
use super::{guard, meta};
use crate::linkerd::inbound::http_local_rate_limit::{Limit, Override, r#override};
use crate::linkerd::inbound::{Authz, HttpLocalRateLimit, Identity};
use crate::unsupported::{Part, Report};
use http::header::HOST;
use policy_core::decision::Denied;
use policy_core::filter::{Filter, FilterKind};
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::matching::{HostPattern, PathPattern, RequestMatch, Segment, WrittenMatch};
use policy_core::policy::{Route, RouteTable, Rule, ServerPolicy, Unmatched};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// A port with HTTP routes.
pub(super) fn http(
    policy: &ServerPolicy,
    server: Vec<Authz>,
    limit: Option<&RateLimit>,
    grants: &mut Grants<'_>,
) -> Body {
    let planned = match http_order_is_kept(policy) {
        Ok(()) => plan::<Http>(policy, grants),
        Err(what) => Err(what),
    };
    match planned {
        Ok(planned) => {
            let (routes, server) = place_server_grants(planned, server, grants.report());
            (deny_all::http(policy.protocol, routes, limit.map(rate_limit)), server)
        }
        Err(what) => deny_port(policy, &what, grants.report()),
    }
}

/// A port with gRPC routes.
pub(super) fn grpc(policy: &ServerPolicy, server: Vec<Authz>, grants: &mut Grants<'_>) -> Body {
    let planned = match grpc_order_is_kept(policy) {
        Ok(()) => plan::<Grpc>(policy, grants),
        Err(what) => Err(what),
    };
    match planned {
        Ok(planned) => {
            let (routes, server) = place_server_grants(planned, server, grants.report());
            (deny_all::grpc(routes), server)
        }
        Err(what) => deny_port(policy, &what, grants.report()),
    }
}

fn deny_port(policy: &ServerPolicy, what: &str, report: &mut Report) -> Body {
    report.denied(Part::Port, format!("{what}: the port is denied"));
    deny_all::deny_all(policy.protocol, Denied::ProxyUnsupported)
}

/// Plans all routes in their order. An error names a route that cannot be expressed and must not be
/// omitted, because other routes would match in its place.
fn plan<F: LinkerdRoute>(
    policy: &ServerPolicy,
    grants: &mut Grants<'_>,
) -> Result<Vec<RoutePlan<F>>, String> {
    let RouteTable { routes, hosts: _, otherwise } = &policy.routes;
    let mut real = Vec::with_capacity(routes.len());
    for route in routes {
        real.push(planned(route, &policy.effects, grants)?);
    }
    // What a Server does to all requests, it does to exempt ones too.
    let server = server_filters::<F>(policy, grants);
    let exempt = server.map(|filters| probes(policy, &real, &filters, grants));
    let mut first = exempt.unwrap_or_default();
    let mut last: Vec<RoutePlan<F>> = fallthrough_guards(policy, grants);
    if *otherwise == Unmatched::DefaultRoute {
        let filters = server_filters::<F>(policy, grants);
        let mut default = RoutePlan::everything("default", Vec::new(), filters.is_some());
        for rule in &mut default.rules {
            rule.filters = filters.clone().unwrap_or_default();
        }
        last.push(default);
    }
    let mut all = guard::guards::<F>(policy, grants.options());
    // Linkerd's order where there are no routes: the default one, then the one for probes.
    if real.is_empty() {
        all.extend(last);
        all.extend(first);
    } else {
        first.extend(real);
        first.extend(last);
        all.extend(first);
    }
    all.extend(guard::denials::<F>(policy));
    if all.is_empty() {
        // The proxy replaces an empty list by a route that the Server's grants apply to.
        let reason = match otherwise {
            Unmatched::Deny(reason) => *reason,
            Unmatched::DefaultRoute | Unmatched::NotFound | Unmatched::FallThrough => {
                Denied::NoRoute
            }
        };
        all.push(RoutePlan::everything(reason.as_str(), Vec::new(), false));
    } else if let Unmatched::Deny(reason) = otherwise
        && *otherwise != CLOSED
    {
        let message = format!("`{}` where nothing matches: sent as 404", reason.as_str());
        grants.report().otherwise(Part::Port, message);
    }
    Ok(all)
}

fn planned<F: LinkerdRoute>(
    route: &Route,
    server_effects: &[Filter],
    grants: &mut Grants<'_>,
) -> Result<RoutePlan<F>, String> {
    let Route {
        origin,
        kind: _,
        created: _,
        label: _,
        hosts,
        rules,
        authorizations,
        inherits_server,
        withheld: _,
    } = route;
    let mut permits = origin.refusal().is_none();
    let mut planned_rules: Vec<RulePlan<F>> = Vec::with_capacity(rules.len());
    for rule in rules {
        let options = grants.options();
        let written = rule.matches.iter().filter(|wanted| !is_implicit::<F>(wanted, options));
        let matches: Option<Vec<F::Match>> =
            written.map(|wanted| F::matched(wanted, options)).collect();
        let matches = matches.ok_or_else(|| format!("route {origin} has a match it cannot say"))?;
        if rule.matches.iter().any(|wanted| wanted.headers().iter().any(|h| h.name == HOST)) {
            let message = "a match on the header `host`: HTTP/2 requests have no such header";
            grants.report().otherwise(Part::Route(origin.clone()), message);
        }
        let matches = if rule.matches.is_empty() { F::implicit() } else { matches };
        let filters = filters::<F>(rule.effects.iter().chain(server_effects), grants);
        if filters.is_none() {
            let message = "has an effect that the client cannot apply: the route is denied";
            grants.report().denied(Part::Route(origin.clone()), message);
            permits = false;
        }
        // A probe's route has them even if the rule's own requests are denied.
        let filters = filters.unwrap_or_else(|| leading_filters::<F>(grants.options()));
        planned_rules.push(RulePlan { matches, filters });
    }
    Ok(RoutePlan {
        metadata: RoutePlan::<F>::named(origin),
        hosts: hosts.to_vec(),
        rules: planned_rules,
        grants: if permits { grants.all(authorizations) } else { Vec::new() },
        inherits: *inherits_server && permits,
    })
}

/// Returns true if the match stands for a list without matches, which is sent empty.
fn is_implicit<F: LinkerdRoute>(wanted: &RequestMatch, options: &EncodeOptions) -> bool {
    options.matches_as_written
        && wanted.written() == Some(&WrittenMatch::Nothing)
        && F::is_meant_by_none(wanted)
}

/// Encodes filters. `None` if one of them cannot be encoded and the requests must not pass without
/// it.
fn filters<'e, F: LinkerdRoute>(
    effects: impl IntoIterator<Item = &'e Filter>,
    grants: &mut Grants<'_>,
) -> Option<Vec<F::Filter>> {
    let mut filters = Some(leading_filters::<F>(grants.options()));
    let report = grants.report();
    for Filter { source, kind } in effects {
        match F::filter(kind) {
            FilterEncoding::Sent(filter) => {
                filters.iter_mut().for_each(|all| all.push(filter.clone()))
            }
            FilterEncoding::Omitted(what) => {
                report.left_out(Part::Filter(source.clone()), format!("{what}: not sent"));
            }
            FilterEncoding::Denied(what) => {
                let message = format!("{what}: requests that need it are denied");
                report.denied(Part::Filter(source.clone()), message);
                filters = None;
            }
        }
        if filters.is_none() {
            break;
        }
    }
    filters
}

fn server_filters<F: LinkerdRoute>(
    policy: &ServerPolicy,
    grants: &mut Grants<'_>,
) -> Option<Vec<F::Filter>> {
    filters::<F>(&policy.effects, grants)
}

/// Routes that stop the fall-through. Linkerd's proxies search the next less specific host if none
/// of a host's routes matches. If the policy does not and there is such a host, a route for
/// everything on the host takes the rest.
fn fallthrough_guards<F: LinkerdRoute>(
    policy: &ServerPolicy,
    grants: &mut Grants<'_>,
) -> Vec<RoutePlan<F>> {
    let mut guards = Vec::new();
    for (host, unmatched) in &policy.routes.hosts {
        match unmatched {
            // Every tree denies the rest of its hosts.
            &CLOSED | Unmatched::FallThrough => {}
            Unmatched::DefaultRoute => {
                let filters = server_filters::<F>(policy, grants);
                let hosts = vec![host.clone()];
                let mut route = RoutePlan::everything("default", hosts, filters.is_some());
                for rule in &mut route.rules {
                    rule.filters = filters.clone().unwrap_or_default();
                }
                guards.push(route);
            }
            Unmatched::NotFound | Unmatched::Deny(_) => {
                if has_fallback(policy, host) {
                    let message = "404 where a host's routes do not match: sent as 403";
                    grants.report().otherwise(Part::Port, message);
                    guards.push(RoutePlan::everything("guard", vec![host.clone()], false));
                }
            }
        }
    }
    guards
}

/// Returns true if a less specific table than that of `host` could match its requests.
fn has_fallback(policy: &ServerPolicy, host: &HostPattern) -> bool {
    let RouteTable { routes, hosts, otherwise } = &policy.routes;
    let by_route = routes.iter().any(|route| {
        route.hosts.is_empty() || route.hosts.iter().any(|wider| is_wider(wider, host))
    });
    let by_table =
        hosts.iter().any(|(wider, then)| *then == Unmatched::DefaultRoute && is_wider(wider, host));
    by_route || by_table || *otherwise == Unmatched::DefaultRoute || !policy.exemptions.is_empty()
}

/// Places the Server's grants, which apply to every route of a message. If a route does not inherit
/// them, they are sent with each route that does, instead of with the Server.
fn place_server_grants<F: LinkerdRoute>(
    planned: Vec<RoutePlan<F>>,
    server: Vec<Authz>,
    report: &mut Report,
) -> (Vec<F::Route>, Vec<Authz>) {
    let moved = !server.is_empty() && planned.iter().any(|route| !route.inherits);
    if !moved {
        return (planned.into_iter().map(F::route).collect(), server);
    }
    let message = "grants of the Server: sent with the routes that inherit them, so that \
                   connections that are not HTTP have none";
    report.otherwise(Part::Port, message);
    let routes = planned.into_iter().map(|mut route| {
        if route.inherits {
            route.grants.extend(server.iter().cloned());
        }
        F::route(route)
    });
    (routes.collect(), Vec::new())
}

/// Segments with parameters are sent as expressions. Linkerd's proxies rank a path by the length that
/// was matched alone, so that an expression ties with every exact path and with every other
/// expression that matches the same request. That is the same only where it makes no difference which
/// of them wins.
fn http_order_is_kept(policy: &ServerPolicy) -> Result<(), String> {
    let mut expressions: Vec<Contender<'_>> = Vec::new();
    let mut by_length: BTreeMap<usize, Vec<Contender<'_>>> = BTreeMap::new();
    for contender in matches(policy) {
        match &contender.wanted.path {
            PathPattern::Regex(_) => expressions.push(contender),
            PathPattern::Segments { segments, rest: _ } => {
                by_length.entry(segments.len()).or_default().push(contender);
            }
        }
    }
    let translated = || by_length.values().flatten().filter(|one| shape(one.wanted).is_some());
    if translated().next().is_none() {
        return Ok(());
    }
    let among_expressions = expressions.is_empty() || {
        expressions.extend(translated().copied());
        is_indifferent(&expressions)
    };
    let among_segments =
        by_length.values().all(|same| contests(same).iter().all(|all| is_indifferent(all)));
    if among_expressions && among_segments && is_outranked_by_none(&by_length) {
        return Ok(());
    }
    Err("paths with parameters that compete with others".to_owned())
}

/// Returns true if no path with parameters competes with a prefix that comes before it, because it has
/// text where the path has a parameter. There the path would win, because it matches more.
fn is_outranked_by_none(by_length: &BTreeMap<usize, Vec<Contender<'_>>>) -> bool {
    let all = || by_length.values().flatten();
    let shapes: BTreeSet<Vec<bool>> = all().filter_map(|one| shape(one.wanted)).collect();
    shapes.iter().all(|shape| {
        let with_parameter = (1..=shape.len()).filter_map(|length| shape.get(..length));
        let mut begins = with_parameter.filter(|begin| begin.contains(&true));
        begins.all(|begin| {
            // By the text of the segments that are text in both.
            let mut meeting: BTreeMap<Vec<&Segment>, (Vec<Contender<'_>>, bool)> = BTreeMap::new();
            for one in all() {
                let PathPattern::Segments { segments, rest } = &one.wanted.path else { continue };
                let is_own = self::shape(one.wanted).as_ref() == Some(shape);
                let is_rival = *rest && segments.len() == begin.len();
                if !is_own && !is_rival {
                    continue;
                }
                let texts = segments.iter().zip(begin).filter(|(_, parameter)| !**parameter);
                let key = texts.map(|(segment, _)| segment).collect();
                let (group, has_own) = meeting.entry(key).or_default();
                group.push(*one);
                *has_own |= is_own;
            }
            let mut groups = meeting.values().filter(|(_, has_own)| *has_own);
            groups.all(|(group, _)| is_indifferent(group))
        })
    })
}

/// A match, and the rule and the route it belongs to.
#[derive(Clone, Copy)]
struct Contender<'p> {
    route: &'p Route,
    rule: &'p Rule,
    wanted: &'p RequestMatch,
}

/// Returns for each segment of a path whether it is a parameter; `None` if none is.
fn shape(wanted: &RequestMatch) -> Option<Vec<bool>> {
    let PathPattern::Segments { segments, rest: _ } = &wanted.path else { return None };
    let shape: Vec<bool> = segments.iter().map(|s| matches!(s, Segment::Parameter(_))).collect();
    shape.contains(&true).then_some(shape)
}

/// Of matches with equally many segments, those that may match the same path as one with parameters,
/// together.
fn contests<'p>(same_length: &[Contender<'p>]) -> Vec<Vec<Contender<'p>>> {
    let shapes: BTreeSet<Vec<bool>> =
        same_length.iter().filter_map(|one| shape(one.wanted)).collect();
    let mut shapes = shapes.into_iter();
    let (shape, other) = (shapes.next(), shapes.next());
    let Some(shape) = shape else { return Vec::new() };
    if other.is_some() {
        return vec![same_length.to_vec()];
    }
    // With one shape, paths that differ where it has literals never meet.
    let mut groups: BTreeMap<Vec<&Segment>, Vec<Contender<'p>>> = BTreeMap::new();
    for one in same_length {
        let PathPattern::Segments { segments, rest: _ } = &one.wanted.path else { continue };
        let literals = segments.iter().zip(&shape).filter(|(_, parameter)| !**parameter);
        let literals = literals.map(|(segment, _)| segment).collect();
        groups.entry(literals).or_default().push(*one);
    }
    let has_shape =
        |group: &[Contender<'_>]| group.iter().any(|one| self::shape(one.wanted).is_some());
    groups.into_values().filter(|group| has_shape(group)).collect()
}

/// A call of any service and any method ranks above a match of every request, but is sent as the
/// same.
fn grpc_order_is_kept(policy: &ServerPolicy) -> Result<(), String> {
    let is_wild = |wanted: &RequestMatch| match &wanted.path {
        PathPattern::Regex(_) => false,
        PathPattern::Segments { segments, rest: _ } => {
            segments.iter().all(|s| matches!(s, Segment::Parameter(_)))
        }
    };
    let wild: Vec<Contender<'_>> = matches(policy).filter(|one| is_wild(one.wanted)).collect();
    let is_call = |wanted: &RequestMatch| wanted.method().is_some();
    let all_calls = wild.iter().all(|one| is_call(one.wanted));
    let no_calls = !wild.iter().any(|one| is_call(one.wanted));
    // A rule without matches is one that matches every request.
    let implicit = policy.routes.routes.iter().flat_map(|r| &r.rules).any(|r| r.matches.is_empty());
    if no_calls || (all_calls && !implicit) || (!implicit && is_indifferent(&wild)) {
        return Ok(());
    }
    Err("matches of any call that compete with matches of every request".to_owned())
}

fn matches(policy: &ServerPolicy) -> impl Iterator<Item = Contender<'_>> {
    let routes = policy.routes.routes.iter();
    let rules = routes.flat_map(|route| route.rules.iter().map(move |rule| (&**route, rule)));
    rules.flat_map(|(route, rule)| {
        rule.matches.iter().map(move |wanted| Contender { route, rule, wanted })
    })
}

/// Returns true if every one of these matches leads to the same permission and the same effects.
fn is_indifferent(matches: &[Contender<'_>]) -> bool {
    let Some((first, others)) = matches.split_first() else { return true };
    if others.is_empty() {
        return true;
    }
    matches.iter().all(|Contender { route, rule, wanted }| {
        wanted.headers().is_empty()
            && wanted.query().is_empty()
            && route.authorizations == first.route.authorizations
            && route.inherits_server == first.route.inherits_server
            && route.origin.refusal().is_some() == first.route.origin.refusal().is_some()
            && !needs_rewrite(route)
            && sent_effects(rule).eq(sent_effects(first.rule))
    })
}

/// The effects of a rule that clients get.
fn sent_effects(rule: &Rule) -> impl Iterator<Item = &FilterKind> {
    rule.effects.iter().map(|effect| &effect.kind).filter(|kind| !is_omitted(kind))
}

/// Returns true if requests of the route must not be forwarded without a rewrite of their headers.
fn needs_rewrite(route: &Route) -> bool {
    let mut effects = route.rules.iter().flat_map(|rule| &rule.effects);
    effects.any(|effect| effect.kind.is_required())
}

fn rate_limit(limit: &RateLimit) -> HttpLocalRateLimit {
    let RateLimit { source, total, identity, overrides } = limit;
    let rate = |rate: &NonZeroU32| Limit { requests_per_second: rate.get() };
    HttpLocalRateLimit {
        metadata: Some(meta::limit(source)),
        total: total.as_ref().map(rate),
        identity: identity.as_ref().map(rate),
        overrides: overrides
            .iter()
            .map(|LimitOverride { requests_per_second, clients }| Override {
                limit: Some(rate(requests_per_second)),
                clients: Some(r#override::ClientIdentities {
                    identities: clients
                        .iter()
                        .map(|name| Identity { name: name.to_string() })
                        .collect(),
                }),
            })
            .collect(),
    }
}
