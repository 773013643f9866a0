//! Calls of clients with an identity: for each Service, an address whose connections arrive with that
//! identity.

use crate::local_mesh::addresses::Peer;
use crate::local_mesh::callers::{CallerPlan, RunningCaller};
use crate::local_mesh::mesh::{LocalMesh, LocalMeshError};
use policy_core::Identity;
use policy_crds::{Body, Object, Resource};
use policy_engine::WorkloadState;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

/// Maximum number of clients with calls; each sidecar has its own thread.
pub(super) const MOST_CALLERS: usize = 64;

/// A port of a Service that clients can call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceAddress {
    namespace: Arc<str>,
    name: Arc<str>,
    port: NonZeroU16,
    /// Its address in the cluster.
    address: SocketAddr,
}

/// The address that stands for a Service to one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallRow {
    /// `namespace/name`.
    pub(crate) service: String,
    /// Port of the Service.
    pub(crate) port: u16,
    /// Address to connect to, in plaintext.
    pub(crate) address: SocketAddr,
}

/// The running sidecars of clients, by identity.
#[derive(Default)]
pub(super) struct Callers(BTreeMap<Arc<str>, Caller>);

struct Caller {
    services: Vec<ServiceAddress>,
    rows: Vec<CallRow>,
    sidecar: RunningCaller,
}

/// A client.
pub(super) struct CallerIdentity<'a> {
    /// Its name for people.
    pub(super) name: &'a str,
    /// Its identity.
    pub(super) identity: &'a Arc<str>,
    /// The address that its connections come from.
    pub(super) from: Ipv4Addr,
    /// The workload whose place it has.
    pub(super) place: &'a WorkloadState,
}

/// Every port of every Service that has an address.
pub(super) fn services(objects: &[Arc<Object>]) -> Vec<ServiceAddress> {
    let mut found = Vec::new();
    for object in objects {
        let Body::Valid(Resource::Service(service)) = &object.body else { continue };
        let Some(address) = service.cluster_addresses.first() else { continue };
        found.extend(service.ports.iter().map(|port| ServiceAddress {
            namespace: object.meta.key.namespace.clone(),
            name: object.meta.key.name.clone(),
            port: port.port,
            address: SocketAddr::new(*address, port.port.get()),
        }));
    }
    found
}

/// The Service that leads to an address of a pod, by the endpoints of Services.
pub(super) fn service_of(objects: &[Arc<Object>], pod: SocketAddr) -> Option<(String, u16)> {
    objects.iter().find_map(|object| {
        let Body::Valid(Resource::EndpointSlice(slice)) = &object.body else { return None };
        slice.endpoints.iter().find(|endpoint| endpoint.address == pod.ip())?;
        let is_port = |port: Option<NonZeroU16>| port.is_some_and(|port| port.get() == pod.port());
        let port = slice.ports.iter().find(|port| is_port(port.port))?;
        let (namespace, name) = (&object.meta.key.namespace, slice.service.as_ref()?);
        let declared = objects.iter().find_map(|object| match &object.body {
            Body::Valid(Resource::Service(service))
                if object.meta.key.namespace == *namespace && object.meta.key.name == *name =>
            {
                service.ports.iter().find(|own| own.name == port.name)
            }
            Body::Valid(_) | Body::Invalid(_) => None,
        })?;
        Some((format!("{namespace}/{name}"), declared.port.get()))
    })
}

impl Callers {
    /// The calls of a client, whose sidecar is started if it does not run or if Services changed.
    pub(super) async fn calls(
        &mut self,
        mesh: &mut LocalMesh,
        client: &CallerIdentity<'_>,
        services: &[ServiceAddress],
    ) -> Result<Vec<CallRow>, LocalMeshError> {
        if services.is_empty() {
            self.stop(client.identity).await;
            return Ok(Vec::new());
        }
        let running = self.0.get(client.identity);
        if let Some(caller) = running.filter(|caller| caller.services == services) {
            return Ok(caller.rows.clone());
        }
        if running.is_none() && self.0.len() >= MOST_CALLERS {
            return Ok(Vec::new());
        }
        self.stop(client.identity).await;
        let rows = rows(mesh, client, services)?;
        let pairs: Vec<_> = rows
            .iter()
            .map(|row| row.address)
            .zip(services.iter().map(|own| own.address))
            .collect();
        let identity = match client.identity.starts_with("spiffe://") {
            true => Identity::Spiffe(client.identity.clone()),
            false => Identity::Dns(client.identity.clone()),
        };
        let plan = CallerPlan {
            name: client.name,
            identity: &identity,
            source: client.from,
            place: client.place,
            calls: &pairs,
        };
        let sidecar = mesh.launcher.start_caller(&plan)?;
        let caller = Caller { services: services.to_vec(), rows: rows.clone(), sidecar };
        self.0.insert(client.identity.clone(), caller);
        Ok(rows)
    }

    /// Stops a client's sidecar, so that another can listen at its addresses.
    async fn stop(&mut self, identity: &Arc<str>) {
        if let Some(caller) = self.0.remove(identity) {
            caller.sidecar.stop().await;
        }
    }
}

/// The addresses that stand for the Services to a client.
fn rows(
    mesh: &mut LocalMesh,
    client: &CallerIdentity<'_>,
    services: &[ServiceAddress],
) -> Result<Vec<CallRow>, LocalMeshError> {
    let row = |service: &ServiceAddress| {
        let ServiceAddress { namespace, name, port, address } = service;
        let peer = Peer::Call(client.identity.clone(), namespace.clone(), name.clone());
        let own = mesh.allocate_for(peer, address.ip())?;
        let address = mesh.launcher.free(own, stand_in(service, services))?;
        Ok(CallRow { service: format!("{namespace}/{name}"), port: port.get(), address })
    };
    services.iter().map(row).collect()
}

/// The port of the address that stands for a port of a Service. Those that not everybody may bind
/// become 8080 for 80, 8443 for 443, so that addresses are the same for everybody.
fn stand_in(service: &ServiceAddress, services: &[ServiceAddress]) -> NonZeroU16 {
    let port = service.port;
    if port.get() >= UNPRIVILEGED {
        return port;
    }
    let declared = |port: &NonZeroU16| {
        let same = |own: &&ServiceAddress| {
            (&own.namespace, &own.name) == (&service.namespace, &service.name)
        };
        services.iter().filter(same).any(|own| own.port == *port)
    };
    let shifted = (8000..=56000).step_by(8000).filter_map(|shift| port.checked_add(shift));
    shifted.into_iter().find(|port| !declared(port)).unwrap_or(port)
}

/// The first port that every process may bind.
const UNPRIVILEGED: u16 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, port: u16) -> ServiceAddress {
        let address = "10.96.0.1:1".parse().unwrap();
        let port = NonZeroU16::new(port).unwrap();
        ServiceAddress { namespace: "shop".into(), name: name.into(), port, address }
    }

    #[test]
    fn privileged_ports_become_others_that_the_service_does_not_declare() {
        let services = [
            service("web", 80),
            service("web", 443),
            service("web", 8443),
            service("web", 1024),
            service("other", 8080),
        ];
        let ports = services.each_ref().map(|own| stand_in(own, &services).get());
        assert_eq!(ports, [8080, 16443, 8443, 1024, 8080]);
    }
}
