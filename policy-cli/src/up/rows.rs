//! The rows that `up` prints: ports of pods, clients, and the addresses that stand for Services to
//! clients.

use super::calls::{self, CallRow, CallerIdentity, Callers};
use super::client_certs::ClientCertificates;
use super::clients::{SampleClient, clients};
use super::screen::{ClientCommand, ClientRow, NewCall, PortRow};
use super::suggest::{Candidate, suggest};
use crate::local_mesh::mesh::{LocalMesh, LocalMeshError};
use crate::local_mesh::pods::{RunningPod, application_name};
use crate::unguarded::UnguardedWorkloads;
use policy_core::{Identity, Owner, WorkloadKey};
use policy_crds::Object;
use policy_engine::WorkloadState;
use policy_engine::view::protocol_name;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

/// A pod that runs.
pub(super) struct Pod {
    /// Its state when it was started.
    pub(super) state: Arc<WorkloadState>,
    /// Its sidecar and application.
    pub(super) unit: RunningPod,
}

/// Ports and clients, as they are printed.
#[derive(Default)]
pub(super) struct Rows {
    /// Ports of pods.
    pub(super) ports: Vec<PortRow>,
    /// Clients.
    pub(super) clients: Vec<ClientRow>,
    /// Names of clients without an identity.
    pub(super) names: BTreeMap<IpAddr, String>,
    /// Reasons why clients have no calls.
    pub(super) failed: Vec<LocalMeshError>,
}

impl Rows {
    /// The calls that clients of `before` did not have then.
    pub(super) fn new_calls(&self, before: &Self) -> Vec<NewCall> {
        let known = self.clients.iter().filter_map(|client| {
            let old = before.clients.iter().find(|old| old.address == client.address)?;
            Some((client, old))
        });
        let new = known.flat_map(|(client, old)| {
            let calls = client.calls.iter().filter(|call| !old.calls.contains(call));
            calls.map(|call| NewCall { client: client.name.clone(), call: call.clone() })
        });
        new.collect()
    }

    /// Keeps clients that no manifest names any more, because their addresses remain allocated.
    pub(super) fn remember(&mut self, before: Self) {
        for client in before.clients {
            if !self.clients.iter().any(|row| row.address == client.address) {
                self.clients.push(client);
            }
        }
        for (address, name) in before.names {
            self.names.entry(address).or_insert(name);
        }
    }
}

/// Sources of the rows.
pub(super) struct RowSources<'a> {
    /// Controller and addresses.
    pub(super) mesh: &'a mut LocalMesh,
    /// Certificates of clients.
    pub(super) certificates: &'a mut ClientCertificates,
    /// Pods that run.
    pub(super) pods: &'a BTreeMap<WorkloadKey, Pod>,
    /// Sidecars of clients.
    pub(super) callers: &'a mut Callers,
    /// Pods and ports that no sidecar guards in a cluster.
    pub(super) unguarded: &'a UnguardedWorkloads,
}

/// Choices of a client's command.
struct Place<'a> {
    ports: &'a [PortRow],
    candidates: &'a [Candidate],
    objects: &'a [Arc<Object>],
}

impl RowSources<'_> {
    /// The rows as of now. Sidecars of clients are started where they have none.
    pub(super) async fn make(mut self) -> anyhow::Result<Rows> {
        let (ports, candidates) = self.port_rows().await;
        let objects = self.mesh.objects.all();
        let states: Vec<_> = self.pods.values().map(|pod| Arc::clone(&pod.state)).collect();
        let services = calls::services(&objects);
        let mut rows = Rows { ports, ..Rows::default() };
        for client in clients(&objects, &states, &self.mesh.config) {
            let from = match client.real {
                Some(real) => self.mesh.allocate_for(client.who.clone(), real)?,
                None => self.mesh.allocate_in_cluster(client.who.clone())?,
            };
            let own = self.calls_of(&client, from, &services).await.unwrap_or_else(|error| {
                rows.failed.push(error);
                Vec::new()
            });
            let at = Place { ports: &rows.ports, candidates: &candidates, objects: &objects };
            let row = self.client_row(&client, from, &at, own)?;
            if client.identity.is_none() {
                rows.names.insert(row.stands_for, client.name.clone());
            }
            rows.clients.push(row);
        }
        Ok(rows)
    }

    async fn port_rows(&self) -> (Vec<PortRow>, Vec<Candidate>) {
        let mut rows = Vec::new();
        let mut candidates = Vec::new();
        for (key, pod) in self.pods {
            for (port, address) in &pod.unit.ports {
                // The pod may have been removed since it was started, and is stopped in a moment.
                let Ok(policy) = self.mesh.controller.policies.port(key, *port).await else {
                    continue;
                };
                let policy = policy.current().policy.clone();
                let unguarded = self.unguarded.get(key).and_then(|it| it.port(port.get()));
                rows.push(PortRow {
                    workload: key.to_string(),
                    port: port.get(),
                    address: *address,
                    policy: match &policy.owner {
                        Owner::Server(server) => server.to_string(),
                        Owner::Default(default) => format!("default {}", default.as_str()),
                    },
                    unguarded: unguarded.map(str::to_owned),
                    protocol: protocol_name(policy.protocol),
                    server_name: pod.unit.server_name.clone(),
                    application: application_name(&key.namespace, &key.name),
                });
                candidates.push(Candidate::new(policy, Arc::clone(&pod.state.facts)));
            }
        }
        (rows, candidates)
    }

    /// The addresses that stand for Services to a client with an identity.
    async fn calls_of(
        &mut self,
        client: &SampleClient,
        from: Ipv4Addr,
        services: &[calls::ServiceAddress],
    ) -> Result<Vec<CallRow>, LocalMeshError> {
        let own = |pod: &&Pod| Some(&pod.state.identity) == client.identity.as_ref();
        let place = self.pods.values().find(own).or_else(|| self.pods.values().next());
        let (Some(identity), Some(place)) = (&client.identity, place) else {
            return Ok(Vec::new());
        };
        let state = Arc::clone(&place.state);
        let caller = CallerIdentity { name: &client.name, identity, from, place: &state };
        self.callers.calls(self.mesh, &caller, services).await
    }

    fn client_row(
        &mut self,
        client: &SampleClient,
        from: Ipv4Addr,
        at: &Place<'_>,
        calls: Vec<CallRow>,
    ) -> anyhow::Result<ClientRow> {
        let Place { ports, candidates, objects } = at;
        let stands_for = self.mesh.addresses.address_map().resolve(from.into());
        let authority = &self.mesh.launcher.authority;
        let pair = match &client.identity {
            Some(identity) => Some(self.certificates.of(authority, &client.name, identity)?),
            None => None,
        };
        let identity = client.identity.clone().map(Identity::Dns);
        let roots = self.certificates.root();
        let command = suggest(candidates, stands_for, identity.as_ref())
            .and_then(|(index, request)| Some((ports.get(index)?, candidates.get(index)?, request)))
            .map(|(port, candidate, request)| {
                let protocol = candidate.policy.protocol;
                let (pair, request) = (pair.as_ref(), &request);
                let service = calls::service_of(objects, port.address);
                let call = service.and_then(|(service, port)| {
                    calls.iter().find(|own| own.service == service && own.port == port)
                });
                let call = call.map(|call| call.address);
                let roots = &roots;
                ClientCommand { from, pair, roots, port, protocol, request, call }.command()
            });
        let path = |path: PathBuf| path.display().to_string();
        Ok(ClientRow {
            name: client.name.clone(),
            address: from,
            stands_for,
            identity: client.identity.as_deref().map(str::to_owned),
            certificate: pair.as_ref().map(|pair| path(pair.certificate.clone())),
            key: pair.map(|pair| path(pair.key)),
            calls,
            command: command.unwrap_or_default(),
        })
    }
}
