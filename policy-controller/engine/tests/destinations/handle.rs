//! The handle of a running controller.

use crate::world::{
    meshed, node, object, of_pod, pod, port, published, question, service, slice, web, world_of,
};
use policy_core::{Destination, ServiceName, WorkloadKey};
use policy_engine::source::{Batch, Change};
use policy_engine::testing::ChannelSource;
use policy_engine::{
    ClientPlace, Controller, ControllerConfig, DestinationKey, DestinationScope, History,
    LookupError, PublishedDestination, ScopeKind, start,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

struct Stage {
    controller: Controller,
    batches: mpsc::Sender<Batch>,
}

impl Stage {
    fn new(config: ControllerConfig) -> Self {
        let (batches, receiver) = mpsc::channel(8);
        Self { controller: start(config, ChannelSource(receiver)), batches }
    }

    /// Sends a batch and waits until it has been published.
    async fn send(&self, objects: &[Value]) {
        let mut seen = self.controller.policies.seen();
        seen.mark_unchanged();
        let changes = objects.iter().map(|value| Change::Apply(Arc::new(object(value))));
        let changes = changes.chain([Change::Synced]).collect();
        self.batches.send(Batch { changes, ..Batch::default() }).await.unwrap();
        tokio::time::timeout(Duration::from_secs(60), seen.changed()).await.unwrap().unwrap();
    }
}

fn key(address: &str, number: u16) -> DestinationKey {
    let scope = DestinationScope::All;
    DestinationKey { address: address.parse().unwrap(), port: port(number), scope }
}

fn for_all(destination: Destination) -> PublishedDestination {
    PublishedDestination { destination, needs: ScopeKind::All, is_pending: false }
}

#[tokio::test]
async fn answers_follow_the_objects() {
    let stage = Stage::new(ControllerConfig::default());
    let destinations = &stage.controller.destinations;
    let early = destinations.watch(key("10.96.0.1", 80)).await.map(|_| ());
    assert_eq!(early, Err(LookupError::NotSynced));
    stage.send(&[service("web", "10.96.0.1"), pod("a", "10.42.0.1")]).await;
    // An application with sockets for both families dials mapped addresses.
    let mut mapped = destinations.watch(key("::ffff:10.96.0.1", 80)).await.unwrap();
    let name = ServiceName { namespace: "shop".into(), name: "web".into() };
    let mut named = destinations.service(&name, port(80), DestinationScope::All).await.unwrap();
    assert_eq!(*mapped.read(), for_all(web(&[])));
    stage.send(&[slice("web", "s", serde_json::json!([of_pod("10.42.0.1")]))]).await;
    for answer in [&mut mapped, &mut named] {
        assert!(answer.changed().await);
        assert_eq!(*answer.current(), for_all(web(&[meshed("10.42.0.1:8080")])));
    }
    stage.controller.shutdown();
    assert!(!mapped.changed().await);
    let stopped = destinations.watch(key("10.96.0.1", 80)).await.map(|_| ());
    assert_eq!(stopped, Err(LookupError::Stopped));
}

#[tokio::test]
async fn the_place_of_a_client_is_that_of_its_node() {
    let stage = Stage::new(ControllerConfig::default());
    let destinations = &stage.controller.destinations;
    let client = WorkloadKey::pod("shop", "a");
    assert_eq!(destinations.client(&client).await, None);
    stage.send(&[pod("a", "10.42.0.1")]).await;
    let on_node = ClientPlace { node: Some("n1".into()), zone: None };
    assert_eq!(destinations.client(&client).await, Some(on_node.clone()));
    stage.send(&[node("n1", "172.18.0.1", "east")]).await;
    let place = ClientPlace { zone: Some("east".into()), ..on_node };
    assert_eq!(destinations.client(&client).await, Some(place.clone()));
    assert_eq!(destinations.client(&WorkloadKey::pod("shop", "b")).await, None);
    assert_eq!(place.scope(ScopeKind::Zone), DestinationScope::Zone("east".into()));
    assert_eq!(place.scope(ScopeKind::Node), DestinationScope::Node("n1".into()));
    assert_eq!(place.scope(ScopeKind::All), DestinationScope::All);
    assert_eq!(ClientPlace::default().scope(ScopeKind::Zone), DestinationScope::All);
}

/// An address of a Service must not seem to be nobody's because Services are not watched.
#[test]
fn without_discovery_nothing_is_answered() {
    let off = ControllerConfig { outbound: None, ..ControllerConfig::default() };
    let mut history: History = world_of(&off, &[pod("a", "10.42.0.1")]);
    let asked = question("10.42.0.1:80", &DestinationScope::All);
    let refused = history.follow_destination(&asked).map(|_| ());
    assert_eq!(refused, Err(LookupError::OutboundOff));
    let mut history = world_of(&ControllerConfig::default(), &[pod("a", "10.42.0.1")]);
    let known = for_all(Destination::Workload(meshed("10.42.0.1:80")));
    assert_eq!(published(&mut history, &asked), known);
}
