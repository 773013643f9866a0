//! Settings of `policy-controller run`.

use super::choice::{
    GrantsArg, KubeletArg, LogFormat, PodGatewaysArg, ProbeRoutesArg, UndeclaredArg,
};
use super::error::ArgsError;
use super::kubernetes::KubernetesArgs;
use super::replicas::ReplicaSettings;
use super::run::RunArgs;
use super::serve_auth::ServeAuth;
use crate::self_policy::SelfPolicySettings;
use policy_core::{HostPattern, UndeclaredPorts};
use policy_discovery::serve::ServeConfig;
use policy_engine::config::{
    ControllerConfig, KubeletExemption, Limits, Namespaces, PodGateways, ProbeRoutes,
    ReferenceGrants,
};
use policy_engine::outbound::OutboundConfig;
use policy_kube::lease::LeaseSettings;
use policy_kube::source::{KubernetesConfig, Scope};
use policy_kube::status::StatusSettings;
use policy_tls::control::ControllerAddress;
use policy_webhooks::admission::{AdmissionSettings, CertificateSource};
use policy_webhooks::injector::InjectorSettings;
use policy_webhooks::linkerd_redirect::ProxyRedirector;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Source of objects.
    pub source: SourceSettings,
    /// Settings of compilation.
    pub controller: ControllerConfig,
    /// Bounds on serving.
    pub serve: ServeConfig,
    /// Addresses of the policy server, and its authorization.
    pub auth: ServeAuth,
    /// The other replicas.
    pub replicas: ReplicaSettings,
    /// Linkerd's controller, if outbound policy is forwarded.
    pub outbound: Option<ControllerAddress>,
    /// The DNS domain of the cluster, which ends the names of Services.
    pub cluster_domain: String,
    /// Policy of the controller's own ports; absent: they are open.
    pub guard: Option<SelfPolicySettings>,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Filter of log lines.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
}

/// Source of objects.
#[derive(Clone, Debug)]
pub enum SourceSettings {
    /// A directory of manifests.
    Directory(PathBuf),
    /// A cluster.
    Cluster(Box<ClusterSettings>),
}

impl SourceSettings {
    /// The settings of the cluster, if it is one.
    pub(crate) fn cluster(&self) -> Option<Box<ClusterSettings>> {
        match self {
            Self::Cluster(cluster) => Some(cluster.clone()),
            Self::Directory(_) => None,
        }
    }
}

/// A cluster as the source of objects.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The connection to it.
    pub args: KubernetesArgs,
    /// Settings of its watches.
    pub watches: KubernetesConfig,
    /// The admission webhook; absent: it is not served.
    pub admission: Option<AdmissionSettings>,
    /// Points Linkerd's proxies here; absent: they are left alone.
    pub redirector: Option<ProxyRedirector>,
    /// The injector; absent: it is not served.
    pub injector: Option<InjectorSettings>,
    /// Settings of status.
    pub status: StatusSettings,
    /// Settings of leader election.
    pub lease: LeaseSettings,
    /// Descriptions of the functions that the flags disable.
    pub lost: Vec<String>,
}

impl TryFrom<RunArgs> for Settings {
    type Error = ArgsError;

    fn try_from(args: RunArgs) -> Result<Self, ArgsError> {
        let serve = args.serve.settings(args.grpc_addr);
        let config = controller(&args)?;
        Ok(Self {
            admin: args.admin_addr,
            auth: args.auth.settings(args.grpc_addr, &config)?,
            controller: config,
            serve,
            guard: guard(&args),
            replicas: args.replicas.settings(),
            outbound: args.outbound.settings()?,
            cluster_domain: args.injector.injector_cluster_domain.clone(),
            source: source(&args)?,
            log_level: args.log_level,
            log_format: args.log_format,
        })
    }
}

/// With manifests the ports are guarded only on request, because a laptop has neither a node nor an
/// identity that a policy could distinguish.
fn guard(args: &RunArgs) -> Option<SelfPolicySettings> {
    if args.manifests.is_some() && args.guard.local_policy.is_none() {
        return None;
    }
    Some(args.guard.settings(args.replicas.name(), &args.control_plane_namespace))
}

fn source(args: &RunArgs) -> Result<SourceSettings, ArgsError> {
    if let Some(manifests) = &args.manifests {
        return Ok(SourceSettings::Directory(manifests.clone()));
    }
    let namespace = &args.control_plane_namespace;
    let mut watches = args.kubernetes.settings(namespace.clone());
    let lease = args.status.lease(namespace)?;
    watches.lease_name = lease.name.clone();
    let namespaces = match &watches.scope {
        Scope::Cluster => None,
        Scope::Namespaces(names) => Some(names.iter().cloned().collect()),
    };
    watches.discovery = args.destinations.settings(watches.scope == Scope::Cluster).is_some();
    let mut lost = watches.scope.limitations();
    lost.extend(args.destinations.lost(watches.scope == Scope::Cluster));
    let mut admission = args.admission.settings(namespace);
    if let Some(admission) = &mut admission {
        admission.linkerd_compatible = args.linkerd_compatible;
    }
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
    let control_plane = args.injector.control_plane(namespace, &args.identity_domain);
    let redirector = args.linkerd_redirect.settings(&control_plane, admission.as_mut())?;
    let injector = injector(args, admission.as_mut(), namespaces.is_some(), &mut lost)?;
    Ok(SourceSettings::Cluster(Box::new(ClusterSettings {
        args: args.kubernetes.clone(),
        watches,
        admission,
        redirector,
        injector,
        status: args.status.settings(namespaces)?,
        lease,
        lost,
    })))
}

/// The injector shares port and certificate with admission.
fn injector(
    args: &RunArgs,
    admission: Option<&mut AdmissionSettings>,
    namespaced: bool,
    lost: &mut Vec<String>,
) -> Result<Option<InjectorSettings>, ArgsError> {
    let settings = args.injector.settings(&args.control_plane_namespace, &args.identity_domain);
    let Some(mut settings) = settings else { return Ok(None) };
    settings.outbound.is_unanswered = args.destinations.settings(!namespaced).is_none();
    if settings.outbound.networks.is_empty() {
        // Their connections would go straight on, in plaintext.
        if args.destinations.external_workload_namespaces.as_ref().is_some_and(|it| !it.is_empty())
        {
            return Err(ArgsError::MachinesNotLookedUp);
        }
        settings.outbound.networks.clone_from(&args.cluster_networks);
    }
    // It labels namespaces, which are objects of the whole cluster.
    if namespaced {
        lost.push("injection is off: it needs the whole cluster, not --watch-namespace".to_owned());
        return Ok(None);
    }
    let admission = admission.ok_or(ArgsError::NoWebhookPort("injector"))?;
    if let CertificateSource::Provisioned(provisioning) = &mut admission.certificate {
        provisioning.injector = Some(settings.configuration.clone());
    }
    Ok(Some(settings))
}

/// The hosts that may be claimed in a part of a cluster; `None` for the whole.
fn assumed_claims(args: &KubernetesArgs) -> Option<BTreeSet<HostPattern>> {
    args.watch_namespace.as_ref().map(|_| args.assume_claims.clone().unwrap_or_default())
}

fn controller(args: &RunArgs) -> Result<ControllerConfig, ArgsError> {
    let namespace = args.control_plane_namespace.clone();
    let shared_namespaces =
        args.shared_namespaces.clone().unwrap_or_else(|| [namespace.clone()].into());
    let config = ControllerConfig {
        default_policy: args.default_policy,
        controller_name: args.status.controller_name.clone(),
        cluster_domain: args.injector.injector_cluster_domain.as_str().into(),
        cluster_networks: args.cluster_networks.clone(),
        probe_networks: args.probe_networks.clone(),
        control_plane_namespace: namespace,
        identity_domain: args.identity_domain.clone(),
        pod_gateways: match args.pod_gateways {
            PodGatewaysArg::ByRoute => PodGateways::ByRoute,
            PodGatewaysArg::OfNode => PodGateways::OfNode,
            PodGatewaysArg::OfPods => PodGateways::OfPods,
        },
        kubelet_exemption: match args.kubelet_exemption {
            KubeletArg::Probes => KubeletExemption::Probes,
            KubeletArg::All => KubeletExemption::All,
        },
        probe_routes: match args.probe_routes {
            ProbeRoutesArg::Always => ProbeRoutes::Always,
            ProbeRoutesArg::Unrouted => ProbeRoutes::Unrouted,
        },
        linkerd_compatible: args.linkerd_compatible,
        as_linkerd: args.behaviours.as_linkerd,
        localhost_authorization: args.localhost_authorization,
        reference_grants: match args.reference_grants {
            GrantsArg::Enforce => ReferenceGrants::Enforce,
            GrantsArg::Warn => ReferenceGrants::Warn,
        },
        shared_namespaces,
        assumed_claims: assumed_claims(&args.kubernetes),
        undeclared_ports: match args.undeclared_ports {
            UndeclaredArg::Default => UndeclaredPorts::Default,
            UndeclaredArg::Deny => UndeclaredPorts::Deny,
        },
        proxy_ports: args.proxy_ports.iter().copied().collect(),
        metrics: args.metrics.settings(),
        detect_timeout: Duration::from_secs(args.detect_timeout.into()),
        namespaces: match args.manifests {
            Some(_) => Namespaces::Optional,
            None => Namespaces::Required,
        },
        outbound: args.destinations.settings(args.kubernetes.watch_namespace.is_none()).map(
            |settings| {
                let networks = args.injector.injector_outbound_networks.clone();
                OutboundConfig { networks, ..settings }
            },
        ),
        limits: Limits {
            undeclared_ports_per_workload: args.serve.max_undeclared_ports,
            file_bytes: args.serve.max_file_bytes,
            update_bytes: args.serve.max_update_bytes,
            ..Limits::default()
        },
    };
    Ok(config.validated()?)
}
