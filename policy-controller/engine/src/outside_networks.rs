//! Pods with a sidecar whose addresses no sidecar looks up.

use crate::config::ControllerConfig;
use crate::source::{Batch, Change};
use ipnet::IpNet;
use policy_core::fold_mapped;
use policy_crds::resource::{Pod, PodSidecar, Resource};
use policy_crds::{Body, Kind, Object, ObjectKey};
use std::collections::BTreeSet;

/// The pods with a sidecar and an address outside the networks that sidecars look up.
#[derive(Debug)]
pub(crate) struct OutsidePods {
    /// The networks; `None`: no address is looked up, and nothing is to be said.
    networks: Option<Vec<IpNet>>,
    pods: BTreeSet<ObjectKey>,
}

impl OutsidePods {
    /// No pod yet.
    pub(crate) fn new(config: &ControllerConfig) -> Self {
        let networks = config.looked_up_networks().map(<[_]>::to_vec);
        Self { networks, pods: BTreeSet::new() }
    }

    /// Notes the pods of a batch, and returns the number of those outside.
    pub(crate) fn note(&mut self, batch: &Batch) -> usize {
        for change in &batch.changes {
            match change {
                Change::Apply(object) if self.is_outside(object) => {
                    self.pods.insert(object.meta.key.clone());
                }
                Change::Apply(object) => _ = self.pods.remove(&object.meta.key),
                Change::Delete(key) if key.kind == Kind::Pod => _ = self.pods.remove(key),
                Change::Delete(_) | Change::Keep(_) | Change::Synced => {}
            }
        }
        self.pods.len()
    }

    fn is_outside(&self, object: &Object) -> bool {
        let (Some(networks), Body::Valid(Resource::Pod(pod))) = (&self.networks, &object.body)
        else {
            return false;
        };
        let Pod { has_ended, uses_host_network, .. } = *pod;
        let is_known = |address| networks.iter().any(|network| network.contains(&address));
        pod.sidecar != PodSidecar::None
            && !has_ended
            && !uses_host_network
            && !pod.addresses.iter().all(|address| is_known(fold_mapped(*address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::OutboundConfig;
    use crate::testing;

    fn pod(name: &str, address: &str, container: &str) -> Change {
        Change::Apply(testing::object(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop}}, \
              spec: {{containers: [{{name: {container}}}]}}, \
              status: {{phase: Running, podIPs: [{{ip: {address}}}]}}}}"
        )))
    }

    #[test]
    fn pods_with_a_sidecar_outside_the_networks_are_counted_until_they_go() {
        let noted = |config: &ControllerConfig| {
            let mut outside = OutsidePods::new(config);
            let mut note = |changes| outside.note(&Batch { changes, ..Batch::default() });
            let proxy = "portcullis-proxy";
            let first = note(vec![
                pod("a", "192.0.2.1", proxy),
                pod("b", "10.1.0.1", proxy),
                pod("c", "192.0.2.3", "web"),
            ]);
            let key = testing::key(Kind::Pod, "shop", "a");
            (first, note(vec![pod("b", "192.0.2.2", proxy)]), note(vec![Change::Delete(key)]))
        };
        let config = ControllerConfig::default();
        assert_eq!(noted(&config), (1, 2, 1));
        let networks = vec!["192.0.2.0/24".parse().unwrap()];
        let outbound = OutboundConfig { networks, ..OutboundConfig::default() };
        let named = ControllerConfig { outbound: Some(outbound), ..config.clone() };
        assert_eq!(noted(&named), (1, 0, 0));
        assert_eq!(noted(&ControllerConfig { outbound: None, ..config }), (0, 0, 0));
    }
}
