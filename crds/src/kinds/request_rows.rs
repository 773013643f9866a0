//! Rows of the kinds that describe requests once, and of the policies about them.

use super::row::{Read, ours, policy, reference, unclaimed};
use super::{
    binding, grpc_service, grpc_service_binding, grpc_service_class, header_rewrite_policy,
    http_route_binding, http_route_class, http_route_group, target, timeout_policy,
};
use crate::kind::Kind;
use crate::spec::{Field, GrantRule, KindSpec, Names, ReferenceField, Watched};

/// The one version.
const FIRST: &[&str] = &["v1alpha1"];

pub(super) const HTTP_ROUTE_GROUP: KindSpec = KindSpec {
    references: &[include("spec.routes.routeGroupRef", &[Kind::HttpRouteGroup])],
    // It is found by reference.
    of_ports: false,
    claims: http_route_group::claims,
    references_of: http_route_group::references,
    definition: Some(http_route_group::definition),
    ..requests(ours("HttpRouteGroup", "httproutegroups", &["hrg"]), http_route_group::read)
};

pub(super) const HTTP_ROUTE_BINDING: KindSpec = KindSpec {
    references: &[
        reference(Field::Target, "spec.targetRef", &[Kind::Server]),
        include("spec.routeRefs", &[Kind::HttpRouteGroup]),
    ],
    claims: binding::claims,
    references_of: binding::references,
    idle: binding::idle,
    definition: Some(http_route_binding::definition),
    ..requests(ours("HttpRouteBinding", "httproutebindings", &["hrb"]), http_route_binding::read)
};

pub(super) const HTTP_ROUTE_CLASS: KindSpec = KindSpec {
    references: &[reference(Field::Target, "spec.targetRef", &[Kind::Server])],
    references_of: http_route_class::references,
    idle: http_route_class::idle,
    definition: Some(http_route_class::definition),
    ..requests(ours("HttpRouteClass", "httprouteclasses", &["hrc"]), |it| {
        unclaimed(http_route_class::read(it))
    })
};

pub(super) const GRPC_SERVICE: KindSpec = KindSpec {
    // It is found by reference.
    of_ports: false,
    claims: grpc_service::claims,
    definition: Some(grpc_service::definition),
    ..requests(ours("GrpcService", "grpcservices", &["gs"]), grpc_service::read)
};

pub(super) const GRPC_SERVICE_BINDING: KindSpec = KindSpec {
    references: &[
        reference(Field::Target, "spec.targetRef", &[Kind::Server]),
        include("spec.serviceRefs", &[Kind::GrpcService]),
    ],
    claims: binding::claims,
    references_of: binding::references,
    idle: binding::idle,
    definition: Some(grpc_service_binding::definition),
    ..requests(
        ours("GrpcServiceBinding", "grpcservicebindings", &["gsb"]),
        grpc_service_binding::read,
    )
};

pub(super) const GRPC_SERVICE_CLASS: KindSpec = KindSpec {
    references: &[reference(Field::Target, "spec.targetRef", &[Kind::GrpcService])],
    references_of: grpc_service_class::references,
    idle: grpc_service_class::idle,
    definition: Some(grpc_service_class::definition),
    ..requests(ours("GrpcServiceClass", "grpcserviceclasses", &["gsc"]), |it| {
        unclaimed(grpc_service_class::read(it))
    })
};

pub(super) const TIMEOUT_POLICY: KindSpec = KindSpec {
    references: &[reference(Field::Target, "spec.targetRef", target::TARGETS)],
    references_of: timeout_policy::references,
    remarks: timeout_policy::remarks,
    idle: timeout_policy::idle,
    definition: Some(timeout_policy::definition),
    ..requests(ours("TimeoutPolicy", "timeoutpolicies", &["tp"]), |it| {
        unclaimed(timeout_policy::read(it))
    })
};

pub(super) const HEADER_REWRITE_POLICY: KindSpec = KindSpec {
    references: &[reference(Field::Target, "spec.targetRef", target::TARGETS)],
    claims: header_rewrite_policy::claims,
    references_of: header_rewrite_policy::references,
    idle: header_rewrite_policy::idle,
    definition: Some(header_rewrite_policy::definition),
    ..requests(
        ours("HeaderRewritePolicy", "headerrewritepolicies", &["hrp"]),
        header_rewrite_policy::read,
    )
};

/// A kind about requests. Clusters without its definition have none.
const fn requests(names: Names, read: Read) -> KindSpec {
    KindSpec { watched: Watched::IfPresent, ..policy(names, FIRST, read) }
}

/// A field that names objects whose routes are taken over.
const fn include(path: &'static str, to: &'static [Kind]) -> ReferenceField {
    ReferenceField { grant: GrantRule::GrantUnlessShared, ..reference(Field::Include, path, to) }
}
