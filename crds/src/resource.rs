//! The typed values that manifests are parsed into: every rule has been checked.

use crate::ports::PortSet;
use crate::selector::LabelSelector;
use policy_core::{DefaultPolicy, IdentityMatch, NetworkMatch, NetworkSymbol};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

pub use crate::group_path::{GroupPath, ParameterPlace};
pub use crate::inbound::{
    AllowedFilter, Consent, Delegate, FilterType, InboundAction, InboundRoute, InboundRule,
    NamespaceOwnership, RequiredTls, RouteAdmission, UnknownValue, VirtualHost,
};
pub use crate::key::NamespacedName;
pub use crate::node::Node;
pub use crate::outbound::{
    EndpointSlice, PodSidecar, PodTarget, Service, ServicePort, SliceEndpoint, SlicePort,
};
pub use crate::path::PathPrefix;
pub use crate::ports::PortRef;
pub use crate::rate_limits::{RateLimitNumbers, RateLimitOverride, RateLimitPolicy};
pub use crate::recorded::{Recorded, RecordedConnection, RecordedOrphan};
pub use crate::requests::{
    BindingClaims, GroupClaims, GroupEntry, GroupInclude, GroupRoute, GroupRouteClaims,
    GrpcService, GrpcServiceBinding, GrpcServiceClass, GrpcServiceMethod, HeaderRewritePolicy,
    HeaderRewriteRule, HttpRouteBinding, HttpRouteClass, HttpRouteGroup, ServiceClaims,
    TimeoutPolicy,
};
pub use crate::route_selector::{
    Inexpressible, LabelKey, RouteLabels, RouteSelector, SelectableRoute, Selection,
    SelectorExpression, included,
};
pub use crate::routes::{
    ParentRef, RouteClaims, RouteResource, RouteRule, UnreadParent, UnsupportedFilter,
};
pub use crate::smi::{
    AllowedTraffic, IdentityBinding, SmiMatch, SmiRouteGroup, SmiSpecs, SmiTcpRoute, TargetClient,
    TargetDestination, TargetRule, TargetSource, TrafficTarget,
};
pub use crate::target::PolicyTarget;

/// A valid body.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// Server.
    Server(Server),
    /// ServerAuthorization.
    ServerAuthorization(ServerAuthorization),
    /// AuthorizationPolicy.
    AuthorizationPolicy(AuthorizationPolicy),
    /// MeshTLSAuthentication.
    MeshTlsAuthentication(MeshTlsAuthentication),
    /// NetworkAuthentication.
    NetworkAuthentication(NetworkAuthentication),
    /// HTTPLocalRateLimitPolicy.
    RateLimit(RateLimitPolicy),
    /// HTTPRoute of either group, or GRPCRoute; the kind is in the metadata.
    Route(RouteResource),
    /// A kind that is checked and not used; the kind is in the metadata.
    Unused,
    /// ReferenceGrant.
    ReferenceGrant(ReferenceGrant),
    /// InboundRoute.
    InboundRoute(InboundRoute),
    /// RouteAdmissionPolicy.
    RouteAdmission(RouteAdmission),
    /// HttpRouteGroup.
    HttpRouteGroup(HttpRouteGroup),
    /// HttpRouteBinding.
    HttpRouteBinding(HttpRouteBinding),
    /// HttpRouteClass.
    HttpRouteClass(HttpRouteClass),
    /// GrpcService.
    GrpcService(GrpcService),
    /// GrpcServiceBinding.
    GrpcServiceBinding(GrpcServiceBinding),
    /// GrpcServiceClass.
    GrpcServiceClass(GrpcServiceClass),
    /// TimeoutPolicy.
    TimeoutPolicy(TimeoutPolicy),
    /// HeaderRewritePolicy.
    HeaderRewritePolicy(HeaderRewritePolicy),
    /// TrafficTarget.
    TrafficTarget(TrafficTarget),
    /// HTTPRouteGroup of SMI.
    SmiRouteGroup(SmiRouteGroup),
    /// TCPRoute of SMI.
    SmiTcpRoute(SmiTcpRoute),
    /// IdentityBinding.
    IdentityBinding(IdentityBinding),
    /// ExternalWorkload.
    ExternalWorkload(ExternalWorkload),
    /// Pod.
    Pod(Pod),
    /// A workload that stands for pods: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob.
    Workload(WorkloadResource),
    /// Namespace: labels and annotations are in the metadata.
    Namespace,
    /// Node.
    Node(Node),
    /// ServiceAccount.
    ServiceAccount,
    /// Service.
    Service(Service),
    /// EndpointSlice.
    EndpointSlice(EndpointSlice),
}

/// Server (1.1). One that states the default access policy equals one that states none.
#[derive(Clone, Debug)]
pub struct Server {
    /// Selected workloads of its namespace.
    pub workloads: WorkloadSelector,
    /// The port of these workloads.
    pub port: PortRef,
    /// Protocol of its connections.
    pub protocol: ProxyProtocol,
    /// Grant for clients without an authorization; default `deny`.
    pub access_policy: DefaultPolicy,
    /// True if it is stated. API servers write the default if it is not.
    pub access_policy_stated: bool,
}

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        let Self { workloads, port, protocol, access_policy, access_policy_stated: _ } = self;
        *workloads == other.workloads
            && *port == other.port
            && *protocol == other.protocol
            && *access_policy == other.access_policy
    }
}

impl Eq for Server {}

/// The workloads that a Server selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadSelector {
    /// Pods by label.
    Pods(LabelSelector),
    /// ExternalWorkloads by label.
    ExternalWorkloads(LabelSelector),
}

/// `proxyProtocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProxyProtocol {
    /// `unknown`: detected.
    #[default]
    Unknown,
    /// `HTTP/1`.
    Http1,
    /// `HTTP/2`.
    Http2,
    /// `gRPC`.
    Grpc,
    /// `opaque`.
    Opaque,
    /// `TLS`.
    Tls,
}

/// ServerAuthorization (1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAuthorization {
    /// The Servers, in its namespace.
    pub server: ServerRef,
    /// Client networks; absent: the cluster's networks.
    pub networks: Option<Vec<NetworkMatch>>,
    /// Requirements on clients.
    pub client: ClientRequirement,
}

/// The Servers of a ServerAuthorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRef {
    /// The one of this name.
    Name(Arc<str>),
    /// Those whose labels match.
    Labels(LabelSelector),
}

/// The requirements of a ServerAuthorization on clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequirement {
    /// Nothing.
    Unauthenticated,
    /// Mesh TLS, with or without an identity.
    TlsUnauthenticated,
    /// One of these identities; never both empty.
    Identities {
        /// By name or suffix.
        identities: Vec<IdentityMatch>,
        /// By ServiceAccount.
        service_accounts: Vec<NamespacedName>,
    },
}

/// AuthorizationPolicy (1.3, 2.5). With neither requirement it admits every client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationPolicy {
    /// The object that it protects, in its own namespace.
    pub target: PolicyTarget,
    /// Required identity; absent: any client.
    pub identity: Option<IdentityRequirement>,
    /// From where; absent: anywhere.
    pub network: Option<NetworkRequirement>,
}

/// The identity half of an AuthorizationPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityRequirement {
    /// The members of a MeshTLSAuthentication.
    MeshTls(NamespacedName),
    /// Exactly this ServiceAccount; it need not exist.
    ServiceAccount(NamespacedName),
}

/// The network half of an AuthorizationPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkRequirement {
    /// The members of a NetworkAuthentication.
    Authentication(NamespacedName),
    /// A built-in set: `{group: portcullis.dev, kind: NetworkSet, name: node-local | cluster}`.
    Set(NetworkSymbol),
}

/// MeshTLSAuthentication (1.4). Never both empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshTlsAuthentication {
    /// By name or suffix.
    pub identities: Vec<IdentityMatch>,
    /// By object.
    pub identity_refs: Vec<IdentityRef>,
}

/// A client named by object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityRef {
    /// A ServiceAccount; it need not exist.
    ServiceAccount(NamespacedName),
    /// Every ServiceAccount of this namespace.
    Namespace(Arc<str>),
}

/// NetworkAuthentication (1.5). Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAuthentication {
    /// Networks, one of which must match.
    pub networks: Vec<NetworkMatch>,
}

/// ReferenceGrant. Entries with an empty kind or namespace have been refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceGrant {
    /// Objects that may refer.
    pub from: Vec<GrantFrom>,
    /// To what, in the grant's namespace.
    pub to: Vec<GrantTo>,
}

/// Objects that may refer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantFrom {
    /// API group (`core` read as empty).
    pub group: Arc<str>,
    /// Kind, byte-exact.
    pub kind: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
}

/// Objects that may be referred to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantTo {
    /// API group (`core` read as empty).
    pub group: Arc<str>,
    /// Kind, byte-exact.
    pub kind: Arc<str>,
    /// Name; absent: every object of the kind.
    pub name: Option<Arc<str>>,
}

/// The parts of an invalid ReferenceGrant that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantClaims {
    /// The entries whose namespace could be read.
    pub from: Vec<ClaimedFrom>,
    /// The entries that could be read whole.
    pub to: Vec<GrantTo>,
    /// True if another entry could not: it may have been any object.
    pub to_unread: bool,
}

/// Objects that an invalid ReferenceGrant may have permitted to refer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedFrom {
    /// API group and kind; unreadable: any.
    pub of: Option<(Arc<str>, Arc<str>)>,
    /// Namespace.
    pub namespace: Arc<str>,
}

/// ExternalWorkload (1.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalWorkload {
    /// `spec.meshTLS.identity`.
    pub identity: Arc<str>,
    /// `spec.meshTLS.serverName`.
    pub server_name: Arc<str>,
    /// Named TCP ports.
    pub named_ports: BTreeMap<Arc<str>, NonZeroU16>,
    /// All TCP ports listed.
    pub ports: Vec<NonZeroU16>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

/// The parts of a pod that policy depends on. Labels and annotations are in the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// ServiceAccount; default `default`.
    pub service_account: Arc<str>,
    /// TCP container ports, of containers and init containers.
    pub ports: Vec<ContainerPort>,
    /// Probes and hooks of all containers.
    pub probes: Vec<Probe>,
    /// Node, if scheduled.
    pub node: Option<Arc<str>>,
    /// Pod addresses, if known.
    pub addresses: Vec<IpAddr>,
    /// Address of its node, if known.
    pub host_addresses: Vec<IpAddr>,
    /// The ports that our init container was started to leave out of redirection, so that no policy
    /// applies to them. Read from its arguments, because an annotation may change at any time.
    pub skipped: PortSet,
    /// True if its phase is `Running` and it has no deletion timestamp.
    pub running: bool,
    /// True if its phase is `Succeeded` or `Failed`: it no longer holds its addresses.
    pub has_ended: bool,
    /// True if its addresses are those of its node.
    pub uses_host_network: bool,
    /// When the kubelet accepted it, else when it was created, in seconds since the epoch.
    pub started: Option<i64>,
    /// What it belongs to, such as `deployment/web`; absent: nothing.
    pub owner: Option<Arc<str>>,
    /// Its sidecar, by which clients reach it.
    pub sidecar: PodSidecar,
}

/// A TCP container port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerPort {
    /// Name, if any.
    pub name: Option<Arc<str>>,
    /// Number.
    pub number: NonZeroU16,
}

/// A request that the kubelet makes, with named ports already resolved in its container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Probe {
    /// Port.
    pub port: NonZeroU16,
    /// The request.
    pub action: ProbeAction,
    /// The part of the container's manifest that it comes from.
    pub origin: ProbeOrigin,
}

/// The part of a container's manifest that a request of the kubelet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeOrigin {
    /// A liveness, readiness or startup probe.
    Probe,
    /// A lifecycle hook.
    Hook,
    /// A probe of another host, which does not reach the pod. Linkerd's controller ignores it.
    OtherHost,
}

impl Probe {
    /// True if the kubelet sends the request to the pod.
    pub fn reaches_the_pod(&self) -> bool {
        self.origin != ProbeOrigin::OtherHost
    }
}

/// A request of the kubelet. `exec` does not reach the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeAction {
    /// `GET path` (path component only, as the kubelet sends it, begins with `/`).
    HttpGet {
        /// Path.
        path: Arc<str>,
        /// True if over TLS (`scheme: HTTPS`).
        tls: bool,
    },
    /// `grpc.health.v1.Health/Check`.
    Grpc,
    /// A connection.
    TcpSocket,
}

/// A workload that stands for pods.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadResource {
    /// Number of pods: `replicas`, or one for kinds without.
    pub replicas: u32,
    /// True if another object controls it, as a Deployment controls its ReplicaSets.
    pub is_controlled: bool,
    /// The number of the first pod: `spec.ordinals.start` of a StatefulSet.
    pub first: u32,
    /// True if Kubernetes labels each pod with its index: a Job of the completion mode `Indexed`.
    pub indexed: bool,
    /// Labels of the pods.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations of the pods.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// The pods.
    pub pod: Pod,
}
