//! The evaluator that reads like the specification. It exists to check [`crate::Evaluator`]
//! against, and to explain; it is slow and allocates.
//!
//! It spells out every rule itself, so that a rule that is wrong in one of the two shows. It takes from
//! elsewhere the forms in which paths and hosts are compared (`match_form`, [`crate::host`]) and what a
//! regular expression matches ([`crate::pattern`]); all have tests of their own.
//!
//! **Grants**
//! 1. A grant without conditions holds for everybody; one with an empty list of conditions for
//!    nobody; else it holds for clients that meet each condition.
//! 2. A network condition is met by a client inside one of the blocks, or inside one that the symbol
//!    stands for, and inside no exception to it. Families of addresses never meet.
//! 3. A condition on mesh TLS is met where TLS was terminated here; one on identities also needs a
//!    proved identity that is named: by `*`, exactly, or, where it is a DNS name, by what follows one
//!    of its dots but the first byte.
//! 4. A condition on passed-through TLS is met by just that.
//! 5. A condition on a path segment is met by no connection. A request meets it whose segment at that
//!    place is, or with `NotIn` is not, one of the texts; without such a segment, or with an empty one,
//!    it meets neither. Segments are compared in match form; where the port takes paths as they come, no
//!    segment of a path that is not canonical, or not in match form, meets either.
//!
//! **A connection that is not HTTP**
//! 1. A policy that denies the port denies the connection, with the policy's reason.
//! 2. An exemption for connections (one without a request match) whose authorization holds
//!    permits it.
//! 3. A protocol that is only HTTP refuses it as `protocol_mismatch`; so does an unknown protocol
//!    where routes are attached, requests are limited, or an effect of the Server is required: a
//!    change of headers that says so, or a failure.
//! 4. On a TLS port, a connection without TLS is refused as `tls_required`.
//! 5. The first of the Server's authorizations that holds permits it; else `unauthorized`.
//!
//! **A request**
//! 1. A policy that denies the port denies the request, with the policy's reason.
//! 2. Where the protocol is not HTTP there are no routes: `no_route`.
//! 3. If a header that any match of the policy looks at has bytes outside visible ASCII, the
//!    request is refused as `header_obs_text`.
//! 4. Paths are compared in their match form, those of requests and of matches alike; a regular
//!    expression sees that form. Where the port takes paths as they come, both stay as they are. A
//!    match on `host` looks at the canonical host, and its exact value is brought to that form.
//! 5. The first exemption whose match matches and whose authorization holds permits it. On a connection
//!    of passed-through TLS, which only an application that enforces its own policy reads, so does an
//!    exemption for connections.
//! 6. On a host whose most specific table denies what it does not match as `not_delegated`, this rule does
//!    not apply. Else the first match of a route that comes before all others, on whose hosts the request is and that
//!    is not `NoMatch`, refuses it as `route_invalid`. These routes are in no table.
//! 7. The tables that the host names are searched in order: its own, that of each suffix, the
//!    longest first, then the table of routes without hosts. For a request without a host only the
//!    last is searched.
//! 8. In a table, the matches of all rules of its routes are tried in order of precedence: paths
//!    of text alone before regular expressions before others; of others, at the first segment where
//!    they differ, text before a parameter before any further segments; with a method before
//!    without; more headers; more query parameters; earlier in the list of routes, rules and matches.
//!    A rule without matches matches everything.
//! 9. The first result that is not `NoMatch` decides: if it is `Indeterminate`, the request is
//!    refused as `cannot_tell`; else its rule decides.
//! 10. If none matches, the table's setting applies: decide by the Server's authorizations alone,
//!     `no_route`, deny with a reason, or search the next table. After the last table there is
//!     no next: `no_route`.
//! 11. A route that only denies refuses with its reason; one for a path that was handed down and did
//!     not arrive, with `not_delegated`.
//! 12. The first of the route's own authorizations that holds permits; then, if it inherits, the
//!     first of the Server's; else `unauthorized`.
//!
//! **Effects on a permitted request**
//! 1. Those of the rule in their order, then those of the Server. An exemption has no rule.
//! 2. One with conditions applies where the request as it was received meets each of them.
//! 3. A header condition looks at each line of that name, and at the canonical host in place of the
//!    lines of `host`. `In` is met where a line is one of the values, `NotIn` where none is.
//! 4. Of several bounds on one part of an exchange the smallest holds. A bound on the request ends with
//!    the response, or with its head where streams are unbounded.

mod conditions;
mod effects;
mod grants;
mod matches;
mod others;

pub use effects::{effects, timeouts};
pub use others::{MatchPart, MatchPrecedence, OtherRule, RuleOutcome, other_rules};

use crate::authorization::Authorization;
use crate::decision::{AuthorizationId, Decision, Denied, RuleId, TargetFault};
use crate::filter::FilterKind;
use crate::limit::RateLimit;
use crate::match_form;
use crate::match_result::MatchResult;
use crate::matching::{HostPattern, RequestMatch};
use crate::name::Origin;
use crate::policy::{Exemption, Protocol, Route, ServerPolicy, Unmatched};
use crate::request::{Connection, RequestView, Subject, Tls};
use http::HeaderName;
use http::header::HOST;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Decides on a connection that is not HTTP.
pub fn decide_connection(policy: &ServerPolicy, connection: &Connection<'_>) -> Decision {
    let subject = Subject::of_connection(connection);
    if let Some(reason) = policy.deny {
        return deny(reason, None);
    }
    let exempt = policy.exemptions.iter().position(|exemption| {
        exemption.request.is_none() && grants::holds(&exemption.authorization, &subject)
    });
    if let Some(index) = exempt {
        return exempted(policy, index);
    }
    if carries_http_alone(policy) {
        return deny(Denied::ProtocolMismatch, None);
    }
    if policy.protocol == Protocol::Tls && connection.tls == Tls::Absent {
        return deny(Denied::TlsRequired, None);
    }
    by_server(policy, &subject, None)
}

/// Returns true if connections that are not HTTP are refused for all clients.
fn carries_http_alone(policy: &ServerPolicy) -> bool {
    match policy.protocol {
        Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => true,
        Protocol::Opaque | Protocol::Tls => false,
        Protocol::Detect { .. } => {
            let required = policy.effects.iter().find(|effect| {
                let is_change = matches!(&effect.kind, FilterKind::Rewrite(own) if own.required);
                is_change || matches!(effect.kind, FilterKind::Failure(_))
            });
            has_attached_routes(policy)
                || policy.rate_limit.as_ref().is_some_and(limits)
                || required.is_some()
        }
    }
}

/// Returns true if routes were attached, even if none of them is left.
fn has_attached_routes(policy: &ServerPolicy) -> bool {
    let table = &policy.routes;
    if table.routes.is_empty() {
        let mut said = table.hosts.values().copied().chain([table.otherwise]);
        return !said.any(|unmatched| unmatched == Unmatched::DefaultRoute);
    }
    table.routes.iter().any(|route| match route.origin {
        Origin::Default | Origin::Probe => false,
        Origin::Objects(_) | Origin::Delegated(_) | Origin::Undelegated(_) => true,
        Origin::Guard | Origin::Deny(_) | Origin::Unreadable(_) => true,
    })
}

fn limits(limit: &RateLimit) -> bool {
    let RateLimit { source: _, total, identity, overrides, refuses } = limit;
    *refuses || total.is_some() || identity.is_some() || !overrides.is_empty()
}

/// Decides on a request.
pub fn decide_request(
    policy: &ServerPolicy,
    connection: &Connection<'_>,
    request: &RequestView<'_>,
) -> Decision {
    if let Some(reason) = policy.deny {
        return deny(reason, None);
    }
    match policy.protocol {
        Protocol::Opaque | Protocol::Tls => return deny(Denied::NoRoute, None),
        Protocol::Detect { .. } | Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => {}
    }
    if has_obs_text(policy, request) {
        return deny(Denied::Target(TargetFault::ObsText), None);
    }
    let path = match_form::matched(request.path, policy.paths);
    let request = &RequestView { path: &path, ..*request };
    let subject = Subject::of_request(connection, request);
    let exempt = policy.exemptions.iter().position(|exemption| {
        is_meant(policy, exemption, request) && grants::holds(&exemption.authorization, &subject)
    });
    let exempt = exempt.or_else(|| {
        let carried = Subject::of_connection(connection);
        policy.exemptions.iter().position(|exemption| {
            connection.tls == Tls::Passthrough
                && exemption.request.is_none()
                && grants::holds(&exemption.authorization, &carried)
        })
    });
    if let Some(index) = exempt {
        return exempted(policy, index);
    }
    if let Some(id) = unreadable(policy, request) {
        return deny(Denied::RouteInvalid, Some(id));
    }
    for host in tables(policy, request.host) {
        if let Some((id, result)) = select(policy, host.as_ref(), request) {
            return match result {
                MatchResult::Match => by_route(policy, &subject, id),
                MatchResult::Indeterminate | MatchResult::NoMatch => {
                    deny(Denied::CannotTell, Some(id))
                }
            };
        }
        let unmatched = match &host {
            Some(host) => policy.routes.hosts.get(host).copied().unwrap_or(Unmatched::FallThrough),
            None => policy.routes.otherwise,
        };
        match unmatched {
            Unmatched::DefaultRoute => return by_server(policy, &subject, None),
            Unmatched::NotFound => return deny(Denied::NoRoute, None),
            Unmatched::Deny(reason) => return deny(reason, None),
            Unmatched::FallThrough => {}
        }
    }
    deny(Denied::NoRoute, None)
}

/// Returns true if an exemption is about `request`, whose path is in match form. The client does not matter.
pub fn is_meant(policy: &ServerPolicy, exemption: &Exemption, request: &RequestView<'_>) -> bool {
    let wanted = exemption.request.as_deref();
    let wanted = wanted.map(|wanted| matches::evaluate(wanted, policy.paths, request));
    wanted == Some(MatchResult::Match)
}

/// Returns the headers that any match of the policy reads, sorted by name; `host` is not among them.
pub fn matched_headers(policy: &ServerPolicy) -> Vec<HeaderName> {
    let routes = policy.routes.routes.iter().flat_map(|route| &route.rules);
    let matches = routes.flat_map(|rule| &rule.matches);
    let exempt = policy.exemptions.iter().filter_map(|exemption| exemption.request.as_deref());
    let headers = matches.chain(exempt).flat_map(|wanted| wanted.headers());
    let headers = headers.filter(|header| header.name != HOST);
    let names: BTreeSet<&str> = headers.map(|header| header.name.as_str()).collect();
    names.into_iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns true if a matched header has a line that is not visible ASCII, spaces and tabs.
fn has_obs_text(policy: &ServerPolicy, request: &RequestView<'_>) -> bool {
    let mut other = request.headers.iter().filter(|(_, line)| line.to_str().is_err()).peekable();
    // Most requests have no such line.
    other.peek().is_some() && {
        let matched = matched_headers(policy);
        other.any(|(name, _)| matched.contains(name))
    }
}

/// Returns the first rule of a route that comes before all others which the request fulfils or may
/// fulfil.
fn unreadable(policy: &ServerPolicy, request: &RequestView<'_>) -> Option<RuleId> {
    if policy.routes.routes.iter().all(|route| is_in_a_table(route)) {
        return None;
    }
    let tables = tables(policy, request.host);
    if let Some(Some(host)) = tables.first()
        && policy.routes.hosts.get(host) == Some(&Unmatched::Deny(Denied::NotDelegated))
    {
        return None;
    }
    for (number, route) in (0_u32..).zip(&policy.routes.routes) {
        let on_host = |host: &HostPattern| request.host.is_some_and(|own| host.admits(own));
        if is_in_a_table(route) || !(route.hosts.is_empty() || route.hosts.iter().any(on_host)) {
            continue;
        }
        for (rule, entry) in (0_u32..).zip(&route.rules) {
            let meets = |wanted: &RequestMatch| {
                matches::evaluate(wanted, policy.paths, request) != MatchResult::NoMatch
            };
            if entry.matches.is_empty() || entry.matches.iter().any(meets) {
                return Some(RuleId { route: number, rule });
            }
        }
    }
    None
}

/// Returns true unless the route comes before all tables.
fn is_in_a_table(route: &Route) -> bool {
    !matches!(route.origin, Origin::Unreadable(_))
}

/// The tables to ask, most specific first; the last is that of routes without hosts.
fn tables(policy: &ServerPolicy, host: Option<&str>) -> Vec<Option<HostPattern>> {
    let routes = policy.routes.routes.iter().filter(|route| is_in_a_table(route));
    let named = routes.flat_map(|route| &route.hosts);
    let of_host = |pattern: &&HostPattern| host.is_some_and(|host| pattern.admits(host));
    let all: BTreeSet<&HostPattern> =
        named.chain(policy.routes.hosts.keys()).filter(of_host).collect();
    let mut found: Vec<_> = all.into_iter().collect();
    found.sort_by_key(|pattern| match pattern {
        HostPattern::Exact(_) => (0, Reverse(0)),
        HostPattern::Suffix(suffix) => (1, Reverse(suffix.len())),
    });
    found.into_iter().cloned().map(Some).chain([None]).collect()
}

/// Returns the first match in order of precedence that is not `NoMatch`, in the table of `host`.
fn select(
    policy: &ServerPolicy,
    host: Option<&HostPattern>,
    request: &RequestView<'_>,
) -> Option<(RuleId, MatchResult)> {
    let everything = [RequestMatch::everything()];
    let in_table = |route: &Route| match host {
        Some(host) => route.hosts.contains(host),
        None => route.hosts.is_empty(),
    };
    let mut candidates: Vec<(&RequestMatch, RuleId)> = Vec::new();
    for (route, entry) in (0_u32..).zip(&policy.routes.routes) {
        if !is_in_a_table(entry) || !in_table(entry) {
            continue;
        }
        for (rule, entry) in (0_u32..).zip(&entry.rules) {
            let matches =
                if entry.matches.is_empty() { &everything[..] } else { &entry.matches[..] };
            candidates.extend(matches.iter().map(|wanted| (wanted, RuleId { route, rule })));
        }
    }
    let evaluated = candidates.into_iter().filter_map(|(wanted, id)| {
        match matches::evaluate(wanted, policy.paths, request) {
            MatchResult::NoMatch => None,
            result @ (MatchResult::Match | MatchResult::Indeterminate) => {
                Some((wanted, id, result))
            }
        }
    });
    // Of several that tie, the first of the list.
    let first = evaluated.min_by(|(a, ..), (b, ..)| matches::in_order(a, b))?;
    Some((first.1, first.2))
}

/// Returns the match of the rule `id` that governs a request: the first in order of precedence of those
/// that it fulfils. No decision depends on it, but an effect may: a redirect replaces the prefix of
/// this match.
pub fn governing_match<'a>(
    policy: &'a ServerPolicy,
    id: RuleId,
    request: &RequestView<'_>,
) -> Option<&'a RequestMatch> {
    let (route, rule) = (usize::try_from(id.route).ok()?, usize::try_from(id.rule).ok()?);
    let rule = policy.routes.routes.get(route)?.rules.get(rule)?;
    let path = match_form::matched(request.path, policy.paths);
    let request = &RequestView { path: &path, ..*request };
    let fulfilled = rule
        .matches
        .iter()
        .filter(|wanted| matches::evaluate(wanted, policy.paths, request) == MatchResult::Match);
    fulfilled.min_by(|a, b| matches::in_order(a, b))
}

fn by_route(policy: &ServerPolicy, subject: &Subject<'_>, id: RuleId) -> Decision {
    let number = usize::try_from(id.route).ok();
    let Some(route) = number.and_then(|number| policy.routes.routes.get(number)) else {
        return deny(Denied::NoRoute, None);
    };
    match route.origin {
        Origin::Deny(reason) => return deny(reason, Some(id)),
        Origin::Undelegated(_) => return deny(Denied::NotDelegated, Some(id)),
        Origin::Unreadable(_) => return deny(Denied::RouteInvalid, Some(id)),
        Origin::Objects(_) | Origin::Delegated(_) => {}
        Origin::Default | Origin::Probe | Origin::Guard => {}
    }
    if let Some((own, grant)) = first_that_holds(&route.authorizations, subject) {
        return permit(Some(id), AuthorizationId::Route(id.route, own), grant);
    }
    if route.inherits_server {
        return by_server(policy, subject, Some(id));
    }
    deny(Denied::Unauthorized, Some(id))
}

fn by_server(policy: &ServerPolicy, subject: &Subject<'_>, route: Option<RuleId>) -> Decision {
    match first_that_holds(&policy.authorizations, subject) {
        Some((index, grant)) => permit(route, AuthorizationId::Server(index), grant),
        None => deny(Denied::Unauthorized, route),
    }
}

fn first_that_holds<'a>(
    all: &'a [Arc<Authorization>],
    subject: &Subject<'_>,
) -> Option<(u32, &'a Authorization)> {
    let mut numbered = (0_u32..).zip(all);
    numbered
        .find(|(_, grant)| grants::holds(grant, subject))
        .map(|(index, grant)| (index, &**grant))
}

fn exempted(policy: &ServerPolicy, index: usize) -> Decision {
    let (Some(exemption), Ok(id)) = (policy.exemptions.get(index), u32::try_from(index)) else {
        return deny(Denied::Unauthorized, None);
    };
    permit(None, AuthorizationId::Exemption(id), &exemption.authorization)
}

/// Permits, audited if the grant requires it.
fn permit(route: Option<RuleId>, id: AuthorizationId, grant: &Authorization) -> Decision {
    Decision::permit(route, id, grant.audit)
}

fn deny(reason: Denied, route: Option<RuleId>) -> Decision {
    Decision::deny(reason, route)
}
