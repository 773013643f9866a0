//! The clients refuse what they cannot read, and say where it is.

use crate::clients::Language;
use crate::fake::{serve, workload};
use policy_core::{Denied, Revision};
use policy_proto::messages as m;
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::watch_response::Kind as Hear;
use policy_proto::native::encode_port;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use tonic::Status;

/// A port with one route, in full.
fn update() -> m::PortUpdate {
    let mut policy = policy_core::testing::policy();
    policy.routes.routes = vec![policy_core::testing::route("a", vec![]).into()];
    let revision = Revision::default();
    encode_port(&policy, &BTreeSet::new()).full(NonZeroU16::new(8080).unwrap(), &revision)
}

/// The same with one change, anywhere, of the route or of the header.
fn changed(change: fn(&mut m::PortUpdate)) -> m::PortUpdate {
    let mut update = update();
    change(&mut update);
    update
}

fn changed_route(change: fn(&mut m::Route)) -> m::PortUpdate {
    let mut update = update();
    change(&mut update.routes[0]);
    update
}

fn changed_header(change: fn(&mut m::PortHeader)) -> m::PortUpdate {
    let mut update = update();
    change(update.header.as_mut().unwrap());
    update
}

/// Updates in which one field cannot be read, and everything else is as it should be.
fn unreadable() -> [(&'static str, m::PortUpdate); 11] {
    [
        ("routes[0].kind", changed_route(|route| route.kind = 0)),
        ("routes[0].kind", changed_route(|route| route.kind = 99)),
        ("routes[0].origin", changed_route(|route| route.origin = Some(m::Origin::default()))),
        ("routes[0].key", changed_route(|route| route.key = 0)),
        ("header.paths", changed_header(|header| header.paths = 0)),
        ("header.protocol", changed_header(|it| it.protocol = Some(m::Protocol::default()))),
        ("header.otherwise", changed_header(|header| header.otherwise = None)),
        ("header.deny", changed_header(|header| header.deny = Some("because".to_owned()))),
        ("required_features[0]", changed(|it| it.required_features = vec!["new".to_owned()])),
        ("header", changed(|update| update.header = None)),
        ("route_order", changed(|update| update.routes.clear())),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_clients_refuse_what_they_cannot_read() {
    for language in Language::ALL {
        refuses_what_it_cannot_read(language).await;
    }
}

async fn refuses_what_it_cannot_read(language: Language) {
    let (address, mut streams) = serve().await;
    let _client = language.watch(address, &["shop:web", "--ack"]);
    let mut stream = streams.recv().await.unwrap();
    assert_eq!(stream.hello().await.workload, "shop:web");

    // The Workload: an enum at 0, and facts that are not there.
    let unspecified = m::Workload { undeclared: 0, ..workload() };
    let refused = stream.refused(Hear::Workload(unspecified)).await;
    assert_eq!(refused, (0, "undeclared".to_owned()));
    let without = m::Workload { facts: None, ..workload() };
    assert_eq!(stream.refused(Hear::Workload(without)).await, (0, "facts".to_owned()));
    stream.send(Hear::Workload(workload())).await;

    for (path, update) in unreadable() {
        assert_eq!(stream.refused(Hear::Port(update)).await, (8080, path.to_owned()));
    }
    // Every reason to deny is known.
    for reason in Denied::all() {
        let mut denied = update();
        denied.header.as_mut().unwrap().deny = Some(reason.as_str().to_owned());
        stream.send(Hear::Port(denied)).await;
        let said = stream.next().await;
        assert!(matches!(said, Say::Ack(_)), "{reason:?}: {said:?}");
    }

    // It comes back with both revisions of what it has.
    stream.say.send(Err(Status::aborted("again"))).await.unwrap();
    let hello = streams.recv().await.unwrap().hello().await;
    assert_eq!((hello.applied.len(), hello.workload_revision.is_some()), (1, true));
}
