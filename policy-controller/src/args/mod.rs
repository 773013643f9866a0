//! The command line of `policy-controller`, in two stages: [`RunArgs`] is what was written,
//! [`Settings`] is what it means. Every rule and every message is in the second.
//!
//! Flags that Linkerd's policy controller has too keep their names, and their defaults except
//! `--grpc-addr` (on loopback), `--cluster-networks` (IPv6 is part of them),
//! `--probe-networks` and `--log-level` (controller-semantics 6.1).

mod choice;
mod cluster;
mod connection;
mod error;
mod kubernetes;
mod metrics;
mod outbound;
mod replicas;
mod serve;
mod status;
pub(crate) mod value;

pub use choice::{GrantsArg, KubeletArg, LogFormat, ProbeRoutesArg, UndeclaredArg};
pub use connection::ClusterArgs;
pub use error::ArgsError;
pub use kubernetes::{KubernetesArgs, KubernetesArgsError};
pub use metrics::MetricsArgs;
pub use outbound::OutboundArgs;
pub use replicas::{ReplicaArgs, ReplicaArgsError, ReplicaSettings, Whom};
pub use serve::ServeArgs;
pub use status::{StatusArgs, StatusArgsError};

use crate::access::{ServeAuth, ServeAuthArgs};
use crate::admission::{AdmissionArgs, AdmissionSettings, CertificateSource};
use crate::beside::{BesideArgs, Repoint};
use crate::guard::{GuardArgs, GuardSettings};
use crate::injector::{InjectorArgs, InjectorSettings};
use crate::issuer::IssuerArgs;
use clap::{Args, Parser, Subcommand};
use policy_discovery::serve::ServeConfig;
use policy_engine::config::{
    ControllerConfig, KubeletExemption, Limits, ProbeRoutes, ReferenceGrants,
};
use policy_engine::publish::UndeclaredPorts;
use policy_kube::lease::LeaseSettings;
use policy_kube::source::{KubernetesConfig, Scope};
use policy_kube::status::StatusSettings;
use policy_proxy::control::ControllerAddress;
use policy_proxy::termination::DEFAULT_PATH;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use value::{address, default_policy, items, network, probe_networks};

/// Indexes policy resources and streams one policy per workload port.
#[derive(Debug, Parser)]
#[command(name = "policy-controller", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Where the reason is written when the process does not start or cannot go on, if that file
    /// exists.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "PORTCULLIS_TERMINATION_LOG",
        default_value = DEFAULT_PATH
    )]
    pub termination_log: PathBuf,
}

/// What `policy-controller` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read policy resources and serve the policies they make.
    Run(Box<RunArgs>),
    /// Issue certificates to workloads and bring the roots of the mesh to them.
    #[command(after_long_help = crate::issuer::AFTER_HELP)]
    Issuer(Box<IssuerArgs>),
}

/// Flags that mean nothing where a directory is read.
const OF_A_CLUSTER: [&str; 31] = [
    "kubeconfig",
    "context",
    "watch_namespace",
    "watch_freshness",
    "node_addresses",
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
pub struct RunArgs {
    /// Directory of manifests (YAML or JSON, any layout) to read and follow, in place of a cluster.
    #[arg(long, value_name = "DIR", conflicts_with_all = OF_A_CLUSTER)]
    pub manifests: Option<PathBuf>,

    /// The cluster, where no directory is named.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,

    /// Which log lines are written, in the syntax of tracing filters.
    #[arg(
        long,
        value_name = "FILTER",
        env = "LINKERD_POLICY_CONTROLLER_LOG",
        default_value = "policy_controller=info,warn"
    )]
    pub log_level: String,

    /// How log lines are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Plain)]
    pub log_format: LogFormat,

    /// Where /live, /ready and /metrics are served.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080")]
    pub admin_addr: String,

    /// Where policies are served over gRPC: under mutual TLS if the files are given, else in
    /// plaintext and on loopback only.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub grpc_addr: String,

    /// What `cluster` means in policies: CIDRs, separated by commas.
    #[arg(
        long,
        value_name = "CIDRS",
        default_value = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8"
    )]
    pub cluster_networks: String,

    /// Policy of ports that no Server selects and no annotation decides.
    #[arg(long, value_name = "POLICY", default_value = "all-unauthenticated")]
    pub default_policy: String,

    /// Trust domain that ends every mesh identity.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub identity_domain: String,

    /// Namespace of the control plane, which is part of every mesh identity.
    #[arg(long, value_name = "NAMESPACE", default_value = "linkerd")]
    pub control_plane_namespace: String,

    /// Where kubelet probes may come from: CIDRs and `node-local` (the pod's own node), separated
    /// by commas; empty: nowhere.
    #[arg(long, value_name = "NETWORKS", default_value = "node-local")]
    pub probe_networks: String,

    /// What the kubelet may do without an authorization.
    #[arg(long, value_enum, default_value_t = KubeletArg::Probes)]
    pub kubelet_exemption: KubeletArg,

    /// On which ports probes are let through.
    #[arg(long, value_enum, default_value_t = ProbeRoutesArg::Always)]
    pub probe_routes: ProbeRoutesArg,

    /// Authorize loopback addresses on every port, as Linkerd's proxies do.
    #[arg(long)]
    pub localhost_authorization: bool,

    /// Whether an authentication of another namespace needs a ReferenceGrant.
    #[arg(long, value_enum, default_value_t = GrantsArg::Enforce)]
    pub reference_grants: GrantsArg,

    /// Namespaces whose authentications anybody may refer to, separated by commas; by default the
    /// control plane's.
    #[arg(long, value_name = "NAMESPACES")]
    pub shared_namespaces: Option<String>,

    /// What holds on ports that no container port, probe or Server names.
    #[arg(long, value_enum, default_value_t = UndeclaredArg::Default)]
    pub undeclared_ports: UndeclaredArg,

    /// Ports of the proxy itself, declared on every workload beside the one that its annotation
    /// config.linkerd.io/admin-port states, separated by commas; empty: there is no proxy.
    #[arg(long, value_name = "PORTS", default_value = "4191")]
    pub proxy_ports: String,

    /// Who may read the proxies' metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,

    /// Who may watch.
    #[command(flatten)]
    pub auth: ServeAuthArgs,

    /// The controller's own ports.
    #[command(flatten)]
    pub guard: GuardArgs,

    /// The admission webhook, with a cluster.
    #[command(flatten)]
    pub admission: AdmissionArgs,

    /// Linkerd's proxies, with a cluster.
    #[command(flatten)]
    pub beside: BesideArgs,

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

    /// Bounds on serving.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What the flags mean.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where objects come from.
    pub source: SourceSettings,
    /// What compiling depends on.
    pub controller: ControllerConfig,
    /// Bounds on serving.
    pub serve: ServeConfig,
    /// Where policies are served, and to whom.
    pub auth: ServeAuth,
    /// The other replicas.
    pub replicas: ReplicaSettings,
    /// Linkerd's controller, if outbound policy is forwarded.
    pub outbound: Option<ControllerAddress>,
    /// How the controller's own ports are guarded; absent: they are not.
    pub guard: Option<GuardSettings>,
    /// Where the admin server listens.
    pub admin: SocketAddr,
    /// Filter of log lines.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
}

/// Where objects come from.
#[derive(Clone, Debug)]
pub enum SourceSettings {
    /// A directory of manifests.
    Directory(PathBuf),
    /// A cluster.
    Cluster(Box<ClusterSettings>),
}

/// A cluster as the source of objects.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// How it is reached.
    pub args: KubernetesArgs,
    /// How it is watched.
    pub watches: KubernetesConfig,
    /// The admission webhook; absent: it is not served.
    pub admission: Option<AdmissionSettings>,
    /// Points Linkerd's proxies here; absent: they are left alone.
    pub repoint: Option<Repoint>,
    /// The injector; absent: it is not served.
    pub injector: Option<InjectorSettings>,
    /// How status is written.
    pub status: StatusSettings,
    /// By which Lease one of the replicas leads.
    pub lease: LeaseSettings,
    /// What does not work because of what was asked for, in words.
    pub lost: Vec<String>,
}

impl TryFrom<RunArgs> for Settings {
    type Error = ArgsError;

    fn try_from(args: RunArgs) -> Result<Self, ArgsError> {
        let grpc = address("grpc-addr", &args.grpc_addr)?;
        let serve = args.serve.settings(grpc)?;
        let config = controller(&args)?;
        Ok(Self {
            admin: address("admin-addr", &args.admin_addr)?,
            auth: args.auth.settings(grpc, &config)?,
            controller: config,
            serve,
            guard: guard(&args)?,
            replicas: args.replicas.settings()?,
            outbound: args.outbound.settings()?,
            source: source(&args)?,
            log_level: args.log_level,
            log_format: args.log_format,
        })
    }
}

/// On a laptop there is neither a node nor an identity that a guard could tell apart: with manifests
/// the ports are guarded only if asked for.
fn guard(args: &RunArgs) -> Result<Option<GuardSettings>, ArgsError> {
    if args.manifests.is_some() && args.guard.local_policy.is_none() {
        return Ok(None);
    }
    let pod = args.replicas.replica_name.as_deref();
    Ok(Some(args.guard.settings(pod, &args.control_plane_namespace)?))
}

fn source(args: &RunArgs) -> Result<SourceSettings, ArgsError> {
    if let Some(manifests) = &args.manifests {
        return Ok(SourceSettings::Directory(manifests.clone()));
    }
    let namespace: Arc<str> = args.control_plane_namespace.as_str().into();
    let mut watches = args.kubernetes.settings(namespace.clone())?;
    let lease = args.status.lease(&namespace)?;
    watches.lease_name = lease.name.clone();
    let namespaces = match &watches.scope {
        Scope::Cluster => None,
        Scope::Namespaces(names) => Some(names.iter().cloned().collect()),
    };
    let mut lost = watches.scope.lost_functions();
    let mut admission = args.admission.settings(&namespace)?;
    let provisioned = |admission: &AdmissionSettings| {
        matches!(admission.certificate, CertificateSource::Provisioned(_))
    };
    // A webhook configuration is an object of the whole cluster, out of reach of Roles.
    if namespaces.is_some() && admission.as_ref().is_some_and(provisioned) {
        admission = None;
        lost.push(
            "admission is off: with --watch-namespace it needs --server-tls-certs and \
             --server-tls-key"
                .to_owned(),
        );
    }
    let places = args.injector.places(&args.control_plane_namespace, &args.identity_domain)?;
    let repoint = args.beside.settings(&places, admission.as_mut())?;
    let injector = cluster::injector(args, admission.as_mut(), namespaces.is_some(), &mut lost)?;
    Ok(SourceSettings::Cluster(Box::new(ClusterSettings {
        args: args.kubernetes.clone(),
        watches,
        admission,
        repoint,
        injector,
        status: args.status.settings(namespaces)?,
        lease,
        lost,
    })))
}

fn controller(args: &RunArgs) -> Result<ControllerConfig, ArgsError> {
    let namespace: Arc<str> = args.control_plane_namespace.as_str().into();
    let shared_namespaces = match &args.shared_namespaces {
        Some(list) => items(list).map(Arc::from).collect(),
        None => [namespace.clone()].into(),
    };
    let config = ControllerConfig {
        default_policy: default_policy(&args.default_policy)?,
        cluster_networks: items(&args.cluster_networks)
            .map(|item| network("cluster-networks", item, ""))
            .collect::<Result<_, _>>()?,
        probe_networks: probe_networks(&args.probe_networks)?,
        control_plane_namespace: namespace,
        identity_domain: args.identity_domain.as_str().into(),
        kubelet_exemption: match args.kubelet_exemption {
            KubeletArg::Probes => KubeletExemption::Probes,
            KubeletArg::All => KubeletExemption::All,
        },
        probe_routes: match args.probe_routes {
            ProbeRoutesArg::Always => ProbeRoutes::Always,
            ProbeRoutesArg::Unrouted => ProbeRoutes::Unrouted,
        },
        localhost_authorization: args.localhost_authorization,
        reference_grants: match args.reference_grants {
            GrantsArg::Enforce => ReferenceGrants::Enforce,
            GrantsArg::Warn => ReferenceGrants::Warn,
        },
        shared_namespaces,
        undeclared_ports: match args.undeclared_ports {
            UndeclaredArg::Default => UndeclaredPorts::Default,
            UndeclaredArg::Deny => UndeclaredPorts::Deny,
        },
        proxy_ports: items(&args.proxy_ports)
            .map(|item| item.parse().map_err(|_| ArgsError::Port(item.to_owned())))
            .collect::<Result<_, _>>()?,
        metrics: args.metrics.settings()?,
        limits: Limits {
            undeclared_ports_per_workload: args.serve.max_undeclared_ports,
            file_bytes: args.serve.max_file_bytes,
        },
    };
    Ok(config.validated()?)
}

#[cfg(test)]
mod tests;
