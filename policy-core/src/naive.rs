//! The evaluator that reads like the specification. It exists to check [`crate::Evaluator`]
//! against, and to explain; it is slow and allocates.
//!
//! **A connection that is not HTTP**
//! 1. A policy that denies the port denies the connection, with the policy's reason.
//! 2. An exemption for connections (one without a request match) whose authorization holds
//!    permits it.
//! 3. A protocol that is only HTTP refuses it as `protocol_mismatch`; so does an unknown protocol
//!    where routes are attached or requests are limited.
//! 4. On a TLS port, a connection without TLS is refused as `tls_required`.
//! 5. The first of the Server's authorizations that holds permits it; else `unauthorized`.
//!
//! **A request**
//! 1. A policy that denies the port denies the request, with the policy's reason.
//! 2. Where the protocol is not HTTP there are no routes: `no_route`.
//! 3. If a header that any match of the policy looks at has bytes outside visible ASCII, the
//!    request is refused as `header_obs_text`.
//! 4. Paths are compared in their match form, those of requests and of matches alike; a regular
//!    expression sees that form. Where the port takes paths as they come, both stay as they are.
//! 5. The first exemption whose match matches and whose authorization holds permits it.
//! 6. The tables that the host names are asked one after the other: its own, that of each suffix,
//!    the longest first, then the table of routes without hosts. A request without a host asks
//!    only the last.
//! 7. In a table, the matches of all rules of its routes are tried in order of precedence: paths
//!    without rest before regular expressions before prefixes; of prefixes the one with more
//!    segments; literal before parameter at the first segment where they differ; with a method
//!    before without; more headers; more query parameters; earlier in the list of routes, rules
//!    and matches. A rule without matches matches everything.
//! 8. The first that is not a plain no settles it: if it cannot be told, the request is refused as
//!    `cannot_tell`; else its rule decides.
//! 9. If none matches, what the table says of that counts: decide by the Server's authorizations
//!    alone, `no_route`, deny with a reason, or ask the next table. After the last table there is
//!    no next: `no_route`.
//! 10. A route that only denies refuses with its reason.
//! 11. The first of the route's own authorizations that holds permits; then, if it inherits, the
//!     first of the Server's; else `unauthorized`.

use crate::authorization::Authorization;
use crate::decision::{AuthorizationId, Decision, Denial, Denied, Permit, RuleId, TargetFault};
use crate::judge::{Judgement, has_ambiguous_bytes};
use crate::match_form;
use crate::matching::{HostPattern, PathPattern, RequestMatch, Segment};
use crate::name::Origin;
use crate::policy::{Protocol, Route, ServerPolicy, Unmatched};
use crate::request::{Connection, RequestView, Tls};
use http::HeaderName;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Decides on a connection that is not HTTP.
pub fn decide_connection(policy: &ServerPolicy, connection: &Connection<'_>) -> Decision {
    match before_grants(policy, connection) {
        Some(decision) => decision,
        None => by_server(policy, connection, None),
    }
}

/// The rules for a connection up to the Server's authorizations.
pub(crate) fn before_grants(
    policy: &ServerPolicy,
    connection: &Connection<'_>,
) -> Option<Decision> {
    if let Some(reason) = policy.deny {
        return Some(deny(reason, None));
    }
    let exempt = policy.exemptions.iter().position(|exemption| {
        exemption.request.is_none() && exemption.authorization.holds(connection)
    });
    if let Some(index) = exempt {
        return Some(exempted(policy, index));
    }
    if !policy.admits_bytes() {
        return Some(deny(Denied::ProtocolMismatch, None));
    }
    if policy.protocol == Protocol::Tls && connection.tls == Tls::Absent {
        return Some(deny(Denied::TlsRequired, None));
    }
    None
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
    if !policy.protocol.is_http() {
        return deny(Denied::NoRoute, None);
    }
    if has_obs_text(policy, request) {
        return deny(Denied::Target(TargetFault::ObsText), None);
    }
    let path = match_form::matched(request.path, policy.paths);
    let request = &RequestView { path: &path, ..*request };
    let exempt = policy.exemptions.iter().position(|exemption| {
        let wanted = exemption.request.as_ref();
        let wanted = wanted.map(|wanted| wanted.on_port(policy.paths).judge(request));
        wanted == Some(Judgement::Matches) && exemption.authorization.holds(connection)
    });
    if let Some(index) = exempt {
        return exempted(policy, index);
    }
    for host in tables(policy, request.host) {
        if let Some((id, judgement)) = select(policy, host.as_ref(), request) {
            return match judgement {
                Judgement::Matches => by_route(policy, connection, id),
                Judgement::CannotTell | Judgement::Differs => deny(Denied::CannotTell, Some(id)),
            };
        }
        let unmatched = match &host {
            Some(host) => policy.routes.hosts.get(host).copied().unwrap_or(Unmatched::FallThrough),
            None => policy.routes.otherwise,
        };
        match unmatched {
            Unmatched::DefaultRoute => return by_server(policy, connection, None),
            Unmatched::NotFound => return deny(Denied::NoRoute, None),
            Unmatched::Deny(reason) => return deny(reason, None),
            Unmatched::FallThrough => {}
        }
    }
    deny(Denied::NoRoute, None)
}

/// The headers that any match of the policy looks at, sorted by name.
pub fn looks_at(policy: &ServerPolicy) -> Vec<HeaderName> {
    let routes = policy.routes.routes.iter().flat_map(|route| &route.rules);
    let matches = routes.flat_map(|rule| &rule.matches);
    let exempt = policy.exemptions.iter().filter_map(|exemption| exemption.request.as_ref());
    let headers = matches.chain(exempt).flat_map(|wanted| wanted.headers());
    let names: BTreeSet<&str> = headers.map(|header| header.name.as_str()).collect();
    names.into_iter().filter_map(|name| name.parse().ok()).collect()
}

fn has_obs_text(policy: &ServerPolicy, request: &RequestView<'_>) -> bool {
    looks_at(policy).iter().any(|name| {
        request.headers.get_all(name).iter().any(|line| has_ambiguous_bytes(line.as_bytes()))
    })
}

/// The tables to ask, most specific first; the last is that of routes without hosts.
fn tables(policy: &ServerPolicy, host: Option<&str>) -> Vec<Option<HostPattern>> {
    let named = policy.routes.routes.iter().flat_map(|route| &route.hosts);
    let all: BTreeSet<&HostPattern> = named.chain(policy.routes.hosts.keys()).collect();
    let mut found: Vec<_> =
        all.into_iter().filter(|pattern| host.is_some_and(|host| pattern.admits(host))).collect();
    found.sort_by_key(|pattern| match pattern {
        HostPattern::Exact(_) => (0, Reverse(0)),
        HostPattern::Suffix(suffix) => (1, Reverse(suffix.len())),
    });
    found.into_iter().cloned().map(Some).chain([None]).collect()
}

/// The first match in order of precedence that is not a plain no, in the table of `host`.
fn select(
    policy: &ServerPolicy,
    host: Option<&HostPattern>,
    request: &RequestView<'_>,
) -> Option<(RuleId, Judgement)> {
    let everything = [RequestMatch::everything()];
    let in_table = |route: &Route| match host {
        Some(host) => route.hosts.contains(host),
        None => route.hosts.is_empty(),
    };
    let mut candidates: Vec<(&RequestMatch, RuleId)> = Vec::new();
    for (route, entry) in (0_u32..).zip(&policy.routes.routes) {
        if !in_table(entry) {
            continue;
        }
        for (rule, entry) in (0_u32..).zip(&entry.rules) {
            let matches =
                if entry.matches.is_empty() { &everything[..] } else { &entry.matches[..] };
            candidates.extend(matches.iter().map(|wanted| (wanted, RuleId { route, rule })));
        }
    }
    // The sort is stable: what ties stays in the order of the list.
    candidates.sort_by(|(a, _), (b, _)| Precedence::of(a).cmp(&Precedence::of(b)));
    candidates.into_iter().find_map(|(wanted, id)| {
        match wanted.on_port(policy.paths).judge(request) {
            Judgement::Differs => None,
            told @ (Judgement::Matches | Judgement::CannotTell) => Some((id, told)),
        }
    })
}

/// The order of matches that match the same path; smaller is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    path: PathRank,
    no_method: bool,
    headers: Reverse<usize>,
    query: Reverse<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathRank {
    /// For each segment, whether it is a parameter.
    Exact(Vec<bool>),
    Regex,
    Prefix(Reverse<usize>, Vec<bool>),
}

impl Precedence {
    /// The place of a match, before its place in the list.
    pub fn of(wanted: &RequestMatch) -> Self {
        let path = match &wanted.path {
            PathPattern::Regex(_) => PathRank::Regex,
            PathPattern::Segments { segments, rest } => {
                let kinds: Vec<bool> =
                    segments.iter().map(|s| matches!(s, Segment::Parameter(_))).collect();
                if *rest {
                    PathRank::Prefix(Reverse(kinds.len()), kinds)
                } else {
                    PathRank::Exact(kinds)
                }
            }
        };
        Self {
            path,
            no_method: wanted.method().is_none(),
            headers: Reverse(wanted.headers().len()),
            query: Reverse(wanted.query().len()),
        }
    }
}

fn by_route(policy: &ServerPolicy, connection: &Connection<'_>, id: RuleId) -> Decision {
    let Some(route) = route(policy, id) else {
        return deny(Denied::NoRoute, None);
    };
    if let Origin::Deny(reason) = route.origin {
        return deny(reason, Some(id));
    }
    if let Some((own, grant)) = first_that_holds(&route.authorizations, connection) {
        return permit(Some(id), AuthorizationId::Route(id.route, own), grant);
    }
    if route.inherits_server {
        return by_server(policy, connection, Some(id));
    }
    deny(Denied::Unauthorized, Some(id))
}

/// The route that `id` names.
pub(crate) fn route(policy: &ServerPolicy, id: RuleId) -> Option<&Arc<Route>> {
    policy.routes.routes.get(usize::try_from(id.route).ok()?)
}

fn by_server(
    policy: &ServerPolicy,
    connection: &Connection<'_>,
    route: Option<RuleId>,
) -> Decision {
    match first_that_holds(&policy.authorizations, connection) {
        Some((index, grant)) => permit(route, AuthorizationId::Server(index), grant),
        None => deny(Denied::Unauthorized, route),
    }
}

fn first_that_holds<'a>(
    grants: &'a [Arc<Authorization>],
    connection: &Connection<'_>,
) -> Option<(u32, &'a Authorization)> {
    let mut numbered = (0_u32..).zip(grants);
    numbered.find(|(_, grant)| grant.holds(connection)).map(|(index, grant)| (index, &**grant))
}

fn exempted(policy: &ServerPolicy, index: usize) -> Decision {
    let (Some(exemption), Ok(id)) = (policy.exemptions.get(index), u32::try_from(index)) else {
        return deny(Denied::Unauthorized, None);
    };
    permit(None, AuthorizationId::Exemption(id), &exemption.authorization)
}

pub(crate) fn permit(
    route: Option<RuleId>,
    id: AuthorizationId,
    grant: &Authorization,
) -> Decision {
    Decision::Permit(Permit { route, authorization: id, audit: grant.audit })
}

pub(crate) fn deny(reason: Denied, route: Option<RuleId>) -> Decision {
    Decision::Deny(Denial { reason, route })
}
