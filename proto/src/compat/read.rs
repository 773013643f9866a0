//! Reads a port's message. What Linkerd's proxies refuse is refused; so is what they would take for
//! something else than was meant.

use super::{meta, network, read_route};
use crate::error::{At, DecodeError, each, required};
use crate::linkerd::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
use crate::linkerd::inbound::authn::{Permit, PermitMeshTls, PermitUnauthenticated};
use crate::linkerd::inbound::http_local_rate_limit::{Limit, Override};
use crate::linkerd::inbound::{Authn, Authz, HttpLocalRateLimit, Server, proxy_protocol};
use crate::native::read_duration;
use policy_core::authorization::{Authorization, AuthorizationSet, Condition, Requirement, Test};
use policy_core::identity::IdentityMatch;
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::name::Source;
use policy_core::policy::{
    InformationalHeaders, PathHandling, Protocol, Route, RouteTable, ServerPolicy, Unmatched,
};
use std::num::NonZeroU32;
use std::sync::Arc;

type Result<T> = std::result::Result<T, DecodeError>;

pub(super) fn server(server: &Server) -> Result<ServerPolicy> {
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
        // The message cannot say otherwise.
        informational_headers: InformationalHeaders::Enabled,
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

type Read = (Protocol, Vec<Route>, Option<RateLimit>);

fn read_protocol(kind: &proxy_protocol::Kind) -> Result<Read> {
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

pub(super) fn read_grants(grants: &[Authz]) -> Result<AuthorizationSet> {
    let grants = each("authorizations", grants, read_grant)?;
    Ok(grants.into_iter().map(Arc::new).collect())
}

fn read_grant(grant: &Authz) -> Result<Authorization> {
    let Authz { networks, authentication, labels, metadata } = grant;
    let source = meta::read_grant(metadata.as_ref(), labels)?;
    if networks.is_empty() {
        return Err(DecodeError::here("must not be empty")).at("networks");
    }
    let networks = Test::Network(each("networks", networks, network::read_network)?);
    let client = required("authentication", authentication.as_ref(), read_authentication)?;
    let conditions = [Some(networks), client].into_iter().flatten();
    let conditions = conditions.map(|test| Condition { source: source.clone(), test }).collect();
    // Linkerd's proxies log permits of the grant of this name.
    let audit = source == Source::Default("audit".into());
    Ok(Authorization { source, requirement: Requirement::All(conditions), audit })
}

/// What is asked of the client; nothing if nothing is.
fn read_authentication(authentication: &Authn) -> Result<Option<Test>> {
    match authentication.permit.as_ref().ok_or_else(DecodeError::missing)? {
        Permit::Unauthenticated(PermitUnauthenticated {}) => Ok(None),
        Permit::MeshTls(PermitMeshTls { clients }) => {
            let clients =
                required("clients", clients.as_ref(), |clients| Ok(read_clients(clients)));
            clients.at("mesh_tls").map(Some)
        }
    }
}

fn read_clients(clients: &Clients) -> Test {
    match clients {
        Clients::Unauthenticated(PermitUnauthenticated {}) => Test::MeshTls,
        Clients::Identities(PermitClientIdentities { identities, suffixes }) => {
            let exact = identities.iter().map(|id| IdentityMatch::Exact(id.name.as_str().into()));
            let suffixes = suffixes.iter().map(|suffix| match suffix.parts.as_slice() {
                [] => IdentityMatch::Any,
                parts => IdentityMatch::Suffix(parts.join(".").into()),
            });
            Test::Identity(exact.chain(suffixes).collect())
        }
    }
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
    })
}
