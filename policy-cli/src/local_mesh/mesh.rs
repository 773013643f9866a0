//! Startup of a local mesh.

use super::addresses::{AddressPool, Peer};
use super::authority::{Authority, IssueError};
use super::decision_log::{DecisionRecord, DecisionSink};
use super::pods::{PodError, PodLauncher, PortAllocation, RunningPod};
use super::services::LocalServices;
use super::source::{DefaultingSource, ObjectStore};
use crate::unknown_fields;
use ipnet::Ipv4Net;
use policy_controller::directory::DirectorySource;
use policy_controller::run::{Embedded, RunError, start_embedded};
use policy_core::WorkloadKey;
use policy_engine::source::SourceError;
use policy_engine::source::directory::Manifests;
use policy_engine::{ControllerConfig, LookupError, WorkloadState};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Timeout of reading the manifests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A controller with its manifests, and the state for starting pods and clients.
pub(crate) struct LocalMesh {
    /// The controller's settings.
    pub(crate) config: ControllerConfig,
    /// The controller.
    pub(crate) controller: Embedded,
    /// Objects that the controller has received.
    pub(crate) objects: ObjectStore,
    /// Addresses and endpoints of Services.
    pub(crate) services: LocalServices,
    /// Addresses of pods and clients.
    pub(crate) addresses: AddressPool,
    /// Launcher of pods.
    pub(crate) launcher: PodLauncher,
    /// Decisions of the sidecars.
    pub(crate) decisions: mpsc::Receiver<DecisionRecord>,
    /// Receives the sidecars' decisions.
    pub(crate) sink: Arc<DecisionSink>,
}

/// Configuration of a local mesh.
pub(crate) struct LocalMeshConfig {
    /// The controller's validated settings.
    pub(crate) config: ControllerConfig,
    /// The controller's address.
    pub(crate) listen: SocketAddr,
    /// Subnet of pods and clients.
    pub(crate) subnet: Ipv4Net,
    /// Allocation of the pods' ports.
    pub(crate) ports: PortAllocation,
}

/// Error of starting a local mesh.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalMeshError {
    /// The controller failed to start.
    #[error("cannot start the controller: {0}")]
    Controller(#[from] RunError),
    /// The manifests cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Timeout of reading the manifests.
    #[error("the manifests were not read within {} s", PATIENCE.as_secs())]
    TooSlow,
    /// The certificate authority cannot be created.
    #[error(transparent)]
    Authority(#[from] IssueError),
    /// The controller does not know a workload.
    #[error("`{0}`: {1}")]
    Lookup(WorkloadKey, LookupError),
    /// A pod failed to start.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The subnet is exhausted.
    #[error("`{0}` has no address left; choose a larger --subnet")]
    Full(Ipv4Net),
}

impl LocalMeshConfig {
    /// The controller on a free port, pods and clients in the default subnet.
    pub(crate) fn new(config: ControllerConfig, ports: PortAllocation) -> Self {
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        Self { config, listen, subnet: super::addresses::SUBNET, ports }
    }
}

impl LocalMesh {
    /// Starts the controller on these manifests and waits until it has read them.
    pub(crate) async fn start(
        inputs: Vec<Manifests>,
        plan: LocalMeshConfig,
    ) -> Result<Self, LocalMeshError> {
        let LocalMeshConfig { config, listen, subnet, ports } = plan;
        let objects = ObjectStore::new();
        let source = DirectorySource::of(inputs, config.limits).linting(unknown_fields::warnings);
        let services = LocalServices::new();
        let source = DefaultingSource::new(source, objects.clone(), services.clone());
        let mut controller = start_embedded(config.clone(), source, listen).await?;
        let mut synced = controller.policies.synced();
        let read = async {
            tokio::select! {
                Ok(_) = synced.wait_for(|synced| *synced) => Ok(()),
                ended = controller.source_ended() => ended,
            }
        };
        tokio::time::timeout(PATIENCE, read).await.map_err(|_| LocalMeshError::TooSlow)??;
        let addresses = AddressPool::new(subnet);
        let (sink, decisions) = DecisionSink::new();
        let launcher = PodLauncher {
            authority: Authority::new()?,
            controller: controller.addr,
            address_map: addresses.address_map(),
            recorder: Arc::clone(&sink) as _,
            ports,
        };
        Ok(Self { config, controller, objects, services, addresses, launcher, decisions, sink })
    }

    /// State of a workload in the controller.
    pub(crate) async fn state(
        &self,
        key: &WorkloadKey,
    ) -> Result<Arc<WorkloadState>, LocalMeshError> {
        let receiver = self.controller.policies.workload(key).await;
        let receiver = receiver.map_err(|error| LocalMeshError::Lookup(key.clone(), error))?;
        Ok(receiver.current().state.clone())
    }

    /// Starts a pod with its declared ports and `further` ones.
    pub(crate) async fn start_pod(
        &mut self,
        state: &WorkloadState,
        further: &BTreeSet<NonZeroU16>,
    ) -> Result<RunningPod, LocalMeshError> {
        let peer = Peer::Pod(state.key.namespace.clone(), state.key.name.clone());
        let address = self.allocate_in_cluster(peer)?;
        let ports = state.declared.union(further).copied().collect();
        Ok(self.launcher.start(state, address, &ports).await?)
    }

    /// Address of a pod or client inside the cluster.
    pub(crate) fn allocate_in_cluster(&mut self, peer: Peer) -> Result<Ipv4Addr, LocalMeshError> {
        let allocated = self.addresses.allocate_in_cluster(peer, &self.config.cluster_networks);
        allocated.ok_or(LocalMeshError::Full(self.addresses.subnet()))
    }

    /// Address of a client that stands for the address `real`.
    pub(crate) fn allocate_for(
        &mut self,
        peer: Peer,
        real: std::net::IpAddr,
    ) -> Result<Ipv4Addr, LocalMeshError> {
        let allocated = self.addresses.allocate(peer, real);
        allocated.ok_or(LocalMeshError::Full(self.addresses.subnet()))
    }
}
