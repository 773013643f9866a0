//! Large policies for benchmarks.

use super::{OwnedConnection, OwnedRequest, grant, network, object, policy, route, set};
use crate::authorization::{Authorization, Predicate};
use crate::condition::{SegmentCondition, SegmentOperator};
use crate::decision::Denied;
use crate::identity::IdentityMatch;
use crate::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch,
};
use crate::name::{DelegatedPath, Origin};
use crate::network::NetworkMatch;
use crate::pattern::Pattern;
use crate::policy::{Route, ServerPolicy, Unmatched};
use http::{HeaderName, Method};
use std::sync::Arc;

/// A policy, a client of it and requests that it decides on.
#[derive(Clone, Debug)]
pub struct Case {
    /// The policy.
    pub policy: ServerPolicy,
    /// The client.
    pub connection: OwnedConnection,
    /// Requests; each is permitted unless the case says otherwise.
    pub requests: Vec<OwnedRequest>,
}

/// The hosts that the routes of [`mixed`] are spread over.
pub const HOSTS: usize = 200;

/// One route and one authorization, and a request with a usual number of headers.
pub fn one() -> Case {
    let mut made = policy();
    made.authorizations = set(vec![grant("client", vec![super::identity(CLIENT)])]);
    made.routes.routes =
        vec![Arc::new(route("all", vec![RequestMatch::path(PathPattern::prefix("/api"))]))];
    let requests = vec![usual(OwnedRequest::get("/api/v1/items?q=1").host("web.test"))];
    Case { policy: made, connection: client(), requests }
}

/// `routes` routes over 200 hosts: 50 % exact, 24 % prefix, 10 % parameter, 5 % header, 5 % query
/// parameter and 5 % method matches, 1 % regular expressions.
pub fn mixed(routes: usize) -> Case {
    let mut made = policy();
    made.authorizations = set(vec![grant("client", vec![super::identity(CLIENT)])]);
    made.routes.routes = (0..routes).map(|number| Arc::new(mixed_route(number))).collect();
    let request = |number: usize| {
        let host = number.checked_rem(HOSTS).unwrap_or(0);
        let written = match Kind::of(number) {
            Kind::Exact => format!("/api/v1/items/{number}"),
            Kind::Prefix => format!("/api/v2/sets/{number}/a/b"),
            Kind::Parameter => format!("/api/v1/users/alice/orders/{number}"),
            Kind::Query => format!("/search?q=1&shard={number}"),
            Kind::Header | Kind::Method => "/tenant".to_owned(),
            Kind::Regex => format!("/r/{number}-77"),
        };
        let request = usual(OwnedRequest::get(&written).host(&format!("host-{host}.example.com")));
        match Kind::of(number) {
            Kind::Header => request.header("x-tenant", format!("tenant-{number}").as_bytes()),
            Kind::Method => request.method(Method::DELETE),
            Kind::Exact | Kind::Prefix | Kind::Parameter | Kind::Query | Kind::Regex => request,
        }
    };
    // The last route of each kind, so that anything tried in order would try them all.
    let last = |kind: Kind| (0..routes).rev().find(|number| Kind::of(*number) == kind);
    let requests = Kind::ALL.into_iter().filter_map(last).map(request).collect();
    Case { policy: made, connection: client(), requests }
}

/// The hosts that the routes of [`trees`] are spread over.
pub const TREES: usize = 500;

/// `routes` routes of paths that were handed down, over 500 hosts that belong to a tree each: prefixes of
/// one to four segments, and grants of their own with the root's network beside theirs. Nothing else is
/// reached on these hosts.
pub fn trees(routes: usize) -> Case {
    let mut made = policy();
    made.authorizations = set(vec![grant("server", vec![super::identity(CLIENT)])]);
    made.routes.routes = (0..routes).map(|number| Arc::new(delegated_route(number))).collect();
    let closed = Unmatched::Deny(Denied::NotDelegated);
    let hosts = 0..TREES.min(routes);
    made.routes.hosts =
        hosts.map(|number| (HostPattern::Exact(tree_host(number)), closed)).collect();
    made.routes.otherwise = closed;
    let last = routes.saturating_sub(1);
    let path = format!("{}/items/17", delegated_prefix(last));
    let requests = vec![usual(OwnedRequest::get(&path).host(&tree_host(last)))];
    Case { policy: made, connection: client(), requests }
}

/// `routes` routes with a path parameter, half of them with a rest behind it. Each grants by the text of
/// the parameter.
pub fn groups(routes: usize) -> Case {
    let mut made = policy();
    made.routes.routes = (0..routes).map(|number| Arc::new(group_route(number))).collect();
    let last = routes.saturating_sub(1);
    let request = |number: usize, path: &str| {
        usual(OwnedRequest::get(&format!("/group-{}/{path}", number / 2)).host("web.test"))
    };
    let odd = if last.is_multiple_of(2) { last.saturating_sub(1) } else { last };
    let requests = vec![request(0, "books/17"), request(odd, "books/17/pages/3")];
    Case { policy: made, connection: client(), requests }
}

/// One route with `count` authorizations of its own of which the last holds: exact and suffix
/// identities and networks with exceptions.
pub fn authorizations(count: usize) -> Case {
    let mut made = policy();
    let mut only = route("all", vec![RequestMatch::everything()]);
    let mut grants: Vec<Arc<Authorization>> = (1..count).map(one_of_many).collect();
    let suffix = IdentityMatch::Suffix("shop.serviceaccount.identity.linkerd.cluster.local".into());
    grants.push(grant("last", vec![network("10.0.0.0/8"), Predicate::Identity(vec![suffix])]));
    only.authorizations = set(grants);
    only.inherits_server = false;
    made.routes.routes = vec![Arc::new(only)];
    let requests = vec![usual(OwnedRequest::get("/api/v1/items").host("web.test"))];
    Case { policy: made, connection: client(), requests }
}

/// `count` rules on one path that no index tells apart (regular expressions over one header, with
/// no exact value), of which the last matches, and as many authorizations that differ only in what
/// has to be verified. Cost grows with `count`.
pub fn worst(count: usize) -> Case {
    let mut made = policy();
    made.routes.routes = (0..count)
        .map(|number| {
            let headers = Pattern::parse(&format!("t{number}(a|b)"))
                .into_iter()
                .map(|pattern| HeaderMatch {
                    name: HeaderName::from_static("x-tenant"),
                    value: ValueMatch::Regex(pattern),
                })
                .collect();
            let wanted = RequestMatch::path(PathPattern::exact("/same")).with_headers(headers);
            Arc::new(route(&number.to_string(), vec![wanted]))
        })
        .collect();
    let last = count.saturating_sub(1);
    let nobody = || Predicate::Network(vec![excepting("10.0.0.0/8", "10.0.0.0/9")]);
    let mut grants: Vec<_> = (1..count).map(|n| grant(&n.to_string(), vec![nobody()])).collect();
    grants.push(grant("last", vec![network("10.0.0.0/8")]));
    made.authorizations = set(grants);
    let request = OwnedRequest::get("/same").header("x-tenant", format!("t{last}a").as_bytes());
    Case { policy: made, connection: client(), requests: vec![usual(request)] }
}

const CLIENT: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";

fn client() -> OwnedConnection {
    OwnedConnection::meshed(CLIENT)
}

/// Adds the headers of a usual request.
fn usual(request: OwnedRequest) -> OwnedRequest {
    request
        .header("user-agent", b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36")
        .header("accept", b"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
        .header("accept-encoding", b"gzip, deflate, br")
        .header("accept-language", b"en-US,en;q=0.5")
        .header("cookie", b"session=0123456789abcdef0123456789abcdef")
        .header("x-request-id", b"6f1c2b9e-91a5-4f9d-8e93-0e5f0c8d7a11")
        .header("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exact,
    Prefix,
    Parameter,
    Header,
    Query,
    Method,
    Regex,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Self::Exact,
        Self::Prefix,
        Self::Parameter,
        Self::Header,
        Self::Query,
        Self::Method,
        Self::Regex,
    ];

    /// The kind of the route with this number: by the round of hosts, so that each host has all.
    fn of(number: usize) -> Self {
        match number.wrapping_mul(61).wrapping_add(number / HOSTS) % 100 {
            0..=49 => Self::Exact,
            50..=73 => Self::Prefix,
            74..=83 => Self::Parameter,
            84..=88 => Self::Header,
            89..=93 => Self::Query,
            94..=98 => Self::Method,
            _ => Self::Regex,
        }
    }
}

fn mixed_route(number: usize) -> Route {
    let wanted = RequestMatch::path(match Kind::of(number) {
        Kind::Exact => PathPattern::exact(&format!("/api/v1/items/{number}")),
        Kind::Prefix => PathPattern::prefix(&format!("/api/v2/sets/{number}")),
        Kind::Parameter => PathPattern::Segments {
            segments: [
                Segment::Literal("api".into()),
                Segment::Literal("v1".into()),
                Segment::Literal("users".into()),
                Segment::Parameter("user".into()),
                Segment::Literal("orders".into()),
                Segment::Literal(number.to_string().into()),
            ]
            .into(),
            rest: false,
        },
        Kind::Header | Kind::Method => PathPattern::exact("/tenant"),
        Kind::Query => PathPattern::exact("/search"),
        Kind::Regex => match Pattern::parse(&format!("/r/{number}-[0-9]+")) {
            Ok(pattern) => PathPattern::Regex(pattern),
            Err(_) => PathPattern::exact("/never"),
        },
    });
    let exact = |text: String| ValueMatch::Exact(text.as_bytes().into());
    let wanted = match Kind::of(number) {
        Kind::Header => wanted.with_headers(vec![HeaderMatch {
            name: HeaderName::from_static("x-tenant"),
            value: exact(format!("tenant-{number}")),
        }]),
        Kind::Query => {
            let value = exact(number.to_string());
            wanted.with_query(vec![QueryMatch { name: "shard".into(), value }])
        }
        Kind::Method => wanted.with_method(Some(Method::DELETE)),
        Kind::Exact | Kind::Prefix | Kind::Parameter | Kind::Regex => wanted,
    };
    let mut made = route(&number.to_string(), vec![wanted]);
    let host = number.checked_rem(HOSTS).unwrap_or(0);
    made.hosts = [HostPattern::Exact(format!("host-{host}.example.com").into())].into();
    made
}

fn group_route(number: usize) -> Route {
    let segments = [
        Segment::Literal(format!("group-{}", number / 2).into()),
        Segment::Literal("books".into()),
        Segment::Parameter("book".into()),
    ];
    let rest = !number.is_multiple_of(2);
    let path = PathPattern::Segments { segments: segments.into(), rest };
    let mut made = route(&number.to_string(), vec![RequestMatch::path(path)]);
    let on = |operator, values: &[&str]| {
        let condition = SegmentCondition::new("book", 2, operator, values);
        vec![super::identity(CLIENT), Predicate::Segment(condition)]
    };
    made.authorizations = set(vec![
        grant("others", on(SegmentOperator::NotIn, &["16", "17"])),
        grant("some", on(SegmentOperator::In, &["16", "17"])),
    ]);
    made.inherits_server = false;
    made
}

fn tree_host(number: usize) -> Arc<str> {
    format!("host-{}.example.com", number.checked_rem(TREES).unwrap_or(0)).into()
}

/// The path of a route: below those of other routes of its host, by turns.
fn delegated_prefix(number: usize) -> String {
    let turn = number / TREES;
    let below = match turn % 4 {
        0 => "",
        1 => "/orders",
        2 => "/orders/open",
        _ => "/orders/open/late",
    };
    format!("/team-{}{below}", turn / 4)
}

fn delegated_route(number: usize) -> Route {
    let prefix = delegated_prefix(number);
    let wanted = RequestMatch::path(PathPattern::prefix(&prefix));
    let root = object("InboundRoute", &format!("root-{}", number.checked_rem(TREES).unwrap_or(0)));
    let name = number.to_string();
    let chain = [root, object("InboundRoute", &name)].into();
    let constrained = vec![network("10.0.0.0/8"), network("10.0.0.0/9"), super::identity(CLIENT)];
    let mut made = route(&name, vec![wanted]);
    made.origin = Origin::Delegated(Arc::new(DelegatedPath { chain, prefix: prefix.into() }));
    made.hosts = [HostPattern::Exact(tree_host(number))].into();
    made.authorizations = set(vec![grant(&name, constrained)]);
    made.inherits_server = false;
    made
}

fn one_of_many(number: usize) -> Arc<Authorization> {
    let name = number.to_string();
    let (high, low) = (number / 250 % 250, number % 250);
    match number % 3 {
        0 => {
            let exact = format!("sa-{number}.ns.serviceaccount.identity.linkerd.cluster.local");
            grant(&name, vec![network("10.0.0.0/8"), super::identity(&exact)])
        }
        1 => {
            let suffix = format!("ns-{number}.serviceaccount.identity.linkerd.cluster.local");
            let suffix = IdentityMatch::Suffix(suffix.into());
            grant(&name, vec![network("0.0.0.0/0"), Predicate::Identity(vec![suffix])])
        }
        _ => {
            let net = format!("172.{high}.{low}.0/24");
            let except = format!("172.{high}.{low}.128/25");
            let networks = Predicate::Network(vec![excepting(&net, &except)]);
            grant(&name, vec![networks, Predicate::Identity(vec![IdentityMatch::Any])])
        }
    }
}

fn excepting(net: &str, except: &str) -> NetworkMatch {
    let none = ipnet::IpNet::from(ipnet::Ipv4Net::from(std::net::Ipv4Addr::UNSPECIFIED));
    let mut made = NetworkMatch::net(net.parse().unwrap_or(none));
    made.except = except.parse().into_iter().collect();
    made
}
