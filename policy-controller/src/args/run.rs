//! Flags of `policy-controller run`.

use super::admission::AdmissionArgs;
use super::auth::ServeAuthArgs;
use super::behaviour::{BehaviourArgs, preset_help, with_linkerds_default};
use super::choice::{
    GrantsArg, KubeletArg, LogFormat, PodGatewaysArg, ProbeRoutesArg, UndeclaredArg,
};
use super::destinations::DestinationArgs;
use super::injector::InjectorArgs;
use super::kubernetes::KubernetesArgs;
use super::linkerd_redirect::LinkerdRedirectArgs;
use super::metrics::MetricsArgs;
use super::outbound::OutboundArgs;
use super::replicas::ReplicaArgs;
use super::self_policy::SelfPolicyArgs;
use super::serve::ServeArgs;
use super::status::StatusArgs;
use super::value::{
    List, address, cidrs, default_policy, label, labels, name, ports, probe_networks,
};
use clap::{ArgAction, Args};
use ipnet::IpNet;
use policy_core::{DefaultPolicy, NetworkMatch};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

/// Flags that mean nothing where a directory is read.
pub(super) const CLUSTER_ONLY_FLAGS: [&str; 32] = [
    "kubeconfig",
    "context",
    "watch_namespace",
    "watch_freshness",
    "node_addresses",
    "assume_claims",
    "list_page_size",
    "server_addr",
    "server_tls_certs",
    "server_tls_key",
    "webhook_service",
    "webhook_names",
    "webhook_secret",
    "webhook_configuration",
    "injector",
    "injector_configuration",
    "redirect_linkerd_proxies",
    "beside_configuration",
    "injector_default",
    "injector_sidecar",
    "injector_cluster_domain",
    "injector_policy_addr",
    "injector_issuer_addr",
    "injector_disable_ipv6",
    "controller_name",
    "beside_linkerd",
    "lease_name",
    "lease_duration",
    "patch_timeout_ms",
    "status_writes_per_second",
    "status_parallelism",
    "replicas_service",
];

/// Flags of `policy-controller run`, as written.
#[derive(Clone, Debug, Args)]
#[command(mut_args(with_linkerds_default))]
pub struct RunArgs {
    /// Directory of manifests (YAML or JSON, any layout) to read and follow, in place of a cluster.
    #[arg(long, value_name = "DIR", conflicts_with_all = CLUSTER_ONLY_FLAGS)]
    pub manifests: Option<PathBuf>,

    /// The cluster, where no directory is named.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,

    /// Filter of log lines, in the syntax of tracing filters.
    #[arg(
        long,
        value_name = "FILTER",
        env = "LINKERD_POLICY_CONTROLLER_LOG",
        default_value = "policy_controller=info,warn"
    )]
    pub log_level: String,

    /// Format of log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Plain)]
    pub log_format: LogFormat,

    /// Address of /live, /ready and /metrics.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080", value_parser = address)]
    pub admin_addr: SocketAddr,

    /// Address at which policies are served over gRPC: under mutual TLS if the files are given,
    /// else in plaintext and on loopback only.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090", value_parser = address)]
    pub grpc_addr: SocketAddr,

    /// Networks that `cluster` stands for in policies: CIDRs, separated by commas.
    #[arg(
        long,
        value_name = "CIDRS",
        default_value = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8", value_parser = cidrs)]
    pub cluster_networks: List<IpNet>,

    /// Policy of ports that no Server selects and no annotation decides.
    #[arg(long, value_name = "POLICY", default_value = "all-unauthenticated", value_parser = default_policy)]
    pub default_policy: DefaultPolicy,

    /// Trust domain that ends every mesh identity.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = name::<Arc<str>>)]
    pub identity_domain: Arc<str>,

    /// Namespace of the control plane, which is part of every mesh identity.
    #[arg(long, value_name = "NAMESPACE", default_value = "linkerd", value_parser = label::<Arc<str>>)]
    pub control_plane_namespace: Arc<str>,

    /// Networks of kubelet probes: CIDRs and `node-local` (the pod's own node), separated by
    /// commas; empty: none.
    #[arg(long, value_name = "NETWORKS", default_value = "node-local", value_parser = probe_networks)]
    pub probe_networks: List<NetworkMatch>,

    /// Owner of the first addresses of a node's pod networks (podCIDRs): `node-local` includes the
    /// node's own.
    #[arg(long, value_enum, default_value_t = PodGatewaysArg::ByRoute)]
    pub pod_gateways: PodGatewaysArg,

    /// Access of the kubelet without an authorization.
    #[arg(long, value_enum, default_value_t = KubeletArg::Probes)]
    pub kubelet_exemption: KubeletArg,

    /// Ports on which probes are authorized.
    #[arg(long, value_enum, default_value_t = ProbeRoutesArg::Always)]
    pub probe_routes: ProbeRoutesArg,

    /// Sets every flag of a difference from Linkerd to Linkerd's behaviour.
    #[arg(long, help = preset_help(), help_heading = "Differences from Linkerd")]
    pub linkerd_compatible: bool,

    /// Differences from Linkerd.
    #[command(flatten)]
    pub behaviours: BehaviourArgs,

    /// Authorize loopback addresses on every port, as Linkerd's proxies do by themselves.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true")]
    pub localhost_authorization: bool,

    /// Require a ReferenceGrant for authentications of other namespaces.
    #[arg(long, value_enum, default_value_t = GrantsArg::Enforce)]
    pub reference_grants: GrantsArg,

    /// Namespaces whose authentications every namespace may refer to, separated by commas; by
    /// default the control plane's.
    #[arg(long, value_name = "NAMESPACES", value_parser = labels::<Arc<str>>)]
    pub shared_namespaces: Option<BTreeSet<Arc<str>>>,

    /// Policy of ports that no container port, probe or Server names.
    #[arg(long, value_enum, default_value_t = UndeclaredArg::Default)]
    pub undeclared_ports: UndeclaredArg,

    /// Seconds that a port of unknown protocol waits for a client's first bytes.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub detect_timeout: u32,

    /// Ports of the proxy itself, declared on every workload beside the one that its annotation
    /// config.linkerd.io/admin-port states, separated by commas; empty: there is no proxy.
    #[arg(long, value_name = "PORTS", default_value = "4191", value_parser = ports)]
    pub proxy_ports: List<NonZeroU16>,

    /// Access to the proxies' metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,

    /// Authorization of watches.
    #[command(flatten)]
    pub auth: ServeAuthArgs,

    /// The controller's own ports.
    #[command(flatten)]
    pub guard: SelfPolicyArgs,

    /// The admission webhook, with a cluster.
    #[command(flatten)]
    pub admission: AdmissionArgs,

    /// Linkerd's proxies, with a cluster.
    #[command(flatten)]
    pub linkerd_redirect: LinkerdRedirectArgs,

    /// The injector, with a cluster.
    #[command(flatten)]
    pub injector: InjectorArgs,

    /// Status and leadership, with a cluster.
    #[command(flatten)]
    pub status: StatusArgs,

    /// The other replicas.
    #[command(flatten)]
    pub replicas: ReplicaArgs,

    /// Linkerd's controller, for what we do not serve.
    #[command(flatten)]
    pub outbound: OutboundArgs,

    /// The destinations of outbound connections.
    #[command(flatten)]
    pub destinations: DestinationArgs,

    /// Bounds on serving.
    #[command(flatten)]
    pub serve: ServeArgs,
}
