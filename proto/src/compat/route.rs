//! Routes: the policy's own, those for probes, and fallbacks for requests that no route matches.

use super::deny_all::{self, Body};
use super::exemption::probes;
use super::filter::FilterEncoding;
use super::grant::Grants;
use super::match_order::{grpc_order_is_kept, http_order_is_kept};
use super::options::EncodeOptions;
use super::route_kind::{Grpc, Http, LinkerdRoute, RoutePlan, RulePlan, leading_filters};
use super::table::{CLOSED, is_wider};
use super::{guard, meta};
use crate::linkerd::inbound::http_local_rate_limit::{Limit, Override, r#override};
use crate::linkerd::inbound::{Authz, HttpLocalRateLimit, Identity};
use crate::unsupported::{Part, Report};
use http::header::HOST;
use policy_core::decision::Denied;
use policy_core::filter::Filter;
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::matching::{HostPattern, RequestMatch, WrittenMatch};
use policy_core::policy::{Route, RouteTable, ServerPolicy, Unmatched};
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

fn rate_limit(limit: &RateLimit) -> HttpLocalRateLimit {
    let RateLimit { source, total, identity, overrides, refuses: _ } = limit;
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
