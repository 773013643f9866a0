//! A controller on a cluster, what it serves, and a gate between the two.

use bytes::Buf as _;
use http::uri::PathAndQuery;
use linkerd2_proxy_api::inbound::PortSpec;
use policy_controller::run::{Embedded, start_embedded};
use policy_core::{
    Connection, Decision, DefaultPolicy, Facts, Feature, Identity, RequestView, Revision,
    ServerPolicy, Tls, WorkloadKey, naive,
};
use policy_crds::Kind;
use policy_engine::ControllerConfig;
use policy_engine::config::Namespaces;
use policy_engine::source::{Health, WatchKey, WatchState};
use policy_kube::source::{KubernetesConfig, KubernetesSource, WatchMetrics};
use policy_proto::native;
use prometheus_client::registry::Registry;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};

/// Most that anything may take that is waited for here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The ports asked about: declared, claimed by number, and one that nobody mentions.
pub(crate) const PORTS: [u16; 3] = [8080, 9090, 7777];

/// The path of a gRPC call.
pub(crate) const CALL: &str = "/shop.Carts/Add";

/// A controller inside this process, with the cluster as its source.
pub(crate) struct Live {
    pub(crate) embedded: Embedded,
    health: watch::Receiver<Arc<Health>>,
    registry: Registry,
    channel: Channel,
}

impl Live {
    /// Starts one and waits until it has listed everything. What no Server owns is denied.
    pub(crate) async fn start(client: kube::Client) -> Self {
        Self::of(client, KubernetesConfig::default()).await
    }

    /// The same, of what `config` says.
    pub(crate) async fn of(client: kube::Client, config: KubernetesConfig) -> Self {
        let connecting = KubernetesSource::prepare(client, config);
        let health = connecting.health();
        let mut registry = Registry::default();
        WatchMetrics::register(&connecting.metrics(), &mut registry);
        let source = timeout(PATIENCE, connecting.connected()).await.expect("no API server");
        let config = ControllerConfig {
            default_policy: DefaultPolicy::Deny,
            namespaces: Namespaces::Required,
            ..ControllerConfig::default()
        };
        let embedded = start_embedded(config, source, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let mut synced = embedded.policies.synced();
        let listed = timeout(PATIENCE, synced.wait_for(|synced| *synced)).await;
        assert!(listed.is_ok(), "never listed: {:#?}", health.borrow().watches);
        let address = format!("http://{}", embedded.addr);
        let channel = Endpoint::from_shared(address).unwrap().connect_lazy();
        Self { embedded, health, registry, channel }
    }

    /// The policy of a port and the workload's facts; absent: no such workload.
    pub(crate) async fn port(
        &self,
        key: &WorkloadKey,
        port: u16,
    ) -> Option<(Arc<ServerPolicy>, Arc<Facts>)> {
        let port = NonZeroU16::new(port).unwrap();
        let state = self.embedded.policies.workload(key).await.ok()?.current();
        let policy = self.embedded.policies.port(key, port).await.ok()?.current().policy.clone();
        Some((policy, state.facts.clone()))
    }

    /// True if the port admits the client; a workload that is gone admits nobody.
    pub(crate) async fn permits(&self, key: &WorkloadKey, port: u16, asks: Question<'_>) -> bool {
        match self.port(key, port).await {
            Some((policy, facts)) => permits(&policy, &facts, &host_of(&key.namespace), asks),
            None => false,
        }
    }

    /// Waits until the port admits whoever asks, or no longer does.
    pub(crate) async fn until(&self, what: &str, key: &WorkloadKey, asks: Question<'_>, is: bool) {
        let deadline = Instant::now() + PATIENCE;
        while self.permits(key, 8080, asks).await != is {
            if Instant::now() > deadline {
                let policy = self.port(key, 8080).await;
                panic!("{what}: never {is}: {policy:?}\n{}", self.failing());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// The bytes that Linkerd's client is sent for a port.
    pub(crate) async fn get_port(&self, key: &WorkloadKey, port: u16) -> Option<Vec<u8>> {
        let workload = format!("{}:{}", key.namespace, key.name);
        let spec = PortSpec { workload, port: port.into() };
        let path = "/io.linkerd.proxy.inbound.InboundServerPolicies/GetPort";
        let ask = async {
            let mut client = tonic::client::Grpc::new(self.channel.clone());
            client.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
            client.unary(tonic::Request::new(spec), PathAndQuery::from_static(path), Raw).await
        };
        match timeout(PATIENCE, ask).await.expect("GetPort hangs") {
            Ok(bytes) => Some(bytes.into_inner()),
            Err(status) if status.code() == tonic::Code::NotFound => None,
            Err(status) => panic!("{key} {port}: {status}"),
        }
    }

    /// Everything there is, as it goes over the wire: per workload and port the message for
    /// Linkerd's proxies and ours.
    pub(crate) async fn dump(&self) -> Dump {
        let features = Feature::ALL.into_iter().collect();
        let mut dump = BTreeMap::new();
        for key in self.embedded.policies.workloads().await.unwrap() {
            for port in PORTS {
                let Some((policy, facts)) = self.port(&key, port).await else { continue };
                let mut bytes = native::encode_facts(&facts).encode_to_vec();
                let encoded = native::encode_port(&policy, &features);
                let number = NonZeroU16::new(port).unwrap();
                bytes.extend(encoded.full(number, &Revision::default()).encode_to_vec());
                let compatible = self.get_port(&key, port).await.unwrap_or_default();
                let words = format!("{facts:?} {policy:?}");
                dump.insert(format!("{key} {port}"), (compatible, bytes, words));
            }
        }
        dump
    }

    /// Waits until this serves to the byte what a controller serves that starts now.
    pub(crate) async fn converges(&self, client: kube::Client) {
        let fresh = Self::start(client).await;
        let expected = fresh.dump().await;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.dump().await;
            if found == expected {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "what is served and what a fresh start serves:\n{}\n{}",
                differences(&found, &expected),
                self.failing()
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// The watches that do not follow.
    fn failing(&self) -> String {
        let health = self.health.borrow();
        let failing = health.watches.iter().filter(|(_, watch)| !follows(&watch.state));
        failing.map(|(key, watch)| format!("{key}: {:?}\n", watch.state)).collect()
    }

    /// Waits until no watch fails.
    pub(crate) async fn until_healthy(&self) {
        let following =
            |health: &Arc<Health>| health.watches.values().all(|watch| follows(&watch.state));
        let mut health = self.health.clone();
        let healthy = timeout(PATIENCE, health.wait_for(following)).await.is_ok();
        assert!(healthy, "{}", self.failing());
    }

    /// Waits until the watch of a kind in the whole cluster is open.
    pub(crate) async fn until_following(&self, kind: Kind) {
        let key = WatchKey { kind, namespace: None };
        let is_open = |health: &Arc<Health>| health.watches[&key].state == WatchState::Following;
        let mut health = self.health.clone();
        let open = timeout(PATIENCE, health.wait_for(is_open)).await.is_ok();
        assert!(open, "{kind:?}: {}", self.failing());
    }

    /// The sum of the metrics whose line begins so.
    pub(crate) fn metric(&self, beginning: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Looks at a port for as long as this is kept, and remembers whether it ever admitted one of
    /// those that it must not.
    pub(crate) fn sample(&self, key: WorkloadKey, never: Vec<Question<'static>>) -> Sampler {
        let policies = self.embedded.policies.clone();
        let (stop, mut stopped) = watch::channel(());
        let task = tokio::spawn(async move {
            let port = NonZeroU16::new(8080).unwrap();
            let (mut samples, mut wider) = (0_usize, Vec::new());
            loop {
                if let (Ok(workload), Ok(policy)) =
                    (policies.workload(&key).await, policies.port(&key, port).await)
                {
                    let (facts, policy) = (workload.current(), policy.current());
                    let admitted =
                        |asks: &&Question<'_>| permits(&policy.policy, &facts.facts, "", **asks);
                    wider.extend(never.iter().filter(admitted).map(|asks| format!("{asks:?}")));
                    samples += 1;
                }
                let end = timeout(Duration::from_millis(1), stopped.changed()).await;
                if end.is_ok() {
                    return (samples, wider);
                }
            }
        });
        Sampler { stop, task }
    }
}

/// True if every watch follows.
fn follows(state: &WatchState) -> bool {
    matches!(state, WatchState::Following | WatchState::Absent)
}

/// Per workload and port the message for Linkerd's proxies and ours, in words.
type Dump = BTreeMap<String, (Vec<u8>, Vec<u8>, String)>;

/// Lines that only one of two dumps has.
fn differences(found: &Dump, expected: &Dump) -> String {
    let mut text = String::new();
    for key in found.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
        let (found, expected) = (found.get(key), expected.get(key));
        if found != expected {
            text.push_str(&format!("{key}:\n  {found:?}\n  {expected:?}\n"));
        }
    }
    text
}

/// Leaves a message as the bytes that came.
struct Raw;

impl Codec for Raw {
    type Encode = PortSpec;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = PortSpec;
    type Error = tonic::Status;

    fn encode(&mut self, item: PortSpec, buffer: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        item.encode(buffer).map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = tonic::Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, tonic::Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// Looks at a port.
pub(crate) struct Sampler {
    stop: watch::Sender<()>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Sampler {
    /// Ends it: nobody was ever admitted who must not be.
    pub(crate) async fn was_never_wider(self) {
        drop(self.stop);
        let (samples, wider) = self.task.await.unwrap();
        assert!(samples > 10, "{samples} samples");
        assert!(wider.is_empty(), "admitted meanwhile: {wider:?}");
    }
}

/// Address, identity, path.
pub(crate) type Question<'a> = (&'a str, Option<&'a str>, &'a str);

/// The host that workloads of a namespace are asked by.
pub(crate) fn host_of(namespace: &str) -> String {
    format!("{namespace}.example")
}

/// True if a policy admits the client, with a host or, if that is empty, without.
fn permits(policy: &ServerPolicy, facts: &Facts, host: &str, question: Question<'_>) -> bool {
    let (address, name, path) = question;
    let identity = name.map(|name| Identity::Dns(name.into()));
    let tls = identity.as_ref().map_or(Tls::Absent, |identity| Tls::Terminated(Some(identity)));
    let connection = Connection { client: address.parse().unwrap(), tls, facts };
    let headers = http::HeaderMap::new();
    // gRPC calls are POST.
    let method = if path == CALL { http::Method::POST } else { http::Method::GET };
    let host = Some(host).filter(|host| !host.is_empty());
    let view = RequestView { method: &method, host, path, query: None, headers: &headers };
    let decision = match policy.protocol.is_http() {
        true => naive::decide_request(policy, &connection, &view),
        false => naive::decide_connection(policy, &connection),
    };
    matches!(decision, Decision::Permit(_))
}

/// A way to the API server that can be closed: connections break and no new one is accepted, which
/// is what a controller sees of a network that is gone.
pub(crate) struct Gate {
    open: watch::Sender<bool>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Gate {
    /// To the server that the kubeconfig names, open.
    pub(crate) async fn to(kubeconfig: &Path) -> Self {
        let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
        let server = file.clusters[0].cluster.clone().unwrap().server.unwrap();
        let upstream: SocketAddr = server.strip_prefix("https://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, is_open) = watch::channel(true);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, upstream, is_open.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { open, address, task }
    }

    /// A client that comes this way as the administrator of `kubeconfig`.
    pub(crate) async fn client(&self, kubeconfig: &Path) -> kube::Client {
        let mut file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
        let cluster = file.clusters[0].cluster.as_mut().unwrap();
        cluster.server = Some(format!("https://{}", self.address));
        let options = kube::config::KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(Duration::from_secs(120));
        kube::Client::try_from(config).unwrap()
    }

    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, upstream: SocketAddr, mut open: watch::Receiver<bool>) {
    if !*open.borrow() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}
