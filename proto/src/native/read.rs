//! From native messages to the model. What is unset, unknown or out of range is an error.

use super::interner::Interner;
use crate::error::{At, DecodeError, Result, each, required};
use crate::messages as m;
use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use policy_core::authorization::{
    Authorization, AuthorizationSet, Condition, Predicate, Requirement, UnresolvedGrant,
};
use policy_core::decision::Denied;
use policy_core::filter::{Failure, Filter, FilterKind, HeaderChange, Redirect, RedirectPath};
use policy_core::identity::IdentityMatch;
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch,
};
use policy_core::name::{DelegatedPath, ObjectRef, Origin, Source};
use policy_core::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use policy_core::pattern::Pattern;
use policy_core::policy::{
    DefaultPolicy, InformationalHeaders, Owner, PathHandling, Protocol, Route, RouteKind,
};
use policy_core::policy::{Rule, Unmatched};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A oneof, which must be set.
fn set<T>(kind: Option<&T>) -> Result<&T> {
    kind.ok_or_else(|| DecodeError::here("none of its alternatives is set, or one not known here"))
}

pub(super) fn object(names: &Interner, object: &m::ObjectRef) -> ObjectRef {
    let m::ObjectRef { group, kind, namespace, name } = object;
    ObjectRef::of(names.family(group, kind, namespace), name.as_str().into())
}

pub(super) fn source(names: &Interner, source: &m::Source) -> Result<Source> {
    use m::source::Kind;
    Ok(match set(source.kind.as_ref())? {
        Kind::Object(named) => Source::Object(object(names, named)),
        Kind::Default(name) => Source::Default(names.text(name)),
    })
}

pub(super) fn address(bytes: &[u8]) -> Result<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(v4));
    }
    let v6 = <[u8; 16]>::try_from(bytes);
    v6.map(IpAddr::from)
        .map_err(|_| DecodeError::here(format!("must have 4 or 16 bytes, has {}", bytes.len())))
}

pub(super) fn network(network: &m::Network) -> Result<IpNet> {
    let address = address(&network.address).at("address")?;
    prefix(address, network.prefix_length).at("prefix_length")
}

/// A block from an address and a length that may be too long for it.
pub(crate) fn prefix(address: IpAddr, length: u32) -> Result<IpNet> {
    let short = u8::try_from(length).ok();
    short.and_then(|length| IpNet::new(address, length).ok()).ok_or_else(|| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        DecodeError::here(format!("must be at most {most}, is {length}"))
    })
}

fn network_match(entry: &m::NetworkMatch) -> Result<NetworkMatch> {
    use m::network_match::Term;
    let term = match set(entry.term.as_ref())? {
        Term::Net(net) => NetworkTerm::Net(network(net).at("net")?),
        Term::Symbol(symbol) => NetworkTerm::Symbol(match m::NetworkSymbol::try_from(*symbol) {
            Ok(m::NetworkSymbol::NodeLocal) => NetworkSymbol::NodeLocal,
            Ok(m::NetworkSymbol::Cluster) => NetworkSymbol::Cluster,
            Ok(m::NetworkSymbol::Unspecified) | Err(_) => return unknown(*symbol).at("symbol"),
        }),
    };
    Ok(NetworkMatch { term, except: each("except", &entry.except, network)? })
}

fn unknown<T>(value: i32) -> Result<T> {
    Err(DecodeError::here(format!("value {value} is not known here")))
}

fn identity(names: &Interner, pattern: &m::IdentityMatch) -> Result<IdentityMatch> {
    use m::identity_match::Kind;
    Ok(match set(pattern.kind.as_ref())? {
        Kind::Any(m::Unit {}) => IdentityMatch::Any,
        Kind::Exact(name) => IdentityMatch::Exact(names.text(name)),
        Kind::Suffix(suffix) => IdentityMatch::Suffix(names.text(suffix)),
    })
}

fn condition(names: &Interner, condition: &m::Condition) -> Result<Condition> {
    use m::condition::Test as Kind;
    let from = required("source", condition.source.as_ref(), |of| source(names, of))?;
    let test = match set(condition.test.as_ref())? {
        Kind::Network(list) => {
            Predicate::Network(each("networks", &list.networks, network_match).at("network")?)
        }
        Kind::MeshTls(m::Unit {}) => Predicate::MeshTls,
        Kind::Identity(list) => {
            let one = |pattern: &m::IdentityMatch| identity(names, pattern);
            Predicate::Identity(each("identities", &list.identities, one).at("identity")?)
        }
        Kind::TlsPassthrough(m::Unit {}) => Predicate::TlsPassthrough,
    };
    Ok(Condition { source: from, test })
}

/// A grant and its key.
pub(super) fn authorization(
    names: &Interner,
    grant: &m::Authorization,
) -> Result<(u64, Authorization)> {
    use m::authorization::Requirement as Kind;
    let key = key(grant.key).at("key")?;
    let from = required("source", grant.source.as_ref(), |of| source(names, of))?;
    let requirement = match set(grant.requirement.as_ref())? {
        Kind::Nothing(m::Unit {}) => Requirement::Nothing,
        Kind::All(list) => {
            let one = |wanted: &m::Condition| condition(names, wanted);
            Requirement::All(names.conditions(each("conditions", &list.conditions, one).at("all")?))
        }
    };
    Ok((key, Authorization { source: from, requirement, audit: grant.audit }))
}

pub(super) fn key(key: u64) -> Result<u64> {
    if key == 0 { Err(DecodeError::here("must not be 0")) } else { Ok(key) }
}

pub(super) fn withheld(names: &Interner, withheld: &m::Withheld) -> Result<UnresolvedGrant> {
    let source = required("source", withheld.source.as_ref(), |named| Ok(object(names, named)))?;
    Ok(UnresolvedGrant { source, reason: names.text(&withheld.reason) })
}

/// A bounded expression, checked.
pub(crate) fn pattern(source: &str) -> Result<Pattern> {
    Pattern::parse(source).map_err(|error| DecodeError::here(error.to_string()))
}

fn path(names: &Interner, path: &m::PathPattern) -> Result<PathPattern> {
    use m::path_pattern::Kind;
    Ok(match set(path.kind.as_ref())? {
        Kind::Segments(list) => PathPattern::Segments {
            segments: each("segments", &list.segments, |one| segment(names, one))
                .at("segments")?
                .into(),
            rest: list.rest,
        },
        Kind::Regex(source) => PathPattern::Regex(pattern(source).at("regex")?),
    })
}

fn segment(names: &Interner, segment: &m::Segment) -> Result<Segment> {
    use m::segment::Kind;
    Ok(match set(segment.kind.as_ref())? {
        Kind::Literal(text) => Segment::Literal(names.text(text)),
        Kind::Parameter(name) => Segment::Parameter(names.text(name)),
    })
}

fn value(value: &m::ValueMatch) -> Result<ValueMatch> {
    use m::value_match::Kind;
    Ok(match set(value.kind.as_ref())? {
        Kind::Exact(bytes) => ValueMatch::Exact(bytes.as_slice().into()),
        Kind::Regex(source) => ValueMatch::Regex(pattern(source).at("regex")?),
    })
}

pub(crate) fn header_name(name: &str) -> Result<HeaderName> {
    let parsed = HeaderName::from_bytes(name.as_bytes());
    parsed.map_err(|_| DecodeError::here(format!("`{name}` is not a header name")))
}

pub(crate) fn header_value(value: &[u8]) -> Result<HeaderValue> {
    let parsed = HeaderValue::from_bytes(value);
    parsed.map_err(|_| DecodeError::here("has bytes that a header value must not have"))
}

pub(crate) fn method(name: &str) -> Result<Method> {
    let parsed = Method::from_bytes(name.as_bytes());
    parsed.map_err(|_| DecodeError::here(format!("`{name}` is not an HTTP method")))
}

pub(super) fn request(names: &Interner, wanted: &m::RequestMatch) -> Result<RequestMatch> {
    let path = required("path", wanted.path.as_ref(), |pattern| path(names, pattern))?;
    let method = wanted.method.as_deref().map(method).transpose().at("method")?;
    let headers = each("headers", &wanted.headers, |header| {
        Ok(HeaderMatch {
            name: header_name(&header.name).at("name")?,
            value: required("value", header.value.as_ref(), value)?,
        })
    })?;
    let query = each("query", &wanted.query, |parameter| {
        Ok(QueryMatch {
            name: names.text(&parameter.name),
            value: required("value", parameter.value.as_ref(), value)?,
        })
    })?;
    Ok(RequestMatch::new(path, method, headers, query))
}

pub(super) fn host(names: &Interner, host: &m::HostPattern) -> Result<HostPattern> {
    use m::host_pattern::Kind;
    Ok(match set(host.kind.as_ref())? {
        Kind::Exact(name) => HostPattern::Exact(names.text(name)),
        Kind::Suffix(suffix) => HostPattern::Suffix(names.text(suffix)),
    })
}

fn headers(change: &m::HeaderChange) -> Result<HeaderChange> {
    let field = |field: &m::HeaderField| {
        Ok((header_name(&field.name).at("name")?, header_value(&field.value).at("value")?))
    };
    Ok(HeaderChange {
        add: each("add", &change.add, field)?,
        set: each("set", &change.set, field)?,
        remove: each("remove", &change.remove, |name| header_name(name))?,
    })
}

/// A number within bounds.
pub(crate) fn bounded(value: u32, low: u16, high: u16) -> Result<u16> {
    u16::try_from(value)
        .ok()
        .filter(|value| (low..=high).contains(value))
        .ok_or_else(|| DecodeError::here(format!("must be between {low} and {high}, is {value}")))
}

fn redirect(redirect: &m::Redirect) -> Result<Redirect> {
    use m::redirect::Path;
    let text = |text: &Option<String>| text.as_deref().map(Arc::from);
    let path = redirect.path.as_ref().map(|path| match path {
        Path::FullPath(path) => RedirectPath::Full(path.as_str().into()),
        Path::Prefix(prefix) => RedirectPath::Prefix(prefix.as_str().into()),
    });
    Ok(Redirect {
        scheme: text(&redirect.scheme),
        host: text(&redirect.host),
        port: redirect.port.map(|port| bounded(port, 0, u16::MAX)).transpose().at("port")?,
        path,
        status: bounded(redirect.status, 300, 399).at("status")?,
    })
}

fn failure(failure: &m::Failure) -> Result<Failure> {
    if failure.denominator == 0 {
        return Err(DecodeError::here("must not be 0")).at("denominator");
    }
    Ok(Failure {
        status: bounded(failure.status, 100, 599).at("status")?,
        grpc_status: bounded(failure.grpc_status, 0, 16).at("grpc_status")?,
        message: failure.message.as_str().into(),
        numerator: failure.numerator,
        denominator: failure.denominator,
    })
}

pub(crate) fn duration(duration: &prost_types::Duration) -> Result<Duration> {
    let parts = (u64::try_from(duration.seconds).ok(), u32::try_from(duration.nanos).ok());
    match parts {
        (Some(seconds), Some(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        (_, _) => Err(DecodeError::here("must be a duration of zero or more")),
    }
}

pub(super) fn effect(names: &Interner, effect: &m::Effect) -> Result<Filter> {
    use m::effect::Kind;
    let kind = match set(effect.kind.as_ref())? {
        Kind::RequestHeaders(change) => {
            FilterKind::RequestHeaders(headers(change).at("request_headers")?)
        }
        Kind::ResponseHeaders(change) => {
            FilterKind::ResponseHeaders(headers(change).at("response_headers")?)
        }
        Kind::Redirect(wanted) => FilterKind::Redirect(redirect(wanted).at("redirect")?),
        Kind::Failure(wanted) => FilterKind::Failure(failure(wanted).at("failure")?),
        Kind::Timeout(bound) => FilterKind::Timeout(duration(bound).at("timeout")?),
    };
    let from = required("source", effect.source.as_ref(), |of| source(names, of))?;
    Ok(Filter { source: from, kind })
}

pub(super) fn denied(name: &str) -> Result<Denied> {
    Denied::parse(name)
        .ok_or_else(|| DecodeError::here(format!("reason `{name}` is not known here")))
}

fn origin(names: &Interner, origin: &m::Origin) -> Result<Origin> {
    use m::origin::Kind;
    Ok(match set(origin.kind.as_ref())? {
        Kind::Objects(list) if list.chain.is_empty() => {
            return Err(DecodeError::here("must not be empty")).at("chain").at("objects");
        }
        Kind::Objects(list) => {
            Origin::Objects(list.chain.iter().map(|named| object(names, named)).collect())
        }
        Kind::Default(m::Unit {}) => Origin::Default,
        Kind::Probe(m::Unit {}) => Origin::Probe,
        Kind::Guard(m::Unit {}) => Origin::Guard,
        Kind::Deny(reason) => Origin::Deny(denied(reason).at("deny")?),
        Kind::Delegated(path) => Origin::Delegated(delegated(names, path).at("delegated")?),
        Kind::Undelegated(path) => Origin::Undelegated(delegated(names, path).at("undelegated")?),
    })
}

fn delegated(names: &Interner, path: &m::origin::DelegatedPath) -> Result<Arc<DelegatedPath>> {
    let m::origin::DelegatedPath { chain, prefix } = path;
    if chain.is_empty() {
        return Err(DecodeError::here("must not be empty")).at("chain");
    }
    if !prefix.starts_with('/') {
        return Err(DecodeError::here("must begin with `/`")).at("prefix");
    }
    let chain = chain.iter().map(|named| object(names, named)).collect();
    Ok(Arc::new(DelegatedPath { chain, prefix: names.text(prefix) }))
}

/// A route, its key and those of its grants; the grants themselves are left empty.
pub(super) fn route(names: &Interner, route: &m::Route) -> Result<(u64, Vec<u64>, Route)> {
    let m::Route {
        key: own,
        origin: why,
        kind,
        created,
        hosts,
        rules,
        authorizations,
        inherits_server,
        withheld: held,
    } = route;
    let kind = match m::RouteKind::try_from(*kind) {
        Ok(m::RouteKind::Http) => RouteKind::Http,
        Ok(m::RouteKind::Grpc) => RouteKind::Grpc,
        Ok(m::RouteKind::Unspecified) | Err(_) => return unknown(*kind).at("kind"),
    };
    let decoded = Route {
        origin: required("origin", why.as_ref(), |why| origin(names, why))?,
        kind,
        created: *created,
        hosts: each("hosts", hosts, |pattern| host(names, pattern))?.into(),
        rules: each("rules", rules, |one| rule(names, one))?.into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: *inherits_server,
        withheld: each("withheld", held, |one| withheld(names, one))?.into(),
    };
    Ok((key(*own).at("key")?, authorizations.clone(), decoded))
}

fn rule(names: &Interner, rule: &m::Rule) -> Result<Rule> {
    Ok(Rule {
        matches: each("matches", &rule.matches, |wanted| request(names, wanted))?.into(),
        effects: each("effects", &rule.effects, |one| effect(names, one))?.into(),
    })
}

pub(super) fn protocol(protocol: &m::Protocol) -> Result<Protocol> {
    use m::protocol::Kind;
    Ok(match set(protocol.kind.as_ref())? {
        Kind::Detect(detect) => Protocol::Detect {
            timeout: required("timeout", detect.timeout.as_ref(), duration).at("detect")?,
        },
        Kind::Http1(m::Unit {}) => Protocol::Http1,
        Kind::Http2(m::Unit {}) => Protocol::Http2,
        Kind::Grpc(m::Unit {}) => Protocol::Grpc,
        Kind::Opaque(m::Unit {}) => Protocol::Opaque,
        Kind::Tls(m::Unit {}) => Protocol::Tls,
    })
}

pub(super) fn paths(paths: i32) -> Result<PathHandling> {
    match m::PathHandling::try_from(paths) {
        Ok(m::PathHandling::Canonical) => Ok(PathHandling::Canonical),
        Ok(m::PathHandling::Raw) => Ok(PathHandling::Raw),
        Ok(m::PathHandling::Unspecified) | Err(_) => unknown(paths),
    }
}

pub(super) fn informational_headers(none: bool) -> InformationalHeaders {
    if none { InformationalHeaders::Disabled } else { InformationalHeaders::Enabled }
}

pub(super) fn unmatched(unmatched: &m::Unmatched) -> Result<Unmatched> {
    use m::unmatched::Kind;
    Ok(match set(unmatched.kind.as_ref())? {
        Kind::DefaultRoute(m::Unit {}) => Unmatched::DefaultRoute,
        Kind::NotFound(m::Unit {}) => Unmatched::NotFound,
        Kind::Deny(reason) => Unmatched::Deny(denied(reason).at("deny")?),
        Kind::FallThrough(m::Unit {}) => Unmatched::FallThrough,
    })
}

fn rate(rate: u32) -> Result<NonZeroU32> {
    NonZeroU32::new(rate).ok_or_else(|| DecodeError::here("must not be 0"))
}

pub(super) fn rate_limit(names: &Interner, limit: &m::RateLimit) -> Result<RateLimit> {
    Ok(RateLimit {
        source: required("source", limit.source.as_ref(), |of| source(names, of))?,
        total: limit.total.map(rate).transpose().at("total")?,
        identity: limit.identity.map(rate).transpose().at("identity")?,
        overrides: each("overrides", &limit.overrides, |wanted| {
            Ok(LimitOverride {
                requests_per_second: rate(wanted.requests_per_second).at("requests_per_second")?,
                clients: wanted.clients.iter().map(|client| names.text(client)).collect(),
            })
        })?,
    })
}

pub(super) fn owner(names: &Interner, owner: &m::Owner) -> Result<Owner> {
    use m::owner::Kind;
    Ok(match set(owner.kind.as_ref())? {
        Kind::Server(server) => Owner::Server(object(names, server)),
        Kind::Default(name) => {
            let policy = DefaultPolicy::parse(name).ok_or_else(|| {
                DecodeError::here(format!("default policy `{name}` is not known here"))
            });
            Owner::Default(policy.at("default")?)
        }
    })
}
