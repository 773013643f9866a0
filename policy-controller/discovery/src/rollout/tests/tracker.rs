//! RolloutTracker over real connections between replicas.

use super::*;
use crate::peers::{Replica, Replicas};
use crate::rollout::{RolloutConfig, RolloutTracker, start};
use crate::serve::{AckRegistry, AppliedPort};
use crate::testing::{Harness, policy};
use policy_engine::handles::DesiredHandle;
use policy_engine::programmed::Programmed;
use policy_engine::publish::SourceProgress;
use policy_engine::report::Tally;
use policy_engine::source::{Batch, Change};
use policy_engine::{Controller, ControllerConfig, testing};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Most that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than a replica is silent between heartbeats.
const TIMEOUT: Duration = Duration::from_secs(4);

/// An index with the pods `a` and `b`, whose port 80 a Server owns.
struct Index {
    batches: mpsc::Sender<Batch>,
    controller: Controller,
    /// Moves with every batch.
    seen: watch::Receiver<Arc<SourceProgress>>,
}

const SERVER: &str = "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
      metadata: {name: web, namespace: ns, generation: 1, uid: one}, \
      spec: {podSelector: {}, port: 80, proxyProtocol: HTTP/1}}";

fn running(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns, \
          labels: {{portcullis.dev/proxy: injected}}}}, \
          spec: {{containers: [{{name: c, ports: [{{containerPort: 80}}]}}]}}, \
          status: {{phase: Running}}}}"
    )
}

impl Index {
    fn start() -> (Self, DesiredHandle) {
        let (batches, queue) = mpsc::channel::<Batch>(4);
        let mut controller =
            policy_engine::start(ControllerConfig::default(), testing::ChannelSource(queue));
        let demand = controller.desired.take().unwrap();
        let seen = controller.policies.seen();
        (Self { batches, controller, seen }, demand)
    }

    /// Applies objects; the hash of the policy from then on.
    async fn apply(&mut self, texts: &[&str]) -> u64 {
        let objects = texts.iter().map(|text| Change::Apply(testing::object(text)));
        let changes = objects.chain([Change::Synced]).collect();
        self.seen.mark_unchanged();
        self.batches
            .send(Batch { changes, versions: BTreeMap::new(), ..Batch::default() })
            .await
            .unwrap();
        tokio::time::timeout(PATIENCE, self.seen.changed()).await.unwrap().unwrap();
        let policy = self.controller.policies.port(&pod("a"), port(80)).await.unwrap();
        policy.current().revision.content
    }

    async fn filled() -> (Self, DesiredHandle, u64) {
        let (mut index, demand) = Self::start();
        let content = index.apply(&[&running("a"), &running("b"), SERVER]).await;
        (index, demand, content)
    }
}

/// A client of `replica` acknowledges what has this hash.
fn acknowledge(applied: &AckRegistry, name: &str, content: u64) {
    let record = AppliedPort { current: policy("web"), in_force: None, content, refused: None };
    applied.record(&pod(name), port(80), 1, record);
}

fn known(addresses: &[SocketAddr]) -> Arc<Replicas> {
    let replica = |address: &SocketAddr| Replica { address: *address, name: None };
    Arc::new(Replicas::Known(addresses.iter().map(replica).collect()))
}

fn counting(
    demand: DesiredHandle,
    applied: &AckRegistry,
    replicas: watch::Receiver<Arc<Replicas>>,
) -> RolloutTracker {
    let config = RolloutConfig {
        timeout: TIMEOUT,
        keep: Duration::from_secs(1),
        ..RolloutConfig::new("me")
    };
    start(config, demand, applied.clone(), replicas, None)
}

async fn until(counting: &RolloutTracker, expected: impl Fn(&Tally) -> bool) -> Tally {
    let mut tally = counting.tally();
    let found = tokio::time::timeout(PATIENCE, tally.wait_for(|tally| expected(tally))).await;
    match found {
        Ok(tally) => Tally::clone(&tally.unwrap()),
        Err(_) => panic!("it stayed {:?}", counting.tally().borrow()),
    }
}

async fn until_counted(counting: &RolloutTracker, expected: Count) {
    let server = object("web");
    until(counting, |tally| match tally {
        Tally::Counted(counts) => counts.get(&server) == Some(&expected),
        Tally::Unknown { .. } => false,
    })
    .await;
}

async fn until_unknown(counting: &RolloutTracker) -> String {
    let is_unknown = |tally: &Tally| match tally {
        Tally::Unknown { reason, .. } => &**reason == "ReplicaUnreachable",
        Tally::Counted(_) => false,
    };
    match until(counting, is_unknown).await {
        Tally::Unknown { message, .. } => message.to_string(),
        Tally::Counted(_) => unreachable!(),
    }
}

#[tokio::test]
async fn what_clients_of_other_replicas_acknowledged_counts() {
    let (mut index, demand, content) = Index::filled().await;
    let (own, other, third) =
        (AckRegistry::default(), Harness::start().await, Harness::start().await);
    acknowledge(&other.applied, "b", content);
    let (_replicas, receiver) = watch::channel(known(&[other.address, third.address]));
    let counting = counting(demand, &own, receiver);
    let _hold = counting.hold();
    until_counted(&counting, count(1, 2, 0)).await;
    acknowledge(&own, "a", content);
    until_counted(&counting, count(2, 2, 0)).await;

    // Another policy: nobody has it, until everybody acknowledges.
    let content = index.apply(&[&SERVER.replace("HTTP/1", "gRPC").replace("n: 1", "n: 2")]).await;
    until_counted(&counting, count(0, 2, 0)).await;
    let table = counting.table().borrow().clone();
    let key = testing::key(policy_crds::Kind::Server, "ns", "web");
    let at = &table[&key];
    assert_eq!((at.generation, at.uid.as_deref()), (Some(2), Some("one")));
    let expected = Programmed::counted(0, 2, 0);
    assert_eq!(at.programmed, expected);
    acknowledge(&third.applied, "a", content);
    acknowledge(&other.applied, "b", content);
    // Our own client of `a` still says the old one, and then goes.
    until_counted(&counting, count(1, 2, 0)).await;
    own.forget(&pod("a"), port(80), 1);
    until_counted(&counting, count(2, 2, 0)).await;
}

#[tokio::test]
async fn a_replica_that_goes_or_falls_silent_makes_it_unknown_and_is_named() {
    let (_index, demand, content) = Index::filled().await;
    let (own, other) = (AckRegistry::default(), Harness::start().await);
    acknowledge(&own, "a", content);
    acknowledge(&other.applied, "b", content);
    // Accepts connections and never says anything.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap();
    let (replicas, receiver) = watch::channel(known(&[other.address, silent_address]));
    let counting = counting(demand, &own, receiver);
    let _hold = counting.hold();
    let expected = format!("replica {silent_address} does not answer");
    assert_eq!(until_unknown(&counting).await, expected);

    // It is not a replica any more: all is known.
    replicas.send_replace(known(&[other.address]));
    until_counted(&counting, count(2, 2, 0)).await;

    // What the other said is kept until its silence has lasted.
    other.shutdown.cancel();
    let expected = format!("replica {} does not answer", other.address);
    assert_eq!(until_unknown(&counting).await, expected);
    replicas.send_replace(Arc::new(Replicas::Known(BTreeSet::new())));
    until_counted(&counting, count(1, 2, 0)).await;
}

#[tokio::test]
async fn while_it_is_not_known_which_replicas_there_are_nothing_is_said() {
    let (_index, demand, content) = Index::filled().await;
    let own = AckRegistry::default();
    acknowledge(&own, "a", content);
    let why = Replicas::Unknown("the endpoints cannot be listed".into());
    let (replicas, receiver) = watch::channel(Arc::new(why));
    let counting = counting(demand, &own, receiver);
    let _hold = counting.hold();
    let unknown = Tally::unknown("ReplicasUnknown", "the endpoints cannot be listed");
    until(&counting, |tally| *tally == unknown).await;
    replicas.send_replace(known(&[]));
    until_counted(&counting, count(1, 2, 0)).await;
}

#[tokio::test]
async fn nothing_is_counted_while_nobody_wants_to_know() {
    let (_index, demand, content) = Index::filled().await;
    let (own, other) = (AckRegistry::default(), Harness::start().await);
    acknowledge(&own, "a", content);
    let (_replicas, receiver) = watch::channel(known(&[other.address]));
    let counting = counting(demand, &own, receiver);
    let (leads, leading) = watch::channel(false);
    tokio::spawn(counting.clone().while_leading(leading));
    let not_counted =
        Tally::unknown("NotCounted", "this replica has not counted yet; try again in a moment");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(**counting.tally().borrow(), not_counted);
    leads.send_replace(true);
    until_counted(&counting, count(1, 2, 0)).await;
    leads.send_replace(false);
    until(&counting, |tally| *tally == not_counted).await;
    assert!(counting.table().borrow().is_empty());
    // A look counts for a while.
    let looked = counting.current(PATIENCE).await;
    let expected = BTreeMap::from([(object("web"), count(1, 2, 0))]);
    assert_eq!(*looked, Tally::Counted(expected));
}

#[tokio::test]
async fn before_objects_are_listed_it_is_unknown() {
    let (mut index, demand) = Index::start();
    let (_replicas, receiver) = watch::channel(known(&[]));
    let counting = counting(demand, &AckRegistry::default(), receiver);
    let _hold = counting.hold();
    let unknown = Tally::unknown("NotListed", "objects have not been listed completely");
    until(&counting, |tally| *tally == unknown).await;
    index.apply(&[&running("a"), SERVER]).await;
    until_counted(&counting, count(0, 1, 0)).await;
}

#[tokio::test]
async fn a_replica_with_many_clients_is_heard_out_before_it_counts_as_silent() {
    let (_index, demand, content) = Index::filled().await;
    let (own, other) = (AckRegistry::default(), Harness::start().await);
    let current = policy("web");
    for n in 0..40_000 {
        let current = current.clone();
        let record = AppliedPort { current, in_force: None, content, refused: None };
        other.applied.record(&pod(&format!("web-{n}")), port(80), 1, record);
    }
    acknowledge(&other.applied, "b", content);
    let (_replicas, receiver) = watch::channel(known(&[other.address]));
    let counting = counting(demand, &own, receiver);
    let _hold = counting.hold();
    let not_counted =
        Tally::unknown("NotCounted", "this replica has not counted yet; try again in a moment");
    let first = until(&counting, |tally| *tally != not_counted).await;
    assert_eq!(first, Tally::Counted(BTreeMap::from([(object("web"), count(1, 2, 0))])));
}
