//! The handle that the ports enforce.

use super::admin::{self, Refusal};
use super::follow;
use super::local::{LocalPolicy, LocalPolicyError};
use super::metrics::SelfPolicyMetrics;
use super::settings::{OwnPorts, SelfPolicySettings};
use super::shared::Shared;
use http::Request;
use policy_core::{Denied, Facts, UndeclaredPorts, WorkloadKey};
use policy_enforce::{PolicyLayer, PolicyStore, StoreConfig, Telemetry};
use policy_engine::config::ControllerConfig;
use policy_engine::handles::Policies;
use policy_tls::peer::Peer;
use policy_webhooks::admission::PortGuard;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The policies of the controller's own ports; clones share them.
#[derive(Clone, Debug)]
pub struct SelfPolicy {
    pub(super) shared: Arc<Shared>,
}

impl SelfPolicy {
    /// Reads the local policy and puts it in force.
    ///
    /// # Errors
    /// [`LocalPolicyError`]: the file is invalid, or no Server in it selects a port.
    pub fn new(
        settings: &SelfPolicySettings,
        ports: OwnPorts,
        config: &ControllerConfig,
    ) -> Result<Self, LocalPolicyError> {
        let local = LocalPolicy::compile(settings, ports, config)?;
        let facts = Arc::new(Facts {
            node_local: settings.node.clone(),
            cluster: config.cluster_networks.clone(),
            ..Facts::default()
        });
        let store_config = StoreConfig { facts, ..StoreConfig::default() };
        let built = |error| LocalPolicyError::Build { error };
        let store = PolicyStore::new(store_config, Arc::new(Telemetry::new(1))).map_err(built)?;
        let numbers: BTreeSet<_> = local.ports().collect();
        store.declare(&numbers, UndeclaredPorts::Deny);
        for port in numbers {
            if let Some(policy) = local.policy(port) {
                store.apply(port, policy.clone(), local.revision()).map_err(built)?;
            }
        }
        let name = settings.pod.as_deref().unwrap_or(settings.component);
        let shared = Shared {
            workload: WorkloadKey::pod(&settings.namespace, name),
            ports,
            local,
            store,
            metrics: SelfPolicyMetrics::default(),
            has_pod: settings.pod.is_some(),
            node: settings.node.clone(),
            gateways: settings.gateways.clone(),
            node_known: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the metrics, to be registered.
    pub fn metrics(&self) -> SelfPolicyMetrics {
        self.shared.metrics.clone()
    }

    /// Guards the gRPC port: each request has its `Arc<Peer>` in the extensions.
    pub fn grpc(&self) -> PolicyLayer {
        let workload = self.shared.workload.to_string();
        PolicyLayer::new(&self.shared.store, self.shared.ports.grpc, &workload)
            .whole_service()
            .with_recorder(Arc::new(self.shared.metrics.clone()))
    }

    /// True if an address is our node's, as far as that is known.
    pub fn is_node(&self, client: IpAddr) -> bool {
        let live = self.shared.store.port(self.shared.ports.admin).live();
        let policy = live.in_force().ok();
        let node = policy.map_or(&self.shared.node, |policy| &policy.facts.node_local);
        node.iter().any(|network| network.contains(&client))
    }

    /// Checks a request to the admin port.
    ///
    /// # Errors
    /// The status and text of the answer instead.
    pub fn admin<B>(&self, peer: &Peer, request: &Request<B>) -> Result<(), Refusal> {
        // Probes are answered before the Node has been read, because the addresses that the kubelet
        // probes from are not known yet.
        let probe = matches!(request.uri().path(), "/live" | "/ready");
        if probe && !self.shared.node_known.load(Ordering::Acquire) {
            return Ok(());
        }
        let port = self.shared.ports.admin;
        admin::request(&self.shared.store.port(port), peer, request).map_err(|reason| {
            self.shared.metrics.refused(port, reason);
            Refusal::of(reason)
        })
    }

    /// Follows the Servers that select our own pod, until it is dropped. Without a pod there is
    /// nothing to follow.
    pub async fn follow(self, policies: Policies) {
        if self.shared.has_pod {
            follow::run(self.shared, policies).await;
        }
    }
}

impl PortGuard for SelfPolicy {
    fn admission(&self, client: SocketAddr) -> Result<(), Denied> {
        let Some(port) = self.shared.ports.admission else { return Err(Denied::PortUndeclared) };
        // It speaks TLS that is not the mesh's.
        let peer = Peer::new(client, policy_tls::peer::PeerTls::Passthrough);
        let decided = admin::connection(&self.shared.store.port(port), &peer);
        decided.inspect_err(|reason| self.shared.metrics.refused(port, *reason))
    }
}
