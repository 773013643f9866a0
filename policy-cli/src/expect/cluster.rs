//! Settings of the controller in a file of expectations.

use super::error::ExpectError;
use policy_core::address::parse_block;
use policy_core::{DefaultPolicy, NetworkMatch, UndeclaredPorts};
use policy_engine::ControllerConfig;
use policy_engine::config::{KubeletExemption, ProbeRoutes, ReferenceGrants};
use serde::{Deserialize, Deserializer};

/// Settings of the controller, by the names of its flags, or the flags themselves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClusterSettings {
    /// `--default-policy`.
    #[serde(default, deserialize_with = "default_policy")]
    pub default_policy: Option<DefaultPolicy>,
    /// `--cluster-networks`.
    pub cluster_networks: Option<Vec<Network>>,
    /// `--probe-networks`; absent: the node's own addresses.
    pub probe_networks: Option<Vec<Network>>,
    /// `--control-plane-namespace`.
    pub control_plane_namespace: Option<String>,
    /// `--identity-domain`.
    pub identity_domain: Option<String>,
    /// `--kubelet-exemption`: `probes` or `all`.
    pub kubelet_exemption: Option<KubeletExemptionMode>,
    /// `--probe-routes`: `always` or `unrouted`.
    pub probe_routes: Option<ProbeRoutesMode>,
    /// `--localhost-authorization`.
    pub localhost_authorization: Option<bool>,
    /// `--reference-grants`: `enforce` or `warn`.
    pub reference_grants: Option<ReferenceGrantsMode>,
    /// `--shared-namespaces`.
    pub shared_namespaces: Option<Vec<String>>,
    /// `--undeclared-ports`: `default` or `deny`.
    pub undeclared_ports: Option<UndeclaredPortsMode>,
    /// Flags of `policy-controller run` as on its command line, in place of all other settings. What
    /// no flag sets has the default of the command line, which knows of a proxy's admin port.
    #[serde(default)]
    pub flags: Vec<String>,
}

/// A block of addresses: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub ipnet::IpNet);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |reason| serde::de::Error::custom(format!("`{text}` {reason}"));
        parse_block(&text).map(Self).map_err(wrong)
    }
}

/// `kubeletExemption`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KubeletExemptionMode {
    /// Declared probes and hooks only.
    Probes,
    /// Everything from the node.
    All,
}

/// `probeRoutes`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeRoutesMode {
    /// On every port.
    Always,
    /// On ports without routes.
    Unrouted,
}

/// `referenceGrants`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceGrantsMode {
    /// Required.
    Enforce,
    /// A missing one is reported in a condition.
    Warn,
}

/// `undeclaredPorts`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UndeclaredPortsMode {
    /// The default policy.
    Default,
    /// Refused.
    Deny,
}

fn default_policy<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DefaultPolicy>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let names = DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    let unknown = || serde::de::Error::custom(format!("`{name}` is none of {names}"));
    DefaultPolicy::parse(&name).map(Some).ok_or_else(unknown)
}

impl ClusterSettings {
    /// Returns the controller's configuration with these settings.
    ///
    /// # Errors
    /// The invalid setting.
    pub fn config(&self) -> Result<ControllerConfig, ExpectError> {
        if !self.flags.is_empty() {
            return self
                .of_flags()
                .map_err(|error| ExpectError::Setup(format!("cluster: {error}")));
        }
        let mut config = ControllerConfig::default();
        if let Some(policy) = self.default_policy {
            config.default_policy = policy;
        }
        if let Some(networks) = &self.cluster_networks {
            config.cluster_networks = networks.iter().map(|network| network.0).collect();
        }
        if let Some(networks) = &self.probe_networks {
            config.probe_networks =
                networks.iter().map(|network| NetworkMatch::net(network.0)).collect();
        }
        if let Some(namespace) = &self.control_plane_namespace {
            config.control_plane_namespace = namespace.as_str().into();
        }
        if let Some(domain) = &self.identity_domain {
            config.identity_domain = domain.as_str().into();
        }
        if let Some(exempted) = self.kubelet_exemption {
            config.kubelet_exemption = match exempted {
                KubeletExemptionMode::Probes => KubeletExemption::Probes,
                KubeletExemptionMode::All => KubeletExemption::All,
            };
        }
        if let Some(routed) = self.probe_routes {
            config.probe_routes = match routed {
                ProbeRoutesMode::Always => ProbeRoutes::Always,
                ProbeRoutesMode::Unrouted => ProbeRoutes::Unrouted,
            };
        }
        if let Some(grants) = self.reference_grants {
            config.reference_grants = match grants {
                ReferenceGrantsMode::Enforce => ReferenceGrants::Enforce,
                ReferenceGrantsMode::Warn => ReferenceGrants::Warn,
            };
        }
        if let Some(namespaces) = &self.shared_namespaces {
            config.shared_namespaces = namespaces.iter().map(|name| name.as_str().into()).collect();
        }
        if let Some(undeclared) = self.undeclared_ports {
            config.undeclared_ports = match undeclared {
                UndeclaredPortsMode::Default => UndeclaredPorts::Default,
                UndeclaredPortsMode::Deny => UndeclaredPorts::Deny,
            };
        }
        config.localhost_authorization = self.localhost_authorization.unwrap_or(false);
        config.validated().map_err(|error| ExpectError::Setup(format!("cluster: {error}")))
    }

    /// The configuration that the controller's own command line makes of the flags.
    fn of_flags(&self) -> Result<ControllerConfig, String> {
        if !self.has_flags_alone() {
            return Err(
                "flags: settings beside them have no effect; write them as flags".to_owned()
            );
        }
        super::flags::config_of(&self.flags)
    }

    fn has_flags_alone(&self) -> bool {
        let Self {
            default_policy,
            cluster_networks,
            probe_networks,
            control_plane_namespace,
            identity_domain,
            kubelet_exemption,
            probe_routes,
            localhost_authorization,
            reference_grants,
            shared_namespaces,
            undeclared_ports,
            flags: _,
        } = self;
        default_policy.is_none()
            && cluster_networks.is_none()
            && probe_networks.is_none()
            && control_plane_namespace.is_none()
            && identity_domain.is_none()
            && kubelet_exemption.is_none()
            && probe_routes.is_none()
            && localhost_authorization.is_none()
            && reference_grants.is_none()
            && shared_namespaces.is_none()
            && undeclared_ports.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::Expectations;

    #[test]
    fn settings_change_the_configuration() {
        let text = "cluster: {defaultPolicy: deny, clusterNetworks: [10.1.0.0/16], \
                    undeclaredPorts: deny}\n\
                    requests: [{name: n, from: {}, to: a/b:1, tcp: true, decision: allow}]";
        let config = Expectations::parse(text).unwrap().cluster.config().unwrap();
        assert_eq!(config.default_policy, DefaultPolicy::Deny);
        assert_eq!(config.cluster_networks, ["10.1.0.0/16".parse().unwrap()]);
        assert_eq!(config.undeclared_ports, UndeclaredPorts::Deny);
    }

    fn config(cluster: &str) -> Result<ControllerConfig, String> {
        let rest = "requests: [{name: n, from: {}, to: a/b:1, tcp: true, decision: allow}]";
        let read = Expectations::parse(&format!("cluster: {{{cluster}}}\n{rest}")).unwrap();
        read.cluster.config().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_mean_what_they_mean_on_the_command_line() {
        let read = config("flags: [--default-policy=deny, --proxy-ports=4190]").unwrap();
        assert_eq!(read.default_policy, DefaultPolicy::Deny);
        assert_eq!(read.proxy_ports.iter().map(|port| port.get()).collect::<Vec<_>>(), [4190]);
        let refused = config("flags: [--default-policy=none]").unwrap_err();
        assert!(refused.contains("'none' for '--default-policy"), "{refused}");
        let both = config("defaultPolicy: deny, flags: [--default-policy=deny]").unwrap_err();
        assert!(both.contains("write them as flags"), "{both}");
    }
}
