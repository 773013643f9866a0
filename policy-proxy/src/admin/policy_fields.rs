//! A policy as JSON.

use policy_core::{
    Authorization, Exemption, Filter, FilterKind, InformationalHeaders, Owner, PathHandling,
    Protocol, RateLimit, Requirement, Route, ServerPolicy, Unmatched, UnresolvedGrant,
    UpstreamReuse,
};
use serde_json::{Value, json};

/// A policy, with every field.
pub(super) fn policy(policy: &ServerPolicy) -> Value {
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
    let hosts = routes.hosts.iter();
    let hosts = hosts.map(|(host, rule)| (host.to_string(), unmatched(*rule).into()));
    json!({
        "owner": match owner {
            Owner::Server(server) => server.to_string(),
            Owner::Default(default) => format!("default {}", default.as_str()),
        },
        "protocol": protocol_name(*protocol),
        "deny": deny.map(policy_core::Denied::as_str),
        "paths": match paths {
            PathHandling::Canonical => "canonical",
            PathHandling::Raw => "raw",
        },
        "informationalHeaders": *informational_headers == InformationalHeaders::Enabled,
        "reuseWithoutBody": *upstream_reuse == UpstreamReuse::WithoutBody,
        "authorizations": authorizations.iter().map(|own| grant(own)).collect::<Vec<_>>(),
        "exemptions": exemptions.iter().map(exemption).collect::<Vec<_>>(),
        "routes": routes.routes.iter().map(|own| route(own)).collect::<Vec<_>>(),
        "otherwise": unmatched(routes.otherwise),
        "hosts": hosts.collect::<serde_json::Map<String, Value>>(),
        "rateLimit": rate_limit.as_ref().map(limit),
        "effects": effects.iter().map(effect).collect::<Vec<_>>(),
        "withheld": withheld.iter().map(not_granted).collect::<Vec<_>>(),
    })
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Detect { .. } => "detect",
        Protocol::Http1 => "HTTP/1",
        Protocol::Http2 => "HTTP/2",
        Protocol::Grpc => "gRPC",
        Protocol::Opaque => "opaque",
        Protocol::Tls => "TLS",
    }
}

fn grant(grant: &Authorization) -> Value {
    let Authorization { source, requirement, audit } = grant;
    let requires = match requirement {
        Requirement::Nothing => Vec::new(),
        Requirement::All(conditions) if conditions.is_empty() => vec!["nobody".to_owned()],
        Requirement::All(conditions) => conditions.iter().map(|own| own.test.to_string()).collect(),
    };
    json!({ "source": source.to_string(), "requires": requires, "audit": audit })
}

fn exemption(exemption: &Exemption) -> Value {
    let Exemption { request, authorization } = exemption;
    json!({
        "request": request.as_ref().map(ToString::to_string),
        "authorization": grant(authorization),
    })
}

fn route(route: &Route) -> Value {
    let rules = route.rules.iter().map(|rule| {
        json!({
            "matches": rule.matches.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "effects": rule.effects.iter().map(effect).collect::<Vec<_>>(),
        })
    });
    json!({
        "origin": route.origin.to_string(),
        "delegated": route.origin.delegated_path().map(ToString::to_string),
        "httpRoute": route.label.as_ref().map(|label| label.as_str()),
        "hosts": route.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "rules": rules.collect::<Vec<_>>(),
        "authorizations": route.authorizations.iter().map(|own| grant(own)).collect::<Vec<_>>(),
        "inheritsServer": route.inherits_server,
        "withheld": route.withheld.iter().map(not_granted).collect::<Vec<_>>(),
    })
}

fn unmatched(unmatched: Unmatched) -> String {
    match unmatched {
        Unmatched::DefaultRoute => "default".to_owned(),
        Unmatched::NotFound => "not found".to_owned(),
        Unmatched::Deny(reason) => format!("deny {}", reason.as_str()),
        Unmatched::FallThrough => "next host".to_owned(),
    }
}

fn limit(limit: &RateLimit) -> Value {
    let overrides = limit.overrides.iter().map(|own| {
        json!({
            "clients": own.clients.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "requestsPerSecond": own.requests_per_second,
        })
    });
    json!({
        "source": limit.source.to_string(),
        "refuses": limit.refuses,
        "total": limit.total,
        "identity": limit.identity,
        "overrides": overrides.collect::<Vec<_>>(),
    })
}

/// The kind and the object of an effect. The values that it sets are none of a reader's business.
fn effect(effect: &Filter) -> Value {
    let kind = match &effect.kind {
        FilterKind::RequestHeaders(_) => "requestHeaders",
        FilterKind::ResponseHeaders(_) => "responseHeaders",
        FilterKind::Redirect(_) => "redirect",
        FilterKind::Failure(_) => "failure",
        FilterKind::Timeout(_) => "timeout",
        FilterKind::Timeouts(_) => "timeouts",
        FilterKind::Rewrite(_) => "rewrite",
    };
    json!({ "kind": kind, "source": effect.source.to_string() })
}

fn not_granted(withheld: &UnresolvedGrant) -> Value {
    json!({ "source": withheld.source.to_string(), "reason": withheld.reason.to_string() })
}
