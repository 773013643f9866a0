//! A policy as text fields: the output of `-o json|yaml`, and a form for people.

mod shadow;
mod text;

pub use shadow::{Shadowed, shadowed};

use policy_core::{
    Authorization, Filter, FilterKind, HeaderRewrite, InformationalHeaders, Owner, PathHandling,
    Protocol, RateLimit, Requirement, Route, ServerPolicy, Streams, Timeouts, Unmatched,
    UnresolvedGrant, UpstreamReuse,
};
use serde::Serialize;
use std::time::Duration;

/// A [`ServerPolicy`] as text fields. Every field of the policy is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// The Server that owns the port, or the default policy that holds.
    pub owner: String,
    /// Protocol of its connections.
    pub protocol: String,
    /// The reason for which the whole port is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<String>,
    /// `canonical` or `raw`.
    pub paths: String,
    /// True if requests carry headers that name the client.
    pub informational_headers: bool,
    /// True if a connection to the application is used again after requests without a body alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reuse_without_body: bool,
    /// Grants on the port, in the order they are tried.
    pub authorizations: Vec<GrantView>,
    /// Requests and connections permitted before routes are evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exemptions: Vec<ExemptionView>,
    /// Routes in tie-breaking order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteView>,
    /// Outcome of requests that no route matches.
    pub otherwise: String,
    /// The same for hosts with a rule of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostView>,
    /// Rate limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_limits: Vec<String>,
    /// Filters on every permitted request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
    /// Grants that resolved to nothing, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantView {
    /// The object that grants.
    pub source: String,
    /// Conditions, all of which must hold. Empty: none.
    pub requires: Vec<String>,
    /// True if permits are logged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub audit: bool,
}

/// An exemption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExemptionView {
    /// The exempted requests; absent: connections that are not HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The exempted clients.
    pub authorization: GrantView,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteView {
    /// Its origin: the object that holds the rule, or the reason of a generated route.
    pub origin: String,
    /// The path that InboundRoutes delegated, with the objects that it passed through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated: Option<String>,
    /// Hosts; empty: every host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Rules.
    pub rules: Vec<RuleView>,
    /// Its own grants.
    pub authorizations: Vec<GrantView>,
    /// True if the grants of the port count too.
    pub inherits_server: bool,
    /// Grants that resolved to nothing, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// A rule of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleView {
    /// Alternatives.
    pub matches: Vec<String>,
    /// Filters on permitted requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
}

/// Outcome of a host's requests that no rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostView {
    /// The host.
    pub host: String,
    /// The outcome.
    pub unmatched: String,
}

impl From<&ServerPolicy> for PolicyView {
    fn from(policy: &ServerPolicy) -> Self {
        let ServerPolicy {
            owner,
            protocol,
            deny,
            paths,
            informational_headers,
            upstream_reuse,
            authorizations,
            exemptions,
            routes,
            rate_limit,
            effects,
            withheld,
        } = policy;
        let exemptions = exemptions.iter().map(|exemption| ExemptionView {
            request: exemption.request.as_ref().map(ToString::to_string),
            authorization: grant(&exemption.authorization),
        });
        let hosts = routes.hosts.iter().map(|(pattern, rule)| HostView {
            host: pattern.to_string(),
            unmatched: unmatched(*rule),
        });
        Self {
            owner: match owner {
                Owner::Server(server) => server.to_string(),
                Owner::Default(policy) => format!("default {}", policy.as_str()),
            },
            protocol: protocol_name(*protocol),
            deny: deny.map(|reason| reason.as_str().to_owned()),
            paths: match paths {
                PathHandling::Canonical => "canonical".to_owned(),
                PathHandling::Raw => "raw".to_owned(),
            },
            informational_headers: *informational_headers == InformationalHeaders::Enabled,
            reuse_without_body: *upstream_reuse == UpstreamReuse::WithoutBody,
            authorizations: authorizations.iter().map(|a| grant(a)).collect(),
            exemptions: exemptions.collect(),
            routes: routes.routes.iter().map(|r| route(r)).collect(),
            otherwise: unmatched(routes.otherwise),
            hosts: hosts.collect(),
            rate_limits: rate_limit.iter().flat_map(rate_limits).collect(),
            effects: effects.iter().map(effect).collect(),
            withheld: withheld.iter().map(withheld_grant).collect(),
        }
    }
}

/// A protocol as Servers spell it.
pub fn protocol_name(protocol: Protocol) -> String {
    match protocol {
        Protocol::Detect { timeout } => format!("detected within {} s", timeout.as_secs()),
        Protocol::Http1 => "HTTP/1".to_owned(),
        Protocol::Http2 => "HTTP/2".to_owned(),
        Protocol::Grpc => "gRPC".to_owned(),
        Protocol::Opaque => "opaque".to_owned(),
        Protocol::Tls => "TLS".to_owned(),
    }
}

fn grant(authorization: &Authorization) -> GrantView {
    let requires = match &authorization.requirement {
        Requirement::Nothing => Vec::new(),
        Requirement::All(conditions) => conditions.iter().map(|c| c.test.to_string()).collect(),
    };
    GrantView { source: authorization.source.to_string(), requires, audit: authorization.audit }
}

fn join<T: ToString>(items: &[T]) -> String {
    match items {
        [] => "nobody".to_owned(),
        items => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
    }
}

fn route(route: &Route) -> RouteView {
    let rules = route.rules.iter().map(|rule| RuleView {
        matches: rule.matches.iter().map(ToString::to_string).collect(),
        effects: rule.effects.iter().map(effect).collect(),
    });
    RouteView {
        origin: route.origin.to_string(),
        delegated: route.origin.delegated_path().map(ToString::to_string),
        hosts: route.hosts.iter().map(ToString::to_string).collect(),
        rules: rules.collect(),
        authorizations: route.authorizations.iter().map(|a| grant(a)).collect(),
        inherits_server: route.inherits_server,
        withheld: route.withheld.iter().map(withheld_grant).collect(),
    }
}

fn withheld_grant(withheld: &UnresolvedGrant) -> String {
    format!("{}: {}", withheld.source, withheld.reason)
}

/// The outcome of requests that no rule matches, in words.
pub fn unmatched(unmatched: Unmatched) -> String {
    match unmatched {
        Unmatched::DefaultRoute => "decided by the port's grants".to_owned(),
        Unmatched::NotFound => "not found".to_owned(),
        Unmatched::Deny(reason) => format!("denied, {}", reason.as_str()),
        Unmatched::FallThrough => "decided by the next less specific host".to_owned(),
    }
}

fn rate_limits(limit: &RateLimit) -> Vec<String> {
    let mut lines = Vec::new();
    if limit.refuses {
        lines.push(format!("no request: invalid, without a readable number ({})", limit.source));
    }
    if let Some(total) = limit.total {
        lines.push(format!("{total} requests per second in all ({})", limit.source));
    }
    if let Some(identity) = limit.identity {
        lines.push(format!("{identity} requests per second of each client ({})", limit.source));
    }
    for exception in &limit.overrides {
        let clients = join(&exception.clients);
        let rate = exception.requests_per_second;
        lines.push(format!("{rate} requests per second of {clients} ({})", limit.source));
    }
    lines
}

fn effect(effect: &Filter) -> String {
    let what = match &effect.kind {
        FilterKind::RequestHeaders(change) => {
            format!("request headers {}", format_header_change(change))
        }
        FilterKind::ResponseHeaders(change) => {
            format!("response headers {}", format_header_change(change))
        }
        FilterKind::Redirect(redirect) => format!("redirect with {}", redirect.status),
        FilterKind::Failure(failure) => {
            format!("fail {} of {} with {}", failure.numerator, failure.denominator, failure.status)
        }
        FilterKind::Timeout(timeout) => format!("timeout {} ms", timeout.as_millis()),
        FilterKind::Timeouts(timeouts) => {
            format!("timeouts {}{}", format_timeouts(timeouts), format_conditions(&timeouts.when))
        }
        FilterKind::Rewrite(rewrite) => {
            let required = if rewrite.required { " or deny" } else { "" };
            let when = format_conditions(&rewrite.when);
            format!("request headers {}{required}{when}", format_rewrite(rewrite))
        }
    };
    format!("{what} ({})", effect.source)
}

fn format_timeouts(timeouts: &Timeouts) -> String {
    let Timeouts { when: _, request, response, idle, streams } = timeouts;
    let part = |name: &str, bound: &Option<Duration>| {
        bound.map(|bound| format!("{name} {} ms", bound.as_millis()))
    };
    let request = part("request", request).map(|text| match streams {
        Streams::Bounded => text,
        Streams::Unbounded => format!("{text} until the response begins"),
    });
    let parts = [request, part("response", response), part("idle", idle)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn format_rewrite(rewrite: &HeaderRewrite) -> String {
    let cleared = rewrite.clear.iter().map(|name| format!("clear {name}"));
    let set = rewrite.set.iter().map(|(name, _)| format!("set {name}"));
    let added = rewrite.add.iter().map(|(name, _)| format!("add {name}"));
    cleared.chain(set).chain(added).collect::<Vec<_>>().join(", ")
}

fn format_conditions(conditions: &[impl ToString]) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let all: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    format!(" where {}", all.join(" and "))
}

fn format_header_change(change: &policy_core::filter::HeaderChange) -> String {
    let added = change.add.iter().map(|(name, _)| format!("add {name}"));
    let set = change.set.iter().map(|(name, _)| format!("set {name}"));
    let removed = change.remove.iter().map(|name| format!("remove {name}"));
    added.chain(set).chain(removed).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::{DefaultPolicy, PathPattern, RequestMatch};

    fn policy(default: DefaultPolicy) -> ServerPolicy {
        let mut policy = ServerPolicy::without_grants(Owner::Default(default), Protocol::Http1);
        policy.authorizations = default.authorizations();
        policy
    }

    #[test]
    fn grants_are_told_in_words() {
        let text = PolicyView::from(&policy(DefaultPolicy::ClusterAuthenticated)).text();
        let expected = "owner      default cluster-authenticated\n\
                        protocol   HTTP/1\n\
                        allow      from cluster and identity * (default cluster-authenticated)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_grant_is_told_in_words_too() {
        let text = PolicyView::from(&policy(DefaultPolicy::Deny)).text();
        assert!(text.ends_with("allow      nobody\n"), "{text}");
    }

    #[test]
    fn effects_are_told_with_their_bounds_changes_and_conditions() {
        use policy_core::{
            EffectCondition, HeaderCondition, HeaderOperator, SegmentCondition, SegmentOperator,
            Source,
        };
        let told = |kind| effect(&Filter { source: Source::Default("test".into()), kind });
        let when = vec![SegmentCondition::new("book", 1, SegmentOperator::NotIn, ["1", "2"])];
        let (request, idle) = (Some(Duration::from_secs(3)), Some(Duration::from_millis(500)));
        let (response, streams) = (None, Streams::Unbounded);
        assert_eq!(
            told(FilterKind::Timeouts(Timeouts { when, request, response, idle, streams })),
            "timeouts request 3000 ms until the response begins, idle 500 ms \
             where path parameter book NotIn [1, 2] (default test)"
        );
        let (name, value) = (http::HeaderName::from_static, http::HeaderValue::from_static);
        let operator = HeaderOperator::In(vec!["example.com".into()]);
        let when = vec![EffectCondition::Header(HeaderCondition { name: "host".into(), operator })];
        let rewrite = HeaderRewrite {
            when,
            clear: vec![name("x-a")],
            set: vec![(name("x-b"), value("1"))],
            add: vec![(name("x-c"), value("1"))],
            required: true,
        };
        assert_eq!(
            told(FilterKind::Rewrite(rewrite)),
            "request headers clear x-a, set x-b, add x-c or deny \
             where header host In [example.com] (default test)"
        );
    }

    #[test]
    fn matches_are_one_line() {
        let wanted = RequestMatch::path(PathPattern::prefix("/api"));
        assert_eq!(wanted.to_string(), "* /api/…");
        let root = RequestMatch::path(PathPattern::exact("/"));
        assert_eq!(root.with_method(Some(http::Method::GET)).to_string(), "GET /");
        assert_eq!(RequestMatch::grpc(Some("a.B"), None).to_string(), "POST /a.B/{method}");
    }
}
