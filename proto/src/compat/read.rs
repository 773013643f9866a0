//! Reads a port's message. Refuses messages that Linkerd's proxies refuse, and those that they
//! would misread.

use super::read_grant::read_grants;
use super::{meta, network, read_route};
use crate::error::{At, DecodeError, Result, each, required};
use crate::linkerd::inbound::http_local_rate_limit::{Limit, Override};
use crate::linkerd::inbound::{HttpLocalRateLimit, Server, proxy_protocol};
use crate::native::read_duration;
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::network::Facts;
use policy_core::policy::{
    InformationalHeaders, PathHandling, Protocol, Route, RouteTable, ServerPolicy, Unmatched,
    UpstreamReuse,
};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Reads a message. All or nothing.
///
/// # Errors
/// The first field that cannot be read, and why.
pub fn decode(server: &Server) -> Result<ServerPolicy> {
    read_server(server)
}

/// Reads the workload's addresses, if the controller knows them.
///
/// # Errors
/// An address that is none.
pub fn decode_facts(server: &Server) -> Result<Facts> {
    let addresses: Result<Vec<IpAddr>> = server
        .server_ips
        .iter()
        .enumerate()
        .map(|(index, ip)| network::read_address(ip).item("server_ips", index))
        .collect();
    Ok(Facts { pod_addresses: addresses?, ..Facts::default() })
}

fn read_server(server: &Server) -> Result<ServerPolicy> {
    let Server { protocol, server_ips, authorizations, labels } = server;
    each("server_ips", server_ips, network::read_address)?;
    let kind = required("protocol", protocol.as_ref(), |protocol| {
        protocol.kind.as_ref().ok_or_else(DecodeError::missing).and_then(read_protocol)
    })?;
    let (protocol, routes, rate_limit) = kind;
    // The proxy's own route where it gets none: decided by the Server's grants.
    let otherwise = if routes.is_empty() { Unmatched::DefaultRoute } else { Unmatched::NotFound };
    Ok(ServerPolicy {
        owner: meta::read_owner(labels).at("labels")?,
        protocol,
        deny: None,
        paths: PathHandling::Canonical,
        // The message has no field for it.
        informational_headers: InformationalHeaders::Enabled,
        upstream_reuse: UpstreamReuse::Usual,
        authorizations: read_grants(authorizations)?,
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: routes.into_iter().map(Arc::new).collect(),
            hosts: std::collections::BTreeMap::new(),
            otherwise,
        },
        rate_limit,
        effects: Vec::new(),
        withheld: Vec::new(),
    })
}

type ProtocolParts = (Protocol, Vec<Route>, Option<RateLimit>);

fn read_protocol(kind: &proxy_protocol::Kind) -> Result<ProtocolParts> {
    use proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
    Ok(match kind {
        Kind::Detect(Detect { timeout, http_routes, http_local_rate_limit: limit }) => {
            let timeout = required("timeout", timeout.as_ref(), read_duration).at("detect")?;
            let routes = each("http_routes", http_routes, read_route::http).at("detect")?;
            let limit = limit.as_ref().map(read_limit).transpose();
            let limit = limit.at("http_local_rate_limit").at("detect")?;
            (Protocol::Detect { timeout }, routes, limit)
        }
        Kind::Http1(Http1 { routes, local_rate_limit: limit }) => {
            let routes = each("routes", routes, read_route::http).at("http1")?;
            let limit = limit.as_ref().map(read_limit).transpose();
            (Protocol::Http1, routes, limit.at("local_rate_limit").at("http1")?)
        }
        Kind::Http2(Http2 { routes, local_rate_limit: limit }) => {
            let routes = each("routes", routes, read_route::http).at("http2")?;
            let limit = limit.as_ref().map(read_limit).transpose();
            (Protocol::Http2, routes, limit.at("local_rate_limit").at("http2")?)
        }
        Kind::Grpc(Grpc { routes }) => {
            (Protocol::Grpc, each("routes", routes, read_route::grpc).at("grpc")?, None)
        }
        Kind::Opaque(Opaque {}) => (Protocol::Opaque, Vec::new(), None),
        Kind::Tls(Tls {}) => (Protocol::Tls, Vec::new(), None),
    })
}

fn read_limit(limit: &HttpLocalRateLimit) -> Result<RateLimit> {
    let HttpLocalRateLimit { metadata, total, identity, overrides } = limit;
    let rate = |limit: &Option<Limit>| {
        limit.as_ref().and_then(|limit| NonZeroU32::new(limit.requests_per_second))
    };
    let read_override = |wanted: &Override| {
        let Override { limit, clients } = wanted;
        let clients = required("clients", clients.as_ref(), |clients| {
            Ok(clients.identities.iter().map(|id| id.name.as_str().into()).collect())
        })?;
        // Without a rate the clients keep what all have.
        Ok(rate(limit).map(|requests_per_second| LimitOverride { requests_per_second, clients }))
    };
    Ok(RateLimit {
        source: meta::read_source(metadata.as_ref())?,
        total: rate(total),
        identity: rate(identity),
        overrides: each("overrides", overrides, read_override)?.into_iter().flatten().collect(),
        refuses: false,
    })
}
