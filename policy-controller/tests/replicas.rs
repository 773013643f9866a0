//! Three controllers on one directory, each with clients of its own, and one that adds up what is in
//! force at all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

use policy_controller::directory::DirectorySource;
use policy_core::ObjectRef;
use policy_core::feature::Feature;
use policy_discovery::peers::{Replica, Replicas};
use policy_discovery::rollout;
use policy_discovery::rollout::{ClusterOverview, RolloutConfig, RolloutTracker};
use policy_discovery::serve::{ReportConfig, ServeConfig, Server};
use policy_engine::report::{Count, Tally};
use policy_engine::{Controller, ControllerConfig};
use policy_proto::compat::EncodeOptions;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{Ack, Hello, Nack, ObjectsRequest, WatchRequest};
use policy_proto::native::encode_features;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Endpoint;

/// Most that anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

const TIMEOUT: Duration = Duration::from_secs(5);

/// One replica.
struct Member {
    _controller: Controller,
    counting: RolloutTracker,
    replicas: watch::Sender<Arc<Replicas>>,
    address: SocketAddr,
    stop: Option<DropGuard>,
}

impl Member {
    async fn start(directory: &Path, name: &str) -> Self {
        let config = ControllerConfig::default();
        let source = DirectorySource::new(directory, config.limits);
        let mut controller = policy_engine::start(config, source);
        let options = EncodeOptions::default();
        let server = Server::new(controller.policies.clone(), ServeConfig::default(), options);
        let (replicas, receiver) = watch::channel(Arc::new(Replicas::Unknown("not yet".into())));
        let counting = rollout::start(
            RolloutConfig {
                timeout: TIMEOUT,
                keep: Duration::from_secs(1),
                ..RolloutConfig::new(name)
            },
            controller.desired.take().unwrap(),
            server.applied(),
            receiver,
            None,
        );
        let conditions = controller.conditions.clone();
        let overview = ClusterOverview::new(conditions, Some(counting.clone()), Vec::new);
        let report = ReportConfig { replica: name.into(), overviews: Some(Arc::new(overview)) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.with_report(report).serve(listener, stop.clone()));
        let mut synced = controller.policies.synced();
        synced.wait_for(|synced| *synced).await.unwrap();
        let stop = Some(stop.drop_guard());
        Self { _controller: controller, counting, replicas, address, stop }
    }

    fn knows(&self, others: &[&Member]) {
        let replica = |other: &&Member| Replica { address: other.address, name: None };
        let known = others.iter().map(replica).collect();
        self.replicas.send_replace(Arc::new(Replicas::Known(known)));
    }

    async fn until(&self, expected: Count) {
        let mut tally = self.counting.tally();
        let server = ObjectRef::new("policy.linkerd.io", "Server", "shop", "web");
        let found = tally.wait_for(|tally| match &**tally {
            Tally::Counted(counts) => counts.get(&server) == Some(&expected),
            Tally::Unknown { .. } => false,
        });
        let found = tokio::time::timeout(PATIENCE, found).await.is_ok();
        assert!(found, "it stayed {:?}", self.counting.tally().borrow());
    }
}

fn count(in_force: u64, concerned: u64, refused: u64) -> Count {
    Count { in_force, concerned, refused }
}

/// Behaviour of a client on updates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Acknowledges,
    Ignores,
    Refuses,
}

/// A proxy of a pod, as far as a controller sees it.
struct Proxy {
    manner: watch::Sender<Manner>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    fn of(pod: &str, controller: SocketAddr) -> Self {
        let (manner, receiver) = watch::channel(Manner::Acknowledges);
        let task = tokio::spawn(run(format!("shop:{pod}"), controller, receiver));
        Self { manner, _task: AbortOnDropHandle::new(task) }
    }

    fn now(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }
}

async fn run(workload: String, controller: SocketAddr, mut manner: watch::Receiver<Manner>) {
    let address = format!("http://{controller}");
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut client = PolicyDiscoveryClient::new(channel);
    let features = encode_features(&Feature::ALL.into_iter().collect());
    let hello = Hello { workload, features, ..Hello::default() };
    let (requests, receiver) = mpsc::channel(16);
    let send = async |kind| requests.send(WatchRequest { kind: Some(kind) }).await.is_ok();
    send(Kind::Hello(hello)).await;
    let mut stream = client.watch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut waiting = std::collections::BTreeMap::new();
    loop {
        tokio::select! {
            response = stream.message() => {
                let Ok(Some(response)) = response else { return };
                if let Some(Answer::Port(update)) = response.kind {
                    waiting.insert(update.port, update.revision);
                }
            }
            changed = manner.changed() => if changed.is_err() { return },
        }
        let how = *manner.borrow();
        if how == Manner::Ignores {
            continue;
        }
        for (port, revision) in std::mem::take(&mut waiting) {
            let answer = if how == Manner::Refuses {
                Kind::Nack(Nack { port, revision, reason: "no".into(), ..Nack::default() })
            } else {
                Kind::Ack(Ack { port, revision })
            };
            send(answer).await;
        }
    }
}

fn write(directory: &Path, protocol: &str) {
    let pods: String = (0..4)
        .map(|n| {
            format!(
                "apiVersion: v1\nkind: Pod\n\
                 metadata: {{name: web-{n}, namespace: shop, labels: {{app: web, portcullis.dev/proxy: injected}}}}\n\
                 spec: {{containers: [{{name: app, ports: [{{containerPort: 8080}}]}}]}}\n\
                 status: {{phase: Running}}\n---\n"
            )
        })
        .collect();
    let server = format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: web, namespace: shop}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: 8080, proxyProtocol: {protocol}}}\n"
    );
    // As a whole: nobody sees half of it.
    let next = directory.join("next");
    std::fs::write(&next, pods + &server).unwrap();
    std::fs::rename(next, directory.join("all.yaml")).unwrap();
}

#[tokio::test]
async fn three_replicas_add_up_to_every_proxy_wherever_it_is_connected() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "HTTP/1");
    let start = |name| Member::start(directory.path(), name);
    let (first, mut second, third) = (start("one").await, start("two").await, start("three").await);
    first.knows(&[&second, &third]);
    third.knows(&[&first, &second]);
    let hold = first.counting.hold();
    first.until(count(0, 4, 0)).await;

    let proxies = [
        Proxy::of("web-0", first.address),
        Proxy::of("web-1", second.address),
        Proxy::of("web-2", third.address),
    ];
    first.until(count(3, 4, 0)).await;
    // The same pod at two replicas is one proxy.
    let again = Proxy::of("web-2", second.address);
    let last = Proxy::of("web-3", third.address);
    first.until(count(4, 4, 0)).await;
    drop(again);

    // One is partitioned, one refuses.
    proxies[1].now(Manner::Ignores);
    last.now(Manner::Refuses);
    write(directory.path(), "gRPC");
    first.until(count(2, 4, 1)).await;
    proxies[1].now(Manner::Acknowledges);
    first.until(count(3, 4, 1)).await;
    last.now(Manner::Acknowledges);
    write(directory.path(), "HTTP/2");
    first.until(count(4, 4, 0)).await;

    // The replica that counts goes: another counts the same.
    drop((hold, first));
    third.knows(&[&second]);
    let _hold = third.counting.hold();
    third.until(count(3, 4, 0)).await;
    let _moved = Proxy::of("web-0", third.address);
    third.until(count(4, 4, 0)).await;

    // Every replica reports the same objects, and names a replica that is missing.
    let objects = async || {
        let address = format!("http://{}", third.address);
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let mut client = PolicyReportClient::new(channel);
        client.objects(ObjectsRequest::default()).await.unwrap().into_inner()
    };
    let told = objects().await;
    let programmed =
        told.objects.iter().find(|o| o.kind == "Server").unwrap().programmed.clone().unwrap();
    assert_eq!((programmed.in_force, programmed.concerned, programmed.refused), (4, 4, 0));
    assert!(told.missing.is_empty(), "{:?}", told.missing);
    drop(second.stop.take());
    let mut tally = third.counting.tally();
    let unknown = tally.wait_for(|tally| matches!(&**tally, Tally::Unknown { .. }));
    _ = tokio::time::timeout(PATIENCE, unknown).await.unwrap().unwrap();
    let told = objects().await;
    let server = told.objects.iter().find(|o| o.kind == "Server").unwrap();
    assert_eq!(server.programmed, None);
    let reason = format!(
        "the rollout of objects is unknown: replica two ({}) does not answer",
        second.address
    );
    assert_eq!(told.missing, [reason]);
}
