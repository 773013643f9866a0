//! Configuration of the controller, validated once.

use crate::behaviour::{Behaviour, Behaviours};
use crate::outbound::OutboundConfig;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use policy_core::{
    DefaultPolicy, HostPattern, IdentityMatch, NetworkMatch, NetworkSymbol, UndeclaredPorts,
};
use policy_crds::is_dns_name;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

/// Everything that compiling depends on besides the objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// Default policy of the cluster, below those of namespaces and pods.
    pub default_policy: DefaultPolicy,
    /// Domain of the cluster, which ends the names of its Services.
    pub cluster_domain: Arc<str>,
    /// Networks that the symbol `Cluster` stands for.
    pub cluster_networks: Vec<IpNet>,
    /// Source networks of kubelet probes. Empty: probes are not exempt.
    pub probe_networks: Vec<NetworkMatch>,
    /// Namespace of the control plane; part of every mesh identity.
    pub control_plane_namespace: Arc<str>,
    /// Trust domain; ends every mesh identity.
    pub identity_domain: Arc<str>,
    /// Handling of the first address of each pod network of a node.
    pub pod_gateways: PodGateways,
    /// Requests of the kubelet that need no authorization.
    pub kubelet_exemption: KubeletExemption,
    /// On which ports probes are exempt.
    pub probe_routes: ProbeRoutes,
    /// True if `--linkerd-compatible` was given, from which the other settings follow.
    pub linkerd_compatible: bool,
    /// Behaviour that is taken over from Linkerd's controller.
    pub as_linkerd: Behaviours,
    /// True if every port grants access to loopback addresses, as Linkerd's proxies do.
    pub localhost_authorization: bool,
    /// Requirement of a ReferenceGrant for authentications of another namespace.
    pub reference_grants: ReferenceGrants,
    /// Namespaces whose authentications need no ReferenceGrant.
    pub shared_namespaces: BTreeSet<Arc<str>>,
    /// Hosts that roots may claim although objects of other namespaces are not watched; absent: the
    /// whole cluster is watched, and claims decide.
    pub assumed_claims: Option<BTreeSet<HostPattern>>,
    /// Policy of ports that nothing declares, unless an annotation says otherwise.
    pub undeclared_ports: UndeclaredPorts,
    /// Ports of the proxy itself (its admin port), declared on every workload, as is the one that
    /// the annotation `config.linkerd.io/admin-port` states. Where no Server owns one, any mesh
    /// identity and the node are admitted there. Empty: workloads have no proxy of their
    /// own, and the annotation means nothing.
    pub proxy_ports: BTreeSet<NonZeroU16>,
    /// Clients that may read the proxies' metrics, where no Server owns the port.
    pub metrics: MetricsReaders,
    /// Time that a port of unknown protocol waits for the first bytes.
    pub detect_timeout: Duration,
    /// Meaning of a missing Namespace object.
    pub namespaces: Namespaces,
    /// Outbound discovery; absent: destinations are not looked up.
    pub outbound: Option<OutboundConfig>,
    /// `controllerName` of the entries of a route's status that this controller writes, and reads back.
    pub controller_name: Arc<str>,
    /// Bounds on what others can make the controller hold.
    pub limits: Limits,
}

/// `controllerName` where no other is configured.
pub const CONTROLLER_NAME: &str = "portcullis.dev/policy-controller";

/// Meaning of a missing Namespace object although the namespace has objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Namespaces {
    /// It says nothing. Manifests need not have Namespaces.
    #[default]
    Optional,
    /// It has not been read yet and may say anything, so it counts as one that cannot be read. An API
    /// server has the Namespace of every object.
    Required,
}

/// Clients that may read the proxies' metrics. If both lists are empty, no client may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsReaders {
    /// Mesh identities, from wherever they come.
    pub identities: Vec<IdentityMatch>,
    /// Client networks, with or without an identity.
    pub networks: Vec<NetworkMatch>,
}

impl Default for MetricsReaders {
    /// Any mesh identity, and the pod's own node.
    fn default() -> Self {
        Self {
            identities: vec![IdentityMatch::Any],
            networks: vec![NetworkMatch::symbol(NetworkSymbol::NodeLocal)],
        }
    }
}

/// Handling of the first address of each pod network (`podCIDRs`) of a node: whether it counts as
/// an address of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodGateways {
    /// It counts if it is a default gateway of the pod, because then the node has it. The sidecar
    /// checks this; clients of Linkerd's API cannot, and do not receive the address.
    #[default]
    ByRoute,
    /// Yes: from this address of a bridge the node reaches its pods (kubenet, flannel, k3s).
    OfNode,
    /// It does not count: another allocator assigns addresses, and the first may belong to any pod
    /// (Calico, Cilium with pools of the cluster, addresses of a cloud's network).
    OfPods,
}

/// Requests of the kubelet that need no authorization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KubeletExemption {
    /// The probes and hooks that the pod declares.
    #[default]
    Probes,
    /// Everything that comes from the probe networks.
    All,
}

/// On which ports probes are exempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProbeRoutes {
    /// On all.
    #[default]
    Always,
    /// On those without routes, as in Linkerd.
    Unrouted,
}

/// Requirement of a reference to an authentication of another namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReferenceGrants {
    /// A ReferenceGrant.
    #[default]
    Enforce,
    /// Nothing; a missing grant is reported as a condition (Linkerd's behaviour).
    Warn,
}

/// Bounds on what others can make the controller hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Watched ports per workload that the workload does not declare.
    pub undeclared_ports_per_workload: NonZeroUsize,
    /// Ports of a workload's own that count as declared. Those beyond it count as undeclared, unless
    /// a Server, a probe or the proxy names them.
    pub declared_ports_per_workload: NonZeroUsize,
    /// Questions about destinations that are followed, however many clients ask each.
    pub destinations: usize,
    /// Bytes of a manifest file; larger ones are refused unread.
    pub file_bytes: u64,
    /// Bytes that a message to a proxy may have. Authors are warned of half of it.
    pub update_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            undeclared_ports_per_workload: NonZeroUsize::new(256).unwrap_or(NonZeroUsize::MIN),
            declared_ports_per_workload: NonZeroUsize::new(1024).unwrap_or(NonZeroUsize::MIN),
            // Some hundreds of megabytes if each of them is about another endpoint.
            destinations: 131_072,
            file_bytes: 10_000_000,
            update_bytes: 16 * 1024 * 1024,
        }
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        let namespace: Arc<str> = "linkerd".into();
        Self {
            default_policy: DefaultPolicy::AllUnauthenticated,
            cluster_domain: "cluster.local".into(),
            cluster_networks: private_networks(),
            probe_networks: vec![NetworkMatch::symbol(NetworkSymbol::NodeLocal)],
            control_plane_namespace: namespace.clone(),
            identity_domain: "cluster.local".into(),
            pod_gateways: PodGateways::default(),
            kubelet_exemption: KubeletExemption::default(),
            probe_routes: ProbeRoutes::default(),
            linkerd_compatible: false,
            as_linkerd: Behaviours::default(),
            localhost_authorization: false,
            reference_grants: ReferenceGrants::default(),
            shared_namespaces: BTreeSet::from([namespace]),
            assumed_claims: None,
            undeclared_ports: UndeclaredPorts::default(),
            proxy_ports: BTreeSet::new(),
            metrics: MetricsReaders::default(),
            detect_timeout: Duration::from_secs(10),
            namespaces: Namespaces::default(),
            outbound: Some(OutboundConfig::default()),
            controller_name: CONTROLLER_NAME.into(),
            limits: Limits::default(),
        }
    }
}

/// The part of a mesh identity between the namespace of its account and its mesh.
const INFIX: &str = "serviceaccount.identity";

/// The private address blocks that Linkerd's chart calls cluster networks.
fn private_networks() -> Vec<IpNet> {
    let v4 = |a, b, length| Ipv4Net::new(Ipv4Addr::new(a, b, 0, 0), length).ok().map(IpNet::V4);
    let v6 = Ipv6Net::new(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 8).ok().map(IpNet::V6);
    [v4(10, 0, 8), v4(100, 64, 10), v4(172, 16, 12), v4(192, 168, 16), v6]
        .into_iter()
        .flatten()
        .collect()
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not a DNS label or name.
    #[error("{setting}: `{value}` is not a lower-case DNS name")]
    NotAName {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: Arc<str>,
    },
    /// An exception outside the block that it is an exception to.
    #[error("probe networks: exception `{except}` is outside `{net}`")]
    ExceptionOutside {
        /// The block.
        net: IpNet,
        /// The exception.
        except: IpNet,
    },
    /// A trust domain in which an identity of one mesh would read like one of another.
    #[error("trust domain `{0}`: it contains `serviceaccount.identity`, as identities do")]
    LikeAnIdentity(Arc<str>),
    /// Two peers of one namespace, which has one control plane.
    #[error("outbound peers: `{0}` is stated twice, with two trust domains")]
    PeerTwice(Arc<str>),
}

impl ControllerConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn validated(self) -> Result<Self, ConfigError> {
        named("control plane namespace", &self.control_plane_namespace)?;
        named("identity domain", &self.identity_domain)?;
        for namespace in &self.shared_namespaces {
            named("shared namespaces", namespace)?;
        }
        if let Some(outbound) = &self.outbound {
            if let Some((setting, value)) = outbound.not_a_name() {
                return Err(ConfigError::NotAName { setting, value: value.clone() });
            }
            let domains = outbound.trust_domains().chain([&self.identity_domain]);
            if let Some(domain) = domains.into_iter().find(|name| name.contains(INFIX)) {
                return Err(ConfigError::LikeAnIdentity(domain.clone()));
            }
            if let Some(namespace) = outbound.stated_twice() {
                return Err(ConfigError::PeerTwice(namespace.clone()));
            }
        }
        for network in &self.probe_networks {
            if let policy_core::NetworkTerm::Net(net) = network.term
                && let Some(except) = network.except.iter().find(|e| !net.contains(*e))
            {
                return Err(ConfigError::ExceptionOutside { net, except: *except });
            }
        }
        Ok(self)
    }

    /// Returns true if `behaviour` is taken over from Linkerd's controller.
    pub fn follows_linkerd(&self, behaviour: Behaviour) -> bool {
        self.as_linkerd.contains(behaviour)
    }

    /// Returns the networks whose addresses sidecars look up; `None` if no address is looked up.
    pub fn looked_up_networks(&self) -> Option<&[IpNet]> {
        let own = &self.outbound.as_ref()?.networks;
        Some(if own.is_empty() { &self.cluster_networks } else { own })
    }

    /// The mesh identity of a ServiceAccount (docs/spec/controller.md 2.5).
    pub fn service_account_identity(&self, namespace: &str, name: &str) -> Arc<str> {
        format!("{name}.{}", self.namespace_suffix(namespace)).into()
    }

    /// The same, if it can be an identity: the name of a ServiceAccount may be longer than a DNS
    /// label, and the whole longer than a DNS name.
    pub fn certifiable_identity(&self, namespace: &str, name: &str) -> Option<Arc<str>> {
        Some(self.service_account_identity(namespace, name))
            .filter(|identity| is_dns_name(identity))
    }

    /// The suffix of the identities of all ServiceAccounts of a namespace, without the leading dot.
    pub fn namespace_suffix(&self, namespace: &str) -> Arc<str> {
        format!("{namespace}.serviceaccount.identity.{}", self.identity_suffix()).into()
    }

    /// The namespace whose ServiceAccounts have identities with this suffix; `None` if it is not the
    /// suffix of one namespace of this mesh.
    pub fn namespace_of_suffix<'s>(&self, suffix: &'s str) -> Option<&'s str> {
        let rest = suffix.strip_suffix(&self.identity_suffix())?;
        let namespace = rest.strip_suffix(".serviceaccount.identity.")?;
        (!namespace.is_empty() && !namespace.contains('.')).then_some(namespace)
    }

    /// The suffix of every mesh identity of a ServiceAccount, after `identity` and a dot.
    pub fn identity_suffix(&self) -> String {
        format!("{}.{}", self.control_plane_namespace, self.identity_domain)
    }

    /// Returns true if this is the identity of a ServiceAccount in this mesh, or in one that it may come
    /// from: a peer, or this mesh under a former trust domain. The whole name is compared, because the
    /// name of an account may have dots and so begin like the identity of another.
    pub fn may_be_identity_of(&self, identity: &str, namespace: &str, name: &str) -> bool {
        let of_account = [name, namespace, INFIX, ""].join(".");
        let Some(mesh) = identity.strip_prefix(&of_account) else { return false };
        let is = |plane: &str, domain: &str| {
            let rest = mesh.strip_prefix(plane).and_then(|rest| rest.strip_prefix('.'));
            rest == Some(domain)
        };
        let (own, outbound) = (&*self.control_plane_namespace, self.outbound.as_ref());
        let peers = outbound.into_iter().flat_map(|outbound| &outbound.peers);
        let former = outbound.into_iter().flat_map(|outbound| &outbound.former_trust_domains);
        is(own, &self.identity_domain)
            || peers.into_iter().any(|peer| is(&peer.namespace, &peer.trust_domain))
            || former.into_iter().any(|domain| is(own, domain))
    }

    /// The name and the namespace of the ServiceAccount with this mesh identity; `None` if the
    /// identity does not belong to this mesh.
    pub fn service_account_of<'i>(&self, identity: &'i str) -> Option<(&'i str, &'i str)> {
        let rest = identity.strip_suffix(&self.identity_suffix())?;
        rest.strip_suffix(".serviceaccount.identity.")?.rsplit_once('.')
    }
}

fn named(setting: &'static str, value: &Arc<str>) -> Result<(), ConfigError> {
    if is_dns_name(value) {
        Ok(())
    } else {
        Err(ConfigError::NotAName { setting, value: value.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::OutboundPeer;

    #[test]
    fn defaults_are_valid_and_as_documented() {
        let config = ControllerConfig::default().validated().unwrap();
        assert_eq!(config.cluster_networks.len(), 5);
        assert_eq!(config.default_policy, DefaultPolicy::AllUnauthenticated);
        assert!(config.shared_namespaces.contains("linkerd"));
        assert_eq!(
            &*config.service_account_identity("emojivoto", "web"),
            "web.emojivoto.serviceaccount.identity.linkerd.cluster.local"
        );
    }

    #[test]
    fn a_service_account_whose_name_is_too_long_has_no_identity() {
        let config = ControllerConfig::default();
        let dotted = config.certifiable_identity("shop", "web.a").unwrap();
        assert_eq!(&*dotted, "web.a.shop.serviceaccount.identity.linkerd.cluster.local");
        assert_eq!(config.service_account_of(&dotted), Some(("web.a", "shop")));
        let other = "web.shop.serviceaccount.identity.linkerd.example.org";
        assert_eq!(config.service_account_of(other), None);
        for name in ["a".repeat(64), vec!["a".repeat(60); 4].join("."), String::new()] {
            assert_eq!(config.certifiable_identity("shop", &name), None, "{name}");
        }
    }

    #[test]
    fn an_identity_is_an_accounts_if_the_whole_name_is_and_dots_confuse_nobody() {
        let peer = OutboundPeer { namespace: "other".into(), trust_domain: "b.org".into() };
        let outbound = OutboundConfig {
            peers: [peer].into(),
            former_trust_domains: ["old.org".into()].into(),
            ..Default::default()
        };
        let config = ControllerConfig { outbound: Some(outbound), ..Default::default() };
        let config = config.validated().unwrap();
        for (identity, is_own) in [
            ("web.shop.serviceaccount.identity.linkerd.cluster.local", true),
            ("web.shop.serviceaccount.identity.linkerd.old.org", true),
            ("web.shop.serviceaccount.identity.other.b.org", true),
            ("web.shop.serviceaccount.identity.other.cluster.local", false),
            ("web.shop.serviceaccount.identity.other.old.org", false),
            ("web.shop.serviceaccount.identity.x.evil.org", false),
            ("web.shop.serviceaccount.identity.linkerd.cluster.local.evil.org", false),
            // The identity of the account `web.shop.serviceaccount.identity.x` of namespace `evil`.
            (
                "web.shop.serviceaccount.identity.x.evil.serviceaccount.identity.linkerd.cluster.local",
                false,
            ),
            ("web.a.shop.serviceaccount.identity.linkerd.cluster.local", false),
            ("web.shop.serviceaccount.identity.linkerd", false),
            ("", false),
        ] {
            assert_eq!(config.may_be_identity_of(identity, "shop", "web"), is_own, "{identity}");
        }
        let dotted = "web.a.shop.serviceaccount.identity.linkerd.cluster.local";
        assert!(config.may_be_identity_of(dotted, "shop", "web.a"));
        let domain: Arc<str> = "x.serviceaccount.identity.linkerd.cluster.local".into();
        let like = ControllerConfig { identity_domain: domain.clone(), ..config };
        assert_eq!(like.validated(), Err(ConfigError::LikeAnIdentity(domain)));
    }

    #[test]
    fn names_and_exceptions_are_checked() {
        let bad =
            ControllerConfig { identity_domain: "Cluster.Local".into(), ..Default::default() };
        assert!(matches!(bad.validated(), Err(ConfigError::NotAName { .. })));
        let probe = NetworkMatch {
            except: vec!["192.168.0.0/24".parse().unwrap()],
            ..NetworkMatch::net("10.0.0.0/8".parse().unwrap())
        };
        let bad = ControllerConfig { probe_networks: vec![probe], ..Default::default() };
        assert!(matches!(bad.validated(), Err(ConfigError::ExceptionOutside { .. })));
    }
}
