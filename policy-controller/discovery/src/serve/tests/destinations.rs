//! `DestinationDiscovery.Watch`: what is answered, to whom, and within which bounds.

mod bounds;

use crate::serve::AuthzConfig;
use crate::testing::client::until;
use crate::testing::mesh::{CONTROLLER, Mesh, OWN, SUFFIX};
use crate::testing::{Harness, QUIET, port, soon};
use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, PlaintextReason, ServiceDestination, ServiceName,
};
use policy_core::{Facts, WorkloadKey};
use policy_engine::{ClientPlace, DestinationScope, PublishedDestination, ScopeKind};
use policy_proto::messages::destination_discovery_client::DestinationDiscoveryClient;
use policy_proto::messages::destination_request::Kind as Ask;
use policy_proto::messages::destination_response::Kind as Answer;
use policy_proto::messages::{
    Begin, DestinationRequest, DestinationResponse, Lookup, Refused, Release,
};
use policy_proto::native::destination::{DestinationState, encode_lookup};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

const WEB: &str = "10.96.0.1:80";

/// A client that follows one lookup at a time.
struct Client {
    requests: mpsc::Sender<DestinationRequest>,
    responses: Streaming<DestinationResponse>,
}

impl Client {
    async fn raw(channel: Channel, first: Vec<Ask>) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(64);
        for kind in first {
            requests.send(DestinationRequest { kind: Some(kind) }).await.unwrap();
        }
        let mut client = DestinationDiscoveryClient::new(channel);
        let responses = client.watch(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { requests, responses })
    }

    async fn open(harness: &Harness) -> Self {
        Self::raw(harness.channel().await, vec![begin("ns:web-0")]).await.unwrap()
    }

    async fn say(&self, kind: Ask) {
        self.requests.send(DestinationRequest { kind: Some(kind) }).await.unwrap();
    }

    async fn look_up(&self, id: u32, address: &str) {
        self.say(lookup(id, address)).await;
    }

    async fn next(&mut self) -> (u32, Answer) {
        let message = soon(self.responses.message()).await.unwrap().expect("a message");
        (message.id, message.kind.expect("a kind"))
    }

    /// The answer that the next messages, all of this lookup, make of the state.
    async fn answer(&mut self, id: u32, state: &mut DestinationState) -> Destination {
        loop {
            let (of, kind) = self.next().await;
            assert_eq!(of, id);
            let answer = match kind {
                Answer::Found(found) => state.found(&found),
                Answer::More(more) => state.more(&more),
                Answer::Changed(changed) => state.changed(&changed),
                Answer::Refused(_) | Answer::Released(_) => panic!("{kind:?}"),
            };
            if let Some(answer) = answer.unwrap() {
                return Destination::clone(&answer);
            }
        }
    }

    /// The first answer to a lookup.
    async fn first(&mut self, id: u32, address: &str) -> Destination {
        self.look_up(id, address).await;
        self.answer(id, &mut DestinationState::new()).await
    }

    async fn quiet(&mut self) {
        let silence = tokio::time::timeout(QUIET, self.responses.message()).await;
        assert!(silence.is_err(), "unexpected: {silence:?}");
    }

    /// The status that the stream ends with.
    async fn end(&mut self) -> Status {
        loop {
            match soon(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

fn begin(workload: &str) -> Ask {
    Ask::Begin(Begin { workload: workload.into(), client: "test".into() })
}

fn lookup(id: u32, address: &str) -> Ask {
    Ask::Lookup(encode_lookup(id, address.parse().unwrap()))
}

/// The code that a stream of these messages ends with.
async fn end_of(channel: Channel, messages: Vec<Ask>) -> Code {
    match Client::raw(channel, messages).await {
        Ok(mut client) => client.end().await.code(),
        Err(status) => status.code(),
    }
}

/// A Service with these endpoints.
fn service(endpoints: impl IntoIterator<Item = u32>) -> Destination {
    let endpoint = |number: u32| Endpoint {
        address: SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0a01_0000 + number).into(), 8080),
        owner: "deployment/web".into(),
        namespace: "ns".into(),
        mesh: EndpointMesh::Plaintext(PlaintextReason::Unmeshed),
    };
    Destination::Service(ServiceDestination {
        service: ServiceName { namespace: "ns".into(), name: "web".into() },
        port: port(80),
        affinity: None,
        endpoints: endpoints.into_iter().map(endpoint).collect(),
    })
}

async fn harness() -> Harness {
    let harness = Harness::start().await;
    harness.index.pod("web-0", &[]);
    harness
}

#[tokio::test]
async fn a_lookup_is_answered_at_once_and_whenever_the_answer_changes() {
    let harness = harness().await;
    harness.index.destinations.set(WEB, service([1, 2, 3, 4]));
    let mut client = Client::open(&harness).await;
    let mut state = DestinationState::new();
    client.look_up(7, WEB).await;
    assert_eq!(client.answer(7, &mut state).await, service([1, 2, 3, 4]));
    assert_eq!(client.first(8, "10.1.0.9:5432").await, Destination::Unknown);
    harness.index.destinations.set(WEB, service([1, 2, 3, 5]));
    let (id, change) = client.next().await;
    let Answer::Changed(change) = change else { panic!("not a change: {change:?}") };
    assert_eq!((id, change.removed.len()), (7, 1));
    assert_eq!(*state.changed(&change).unwrap().unwrap(), service([1, 2, 3, 5]));
    // Another allocation that says the same.
    harness.index.destinations.set(WEB, service([1, 2, 3, 5]));
    client.quiet().await;
    harness.index.destinations.set(WEB, Destination::Node);
    assert_eq!(client.answer(7, &mut state).await, Destination::Node);
}

#[tokio::test]
async fn what_is_released_is_not_followed_any_more() {
    let harness = harness().await;
    let destinations = harness.index.destinations.clone();
    let mut client = Client::open(&harness).await;
    client.first(7, WEB).await;
    assert_eq!(destinations.followers(WEB, DestinationScope::All), 1);
    client.say(Ask::Release(Release { id: 7 })).await;
    assert!(matches!(client.next().await, (7, Answer::Released(_))));
    assert_eq!(destinations.followers(WEB, DestinationScope::All), 0);
    destinations.set(WEB, service([1]));
    client.quiet().await;
    assert_eq!(client.first(7, WEB).await, service([1]), "the number may be used again");
    drop(client);
    until(|| destinations.followers(WEB, DestinationScope::All) == 0).await;
}

#[tokio::test]
async fn many_endpoints_come_in_portions() {
    let harness = harness().await;
    harness.index.destinations.set(WEB, service(0..1_201));
    let mut client = Client::open(&harness).await;
    client.look_up(1, WEB).await;
    let mut sizes = Vec::new();
    let mut state = DestinationState::new();
    for _ in 0..3 {
        let (endpoints, applied) = match client.next().await.1 {
            Answer::Found(found) => (found.endpoints.clone(), state.found(&found)),
            Answer::More(more) => (Some(more.clone()), state.more(&more)),
            other @ (Answer::Changed(_) | Answer::Refused(_) | Answer::Released(_)) => {
                panic!("{other:?}")
            }
        };
        sizes.push(endpoints.unwrap().endpoints.len());
        applied.unwrap();
    }
    assert_eq!(sizes, [500, 500, 201]);
    assert_eq!(state.complete().map(|known| Destination::clone(known)), Some(service(0..1_201)));
}

#[tokio::test]
async fn clients_of_one_answer_share_its_encoding_and_its_changes() {
    let harness = harness().await;
    harness.index.destinations.set(WEB, service([1, 2, 3, 4]));
    let mut clients = [Client::open(&harness).await, Client::open(&harness).await];
    let mut states = [DestinationState::new(), DestinationState::new()];
    for (client, state) in clients.iter_mut().zip(&mut states) {
        client.look_up(1, WEB).await;
        client.answer(1, state).await;
    }
    assert_eq!(harness.metrics.encodings(), (1, 1));
    harness.index.destinations.set(WEB, service([1, 2, 3, 5]));
    for (client, state) in clients.iter_mut().zip(&mut states) {
        assert_eq!(client.answer(1, state).await, service([1, 2, 3, 5]));
    }
    assert_eq!(harness.metrics.encodings(), (2, 2));
}

#[tokio::test]
async fn a_client_that_does_not_read_skips_answers() {
    let harness = harness().await;
    let mut client = Client::open(&harness).await;
    let mut state = DestinationState::new();
    client.look_up(1, WEB).await;
    client.answer(1, &mut state).await;
    // The server does not run in between.
    for last in 1..200 {
        harness.index.destinations.set(WEB, service([last]));
    }
    assert_eq!(client.answer(1, &mut state).await, service([199]));
    client.quiet().await;
}

#[tokio::test]
async fn the_answer_is_that_for_the_clients_place() {
    let harness = harness().await;
    let (index, pod) = (&harness.index.destinations, WorkloadKey::pod("ns", "web-0"));
    let say = |scope: DestinationScope, needs, number| {
        index.publish(
            WEB,
            scope,
            PublishedDestination { destination: service([number]), needs, is_pending: false },
        );
    };
    let zone = |name: &str| DestinationScope::Zone(name.into());
    let node = |name: &str| DestinationScope::Node(name.into());
    say(DestinationScope::All, ScopeKind::Zone, 0);
    say(zone("a"), ScopeKind::Zone, 1);
    say(zone("b"), ScopeKind::Zone, 2);
    let place = |node: &str, zone: &str| ClientPlace {
        node: Some(node.into()),
        zone: Some(zone.into()).filter(|zone: &Arc<str>| !zone.is_empty()),
    };
    index.put(&pod, place("one", "a"));
    let mut client = Client::open(&harness).await;
    let mut state = DestinationState::new();
    client.look_up(1, WEB).await;
    assert_eq!(client.answer(1, &mut state).await, service([1]));
    assert_eq!(index.followers(WEB, DestinationScope::All), 0, "it moved");
    // The Service asks for the node instead.
    say(node("one"), ScopeKind::Node, 3);
    say(zone("a"), ScopeKind::Node, 1);
    assert_eq!(client.answer(1, &mut state).await, service([3]));
    // And for nothing.
    say(DestinationScope::All, ScopeKind::All, 4);
    say(node("one"), ScopeKind::All, 3);
    assert_eq!(client.answer(1, &mut state).await, service([4]));
    // And for the zone again, while the pod turns out to be elsewhere.
    index.put(&pod, place("two", "b"));
    let facts = Facts { node_local: vec!["10.0.0.9/32".parse().unwrap()], ..Facts::default() };
    harness.index.change(&pod, |state| state.facts = Arc::new(facts));
    say(DestinationScope::All, ScopeKind::Zone, 0);
    loop {
        // By its first place, if the stream hears of the Service before it hears of the pod.
        let answer = client.answer(1, &mut state).await;
        if answer == service([2]) {
            break;
        }
        assert_eq!(answer, service([1]));
    }
    // Who has no zone goes by the answer for all.
    index.put(&pod, place("three", ""));
    let mut client = Client::open(&harness).await;
    assert_eq!(client.first(1, WEB).await, service([0]));
}

#[tokio::test]
async fn shutdown_ends_the_stream_with_ok() {
    let harness = harness().await;
    let mut client = Client::open(&harness).await;
    client.first(1, WEB).await;
    harness.shutdown.cancel();
    assert_eq!(client.end().await.code(), Code::Ok);
    soon(harness.served).await.unwrap();
}

#[tokio::test]
async fn messages_that_break_the_protocol_end_the_stream() {
    let harness = harness().await;
    let good = encode_lookup(1, WEB.parse().unwrap());
    let wrong: [Vec<Ask>; 8] = [
        vec![lookup(1, WEB)],
        vec![begin("{")],
        vec![begin("ns:web-0"), begin("ns:web-0")],
        vec![begin("ns:web-0"), lookup(1, WEB), lookup(1, "10.1.0.1:80")],
        vec![begin("ns:web-0"), Ask::Lookup(Lookup { id: 0, ..good.clone() })],
        vec![begin("ns:web-0"), Ask::Lookup(Lookup { port: 0, ..good.clone() })],
        vec![begin("ns:web-0"), Ask::Lookup(Lookup { port: 65_536, ..good.clone() })],
        vec![begin("ns:web-0"), Ask::Lookup(Lookup { address: vec![1, 2, 3], ..good })],
    ];
    for messages in wrong {
        let shown = format!("{messages:?}");
        assert_eq!(
            end_of(harness.channel().await, messages).await,
            Code::InvalidArgument,
            "{shown}"
        );
    }
    assert_eq!(end_of(harness.channel().await, vec![begin("ns:none")]).await, Code::NotFound);
}

#[tokio::test]
async fn only_a_workload_of_the_mesh_asks_and_only_for_itself() {
    let viewer = format!("viewer.ops.{SUFFIX}");
    let viewers = [viewer.as_str().into()].into();
    let mesh = Mesh::start(AuthzConfig { viewers, ..AuthzConfig::default() }).await;
    let mut client = Client::raw(mesh.channel(OWN).await, vec![begin("ns:web-0")]).await.unwrap();
    assert_eq!(client.first(1, WEB).await, Destination::Unknown);
    let other = format!("other.ns.{SUFFIX}");
    let ask = |channel| end_of(channel, vec![begin("ns:web-0"), lookup(1, WEB)]);
    for name in [other.as_str(), viewer.as_str(), CONTROLLER] {
        assert_eq!(ask(mesh.channel(name).await).await, Code::PermissionDenied, "{name}");
    }
    let stranger = mesh.connect(mesh.authority.stranger()).await.unwrap();
    assert_eq!(ask(stranger).await, Code::Unauthenticated);
    // A workload that becomes another's ends its streams.
    mesh.index.change(&WorkloadKey::pod("ns", "web-0"), |state| {
        state.identity = format!("other.ns.{SUFFIX}").as_str().into();
    });
    assert_eq!(client.end().await.code(), Code::PermissionDenied);
}

/// A client that got an answer would go on in plaintext, though the pod may be in the mesh.
#[tokio::test]
async fn what_is_not_known_yet_is_not_answered_and_then_it_is() {
    let harness = harness().await;
    let index = &harness.index.destinations;
    let publish = |destination: Destination, is_pending: bool| {
        let published = PublishedDestination { destination, needs: ScopeKind::All, is_pending };
        index.publish(WEB, DestinationScope::All, published);
    };
    publish(Destination::Unknown, true);
    let mut client = Client::open(&harness).await;
    client.look_up(1, WEB).await;
    let early = tokio::time::timeout(QUIET, client.next()).await;
    assert!(early.is_err(), "{early:?}");
    publish(service([1]), false);
    let mut state = DestinationState::new();
    assert_eq!(client.answer(1, &mut state).await, service([1]));
    // What was answered stays, and others are answered meanwhile.
    publish(Destination::Unknown, true);
    assert_eq!(client.first(2, "10.1.0.3:80").await, Destination::Unknown);
    publish(Destination::Unknown, false);
    assert_eq!(client.answer(1, &mut state).await, Destination::Unknown);
}

/// A pod may have the address by now, which would get bytes in plaintext.
#[tokio::test]
async fn that_nobody_has_an_address_is_taken_back_where_a_pod_may_have_it() {
    let harness = harness().await;
    let index = &harness.index.destinations;
    let publish = |is_pending: bool| {
        let (destination, needs) = (Destination::Unknown, ScopeKind::All);
        let published = PublishedDestination { destination, needs, is_pending };
        index.publish(WEB, DestinationScope::All, published);
    };
    publish(false);
    let mut client = Client::open(&harness).await;
    assert_eq!(client.first(1, WEB).await, Destination::Unknown);
    publish(true);
    let reason = "a pod has the address that is not known yet".to_owned();
    assert_eq!(client.next().await, (1, Answer::Refused(Refused { reason })));
    client.look_up(1, WEB).await;
    client.quiet().await;
}
