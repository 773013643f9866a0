//! From the model to native messages. Every field of every type is named.

use crate::messages as m;
use ipnet::IpNet;
use policy_core::authorization::{
    Authorization, Condition, Predicate, Requirement, UnresolvedGrant,
};
use policy_core::condition::{SegmentCondition, SegmentOperator};
use policy_core::identity::IdentityMatch;
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch,
};
use policy_core::name::{ObjectRef, Source};
use policy_core::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use policy_core::policy::{Owner, PathHandling, Protocol, Unmatched};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

pub(super) const UNIT: m::Unit = m::Unit {};

pub(super) fn object(object: &ObjectRef) -> m::ObjectRef {
    m::ObjectRef {
        group: object.group().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
    }
}

pub(super) fn source(source: &Source) -> m::Source {
    use m::source::Kind;
    let kind = match source {
        Source::Object(named) => Kind::Object(object(named)),
        Source::Default(name) => Kind::Default(name.to_string()),
    };
    m::Source { kind: Some(kind) }
}

pub(super) fn address(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(super) fn network(net: &IpNet) -> m::Network {
    m::Network { address: address(net.addr()), prefix_length: u32::from(net.prefix_len()) }
}

fn network_match(entry: &NetworkMatch) -> m::NetworkMatch {
    use m::network_match::Term;
    let NetworkMatch { term, except } = entry;
    let term = match term {
        NetworkTerm::Net(net) => Term::Net(network(net)),
        NetworkTerm::Symbol(symbol) => Term::Symbol(i32::from(match symbol {
            NetworkSymbol::NodeLocal => m::NetworkSymbol::NodeLocal,
            NetworkSymbol::Cluster => m::NetworkSymbol::Cluster,
        })),
    };
    m::NetworkMatch { term: Some(term), exceptions: except.iter().map(network).collect() }
}

fn identity(pattern: &IdentityMatch) -> m::IdentityMatch {
    use m::identity_match::Kind;
    let kind = match pattern {
        IdentityMatch::Any => Kind::Any(UNIT),
        IdentityMatch::Exact(name) => Kind::Exact(name.to_string()),
        IdentityMatch::Suffix(suffix) => Kind::Suffix(suffix.to_string()),
    };
    m::IdentityMatch { kind: Some(kind) }
}

fn condition(condition: &Condition) -> m::Condition {
    use m::condition::{Identities, Networks, Test as Kind};
    let Condition { source: from, test } = condition;
    let test = match test {
        Predicate::Network(networks) => {
            Kind::Network(Networks { networks: networks.iter().map(network_match).collect() })
        }
        Predicate::MeshTls => Kind::MeshTls(UNIT),
        Predicate::Identity(identities) => {
            Kind::Identity(Identities { identities: identities.iter().map(identity).collect() })
        }
        Predicate::TlsPassthrough => Kind::TlsPassthrough(UNIT),
        Predicate::Segment(wanted) => Kind::Segment(segment_condition(wanted)),
    };
    m::Condition { source: Some(source(from)), test: Some(test) }
}

pub(super) fn segment_condition(condition: &SegmentCondition) -> m::SegmentCondition {
    m::SegmentCondition {
        parameter: condition.parameter.to_string(),
        place: condition.place,
        operator: i32::from(match condition.operator {
            SegmentOperator::In => m::SegmentOperator::In,
            SegmentOperator::NotIn => m::SegmentOperator::NotIn,
        }),
        values: condition.values().iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn authorization(key: u64, grant: &Authorization) -> m::Authorization {
    use m::authorization::{Conditions, Requirement as Kind};
    let Authorization { source: from, requirement, audit } = grant;
    let requirement = match requirement {
        Requirement::Nothing => Kind::Nothing(UNIT),
        Requirement::All(conditions) => {
            Kind::All(Conditions { conditions: conditions.iter().map(condition).collect() })
        }
    };
    m::Authorization {
        key,
        source: Some(source(from)),
        requirement: Some(requirement),
        audit: *audit,
    }
}

pub(super) fn withheld(withheld: &UnresolvedGrant) -> m::Withheld {
    let UnresolvedGrant { source, reason } = withheld;
    m::Withheld { source: Some(object(source)), reason: reason.to_string() }
}

fn path(pattern: &PathPattern) -> m::PathPattern {
    use m::path_pattern::{Kind, Segments};
    let kind = match pattern {
        PathPattern::Segments { segments, rest } => Kind::Segments(Segments {
            segments: segments.iter().map(segment).collect(),
            rest: *rest,
        }),
        PathPattern::Regex(pattern) => Kind::Regex(pattern.source().to_owned()),
    };
    m::PathPattern { kind: Some(kind) }
}

fn segment(segment: &Segment) -> m::Segment {
    use m::segment::Kind;
    let kind = match segment {
        Segment::Literal(text) => Kind::Literal(text.to_string()),
        Segment::Parameter(name) => Kind::Parameter(name.to_string()),
    };
    m::Segment { kind: Some(kind) }
}

fn value(value: &ValueMatch) -> m::ValueMatch {
    use m::value_match::Kind;
    let kind = match value {
        ValueMatch::Exact(bytes) => Kind::Exact(bytes.to_vec()),
        ValueMatch::Regex(pattern) => Kind::Regex(pattern.source().to_owned()),
    };
    m::ValueMatch { kind: Some(kind) }
}

pub(super) fn request(wanted: &RequestMatch) -> m::RequestMatch {
    let (pattern, method, headers, query) = wanted.parts();
    m::RequestMatch {
        path: Some(path(pattern)),
        method: method.map(|method| method.as_str().to_owned()),
        headers: headers
            .iter()
            .map(|HeaderMatch { name, value: wanted }| m::HeaderMatch {
                name: name.as_str().to_owned(),
                value: Some(value(wanted)),
            })
            .collect(),
        query: query
            .iter()
            .map(|QueryMatch { name, value: wanted }| m::QueryMatch {
                name: name.to_string(),
                value: Some(value(wanted)),
            })
            .collect(),
    }
}

pub(super) fn host(pattern: &HostPattern) -> m::HostPattern {
    use m::host_pattern::Kind;
    let kind = match pattern {
        HostPattern::Exact(name) => Kind::Exact(name.to_string()),
        HostPattern::Suffix(suffix) => Kind::Suffix(suffix.to_string()),
    };
    m::HostPattern { kind: Some(kind) }
}

/// Saturates at the range of the message, which is far above any useful limit.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

pub(super) fn protocol(protocol: Protocol) -> m::Protocol {
    use m::protocol::{Detect, Kind};
    let kind = match protocol {
        Protocol::Detect { timeout } => Kind::Detect(Detect { timeout: Some(duration(timeout)) }),
        Protocol::Http1 => Kind::Http1(UNIT),
        Protocol::Http2 => Kind::Http2(UNIT),
        Protocol::Grpc => Kind::Grpc(UNIT),
        Protocol::Opaque => Kind::Opaque(UNIT),
        Protocol::Tls => Kind::Tls(UNIT),
    };
    m::Protocol { kind: Some(kind) }
}

pub(super) fn paths(paths: PathHandling) -> i32 {
    i32::from(match paths {
        PathHandling::Canonical => m::PathHandling::Canonical,
        PathHandling::Raw => m::PathHandling::Raw,
    })
}

pub(super) fn unmatched(unmatched: Unmatched) -> m::Unmatched {
    use m::unmatched::Kind;
    let kind = match unmatched {
        Unmatched::DefaultRoute => Kind::DefaultRoute(UNIT),
        Unmatched::NotFound => Kind::NotFound(UNIT),
        Unmatched::Deny(reason) => Kind::Deny(reason.as_str().to_owned()),
        Unmatched::FallThrough => Kind::FallThrough(UNIT),
    };
    m::Unmatched { kind: Some(kind) }
}

pub(super) fn rate_limit(limit: &RateLimit) -> m::RateLimit {
    let RateLimit { source: from, total, identity, overrides, refuses } = limit;
    m::RateLimit {
        source: Some(source(from)),
        total: total.map(NonZeroU32::get),
        identity: identity.map(NonZeroU32::get),
        overrides: overrides
            .iter()
            .map(|LimitOverride { requests_per_second, clients }| m::rate_limit::Override {
                requests_per_second: requests_per_second.get(),
                clients: clients.iter().map(|client| client.to_string()).collect(),
            })
            .collect(),
        refuses: *refuses,
    }
}

pub(super) fn owner(owner: &Owner) -> m::Owner {
    use m::owner::Kind;
    let kind = match owner {
        Owner::Server(server) => Kind::Server(object(server)),
        Owner::Default(policy) => Kind::Default(policy.as_str().to_owned()),
    };
    m::Owner { kind: Some(kind) }
}
