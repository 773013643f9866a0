//! The kinds, with their groups and served versions.

/// Every kind that is read. Sources never yield any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `policy.linkerd.io` Server.
    Server,
    /// `policy.linkerd.io` ServerAuthorization.
    ServerAuthorization,
    /// `policy.linkerd.io` AuthorizationPolicy.
    AuthorizationPolicy,
    /// `policy.linkerd.io` MeshTLSAuthentication.
    MeshTlsAuthentication,
    /// `policy.linkerd.io` NetworkAuthentication.
    NetworkAuthentication,
    /// `policy.linkerd.io` HTTPLocalRateLimitPolicy.
    HttpLocalRateLimitPolicy,
    /// `policy.linkerd.io` HTTPRoute.
    PolicyHttpRoute,
    /// `policy.linkerd.io` EgressNetwork: known, outbound only.
    EgressNetwork,
    /// `gateway.networking.k8s.io` HTTPRoute.
    GatewayHttpRoute,
    /// `gateway.networking.k8s.io` GRPCRoute.
    GrpcRoute,
    /// `gateway.networking.k8s.io` ReferenceGrant.
    ReferenceGrant,
    /// `workload.linkerd.io` ExternalWorkload.
    ExternalWorkload,
    /// Core Pod.
    Pod,
    /// Core Namespace.
    Namespace,
    /// Core Node.
    Node,
    /// Core ServiceAccount.
    ServiceAccount,
    /// `apps` Deployment; stands for its pods.
    Deployment,
    /// `apps` StatefulSet; stands for its pods.
    StatefulSet,
    /// `apps` DaemonSet; stands for one pod.
    DaemonSet,
    /// `apps` ReplicaSet; stands for its pods.
    ReplicaSet,
    /// `batch` Job; stands for its pods.
    Job,
    /// `batch` CronJob; stands for one pod.
    CronJob,
}

impl Kind {
    /// Every kind, in a fixed order.
    pub const ALL: [Kind; 22] = [
        Self::Server,
        Self::ServerAuthorization,
        Self::AuthorizationPolicy,
        Self::MeshTlsAuthentication,
        Self::NetworkAuthentication,
        Self::HttpLocalRateLimitPolicy,
        Self::PolicyHttpRoute,
        Self::EgressNetwork,
        Self::GatewayHttpRoute,
        Self::GrpcRoute,
        Self::ReferenceGrant,
        Self::ExternalWorkload,
        Self::Pod,
        Self::Namespace,
        Self::Node,
        Self::ServiceAccount,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::ReplicaSet,
        Self::Job,
        Self::CronJob,
    ];

    /// API group; empty for the core group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Server
            | Self::ServerAuthorization
            | Self::AuthorizationPolicy
            | Self::MeshTlsAuthentication
            | Self::NetworkAuthentication
            | Self::HttpLocalRateLimitPolicy
            | Self::PolicyHttpRoute
            | Self::EgressNetwork => "policy.linkerd.io",
            Self::GatewayHttpRoute | Self::GrpcRoute | Self::ReferenceGrant => {
                "gateway.networking.k8s.io"
            }
            Self::ExternalWorkload => "workload.linkerd.io",
            Self::Pod | Self::Namespace | Self::Node | Self::ServiceAccount => "",
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::ReplicaSet => "apps",
            Self::Job | Self::CronJob => "batch",
        }
    }

    /// The kind as manifests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::ServerAuthorization => "ServerAuthorization",
            Self::AuthorizationPolicy => "AuthorizationPolicy",
            Self::MeshTlsAuthentication => "MeshTLSAuthentication",
            Self::NetworkAuthentication => "NetworkAuthentication",
            Self::HttpLocalRateLimitPolicy => "HTTPLocalRateLimitPolicy",
            Self::PolicyHttpRoute | Self::GatewayHttpRoute => "HTTPRoute",
            Self::EgressNetwork => "EgressNetwork",
            Self::GrpcRoute => "GRPCRoute",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::ExternalWorkload => "ExternalWorkload",
            Self::Pod => "Pod",
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::ServiceAccount => "ServiceAccount",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::ReplicaSet => "ReplicaSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
        }
    }

    /// The resource as URLs and RBAC rules spell it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Server => "servers",
            Self::ServerAuthorization => "serverauthorizations",
            Self::AuthorizationPolicy => "authorizationpolicies",
            Self::MeshTlsAuthentication => "meshtlsauthentications",
            Self::NetworkAuthentication => "networkauthentications",
            Self::HttpLocalRateLimitPolicy => "httplocalratelimitpolicies",
            Self::PolicyHttpRoute | Self::GatewayHttpRoute => "httproutes",
            Self::EgressNetwork => "egressnetworks",
            Self::GrpcRoute => "grpcroutes",
            Self::ReferenceGrant => "referencegrants",
            Self::ExternalWorkload => "externalworkloads",
            Self::Pod => "pods",
            Self::Namespace => "namespaces",
            Self::Node => "nodes",
            Self::ServiceAccount => "serviceaccounts",
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::ReplicaSet => "replicasets",
            Self::Job => "jobs",
            Self::CronJob => "cronjobs",
        }
    }

    /// Versions that are read, preferred first.
    pub fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Server => &["v1beta3", "v1beta2", "v1beta1", "v1alpha1"],
            Self::ServerAuthorization => &["v1beta1", "v1alpha1"],
            Self::AuthorizationPolicy
            | Self::MeshTlsAuthentication
            | Self::NetworkAuthentication
            | Self::HttpLocalRateLimitPolicy
            | Self::EgressNetwork => &["v1alpha1"],
            Self::PolicyHttpRoute => &["v1beta3", "v1beta2", "v1beta1", "v1alpha1"],
            Self::GatewayHttpRoute => &["v1", "v1beta1"],
            Self::GrpcRoute => &["v1", "v1alpha2"],
            Self::ReferenceGrant => &["v1", "v1beta1"],
            Self::ExternalWorkload => &["v1beta1", "v1alpha1"],
            Self::Pod
            | Self::Namespace
            | Self::Node
            | Self::ServiceAccount
            | Self::Deployment
            | Self::StatefulSet
            | Self::DaemonSet
            | Self::ReplicaSet
            | Self::Job
            | Self::CronJob => &["v1"],
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node)
    }

    /// The kind of this group and name; group and kind compare without case, `core` is the empty
    /// group (controller-semantics 10.13).
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        let group = if group.eq_ignore_ascii_case("core") { "" } else { group };
        Self::ALL.into_iter().find(|k| {
            k.group().eq_ignore_ascii_case(group) && k.as_str().eq_ignore_ascii_case(kind)
        })
    }
}
