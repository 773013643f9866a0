//! Bounds of what clients can take.

use super::{Answer, Ask, Client, WEB, begin, end_of, harness, lookup, service};
use crate::serve::{AuthzConfig, ServeConfig};
use crate::testing::mesh::{Mesh, OWN, SUFFIX};
use crate::testing::{Harness, QUIET, soon};
use policy_core::WorkloadKey;
use policy_core::destination::Destination;
use policy_engine::{ClientPlace, DestinationScope, PublishedDestination, ScopeKind};
use policy_proto::messages::{DestinationRequest, Release};
use policy_proto::native::destination::DestinationState;
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn lookups_over_the_bound_are_refused_and_the_others_go_on() {
    let config = ServeConfig { max_lookups_per_stream: 2, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    harness.index.pod("web-0", &[]);
    let mut client = Client::open(&harness).await;
    client.first(1, "10.1.0.1:80").await;
    client.first(2, WEB).await;
    client.look_up(3, "10.1.0.3:80").await;
    let (id, refused) = client.next().await;
    let Answer::Refused(refused) = refused else { panic!("not refused: {refused:?}") };
    let reason = "2 lookups on this stream, the most allowed";
    assert_eq!((id, refused.reason.as_str()), (3, reason));
    harness.index.destinations.set(WEB, service([1]));
    assert_eq!(client.answer(2, &mut DestinationState::new()).await, service([1]));
    for id in [1, 3] {
        client.say(Ask::Release(Release { id })).await;
        assert!(matches!(client.next().await, (of, Answer::Released(_)) if of == id));
    }
    assert_eq!(client.first(3, "10.1.0.3:80").await, Destination::Unknown);
}

/// A client that opens stream after stream would otherwise have the controller keep what it asks for.
#[tokio::test]
async fn lookups_of_all_streams_of_a_client_are_bounded_together() {
    let config = ServeConfig { max_lookups_per_peer: 3, ..ServeConfig::default() };
    let mesh = Mesh::made(AuthzConfig::default(), config, |server, _| server).await;
    let own = mesh.channel(OWN).await;
    let open = || Client::raw(own.clone(), vec![begin("ns:web-0")]);
    let (mut one, mut other) = (open().await.unwrap(), open().await.unwrap());
    one.first(1, "10.1.0.1:80").await;
    one.first(2, "10.1.0.2:80").await;
    other.first(1, "10.1.0.1:80").await;
    other.look_up(2, WEB).await;
    let (id, refused) = other.next().await;
    let Answer::Refused(refused) = refused else { panic!("not refused: {refused:?}") };
    let reason = "3 lookups of this client, the most allowed";
    assert_eq!((id, refused.reason.as_str()), (2, reason));
    // Another identity has lookups of its own, at the same address.
    let second = format!("second.ns.{SUFFIX}");
    let pod = mesh.index.pod("second-0", &[]);
    mesh.index.change(&pod, |state| state.identity = second.as_str().into());
    let channel = mesh.channel(&second).await;
    let mut second = Client::raw(channel, vec![begin("ns:second-0")]).await.unwrap();
    for (id, address) in [(1, WEB), (2, "10.1.0.2:80"), (3, "10.1.0.3:80")] {
        assert_eq!(second.first(id, address).await, Destination::Unknown);
    }
    one.say(Ask::Release(Release { id: 1 })).await;
    assert!(matches!(one.next().await, (1, Answer::Released(_))));
    assert_eq!(other.first(3, WEB).await, Destination::Unknown);
}

#[tokio::test]
async fn a_client_that_asks_and_does_not_read_is_not_read_either() {
    const PAIRS: u32 = 20_000;
    let config = ServeConfig { max_lookups_per_stream: 8, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    harness.index.pod("web-0", &[]);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", harness.address))
        .unwrap()
        .initial_stream_window_size(16_384)
        .connect()
        .await
        .unwrap();
    let opened = Client::raw(channel, vec![begin("ns:web-0")]).await;
    let Client { requests, mut responses } = opened.unwrap();
    let (sent, mut progress) = tokio::sync::watch::channel(0);
    let asking = tokio::spawn(async move {
        for id in 1..=PAIRS {
            for kind in [lookup(id, WEB), Ask::Release(Release { id })] {
                requests.send(DestinationRequest { kind: Some(kind) }).await.unwrap();
            }
            sent.send_replace(id);
        }
        requests
    });
    while let Ok(Ok(())) = tokio::time::timeout(QUIET, progress.changed()).await {}
    assert!(*progress.borrow() < PAIRS, "everything was read");
    assert!(harness.index.destinations.followers(WEB, DestinationScope::All) <= 8);
    let mut other = Client::open(&harness).await;
    assert_eq!(other.first(1, "10.1.0.9:80").await, Destination::Unknown, "it is served");
    let mut released = 0;
    while released < PAIRS {
        let message = soon(responses.message()).await.unwrap().unwrap();
        released += u32::from(matches!(message.kind, Some(Answer::Released(_))));
    }
    drop(soon(asking).await.unwrap());
    assert_eq!(harness.index.destinations.followers(WEB, DestinationScope::All), 0);
}

#[tokio::test]
async fn each_stream_counts_against_its_client_and_another_one_is_served() {
    let config = ServeConfig { max_streams_per_peer: 1, ..ServeConfig::default() };
    let mesh = Mesh::made(AuthzConfig::default(), config, |server, _| server).await;
    let mut client = Client::raw(mesh.channel(OWN).await, vec![begin("ns:web-0")]).await.unwrap();
    client.first(1, WEB).await;
    for _ in 0..3 {
        let refused = end_of(mesh.channel(OWN).await, vec![begin("ns:web-0")]).await;
        assert_eq!(refused, Code::ResourceExhausted);
    }
    // Another identity has streams of its own, at the same address.
    let second = format!("second.ns.{SUFFIX}");
    let pod = mesh.index.pod("second-0", &[]);
    mesh.index.change(&pod, |state| state.identity = second.as_str().into());
    let channel = mesh.channel(&second).await;
    let mut second = Client::raw(channel, vec![begin("ns:second-0")]).await.unwrap();
    assert_eq!(second.first(1, WEB).await, Destination::Unknown);
    assert_eq!(client.first(2, "10.1.0.2:80").await, Destination::Unknown, "it goes on");
    drop(client);
    let again = async {
        while Client::raw(mesh.channel(OWN).await, vec![begin("ns:web-0")]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(again).await;
}

/// A lookup that is open goes on with what it has, rather than end the stream and all others with it.
#[tokio::test]
async fn what_all_clients_follow_is_bounded_and_open_lookups_go_on() {
    let harness = harness().await;
    let (index, pod) = (&harness.index.destinations, WorkloadKey::pod("ns", "web-0"));
    index.put(&pod, ClientPlace { node: Some("one".into()), zone: None });
    index.set(WEB, service([1]));
    let mut client = Client::open(&harness).await;
    let mut state = DestinationState::new();
    client.look_up(1, WEB).await;
    assert_eq!(client.answer(1, &mut state).await, service([1]));
    index.set_full(true);
    client.look_up(2, "10.1.0.3:80").await;
    let (id, refused) = client.next().await;
    let Answer::Refused(refused) = refused else { panic!("not refused: {refused:?}") };
    assert_eq!((id, refused.reason.as_str()), (2, "too many destinations are followed"));
    let needs = ScopeKind::Node;
    let published = PublishedDestination { destination: service([2]), needs, is_pending: false };
    index.publish(WEB, DestinationScope::All, published);
    assert_eq!(client.answer(1, &mut state).await, service([2]));
    index.set_full(false);
    client.say(Ask::Release(Release { id: 2 })).await;
    assert!(matches!(client.next().await, (2, Answer::Released(_))));
    assert_eq!(client.first(2, "10.1.0.3:80").await, Destination::Unknown);
}

/// The client that holds most gives way to others: its own lookups are refused, and others ask again for
/// what they shared with it.
#[tokio::test]
async fn a_lookup_that_gives_way_is_refused_or_made_again_and_the_stream_goes_on() {
    const OTHER: &str = "10.1.0.3:80";
    let harness = harness().await;
    let index = &harness.index.destinations;
    for address in [WEB, OTHER] {
        index.set(address, service([1]));
    }
    let mut client = Client::open(&harness).await;
    let mut states = [DestinationState::new(), DestinationState::new()];
    for (id, address) in [(1, WEB), (2, OTHER)] {
        client.look_up(id, address).await;
        let state = &mut states[usize::try_from(id - 1).unwrap()];
        assert_eq!(client.answer(id, state).await, service([1]));
    }
    // There is room: it is followed anew, and the answer is another one meanwhile.
    index.close(WEB, DestinationScope::All);
    index.set(WEB, service([2]));
    let answered = client.next().await;
    assert_eq!(answered.0, 1);
    index.set(WEB, service([3]));
    assert_eq!(client.next().await.0, 1);
    // There is none.
    index.set_full(true);
    index.close(OTHER, DestinationScope::All);
    let (id, refused) = client.next().await;
    let Answer::Refused(refused) = refused else { panic!("not refused: {refused:?}") };
    assert_eq!((id, refused.reason.as_str()), (2, "too many destinations are followed"));
    index.set(WEB, service([4]));
    assert_eq!(client.next().await.0, 1, "the others go on");
    index.set_full(false);
    assert_eq!(client.first(2, OTHER).await, Destination::Unknown, "its number is free");
}
