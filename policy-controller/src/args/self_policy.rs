//! Flags of the policy of the controller's own ports.

use super::value::{List, Optional, addresses, label, optional};
use crate::self_policy::{NAME, SelfPolicySettings, loopback};
use clap::Args;
use ipnet::IpNet;
use policy_server::DefaultGateways;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Flags of the policy of the controller's own ports, as written.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The controller's own ports")]
pub struct SelfPolicyArgs {
    /// File of Servers, authorizations and routes that hold on the controller's own ports until a
    /// Server of the cluster selects them [default: built in].
    #[arg(long, value_name = "FILE")]
    pub local_policy: Option<PathBuf>,

    /// Namespace of the controller's own pod [default: the control plane's].
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", value_parser = optional(label::<Arc<str>>))]
    pub pod_namespace: Option<Optional<Arc<str>>>,

    /// Addresses of the controller's own node, separated by commas, until its Node has been read.
    #[arg(long, value_name = "IPS", env = "HOST_IPS", default_value = "", value_parser = addresses)]
    pub host_ips: List<IpAddr>,
}

impl SelfPolicyArgs {
    /// Returns the settings. `pod`: the name of our own pod, if there is one; `control_plane`: the
    /// namespace that it is in by default.
    pub fn settings(&self, pod: Option<&str>, control_plane: &str) -> SelfPolicySettings {
        let namespace = self.pod_namespace.as_ref().and_then(|name| name.as_deref());
        let mut node: Vec<_> = self.host_ips.iter().copied().map(IpNet::from).collect();
        node.extend(loopback());
        SelfPolicySettings {
            component: NAME,
            local_policy: self.local_policy.clone(),
            namespace: namespace.unwrap_or(control_plane).to_owned(),
            pod: pod.map(ToOwned::to_owned),
            node,
            gateways: DefaultGateways::of_process(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings_and_wrong_ones_are_named() {
        let host_ips = addresses("10.0.0.5, fd00::5").unwrap();
        let args = SelfPolicyArgs { host_ips, ..SelfPolicyArgs::default() };
        let settings = args.settings(Some("pod-0"), "mesh");
        let node = ["10.0.0.5/32", "fd00::5/128", "127.0.0.0/8", "::1/128"];
        assert_eq!(
            settings,
            SelfPolicySettings {
                component: "policy-controller",
                local_policy: None,
                namespace: "mesh".to_owned(),
                pod: Some("pod-0".to_owned()),
                node: node.map(|net| net.parse().unwrap()).to_vec(),
                gateways: DefaultGateways::of_process(),
            }
        );
        let own =
            SelfPolicyArgs { pod_namespace: Some(Some("own".into())), ..SelfPolicyArgs::default() };
        let settings = own.settings(None, "mesh");
        assert_eq!((settings.namespace.as_str(), settings.pod), ("own", None));
        let error = addresses("node-1").unwrap_err();
        assert_eq!(error, "`node-1` is not an address such as `10.1.2.3` or `fd00::1`");
        assert_eq!(addresses(""), Ok(Vec::new()));
    }
}
