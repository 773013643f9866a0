//! One pod behind a sidecar that follows a controller that follows a directory.

use crate::client::{Client, Kind};
use crate::tls::{Mesh as _, name};
use policy_cli::echo;
use policy_controller::directory::DirectorySource;
use policy_controller::run::{Embedded, start_embedded};
use policy_enforce::record::{Record, Recorder, Verdict};
use policy_enforce::{PolicyStore, PortHandle, StoreConfig, Telemetry};
use policy_engine::ControllerConfig;
use policy_proxy::discover;
use policy_proxy::discover::DiscoverConfig;
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use policy_testkit::Authority;
use policy_testkit::{soon, wait_within};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Nothing here may take longer, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// From the edit of a file to the first decision by it. The source waits for writers to finish, so
/// most of it is that wait; the rest is room for a machine that runs all tests at once.
pub(crate) const EDIT: Duration = Duration::from_secs(3);

/// From the moment a revocation decides new requests to the end of what was open.
pub(crate) const REVOKED: Duration = Duration::from_secs(1);

/// Ports of the pod.
pub(crate) const HTTP: u16 = 8080;
/// Speaks gRPC.
pub(crate) const GRPC: u16 = 8081;
/// Carries opaque bytes.
pub(crate) const RAW: u16 = 8082;

/// The pod and its Servers, in a namespace under default-deny. One policy grants everything to
/// whomever the authentication `clients` names.
pub(crate) const BASE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {config.linkerd.io/default-inbound-policy: deny}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  serviceAccountName: web
  containers:
  - name: web
    ports:
    - {name: http, containerPort: 8080}
    - {name: grpc, containerPort: 8081}
    - {name: raw, containerPort: 8082}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: http, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: unknown}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: grpc, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: grpc, proxyProtocol: gRPC}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: raw, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: raw, proxyProtocol: opaque}
";

/// Grants every Server of the namespace to the authentication `clients`.
pub(crate) const GRANT: &str = "\
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: clients, namespace: shop}
spec:
  targetRef: {kind: Namespace, name: shop}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: NetworkAuthentication, name: clients}
";

/// The authentication `clients`: these networks.
pub(crate) fn clients(networks: &[&str]) -> String {
    let lines: String = networks.iter().map(|cidr| format!("  - cidr: {cidr}\n")).collect();
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
         metadata: {{name: clients, namespace: shop}}\nspec:\n  networks:\n{lines}"
    )
}

/// Network of ordinary clients.
pub(crate) const HERE: &str = "127.0.0.1/32";

/// Decisions of the sidecars, newest last.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<String>>);

impl Recorder for Log {
    fn record(&self, record: &Record<'_>) {
        let verdict = match record.verdict {
            Verdict::Allowed => "allow".to_owned(),
            Verdict::Denied(reason) => format!("deny {}", reason.as_str()),
        };
        let client = record.client_id().unwrap_or("-");
        self.0.lock().unwrap().push(format!("{verdict} {client} {}", record.port));
    }
}

/// Everything between a directory and an application. Dropping it ends it.
pub(crate) struct World {
    /// Signs everybody's certificates.
    pub(crate) authority: Authority,
    /// Policies that the sidecar holds.
    pub(crate) store: PolicyStore,
    /// The application behind every port.
    pub(crate) application: echo::EchoServer,
    log: Arc<Log>,
    root: TempDir,
    controller: Option<Embedded>,
    listen: SocketAddr,
    ports: BTreeMap<u16, SocketAddr>,
    sidecar: Sidecar,
    _discovery: DropGuard,
}

/// Worlds of one process have controllers at addresses of their own, so that one that was stopped
/// comes back where it was.
static WORLDS: AtomicU8 = AtomicU8::new(1);

impl World {
    /// The usual manifests; clients from [`HERE`] may do everything.
    pub(crate) async fn start() -> Self {
        let files =
            [("base.yaml", BASE), ("grant.yaml", GRANT), ("clients.yaml", &clients(&[HERE]))];
        Self::with(&files).await
    }

    /// These files; returns once every port has its policy.
    pub(crate) async fn with(files: &[(&str, &str)]) -> Self {
        let mut world = Self::without_controller(files, Duration::from_secs(10)).await;
        world.start_controller().await;
        for port in [HTTP, GRPC, RAW] {
            world.port(port).ready(PATIENCE).await.expect("the policy arrives");
        }
        world
    }

    /// Everything but the controller; connections wait this long for their first policy.
    pub(crate) async fn without_controller(files: &[(&str, &str)], pending: Duration) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("manifests")).unwrap();
        let listen = Ipv4Addr::new(127, 12, 0, WORLDS.fetch_add(1, Ordering::Relaxed));
        // The port is free: no other world is at this address.
        let listen = SocketAddr::from((listen, 8090));
        let options = echo::EchoOptions { name: Some("web".into()), ..Default::default() };
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let application = echo::start(loopback, options).await.unwrap();
        let authority = Authority::new();
        let identity = IdentityHandle::new(authority.workload("web"));
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        let mut config =
            DiscoverConfig::new(ControllerAddress::loopback(listen).unwrap(), "shop:web");
        config.backoff = (Duration::from_millis(20), Duration::from_millis(200));
        let stop = CancellationToken::new();
        tokio::spawn(discover::run(config, store.clone(), identity.clone(), stop.clone()));
        let log = Arc::new(Log::default());
        let mut config = SidecarConfig::new("shop/web");
        config.timeouts.pending_policy = pending;
        config.timeouts.detect = Duration::from_secs(2);
        config.timeouts.request_head = Duration::from_secs(2);
        for port in [HTTP, GRPC, RAW] {
            let port = NonZeroU16::new(port).unwrap();
            let target = Target::Fixed { port, upstream: application.address() };
            config.listeners.push(Listener { address: loopback, target });
        }
        let recorder: Arc<dyn Recorder> = log.clone();
        let sidecar = Sidecar::start(config, store.clone(), identity, Some(recorder)).unwrap();
        let ports =
            [HTTP, GRPC, RAW].into_iter().zip(sidecar.addresses().iter().copied()).collect();
        let world = Self {
            authority,
            store,
            application,
            log,
            root,
            controller: None,
            listen,
            ports,
            sidecar,
            _discovery: stop.drop_guard(),
        };
        for (name, text) in files {
            world.write(name, text);
        }
        world
    }

    /// Starts a controller where the sidecar looks for it, and waits until it has read everything.
    pub(crate) async fn start_controller(&mut self) {
        let config = ControllerConfig::default();
        let source = DirectorySource::new(self.directory(), config.limits);
        let controller = start_embedded(config, source, self.listen).await.unwrap();
        let mut synced = controller.policies.synced();
        soon(synced.wait_for(|synced| *synced)).await.unwrap();
        self.controller = Some(controller);
    }

    /// Ends the controller at once, as a crash does.
    pub(crate) async fn kill_controller(&mut self) {
        drop(self.controller.take().expect("it runs"));
        let gone = async || TcpStream::connect(self.listen).await.is_err();
        wait_within("the controller is gone", PATIENCE, gone).await;
    }

    /// Lets the sidecar end once its connections have.
    pub(crate) fn drain(&self) {
        self.sidecar.drain();
    }

    /// Address on which the controller listens.
    pub(crate) fn listens(&self) -> SocketAddr {
        self.listen
    }

    /// The controller.
    pub(crate) fn controller(&self) -> &Embedded {
        self.controller.as_ref().expect("it runs")
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("manifests")
    }

    /// Adds or replaces a file whole, as editors do.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let next = self.root.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.directory().join(name)).unwrap();
    }

    /// Overwrites a file where it is, as a shell does.
    pub(crate) fn overwrite(&self, name: &str, text: &str) {
        std::fs::write(self.directory().join(name), text).unwrap();
    }

    /// Deletes a file.
    pub(crate) fn delete(&self, name: &str) {
        std::fs::remove_file(self.directory().join(name)).unwrap();
    }

    /// The policy of a port.
    pub(crate) fn port(&self, port: u16) -> PortHandle {
        self.store.port(NonZeroU16::new(port).unwrap())
    }

    /// A connection to a port of the pod.
    pub(crate) async fn connect(&self, port: u16) -> TcpStream {
        self.connect_from(Ipv4Addr::LOCALHOST, port).await
    }

    /// A connection from another place.
    pub(crate) async fn connect_from(&self, from: Ipv4Addr, port: u16) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let stream = soon(socket.connect(self.ports[&port])).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A client on one connection to the port that speaks its protocol.
    pub(crate) async fn client(&self, kind: Kind) -> Client {
        Client::new(self.connect(kind.port()).await, kind).await
    }

    /// Waits for a decision that was told with this line.
    pub(crate) async fn told(&self, line: &str) {
        let there = async || self.log.0.lock().unwrap().iter().any(|told| told == line);
        wait_within(line, PATIENCE, there).await;
    }

    /// The value of a counter in the sidecar's metrics; 0 if it is not there.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let text = self.store.telemetry().encode(&self.store.status()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }
}

/// The mesh identity of a ServiceAccount of the pod's namespace.
pub(crate) fn account(account: &str) -> String {
    name(account)
}
