//! Features of a policy beyond those that Linkerd's own resources can express.

use crate::authorization::{Authorization, Condition, Predicate, Requirement};
use crate::decision::Denied;
use crate::filter::{Filter, FilterKind};
use crate::matching::{PathPattern, RequestMatch, Segment};
use crate::name::Origin;
use crate::network::{NetworkMatch, NetworkTerm};
use crate::policy::{
    Exemption, InformationalHeaders, PathHandling, Route, RouteKind, RouteTable, Rule,
    ServerPolicy, Unmatched, UpstreamReuse,
};
use std::collections::BTreeSet;

/// Something a client must know to enforce a policy. The text of [`Feature::as_str`] is part of
/// the wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// Paths with parameter segments, or gRPC calls with conditions beyond service, method and
    /// headers.
    PathParameters,
    /// The result of a host's table if none of its rules matches.
    HostTables,
    /// A port or route that denies with a reason of its own.
    DenyReasons,
    /// A grant with more conditions than one on the network and one on the client's identity, or
    /// with one on passed-through TLS.
    Conditions,
    /// A network named by a symbol.
    NetworkSymbols,
    /// Requests or connections let through before routes are looked at.
    Exemptions,
    /// Changes to response headers.
    ResponseHeaders,
    /// A bound on the time until the response is complete.
    Timeouts,
    /// Filters of a Server for all its requests.
    ServerEffects,
    /// Paths matched and forwarded as received. A client without it compares canonical paths, in which
    /// several paths as received are one.
    RawPaths,
    /// Requests without what the proxy knows of their connection.
    NoInformationalHeaders,
    /// Routes of paths that were handed down a chain of objects, and the reason `not_delegated`.
    Delegation,
    /// Grants with a condition on a path segment.
    Captures,
    /// Bounds on parts of an exchange.
    TimeoutPolicies,
    /// Rewriting of request headers under conditions.
    HeaderRewrites,
    /// Rewriting of request headers without which a request must not be forwarded, and the failure
    /// that stands for one.
    RequiredRewrites,
    /// Routes of matches that cannot be read, which deny before all others.
    UnreadableMatches,
    /// Rate limits that refuse every request.
    RefusingLimits,
    /// Connections to the application that are used again after requests without a body alone.
    ReuseWithoutBody,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 19] = [
        Self::PathParameters,
        Self::HostTables,
        Self::DenyReasons,
        Self::Conditions,
        Self::NetworkSymbols,
        Self::Exemptions,
        Self::ResponseHeaders,
        Self::Timeouts,
        Self::ServerEffects,
        Self::RawPaths,
        Self::NoInformationalHeaders,
        Self::Delegation,
        Self::Captures,
        Self::TimeoutPolicies,
        Self::HeaderRewrites,
        Self::RequiredRewrites,
        Self::UnreadableMatches,
        Self::RefusingLimits,
        Self::ReuseWithoutBody,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PathParameters => "path-parameters",
            Self::HostTables => "host-tables",
            Self::DenyReasons => "deny-reasons",
            Self::Conditions => "conditions",
            Self::NetworkSymbols => "network-symbols",
            Self::Exemptions => "exemptions",
            Self::ResponseHeaders => "response-headers",
            Self::Timeouts => "timeouts",
            Self::ServerEffects => "server-effects",
            Self::RawPaths => "raw-paths",
            Self::NoInformationalHeaders => "no-informational-headers",
            Self::Delegation => "delegation",
            Self::Captures => "captures",
            Self::TimeoutPolicies => "timeout-policies",
            Self::HeaderRewrites => "header-rewrites",
            Self::RequiredRewrites => "required-rewrites",
            Self::UnreadableMatches => "unreadable-matches",
            Self::RefusingLimits => "refusing-limits",
            Self::ReuseWithoutBody => "reuse-without-body",
        }
    }

    /// Reads a name; `None`: a feature this version does not know.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.as_str() == name)
    }

    /// Returns true if omitting it could permit more: a client without it gets the route or port
    /// denied as `proxy_unsupported`. If false, omitting it permits the same or less, and it is
    /// omitted and reported.
    pub fn guards(self) -> bool {
        match self {
            Self::PathParameters
            | Self::HostTables
            | Self::DenyReasons
            | Self::ServerEffects
            | Self::RawPaths
            | Self::Delegation
            | Self::RequiredRewrites
            | Self::RefusingLimits
            | Self::ReuseWithoutBody
            | Self::UnreadableMatches => true,
            Self::Conditions
            | Self::NetworkSymbols
            | Self::Exemptions
            | Self::ResponseHeaders
            | Self::Timeouts
            | Self::NoInformationalHeaders
            | Self::Captures
            | Self::TimeoutPolicies
            | Self::HeaderRewrites => false,
        }
    }
}

/// The features that a client needs for the whole of `policy`.
pub fn required(policy: &ServerPolicy) -> BTreeSet<Feature> {
    let ServerPolicy {
        owner: _,
        protocol: _,
        deny,
        paths,
        informational_headers,
        upstream_reuse,
        authorizations,
        exemptions,
        routes,
        rate_limit,
        effects,
        withheld: _,
    } = policy;
    let mut found = BTreeSet::new();
    found.extend(deny.iter().flat_map(|reason| of_reason(*reason)));
    match paths {
        PathHandling::Canonical => {}
        PathHandling::Raw => _ = found.insert(Feature::RawPaths),
    }
    match informational_headers {
        InformationalHeaders::Enabled => {}
        InformationalHeaders::Disabled => _ = found.insert(Feature::NoInformationalHeaders),
    }
    match upstream_reuse {
        UpstreamReuse::Usual => {}
        UpstreamReuse::WithoutBody => _ = found.insert(Feature::ReuseWithoutBody),
    }
    if rate_limit.as_ref().is_some_and(|limit| limit.refuses) {
        found.insert(Feature::RefusingLimits);
    }
    if !effects.is_empty() {
        found.insert(Feature::ServerEffects);
    }
    found.extend(effects.iter().flat_map(of_effect));
    found.extend(authorizations.iter().flat_map(|grant| of_authorization(grant)));
    found.extend(exemptions.iter().flat_map(of_exemption));
    let RouteTable { routes, hosts, otherwise } = routes;
    found.extend(hosts.values().copied().chain([*otherwise]).flat_map(
        |unmatched| match unmatched {
            Unmatched::Deny(reason) => of_reason(reason).collect(),
            Unmatched::DefaultRoute | Unmatched::NotFound | Unmatched::FallThrough => Vec::new(),
        },
    ));
    if hosts.values().any(|unmatched| *unmatched != Unmatched::FallThrough) {
        found.insert(Feature::HostTables);
    }
    found.extend(routes.iter().flat_map(|route| of_route(route)));
    found
}

/// The features that a client needs for a denial with this reason. One that does not know a reason
/// refuses the whole policy.
fn of_reason(reason: Denied) -> impl Iterator<Item = Feature> {
    let later = if reason == Denied::NotDelegated {
        Some(Feature::Delegation)
    } else {
        (reason == Denied::RouteInvalid).then_some(Feature::UnreadableMatches)
    };
    [Feature::DenyReasons].into_iter().chain(later)
}

/// The features that a client needs for one route, its rules and its own grants.
pub fn of_route(route: &Route) -> BTreeSet<Feature> {
    let Route {
        origin,
        kind,
        created: _,
        label: _,
        hosts: _,
        rules,
        authorizations,
        inherits_server: _,
        withheld: _,
    } = route;
    let mut found = BTreeSet::new();
    match origin {
        Origin::Deny(reason) => found.extend(of_reason(*reason)),
        Origin::Delegated(_) | Origin::Undelegated(_) => _ = found.insert(Feature::Delegation),
        Origin::Unreadable(_) => _ = found.insert(Feature::UnreadableMatches),
        Origin::Objects(_) | Origin::Default | Origin::Probe | Origin::Guard => {}
    }
    for Rule { matches, effects } in rules {
        if matches.iter().any(|wanted| !is_plain(wanted, *kind)) {
            found.insert(Feature::PathParameters);
        }
        found.extend(effects.iter().flat_map(of_effect));
    }
    found.extend(authorizations.iter().flat_map(|grant| of_authorization(grant)));
    found
}

/// The features that a client needs for one grant.
pub fn of_authorization(grant: &Authorization) -> BTreeSet<Feature> {
    let Authorization { source: _, requirement, audit: _ } = grant;
    let conditions = match requirement {
        Requirement::Nothing => return BTreeSet::new(),
        Requirement::All(conditions) => conditions,
    };
    let mut found = BTreeSet::new();
    let (mut networks, mut clients) = (0_usize, 0_usize);
    for Condition { source: _, test } in conditions.iter() {
        match test {
            Predicate::Network(terms) => {
                networks = networks.saturating_add(1);
                found.extend(terms.iter().filter_map(of_network));
            }
            Predicate::MeshTls | Predicate::Identity(_) => clients = clients.saturating_add(1),
            Predicate::TlsPassthrough => _ = found.insert(Feature::Conditions),
            Predicate::Segment(_) => _ = found.insert(Feature::Captures),
        }
    }
    if networks > 1 || clients > 1 {
        found.insert(Feature::Conditions);
    }
    found
}

/// The features that a client needs for one exemption: at least `Exemptions`.
pub fn of_exemption(exemption: &Exemption) -> BTreeSet<Feature> {
    let Exemption { request, authorization } = exemption;
    let mut found = of_authorization(authorization);
    found.insert(Feature::Exemptions);
    if request.as_ref().is_some_and(|wanted| !is_plain(wanted, RouteKind::Http)) {
        found.insert(Feature::PathParameters);
    }
    found
}

/// The feature that a client needs for one filter, if any.
pub fn of_effect(effect: &Filter) -> Option<Feature> {
    let Filter { source: _, kind } = effect;
    match kind {
        kind if kind.is_required() => Some(Feature::RequiredRewrites),
        FilterKind::RequestHeaders(_) | FilterKind::Redirect(_) | FilterKind::Failure(_) => None,
        FilterKind::ResponseHeaders(_) => Some(Feature::ResponseHeaders),
        FilterKind::Timeout(_) => Some(Feature::Timeouts),
        FilterKind::Timeouts(_) => Some(Feature::TimeoutPolicies),
        FilterKind::Rewrite(_) => Some(Feature::HeaderRewrites),
    }
}

fn of_network(network: &NetworkMatch) -> Option<Feature> {
    let NetworkMatch { term, except: _ } = network;
    match term {
        NetworkTerm::Net(_) => None,
        NetworkTerm::Symbol(_) => Some(Feature::NetworkSymbols),
    }
}

/// Returns true if Linkerd's match of this kind can express it.
fn is_plain(wanted: &RequestMatch, kind: RouteKind) -> bool {
    let (path, method, _, query) = wanted.parts();
    let (segments, rest) = match path {
        PathPattern::Regex(_) => return kind == RouteKind::Http,
        PathPattern::Segments { segments, rest } => (segments, *rest),
    };
    match kind {
        RouteKind::Http => segments.iter().all(|s| matches!(s, Segment::Literal(_))),
        RouteKind::Grpc => {
            let call = segments.len() == 2 && !rest && method == Some(&http::Method::POST);
            let any = segments.is_empty() && rest && method.is_none();
            query.is_empty() && (call || any)
        }
    }
}
