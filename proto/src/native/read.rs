//! From native messages to the model. What is unset, unknown or out of range is an error.

use super::interner::Interner;
use crate::error::{At, DecodeError, Result, each, required};
use crate::messages as m;
use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use policy_core::authorization::{
    Authorization, Condition, Predicate, Requirement, UnresolvedGrant,
};
use policy_core::condition::{SegmentCondition, SegmentOperator};
use policy_core::decision::Denied;
use policy_core::identity::IdentityMatch;
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch,
};
use policy_core::name::{ObjectRef, Source};
use policy_core::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use policy_core::pattern::Pattern;
use policy_core::policy::{
    DefaultPolicy, InformationalHeaders, Owner, PathHandling, Protocol, Unmatched, UpstreamReuse,
};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

/// A oneof, which must be set.
pub(super) fn set<T>(kind: Option<&T>) -> Result<&T> {
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
    Ok(NetworkMatch { term, except: each("exceptions", &entry.exceptions, network)? })
}

pub(super) fn unknown<T>(value: i32) -> Result<T> {
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
        Kind::Segment(wanted) => Predicate::Segment(segment_condition(wanted).at("segment")?),
    };
    Ok(Condition { source: from, test })
}

/// A condition on a path segment.
pub(super) fn segment_condition(condition: &m::SegmentCondition) -> Result<SegmentCondition> {
    let m::SegmentCondition { parameter, place, operator, values } = condition;
    let operator = match m::SegmentOperator::try_from(*operator) {
        Ok(m::SegmentOperator::In) => SegmentOperator::In,
        Ok(m::SegmentOperator::NotIn) => SegmentOperator::NotIn,
        Ok(m::SegmentOperator::Unspecified) | Err(_) => return unknown(*operator).at("operator"),
    };
    Ok(SegmentCondition::new(parameter, *place, operator, values))
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

/// A number within bounds.
pub(crate) fn bounded(value: u32, low: u16, high: u16) -> Result<u16> {
    u16::try_from(value)
        .ok()
        .filter(|value| (low..=high).contains(value))
        .ok_or_else(|| DecodeError::here(format!("must be between {low} and {high}, is {value}")))
}

pub(crate) fn duration(duration: &prost_types::Duration) -> Result<Duration> {
    let parts = (u64::try_from(duration.seconds).ok(), u32::try_from(duration.nanos).ok());
    match parts {
        (Some(seconds), Some(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        (_, _) => Err(DecodeError::here("must be a duration of zero or more")),
    }
}

pub(super) fn denied(name: &str) -> Result<Denied> {
    Denied::parse(name)
        .ok_or_else(|| DecodeError::here(format!("reason `{name}` is not known here")))
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

pub(super) fn upstream_reuse(without_body: bool) -> UpstreamReuse {
    if without_body { UpstreamReuse::WithoutBody } else { UpstreamReuse::Usual }
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
        refuses: limit.refuses,
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
