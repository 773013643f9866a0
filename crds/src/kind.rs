//! The kinds by name. What each of them is, the table of kinds says ([`crate::kinds`]).

/// The API group of this project's own kinds.
pub(crate) const OWN_GROUP: &str = "portcullis.dev";

/// Declares the kinds and the list of all of them, so that none can be missing from it.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// Every kind that is read. Sources never yield any other.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind, in a fixed order.
            pub const ALL: [Kind; [$(Kind::$kind),*].len()] = [$(Kind::$kind),*];

            /// The name of the variant, by which sources call the kind.
            pub const fn variant(self) -> &'static str {
                match self {
                    $(Kind::$kind => stringify!($kind),)*
                }
            }
        }
    };
}

kinds! {
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
    /// `portcullis.dev` InboundRoute.
    InboundRoute,
    /// `portcullis.dev` RouteAdmissionPolicy.
    RouteAdmissionPolicy,
    /// `portcullis.dev` HttpRouteGroup.
    HttpRouteGroup,
    /// `portcullis.dev` HttpRouteBinding.
    HttpRouteBinding,
    /// `portcullis.dev` HttpRouteClass.
    HttpRouteClass,
    /// `portcullis.dev` GrpcService.
    GrpcService,
    /// `portcullis.dev` GrpcServiceBinding.
    GrpcServiceBinding,
    /// `portcullis.dev` GrpcServiceClass.
    GrpcServiceClass,
    /// `portcullis.dev` TimeoutPolicy.
    TimeoutPolicy,
    /// `portcullis.dev` HeaderRewritePolicy.
    HeaderRewritePolicy,
    /// `access.smi-spec.io` TrafficTarget.
    TrafficTarget,
    /// `specs.smi-spec.io` HTTPRouteGroup.
    SmiHttpRouteGroup,
    /// `specs.smi-spec.io` TCPRoute.
    SmiTcpRoute,
    /// `access.smi-spec.io` IdentityBinding.
    IdentityBinding,
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
    /// Core Service; for outbound discovery alone.
    Service,
    /// `discovery.k8s.io` EndpointSlice; for outbound discovery alone.
    EndpointSlice,
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
