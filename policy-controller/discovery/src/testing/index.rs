//! A stand-in for the index and a server over it, for the tests of this module.

use super::destinations::DestinationIndex;
use crate::serve::{AckRegistry, ServeConfig, ServeMetrics, Server};
use parking_lot::Mutex;
use policy_core::{
    Authorization, AuthorizationSet, DefaultPolicy, Facts, HostPattern, InformationalHeaders,
    ObjectRef, Origin, Owner, PathHandling, PathPattern, Protocol, RequestMatch, Requirement,
    Revision, Route, RouteKind, RouteTable, Rule, ServerPolicy, Source, UndeclaredPorts, Unmatched,
    UpstreamReuse, WorkloadKey,
};
use policy_engine::handles::Policies;
use policy_engine::latest;
use policy_engine::publish::{
    LookupError, PortPolicy, PublishedWorkload, SourceProgress, WorkloadState,
};
use policy_engine::request::{Request, Requests};
use policy_proto::compat::EncodeOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Most that anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Long enough for a message that must not come to have come.
pub const QUIET: Duration = Duration::from_millis(300);

/// A port.
pub fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// A policy owned by the Server `name` of the namespace `ns` that admits everybody.
pub fn policy(name: &str) -> Arc<ServerPolicy> {
    routed(name, &[])
}

/// A policy with one route per name, each with a grant of its own.
pub fn routed(name: &str, routes: &[&str]) -> Arc<ServerPolicy> {
    Arc::new(ServerPolicy {
        owner: Owner::Server(ObjectRef::new("policy.linkerd.io", "Server", "ns", name)),
        protocol: Protocol::Http1,
        deny: None,
        paths: PathHandling::Canonical,
        informational_headers: InformationalHeaders::Enabled,
        upstream_reuse: UpstreamReuse::Usual,
        authorizations: DefaultPolicy::AllUnauthenticated.authorizations(),
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: routes.iter().map(|name| route(name)).collect(),
            hosts: BTreeMap::new(),
            otherwise: if routes.is_empty() {
                Unmatched::DefaultRoute
            } else {
                Unmatched::NotFound
            },
        },
        rate_limit: None,
        effects: Vec::new(),
        withheld: Vec::new(),
    })
}

fn route(name: &str) -> Arc<Route> {
    let object = |kind| ObjectRef::new("policy.linkerd.io", kind, "ns", name);
    let grant = Authorization {
        source: Source::Object(object("AuthorizationPolicy")),
        requirement: Requirement::Nothing,
        audit: false,
    };
    let authorizations: AuthorizationSet = [Arc::new(grant)].into();
    let path = RequestMatch::path(PathPattern::prefix(&format!("/{name}")));
    Arc::new(Route {
        origin: Origin::Objects([object("HTTPRoute")].into()),
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: Vec::new().into(),
        rules: vec![Rule { matches: vec![path].into(), effects: Vec::new().into() }].into(),
        authorizations,
        inherits_server: true,
        withheld: Vec::new().into(),
    })
}

/// A policy whose host table needs the feature `host-tables`, which guards.
pub fn with_host_table(name: &str) -> Arc<ServerPolicy> {
    let mut policy = ServerPolicy::clone(&routed(name, &["a"]));
    let host = HostPattern::Exact("example.com".into());
    policy.routes.hosts.insert(host, Unmatched::NotFound);
    Arc::new(policy)
}

/// A revision of the test's epoch where Servers are at `version`.
pub fn revision(version: u64) -> Revision {
    Revision {
        epoch: "test".into(),
        content: 0,
        versions: [("policy.linkerd.io/Server".into(), version)].into(),
    }
}

type Ports = BTreeMap<NonZeroU16, latest::Sender<Arc<PortPolicy>>>;

fn published(state: WorkloadState, version: u64) -> Arc<PublishedWorkload> {
    let revision = Arc::new(revision(version));
    Arc::new(PublishedWorkload { state: Arc::new(state), revision })
}

struct Workload {
    state: latest::Sender<Arc<PublishedWorkload>>,
    ports: Ports,
}

/// The content of the index.
#[derive(Clone)]
pub struct Index {
    workloads: Arc<Mutex<BTreeMap<WorkloadKey, Workload>>>,
    synced: watch::Sender<bool>,
    seen: watch::Sender<Arc<SourceProgress>>,
    refresh: Arc<Notify>,
    before_port: Arc<Mutex<Option<Act>>>,
    /// The answers to lookups of destinations.
    pub destinations: DestinationIndex,
}

type Act = Box<dyn FnOnce(&Index) + Send>;

impl Index {
    /// An empty index that has been listed, and the handle that `serve` gets.
    pub fn start() -> (Self, Policies) {
        let (requests, mut inbox) = Requests::channel();
        let seen = SourceProgress { revision: revision(1), lists: 1 };
        let index = Self {
            workloads: Arc::default(),
            synced: watch::Sender::new(true),
            seen: watch::Sender::new(Arc::new(seen)),
            refresh: Arc::default(),
            before_port: Arc::default(),
            destinations: DestinationIndex::new(requests.clone()),
        };
        let (synced, seen) = (index.synced.subscribe(), index.seen.subscribe());
        let policies = Policies::new(requests, synced, seen, index.refresh.clone());
        let answering = index.clone();
        tokio::spawn(async move {
            while let Some(request) = inbox.recv().await {
                answering.answer(request);
            }
        });
        (index, policies)
    }

    /// Runs `act` when a port is looked up next, before the answer.
    pub fn before_next_port(&self, act: impl FnOnce(&Self) + Send + 'static) {
        *self.before_port.lock() = Some(Box::new(act));
    }

    fn answer(&self, request: Request) {
        if matches!(request, Request::Port(..))
            && let Some(act) = self.before_port.lock().take()
        {
            act(self);
        }
        let workloads = self.workloads.lock();
        let found = |key| workloads.get(key).ok_or(LookupError::NotFound);
        let synced = *self.synced.borrow();
        let ready = synced.then_some(()).ok_or(LookupError::NotSynced);
        match request {
            Request::Workload(key, reply) => {
                _ = reply.send(ready.and_then(|()| found(&key)).map(|w| w.state.subscribe()));
            }
            Request::Port(key, port, reply) => {
                let port = ready.and_then(|()| found(&key)).and_then(|workload| {
                    let port = workload.ports.get(&port).ok_or(LookupError::TooManyPorts)?;
                    Ok(port.subscribe())
                });
                _ = reply.send(port);
            }
            Request::Workloads(reply) => _ = reply.send(workloads.keys().cloned().collect()),
            Request::Destination(question, _, reply) => {
                _ = reply.send(ready.and_then(|()| self.destinations.follow(&question)));
            }
            Request::ClientPlace(key, reply) => _ = reply.send(self.destinations.place(&key)),
            // What `serve` never asks stays without an answer.
            Request::Conditions(_)
            | Request::DesiredConditions(_)
            | Request::Objects(..)
            | Request::Snapshot(_)
            | Request::DesiredDelta(_)
            | Request::StopDesired => {}
        }
    }

    /// Adds the pod `ns/name`, which declares these ports.
    pub fn pod(&self, name: &str, declared: &[u16]) -> WorkloadKey {
        let key = WorkloadKey::pod("ns", name);
        let facts = Facts { pod_addresses: vec![[10, 1, 2, 3].into()], ..Facts::default() };
        let state = WorkloadState {
            key: key.clone(),
            facts: Arc::new(facts),
            declared: declared.iter().map(|number| port(*number)).collect(),
            undeclared: UndeclaredPorts::Default,
            service_account: "default".into(),
            identity: "default.ns.serviceaccount.identity.linkerd.cluster.local".into(),
            owner: format!("pod/{name}").into(),
        };
        let state = latest::channel(published(state, 1));
        let workload = Workload { state, ports: Ports::new() };
        self.workloads.lock().insert(key.clone(), workload);
        key
    }

    /// Gives a port a policy; `version` is the one of Servers that it reflects.
    pub fn set(&self, key: &WorkloadKey, number: u16, policy: &Arc<ServerPolicy>, version: u64) {
        let (policy, published) = (policy.clone(), Instant::now());
        let value = Arc::new(PortPolicy { policy, revision: revision(version), published });
        let mut workloads = self.workloads.lock();
        let ports = &mut workloads.get_mut(key).unwrap().ports;
        match ports.get(&port(number)) {
            Some(sender) => sender.send(value),
            None => _ = ports.insert(port(number), latest::channel(value)),
        }
    }

    /// Sets a port's policy with this hash.
    pub fn set_content(
        &self,
        key: &WorkloadKey,
        number: u16,
        policy: &Arc<ServerPolicy>,
        content: u64,
    ) {
        self.set(key, number, policy, 1);
        let workloads = self.workloads.lock();
        workloads[key].ports[&port(number)].send_if_modified(|value| {
            let revision = Revision { content, ..value.revision.clone() };
            *value = Arc::new(PortPolicy { revision, ..PortPolicy::clone(value) });
            true
        });
    }

    /// Returns the number of watchers of a port.
    pub fn watchers(&self, key: &WorkloadKey, number: u16) -> usize {
        self.workloads.lock()[key].ports[&port(number)].receivers()
    }

    /// Adds an ExternalWorkload `ns/name` that states this identity.
    pub fn external(&self, name: &str, identity: &str, declared: &[u16]) -> WorkloadKey {
        let pod = self.pod(name, declared);
        let mut workload = self.workloads.lock().remove(&pod).unwrap();
        let key = WorkloadKey::external("ns", name);
        let mut state = WorkloadState::clone(&workload.state.current().state);
        (state.key, state.identity) = (key.clone(), identity.into());
        workload.state = latest::channel(published(state, 1));
        self.workloads.lock().insert(key.clone(), workload);
        key
    }

    /// Changes what is known of a workload.
    pub fn change(&self, key: &WorkloadKey, change: impl FnOnce(&mut WorkloadState)) {
        self.change_at(key, 1, change);
    }

    /// Changes a workload at `version` of Servers.
    pub fn change_at(
        &self,
        key: &WorkloadKey,
        version: u64,
        change: impl FnOnce(&mut WorkloadState),
    ) {
        let workloads = self.workloads.lock();
        let mut state = WorkloadState::clone(&workloads[key].state.current().state);
        change(&mut state);
        workloads[key].state.send(published(state, version));
    }

    /// Changes what ports a workload declares.
    pub fn declare(&self, key: &WorkloadKey, ports: &[u16]) {
        let ports: BTreeSet<_> = ports.iter().map(|number| port(*number)).collect();
        self.change(key, |state| state.declared = ports);
    }

    /// Removes a workload.
    pub fn delete(&self, key: &WorkloadKey) {
        self.workloads.lock().remove(key);
    }

    /// Sets whether objects have been listed.
    pub fn set_synced(&self, synced: bool) {
        self.synced.send_replace(synced);
    }

    /// Waits until a full list is requested.
    pub async fn refreshed(&self) {
        soon(self.refresh.notified()).await;
    }

    /// True if a refresh is requested within a moment.
    pub async fn is_asked(&self) -> bool {
        tokio::time::timeout(QUIET, self.refresh.notified()).await.is_ok()
    }

    /// Sets how far the source has been read.
    pub fn see(&self, version: u64, lists: u64) {
        self.seen.send_replace(Arc::new(SourceProgress { revision: revision(version), lists }));
    }
}

/// A server on loopback over an [`Index`].
pub struct Harness {
    /// The index that is served.
    pub index: Index,
    /// Its address.
    pub address: SocketAddr,
    /// Its metrics.
    pub metrics: ServeMetrics,
    /// The policies that clients have in force.
    pub applied: AckRegistry,
    /// Ends it.
    pub shutdown: CancellationToken,
    /// The server.
    pub served: JoinHandle<()>,
}

impl Harness {
    /// A server without special settings.
    pub async fn start() -> Self {
        Self::with(ServeConfig::default()).await
    }

    /// A server with these settings.
    pub async fn with(config: ServeConfig) -> Self {
        let (index, policies) = Index::start();
        let options = EncodeOptions::default();
        let server =
            Server::new(policies, config, options).with_destinations(index.destinations.handle());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let (metrics, applied) = (server.metrics(), server.applied());
        let served = tokio::spawn(server.serve(listener, shutdown.clone()));
        Self { index, address, metrics, applied, shutdown, served }
    }

    /// A connection of its own.
    pub async fn channel(&self) -> tonic::transport::Channel {
        let address = format!("http://{}", self.address);
        tonic::transport::Endpoint::from_shared(address).unwrap().connect().await.unwrap()
    }
}

/// Awaits `future` for at most [`PATIENCE`].
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it took too long")
}
