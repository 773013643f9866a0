//! Writes a port's message.

use super::deny_all::{self, Body};
use super::grant::Grants;
use super::options::EncodeOptions;
use super::{exemption, meta, network, route, tree};
use crate::linkerd::{inbound, net};
use crate::unreadable;
use crate::unsupported::{Part, Report, Unsupported};
use policy_core::decision::Denied;
use policy_core::network::Facts;
use policy_core::policy::{InformationalHeaders, Protocol, ServerPolicy, UpstreamReuse};
use std::borrow::Cow;

/// A message, and the parts of the policy that it does not express.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The message.
    pub server: inbound::Server,
    /// The parts that the message cannot express, and their substitutes.
    pub unsupported: Vec<Unsupported>,
}

/// Encodes the part of `policy` that a Linkerd proxy can enforce on the workload that `facts`
/// describe.
pub fn encode(policy: &ServerPolicy, facts: &Facts, options: &EncodeOptions) -> Encoded {
    let mut report = Report::default();
    let (protocol, authorizations) = match policy.deny {
        Some(reason) => deny_all::deny_all(policy.protocol, reason),
        None => open(policy, &mut Grants::new(facts, options, &mut report)),
    };
    let server = inbound::Server {
        protocol: Some(protocol),
        server_ips: server_ips(facts, options),
        authorizations,
        labels: meta::owner_labels(&policy.owner),
    };
    Encoded { server, unsupported: report.finish() }
}

/// `Server.server_ips`: the one part of the message that pods of one shape do not share.
pub fn server_ips(facts: &Facts, options: &EncodeOptions) -> Vec<net::IpAddress> {
    if options.without_addresses {
        return Vec::new();
    }
    facts.pod_addresses.iter().copied().map(network::address).collect()
}

/// Everything but a port that is denied as a whole.
fn open(policy: &ServerPolicy, grants: &mut Grants<'_>) -> Body {
    // Every field is named, so that none can be forgotten here.
    let ServerPolicy {
        owner: _,
        protocol,
        deny: _,
        // Linkerd's proxies match paths as received; there is no field for it.
        paths: _,
        informational_headers,
        upstream_reuse,
        authorizations,
        exemptions,
        routes: _,
        rate_limit,
        effects: _,
        withheld: _,
    } = policy;
    let sent = if !protocol.is_http() {
        Cow::Borrowed(policy)
    } else if let Some(closed) = unreadable::closed(policy, grants.report()) {
        Cow::Owned(closed)
    } else {
        tree::expressible(policy, grants.options(), grants.report())
    };
    let policy = &*sent;
    let server = grants.server(authorizations);
    if protocol.is_http() && *informational_headers == InformationalHeaders::Disabled {
        let message = "informational headers switched off (`no-informational-headers`): Linkerd's \
                       proxies set `l5d-client-id`";
        grants.report().left_out(Part::Port, message);
    }
    if protocol.is_http() {
        exemption::note_connections(exemptions, grants.report());
    }
    if protocol.is_http() && *upstream_reuse == UpstreamReuse::WithoutBody {
        let message = "connections are used again after requests without a body alone \
                       (`reuse-without-body`), which Linkerd's proxies do not know; the port is denied";
        grants.report().denied(Part::Port, message);
        return deny_all::deny_all(*protocol, Denied::ProxyUnsupported);
    }
    let limit = rate_limit.as_ref();
    if let Some(limit) = limit.filter(|limit| limit.refuses && protocol.is_http()) {
        let message = "a rate limit without a readable number; the port is denied";
        grants.report().denied(Part::RateLimit(limit.source.clone()), message);
        return deny_all::deny_all(*protocol, Denied::RateLimitInvalid);
    }
    match protocol {
        Protocol::Detect { .. } | Protocol::Http1 | Protocol::Http2 => {
            route::http(policy, server, limit, grants)
        }
        Protocol::Grpc => {
            if let Some(limit) = limit {
                let part = Part::RateLimit(limit.source.clone());
                grants.report().left_out(part, "a rate limit on gRPC: not sent");
            }
            route::grpc(policy, server, grants)
        }
        Protocol::Opaque | Protocol::Tls => {
            let mut all = exemption::connections(exemptions, grants);
            all.extend(server);
            (deny_all::without_routes(*protocol), all)
        }
    }
}
