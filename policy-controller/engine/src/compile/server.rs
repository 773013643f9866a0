//! The part of a policy that is the same for every port that a Server owns.

use super::implicit::with_localhost;
use crate::incremental::{Context, question};
use crate::question::grant::ServerGrants;
use crate::question::policy::{Attached, RateLimitOf, ServerPieces};
use policy_core::{Denied, Owner, Protocol, ServerPolicy, Unmatched};
use policy_crds::resource::{ProxyProtocol, Server};
use policy_crds::{Body, ObjectKey, ObjectMeta, Resource, annotation};
use std::sync::Arc;

question!(ServerPieces, Arc<ServerPolicy>, server_pieces);

fn server_pieces(question: &ServerPieces, cx: &mut Context<'_>) -> Arc<ServerPolicy> {
    let object = cx.object(&question.0).map(|object| (&object.meta, &object.body));
    Arc::new(match object {
        Some((meta, Body::Valid(Resource::Server(server)))) => valid(cx, meta, server),
        Some((_, Body::Valid(_) | Body::Invalid(_))) | None => invalid(cx, &question.0),
    })
}

fn owner(key: &ObjectKey) -> Owner {
    Owner::Server(key.to_ref())
}

fn detect(cx: &Context<'_>) -> Protocol {
    Protocol::Detect { timeout: cx.config.detect_timeout }
}

fn invalid(cx: &Context<'_>, key: &ObjectKey) -> ServerPolicy {
    let mut policy = ServerPolicy::without_grants(owner(key), detect(cx));
    policy.deny = Some(Denied::ServerInvalid);
    policy.routes.otherwise = Unmatched::Deny(Denied::ServerInvalid);
    policy
}

fn valid(cx: &mut Context<'_>, meta: &ObjectMeta, server: &Server) -> ServerPolicy {
    let key = &meta.key;
    let protocol = match server.protocol {
        ProxyProtocol::Unknown => detect(cx),
        ProxyProtocol::Http1 => Protocol::Http1,
        ProxyProtocol::Http2 => Protocol::Http2,
        ProxyProtocol::Grpc => Protocol::Grpc,
        ProxyProtocol::Opaque => Protocol::Opaque,
        ProxyProtocol::Tls => Protocol::Tls,
    };
    let mut policy = ServerPolicy::without_grants(owner(key), protocol);
    policy.paths = annotation::path_normalization(&meta.annotations).value;
    policy.informational_headers = annotation::informational_headers(&meta.annotations).value;

    let grants = cx.ask(&ServerGrants(key.clone()));
    let mut authorizations = grants.authorizations.clone();
    authorizations.extend_from_slice(&server.access_policy.authorizations());
    policy.authorizations = with_localhost(cx, authorizations).into();
    policy.withheld = grants.withheld.clone();

    let attached = cx.ask(&Attached(key.clone()));
    if attached.bound {
        policy.routes.otherwise = Unmatched::NotFound;
        policy.routes.routes = attached.routes.clone();
        if attached.routes.is_empty() {
            policy.deny = Some(Denied::RoutesInvalid);
            policy.routes.otherwise = Unmatched::Deny(Denied::RoutesInvalid);
        }
    }
    if protocol.is_http()
        && let Some((_, limit)) = cx.ask(&RateLimitOf(key.clone()))
    {
        policy.rate_limit = Some((*limit).clone());
    }
    policy
}
