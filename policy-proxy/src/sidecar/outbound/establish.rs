//! Finds a way for an outbound connection: waits for what is known of its destination, and tries its
//! endpoints.

use super::dialled::Dialled;
use crate::outbound::DestinationRef;
use crate::outbound::balancer::Choice;
use crate::outbound::carrier::Carrier;
use crate::outbound::connect::{AttemptError, Carried, connect, connect_straight};
use crate::outbound::plan::{Candidates, Plan, Refusal, Waited, is_meshed, plan};
use crate::outbound::refusal_log::Subject;
use crate::outbound::server_io::ServerIo;
use crate::outbound::table::Knowledge;
use crate::sidecar::worker::Worker;
use policy_core::{Destination, Endpoint, EndpointMesh, PlaintextReason};
use policy_enforce::telemetry::{OutboundMeter, OutboundTarget, OutboundTls};
use policy_tls::identity::Proof;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A connection that has reached its endpoint.
pub(super) struct Established {
    pub(super) io: ServerIo,
    pub(super) proof: Option<Arc<Proof>>,
    pub(super) meter: OutboundMeter,
    /// The endpoint's count of connections, and the use of the destination.
    pub(super) share: Option<Share>,
}

/// A connection that cannot be made.
pub(super) struct Refused {
    pub(super) reason: Refusal,
    pub(super) target: OutboundTarget,
}

impl From<Refusal> for Refused {
    fn from(reason: Refusal) -> Self {
        Self { reason, target: OutboundTarget::default() }
    }
}

/// One connection among those of an endpoint; given back on drop.
pub(super) struct Share {
    entry: Rc<DestinationRef>,
    address: SocketAddr,
}

impl Share {
    fn take(entry: &Rc<DestinationRef>, address: SocketAddr) -> Self {
        Self { entry: Rc::clone(entry), address }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.entry.balancer().lock().closed(self.address);
    }
}

/// Endpoints that one connection tries at most.
const MAX_ATTEMPTS: usize = 3;
/// Time that a connection waits for a renewed answer after its last endpoint was another one than
/// expected.
const RENEWAL: Duration = Duration::from_secs(1);

/// Finds a way to the destination.
///
/// # Errors
/// The reason for which there is none.
pub(super) async fn establish(
    worker: &Rc<Worker>,
    dialled: Dialled,
) -> Result<Established, Refused> {
    let settings = &worker.shared.config.outbound;
    if !settings.is_looked_up(dialled.address.ip()) {
        return straight(worker, dialled, PlaintextReason::External, None).await;
    }
    let entry = worker.shared.config.destinations.entry(dialled.address);
    let entry = Rc::new(entry.map_err(|_| Refused::from(Refusal::TooManyDestinations))?);
    let started = Instant::now();
    let mut search = Search {
        worker,
        dialled,
        entry: &entry,
        tried: Vec::new(),
        failure: None,
        has_waited: false,
    };
    loop {
        let known = entry.state();
        let step = plan(dialled.address.ip(), &known, search.waited(&known, started), settings);
        match step {
            Plan::Straight(reason) => {
                let established = straight(worker, dialled, reason, Some(&entry)).await?;
                if search.is_still_straight(started) {
                    return Ok(established);
                }
            }
            Plan::Wait(left) => {
                let changed = entry.wait_for(|now| !is_same(now, &known));
                // When the time is over, the plan says what follows.
                let _ = timeout(left, changed).await;
            }
            Plan::Refuse(reason) => return Err(search.refused(reason, &known)),
            Plan::Endpoint(candidates) => {
                if let Some(established) = search.attempt(&known, candidates).await? {
                    return Ok(established);
                }
            }
        }
    }
}

/// True if nothing was learnt between the two.
fn is_same(one: &Knowledge, other: &Knowledge) -> bool {
    match (one, other) {
        (
            Knowledge::Known { destination, is_fresh },
            Knowledge::Known { destination: other, is_fresh: was_fresh },
        ) => Arc::ptr_eq(destination, other) && is_fresh == was_fresh,
        (Knowledge::Unanswered, Knowledge::Unanswered)
        | (Knowledge::Refused { .. }, Knowledge::Refused { .. }) => true,
        (Knowledge::Known { .. } | Knowledge::Unanswered | Knowledge::Refused { .. }, _) => false,
    }
}

/// Connects to the address that the application dialled, in plaintext.
async fn straight(
    worker: &Rc<Worker>,
    dialled: Dialled,
    reason: PlaintextReason,
    entry: Option<&Rc<DestinationRef>>,
) -> Result<Established, Refused> {
    let target = OutboundTarget::default();
    match connect_straight(dialled.address, &worker.shared.config.outbound).await {
        Ok(Carried { io, proof }) => {
            let tls = OutboundTls::Plaintext(reason.as_str());
            let meter = worker.shared.store.telemetry().outbound(target, tls, worker.index);
            let share = entry.map(|entry| {
                entry.balancer().lock().opened(dialled.address);
                Share::take(entry, dialled.address)
            });
            Ok(Established { io, proof, meter, share })
        }
        Err(AttemptError::Connect(error)) => Err(not_connected(&error).into()),
        Err(AttemptError::Identity { .. } | AttemptError::NoIdentity(_)) => {
            Err(Refusal::Connect.into())
        }
    }
}

fn not_connected(error: &io::Error) -> Refusal {
    let has_no_port = error.kind() == io::ErrorKind::AddrNotAvailable;
    if has_no_port { Refusal::SourcePorts } else { Refusal::Connect }
}

/// The search for an endpoint.
struct Search<'a> {
    worker: &'a Rc<Worker>,
    dialled: Dialled,
    entry: &'a Rc<DestinationRef>,
    tried: Vec<Endpoint>,
    /// The reason of the failure that says most.
    failure: Option<Refusal>,
    /// True once a renewed answer was waited for.
    has_waited: bool,
}

impl Search<'_> {
    fn waited(&self, known: &Knowledge, started: Instant) -> Waited {
        let now = Instant::now();
        let nobody = match known {
            Knowledge::Known { destination, is_fresh: true } => {
                matches!(**destination, Destination::Unknown)
            }
            Knowledge::Known { .. } | Knowledge::Unanswered | Knowledge::Refused { .. } => false,
        };
        let mut balancer = self.entry.balancer().lock();
        let since_unknown = if nobody {
            now.saturating_duration_since(balancer.unknown_since(now))
        } else {
            balancer.is_known();
            Duration::ZERO
        };
        Waited { since_start: now.saturating_duration_since(started), since_unknown }
    }

    /// True if nobody has become known meanwhile to hold the address. Who holds it now may have
    /// accepted the connection.
    fn is_still_straight(&self, started: Instant) -> bool {
        let (known, address) = (self.entry.state(), self.dialled.address.ip());
        let waited = self.waited(&known, started);
        match plan(address, &known, waited, &self.worker.shared.config.outbound) {
            Plan::Straight(_) => true,
            Plan::Endpoint(_) | Plan::Wait(_) | Plan::Refuse(_) => false,
        }
    }

    /// True if an endpoint that was connected to in plaintext is in the mesh by now, or is no endpoint
    /// any more: another pod may hold its address.
    fn has_joined(&self, endpoint: &Endpoint, carrier: &Carrier, known: &Knowledge) -> bool {
        let now = self.entry.state();
        let (Carrier::Plaintext { .. }, false) = (carrier, is_same(&now, known)) else {
            return false;
        };
        let Knowledge::Known { destination, .. } = &now else { return false };
        let endpoints = destination.endpoints();
        let place = endpoints.binary_search_by(|own| own.address.cmp(&endpoint.address)).ok();
        place.and_then(|place| endpoints.get(place)).is_none_or(is_meshed)
    }

    /// Tries the next endpoint. `None`: it failed, or is another one meanwhile; there may be another.
    async fn attempt(
        &mut self,
        known: &Knowledge,
        candidates: Candidates,
    ) -> Result<Option<Established>, Refused> {
        let chosen = match known {
            Knowledge::Known { destination, .. } if self.tried.len() < MAX_ATTEMPTS => {
                self.choose(destination, candidates).map(|chosen| (chosen, destination))
            }
            Knowledge::Known { .. } | Knowledge::Unanswered | Knowledge::Refused { .. } => None,
        };
        let Some(((endpoint, carrier), destination)) = chosen else {
            return self.none_left(known).await.map(|()| None);
        };
        let share = Share::take(self.entry, endpoint.address);
        let target = target(destination, Some(&endpoint));
        match self.connect(&carrier).await {
            Ok(_) if self.has_joined(&endpoint, &carrier, known) => Ok(None),
            Ok(Carried { io, proof }) => {
                self.entry.balancer().lock().succeeded(endpoint.address);
                let telemetry = self.worker.shared.store.telemetry();
                let meter = telemetry.outbound(target, tls(&endpoint), self.worker.index);
                Ok(Some(Established { io, proof, meter, share: Some(share) }))
            }
            Err(AttemptError::NoIdentity(_)) => {
                Err(Refused { reason: Refusal::NoIdentity, target })
            }
            Err(error) => {
                self.failed(endpoint, target, error);
                Ok(None)
            }
        }
    }

    /// Chooses an endpoint and counts a connection to it.
    fn choose(
        &self,
        destination: &Destination,
        candidates: Candidates,
    ) -> Option<(Endpoint, Carrier)> {
        let affinity = match destination {
            Destination::Service(service) => service.affinity,
            Destination::Unknown
            | Destination::Node
            | Destination::UndeclaredPort(_)
            | Destination::Workload(_) => None,
        };
        let settings = &self.worker.shared.config.outbound;
        let is_own = |ip| self.worker.is_own_address(ip, self.dialled);
        let choice = Choice {
            endpoints: destination.endpoints(),
            usable: |endpoint: &Endpoint| {
                candidates.admit(endpoint) && Carrier::exists(endpoint, is_own)
            },
            tried: &self.tried,
            affinity,
        };
        let mut balancer = self.entry.balancer().lock();
        let index = balancer.choose(&choice, Instant::now())?;
        let endpoint = choice.endpoints.get(index)?;
        let carrier = Carrier::to(endpoint, settings, is_own)?;
        balancer.opened(endpoint.address);
        Some((endpoint.clone(), carrier))
    }

    async fn connect(&self, carrier: &Carrier) -> Result<Carried, AttemptError> {
        let shared = &self.worker.shared;
        match carrier {
            Carrier::Plaintext { .. } => {}
            // A pod's first connections may come before its certificate.
            Carrier::Mesh(_) => {
                let _ = timeout(shared.config.outbound.answer, shared.mesh_clients.ready()).await;
            }
        }
        connect(carrier, &shared.mesh_clients, &shared.config.outbound).await
    }

    /// Takes an endpoint out for a while, and asks who it is.
    fn failed(&mut self, endpoint: Endpoint, target: OutboundTarget, error: AttemptError) {
        self.entry.balancer().lock().failed(endpoint.address, Instant::now());
        self.entry.renew();
        let (reason, error, presented) = match error {
            AttemptError::Connect(error) => (not_connected(&error), error.to_string(), Vec::new()),
            AttemptError::Identity { error, presented } => (Refusal::Identity, error, presented),
            AttemptError::NoIdentity(error) => (Refusal::NoIdentity, error.to_string(), Vec::new()),
        };
        let log = &self.worker.shared.refusals;
        if let Some(suppressed) = log.admit(Subject::Endpoint, reason, Instant::now()) {
            let expected = match &endpoint.mesh {
                EndpointMesh::Meshed(mesh) => &*mesh.identity,
                EndpointMesh::Plaintext(_) => "",
            };
            let workload = &*self.worker.shared.config.workload;
            let destination = self.dialled.address;
            tracing::warn!(
                workload, %destination, endpoint = %endpoint.address, reason = reason.as_str(),
                error, expected, ?presented, suppressed, "an endpoint cannot be reached"
            );
        }
        self.worker.shared.store.telemetry().outbound_failed(target, reason.as_str());
        self.tried.push(endpoint);
        // A wrong identity says more than a port that nobody listens on.
        if self.failure != Some(Refusal::Identity) {
            self.failure = Some(reason);
        }
    }

    /// Waits for a renewed answer, if the last endpoint was not who it should be. An address that
    /// another pod has taken over is answered within a second.
    async fn none_left(&mut self, known: &Knowledge) -> Result<(), Refused> {
        let Some(reason) = self.failure else {
            return Err(self.refused(Refusal::NoEndpoint, known));
        };
        if reason == Refusal::Identity && !self.has_waited && self.tried.len() < MAX_ATTEMPTS {
            self.has_waited = true;
            let changed = self.entry.wait_for(|now| !is_same(now, known));
            if timeout(RENEWAL, changed).await.is_ok() {
                return Ok(());
            }
        }
        Err(self.refused(reason, known))
    }

    fn refused(&self, reason: Refusal, known: &Knowledge) -> Refused {
        let target = match known {
            Knowledge::Known { destination, .. } => target(destination, None),
            Knowledge::Unanswered | Knowledge::Refused { .. } => OutboundTarget::default(),
        };
        Refused { reason, target }
    }
}

/// A destination as metrics name it.
fn target(destination: &Destination, chosen: Option<&Endpoint>) -> OutboundTarget {
    let owner = chosen.map(|endpoint| Arc::clone(&endpoint.owner)).unwrap_or_default();
    match destination {
        Destination::Service(service) => OutboundTarget {
            namespace: Arc::clone(&service.service.namespace),
            service: Arc::clone(&service.service.name),
            port: Some(service.port),
            owner,
        },
        Destination::UndeclaredPort(service) => OutboundTarget {
            namespace: Arc::clone(&service.namespace),
            service: Arc::clone(&service.name),
            port: None,
            owner,
        },
        Destination::Workload(endpoint) => OutboundTarget {
            namespace: Arc::clone(&endpoint.namespace),
            service: Arc::default(),
            port: None,
            owner: Arc::clone(&endpoint.owner),
        },
        Destination::Unknown | Destination::Node => OutboundTarget::default(),
    }
}

fn tls(endpoint: &Endpoint) -> OutboundTls {
    match &endpoint.mesh {
        EndpointMesh::Meshed(mesh) => OutboundTls::Mesh(Arc::clone(&mesh.identity)),
        EndpointMesh::Plaintext(reason) => OutboundTls::Plaintext(reason.as_str()),
    }
}
