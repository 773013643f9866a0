//! The outbound sidecars of clients: an address for each Service, from which connections arrive with
//! the client's identity.

use super::pods::{PodError, PodLauncher, start_error};
use policy_core::Identity;
use policy_engine::WorkloadState;
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio_util::sync::DropGuard;

/// What a client's sidecar is started with.
pub(crate) struct CallerPlan<'a> {
    /// Name of the client.
    pub(crate) name: &'a str,
    /// The identity that it proves.
    pub(crate) identity: &'a Identity,
    /// The address that its connections come from.
    pub(crate) source: Ipv4Addr,
    /// The workload whose place it has.
    pub(crate) place: &'a WorkloadState,
    /// The Services: the address that stands for it, and its own.
    pub(crate) calls: &'a [(SocketAddr, SocketAddr)],
}

/// A running sidecar of a client. Dropping it stops it.
pub(crate) struct RunningCaller {
    sidecar: Sidecar,
    _discovery: DropGuard,
}

impl PodLauncher {
    /// Starts the sidecar of a client. Must be called in a runtime.
    pub(crate) fn start_caller(&self, plan: &CallerPlan<'_>) -> Result<RunningCaller, PodError> {
        let mut config = SidecarConfig::new(plan.name);
        let listener = |(address, to): &(SocketAddr, SocketAddr)| Listener {
            address: *address,
            target: Target::OutboundTo(*to),
        };
        config.listeners = plan.calls.iter().map(listener).collect();
        config.outbound.source = Some(IpAddr::V4(plan.source));
        // Each is the address of a Service.
        config.outbound.networks = plan.calls.iter().map(|(_, to)| to.ip().into()).collect();
        let identity = self.identity_of(plan.name, plan.identity)?;
        let demand = config.demand();
        let (store, discovery) = self.discover(plan.place, identity.clone(), demand)?;
        let sidecar = Sidecar::start(config, store, identity, Some(Arc::clone(&self.recorder)))
            .map_err(|error| start_error(plan.name.to_owned(), error))?;
        Ok(RunningCaller { sidecar, _discovery: discovery })
    }
}

impl RunningCaller {
    /// Closes its connections, and waits until its addresses are free.
    pub(crate) async fn stop(mut self) {
        self.sidecar.stop();
        self.sidecar.ended().await;
    }
}
