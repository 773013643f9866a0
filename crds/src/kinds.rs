//! The table of kinds: one row a kind, with everything that is not particular to one stage. A row
//! states the differences from the one that it extends (`..`).
//!
//! A new kind is a variant of [`Kind`], a row here, and a module below with its reader and, if this
//! project installs it, its definition. A test walks the table
//! (`tests/tests/architecture/kinds.rs`).

mod authorization_policy;
mod binding;
mod consent;
mod egress_network;
mod endpoint_slice;
mod external_workload;
mod grpc_service;
mod grpc_service_binding;
mod grpc_service_class;
mod header_rewrite_policy;
mod http_route_binding;
mod http_route_class;
mod http_route_group;
mod identity_binding;
mod inbound_route;
mod mesh_tls_authentication;
mod network_authentication;
mod node;
mod pod_owner;
mod rate_limit;
mod reference_grant;
mod request_rows;
mod route;
mod route_admission_policy;
mod route_labels;
mod row;
mod server;
mod server_authorization;
mod service;
mod smi_fields;
mod smi_http_route_group;
mod smi_rows;
mod smi_tcp_route;
mod target;
mod timeout_policy;
mod traffic_target;
mod workload;

use crate::annotation;
use crate::kind::Kind;
use crate::resource::Resource;
use crate::spec::{
    Admission, Conditions, Field, GrantRule, KindSpec, Names, Projection, ReferenceField, Scope,
    StatusStyle, Watched,
};
use request_rows::{
    GRPC_SERVICE, GRPC_SERVICE_BINDING, GRPC_SERVICE_CLASS, HEADER_REWRITE_POLICY,
    HTTP_ROUTE_BINDING, HTTP_ROUTE_CLASS, HTTP_ROUTE_GROUP, TIMEOUT_POLICY,
};
use row::{client, core, gateway, linkerd, names, ours, policy, reference, unclaimed, unused};
use smi_rows::{IDENTITY_BINDING, SMI_HTTP_ROUTE_GROUP, SMI_TCP_ROUTE, TRAFFIC_TARGET};

impl Kind {
    /// The row of the kind.
    pub const fn spec(self) -> &'static KindSpec {
        match self {
            Self::Server => &SERVER,
            Self::ServerAuthorization => &SERVER_AUTHORIZATION,
            Self::AuthorizationPolicy => &AUTHORIZATION_POLICY,
            Self::MeshTlsAuthentication => &MESH_TLS_AUTHENTICATION,
            Self::NetworkAuthentication => &NETWORK_AUTHENTICATION,
            Self::HttpLocalRateLimitPolicy => &HTTP_LOCAL_RATE_LIMIT_POLICY,
            Self::PolicyHttpRoute => &POLICY_HTTP_ROUTE,
            Self::EgressNetwork => &EGRESS_NETWORK,
            Self::GatewayHttpRoute => &GATEWAY_HTTP_ROUTE,
            Self::GrpcRoute => &GRPC_ROUTE,
            Self::ReferenceGrant => &REFERENCE_GRANT,
            Self::InboundRoute => &INBOUND_ROUTE,
            Self::RouteAdmissionPolicy => &ROUTE_ADMISSION_POLICY,
            Self::HttpRouteGroup => &HTTP_ROUTE_GROUP,
            Self::HttpRouteBinding => &HTTP_ROUTE_BINDING,
            Self::HttpRouteClass => &HTTP_ROUTE_CLASS,
            Self::GrpcService => &GRPC_SERVICE,
            Self::GrpcServiceBinding => &GRPC_SERVICE_BINDING,
            Self::GrpcServiceClass => &GRPC_SERVICE_CLASS,
            Self::TimeoutPolicy => &TIMEOUT_POLICY,
            Self::HeaderRewritePolicy => &HEADER_REWRITE_POLICY,
            Self::TrafficTarget => &TRAFFIC_TARGET,
            Self::SmiHttpRouteGroup => &SMI_HTTP_ROUTE_GROUP,
            Self::SmiTcpRoute => &SMI_TCP_ROUTE,
            Self::IdentityBinding => &IDENTITY_BINDING,
            Self::ExternalWorkload => &EXTERNAL_WORKLOAD,
            Self::Pod => &POD,
            Self::Namespace => &NAMESPACE,
            Self::Node => &NODE,
            Self::ServiceAccount => &SERVICE_ACCOUNT,
            Self::Service => &SERVICE,
            Self::EndpointSlice => &ENDPOINT_SLICE,
            Self::Deployment => &DEPLOYMENT,
            Self::StatefulSet => &STATEFUL_SET,
            Self::DaemonSet => &DAEMON_SET,
            Self::ReplicaSet => &REPLICA_SET,
            Self::Job => &JOB,
            Self::CronJob => &CRON_JOB,
        }
    }
}

const SERVER: KindSpec = KindSpec {
    annotations: &annotation::OF_SERVERS,
    linkerd_metric: Some("inbound_index_server_index_size"),
    claims: server::claims,
    remarks: server::remarks,
    definition: Some(server::definition),
    ..policy(linkerd("Server", "servers", &["srv"]), NEWEST, server::read)
};

const SERVER_AUTHORIZATION: KindSpec = KindSpec {
    references: &[
        reference(Field::Server, "spec.server", &[Kind::Server]),
        client("spec.client.meshTLS.serviceAccounts", &[Kind::ServiceAccount]),
    ],
    only_grants: true,
    linkerd_metric: Some("inbound_index_server_authorization_index_size"),
    claims: server_authorization::claims,
    references_of: server_authorization::references,
    clients: server_authorization::clients,
    remarks: server_authorization::remarks,
    idle: server_authorization::idle,
    definition: Some(server_authorization::definition),
    ..policy(
        linkerd("ServerAuthorization", "serverauthorizations", &["saz", "serverauthz", "srvauthz"]),
        &["v1beta1", "v1alpha1"],
        server_authorization::read,
    )
};

const AUTHORIZATION_POLICY: KindSpec = KindSpec {
    references: POLICY_REFERENCES,
    only_grants: true,
    linkerd_metric: Some("inbound_index_authorization_policy_index_size"),
    claims: authorization_policy::claims,
    references_of: authorization_policy::references,
    clients: authorization_policy::clients,
    remarks: authorization_policy::remarks,
    idle: authorization_policy::idle,
    definition: Some(authorization_policy::definition),
    ..policy(
        linkerd("AuthorizationPolicy", "authorizationpolicies", &["authzpolicy"]),
        FIRST,
        authorization_policy::read,
    )
};

const MESH_TLS_AUTHENTICATION: KindSpec = KindSpec {
    references: &[client("spec.identityRefs", &[Kind::ServiceAccount, Kind::Namespace])],
    of_ports: false,
    linkerd_metric: Some("inbound_index_meshtls_authentication_index_size"),
    clients: mesh_tls_authentication::clients,
    definition: Some(mesh_tls_authentication::definition),
    ..policy(
        linkerd("MeshTLSAuthentication", "meshtlsauthentications", &["meshtlsauthn"]),
        FIRST,
        |it| unclaimed(mesh_tls_authentication::read(it)),
    )
};

const NETWORK_AUTHENTICATION: KindSpec = KindSpec {
    of_ports: false,
    linkerd_metric: Some("inbound_index_network_authentication_index_size"),
    definition: Some(network_authentication::definition),
    ..policy(
        linkerd("NetworkAuthentication", "networkauthentications", &["netauthn", "networkauthn"]),
        FIRST,
        |it| unclaimed(network_authentication::read(it)),
    )
};

const HTTP_LOCAL_RATE_LIMIT_POLICY: KindSpec = KindSpec {
    references: &[
        reference(Field::Target, "spec.targetRef", &[Kind::Server]),
        client("spec.overrides.clientRefs", &[Kind::ServiceAccount]),
    ],
    status: Some(StatusStyle::ApplyWithTarget),
    claims: rate_limit::claims,
    references_of: rate_limit::references,
    clients: rate_limit::clients,
    remarks: rate_limit::remarks,
    idle: rate_limit::idle,
    definition: Some(rate_limit::definition),
    ..policy(
        linkerd("HTTPLocalRateLimitPolicy", "httplocalratelimitpolicies", &[]),
        FIRST,
        rate_limit::read,
    )
};

const POLICY_HTTP_ROUTE: KindSpec = KindSpec {
    watched: Watched::Required,
    linkerd_metric: Some("inbound_index_http_route_index_size"),
    definition: Some(route::definition),
    ..route(linkerd("HTTPRoute", "httproutes", &[]), NEWEST)
};

const EGRESS_NETWORK: KindSpec = KindSpec {
    admission: Admission::Outbound,
    definition: Some(egress_network::definition),
    ..unused(linkerd("EgressNetwork", "egressnetworks", &[]), FIRST, |it| {
        unclaimed(egress_network::read(it))
    })
};

const GATEWAY_HTTP_ROUTE: KindSpec = KindSpec {
    linkerd_metric: Some("inbound_index_http_route_index_size"),
    ..route(gateway("HTTPRoute", "httproutes", &[]), &["v1", "v1beta1"])
};

const GRPC_ROUTE: KindSpec = route(gateway("GRPCRoute", "grpcroutes", &[]), &["v1", "v1alpha2"]);

const REFERENCE_GRANT: KindSpec = KindSpec {
    watched: Watched::IfPresent,
    contributes: false,
    // The Gateway API gives it none.
    status: None,
    admission: Admission::Grant,
    claims: reference_grant::claims,
    remarks: reference_grant::remarks,
    ..policy(
        gateway("ReferenceGrant", "referencegrants", &["refgrant"]),
        &["v1", "v1beta1"],
        reference_grant::read,
    )
};

const INBOUND_ROUTE: KindSpec = KindSpec {
    watched: Watched::IfPresent,
    projection: Projection::PolicyAndStatus,
    references: &[
        ReferenceField {
            grant: GrantRule::Grant,
            ..reference(
                Field::Delegate,
                "spec.routes.delegate",
                &[
                    Kind::InboundRoute,
                    Kind::GatewayHttpRoute,
                    Kind::GrpcRoute,
                    Kind::HttpRouteGroup,
                ],
            )
        },
        reference(Field::Serving, "spec.routes.servers", &[Kind::Server]),
    ],
    claims: inbound_route::claims,
    references_of: inbound_route::references,
    remarks: inbound_route::remarks,
    idle: inbound_route::idle,
    definition: Some(inbound_route::definition),
    ..policy(ours("InboundRoute", "inboundroutes", &["ir"]), FIRST, inbound_route::read)
};

const ROUTE_ADMISSION_POLICY: KindSpec = KindSpec {
    scope: Scope::Cluster,
    watched: Watched::IfPresent,
    contributes: false,
    claims: route_admission_policy::claims,
    remarks: route_admission_policy::remarks,
    definition: Some(route_admission_policy::definition),
    ..policy(
        ours("RouteAdmissionPolicy", "routeadmissionpolicies", &["rap"]),
        FIRST,
        route_admission_policy::read,
    )
};

const EXTERNAL_WORKLOAD: KindSpec = KindSpec {
    watched: Watched::IfPresent,
    contributes: false,
    of_ports: false,
    status: Some(StatusStyle::Replace),
    annotations: &annotation::OF_WORKLOADS,
    linkerd_metric: Some("inbound_index_external_workload_index_size"),
    claims: external_workload::claims,
    definition: Some(external_workload::definition),
    ..policy(
        names("workload.linkerd.io", "ExternalWorkload", "externalworkloads", &["ew"]),
        &["v1beta1", "v1alpha1"],
        external_workload::read,
    )
};

const POD: KindSpec = KindSpec {
    projection: Projection::Pod,
    conditions: Conditions::OfAnnotations,
    admission: Admission::Workload,
    annotations: &annotation::OF_WORKLOADS,
    linkerd_metric: Some("inbound_index_pod_index_size"),
    ..core("Pod", "pods", &["po"], |it| unclaimed(workload::read_pod(it)))
};

const NAMESPACE: KindSpec = KindSpec {
    scope: Scope::Cluster,
    of_ports: true,
    conditions: Conditions::OfAnnotations,
    admission: Admission::Workload,
    annotations: &annotation::OF_NAMESPACES,
    ..core("Namespace", "namespaces", &["ns"], |_| unclaimed(Some(Resource::Namespace)))
};

const NODE: KindSpec = KindSpec {
    scope: Scope::Cluster,
    projection: Projection::Node,
    ..core("Node", "nodes", &["no"], |it| unclaimed(node::read(it)))
};

const SERVICE_ACCOUNT: KindSpec = core("ServiceAccount", "serviceaccounts", &["sa"], |_| {
    unclaimed(Some(Resource::ServiceAccount))
});

const SERVICE: KindSpec = KindSpec {
    watched: Watched::ForDiscovery,
    projection: Projection::Service,
    claims: service::claims,
    ..core("Service", "services", &["svc"], service::read)
};

const ENDPOINT_SLICE: KindSpec = KindSpec {
    watched: Watched::ForDiscovery,
    projection: Projection::EndpointSlice,
    ..unused(names("discovery.k8s.io", "EndpointSlice", "endpointslices", &[]), &["v1"], |it| {
        unclaimed(endpoint_slice::read(it))
    })
};

const DEPLOYMENT: KindSpec = template("apps", "Deployment", "deployments", &["deploy"]);

const STATEFUL_SET: KindSpec = template("apps", "StatefulSet", "statefulsets", &["sts"]);

const DAEMON_SET: KindSpec = template("apps", "DaemonSet", "daemonsets", &["ds"]);

const REPLICA_SET: KindSpec = template("apps", "ReplicaSet", "replicasets", &["rs"]);

const JOB: KindSpec = template("batch", "Job", "jobs", &[]);

const CRON_JOB: KindSpec = template("batch", "CronJob", "cronjobs", &["cj"]);

/// The versions of Linkerd's oldest kinds.
const NEWEST: &[&str] = &["v1beta3", "v1beta2", "v1beta1", "v1alpha1"];

/// The one version of most kinds.
const FIRST: &[&str] = &["v1alpha1"];

const POLICY_REFERENCES: &[ReferenceField] = &[
    reference(
        Field::Target,
        "spec.targetRef",
        &[
            Kind::Server,
            Kind::Namespace,
            Kind::PolicyHttpRoute,
            Kind::GatewayHttpRoute,
            Kind::GrpcRoute,
            Kind::InboundRoute,
            Kind::HttpRouteBinding,
            Kind::HttpRouteClass,
            Kind::GrpcServiceBinding,
            Kind::GrpcServiceClass,
        ],
    ),
    ReferenceField {
        grant: GrantRule::GrantUnlessWarned,
        ..reference(
            Field::Authentication,
            "spec.requiredAuthenticationRefs",
            &[Kind::MeshTlsAuthentication, Kind::NetworkAuthentication],
        )
    },
    client("spec.requiredAuthenticationRefs", &[Kind::ServiceAccount]),
];

const ROUTE_REFERENCES: &[ReferenceField] = &[
    ReferenceField {
        grant: GrantRule::Grant,
        ..reference(Field::Parent, "spec.parentRefs", &[Kind::Server])
    },
    // Its `delegate` is the agreement.
    ReferenceField {
        grant: GrantRule::Exempt,
        ..reference(Field::Parent, "spec.parentRefs", &[Kind::InboundRoute])
    },
    // A Service, mostly: requests are sent there by others.
    ReferenceField {
        grant: GrantRule::Grant,
        ..reference(Field::Backend, "spec.rules.backendRefs", &[])
    },
];

/// A kind of route.
const fn route(names: Names, versions: &'static [&'static str]) -> KindSpec {
    KindSpec {
        watched: Watched::IfPresent,
        projection: Projection::PolicyAndStatus,
        references: ROUTE_REFERENCES,
        status: Some(StatusStyle::Parents),
        admission: Admission::Route,
        annotations: &annotation::OF_ROUTES,
        claims: route::claims,
        references_of: route::references,
        remarks: route::remarks,
        idle: route::idle,
        ..policy(names, versions, route::read)
    }
}

/// A kind that stands for pods in manifests.
const fn template(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> KindSpec {
    KindSpec {
        projection: Projection::Whole,
        ..unused(names(group, kind, plural, short), &["v1"], |it| {
            unclaimed(workload::read_template(it))
        })
    }
}
