//! The native service: first policy, changes, acknowledgements, refusals, reconnecting.

use crate::support::*;
use policy_core::feature::Feature;
use policy_core::{DefaultPolicy, Denied};
use policy_enforce::store::StoreConfig;
use policy_proto::messages as m;
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::watch_response::Kind as Hear;
use policy_proto::native::{diff, encode_revision};
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Code, Status};

const OPEN: DefaultPolicy = DefaultPolicy::AllUnauthenticated;
const SHUT: DefaultPolicy = DefaultPolicy::Deny;

#[tokio::test]
async fn the_first_policy_ends_waiting_and_is_acknowledged() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    let hello = stream.hello().await;
    assert_eq!(hello.workload, "ns:web-0");
    assert_eq!(hello.features.len(), Feature::ALL.len());
    assert!(hello.applied.is_empty());
    assert!(client.store.unready().unwrap().workload);
    stream.workload(&[80], m::Undeclared::Default).await;
    wait_until("workload", async || {
        client.store.unready().is_some_and(|missing| !missing.workload)
    })
    .await;
    assert_eq!(client.store.unready().unwrap().ports, [port(80)]);
    let handle = client.port(80);
    let waiting = tokio::spawn(async move { handle.ready(LONG).await });
    let encoded = encode(&policy(OPEN));
    stream.send(Hear::Port(encoded.full(port(80), &revision(1)))).await;
    assert_eq!(soon(waiting).await.unwrap(), Ok(()));
    assert_eq!(client.store.unready(), None);
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN));
    let ack = stream.ack().await;
    assert_eq!((ack.port, ack.revision.unwrap().content), (80, encoded.content()));
    let live = client.port(80);
    let live = live.live();
    assert_eq!(live.in_force().unwrap().facts.pod_addresses.len(), 1);
}

#[tokio::test]
async fn a_change_applies_to_what_the_client_has() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    let old = stream.begin(&policy(OPEN)).await;
    let new = encode(&policy(SHUT));
    stream.send(Hear::Port(diff(&old, &new, port(80), &revision(2)))).await;
    let ack = stream.ack().await;
    assert_eq!(ack.revision.unwrap().content, new.content());
    assert_eq!(*client.policy(80).unwrap(), policy(SHUT));
}

/// No comparison of ten thousand routes finds the one that the update names.
#[tokio::test]
async fn a_change_is_arranged_from_what_the_update_names() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    let mut policy = policy_core::testing::benchmark::mixed(200).policy;
    let mut encoded = stream.begin(&policy).await;
    // The inspected object is the same, unless all routes were rebuilt or a route with a header
    // match was added or removed.
    let looked = |client: &Client| {
        let live = client.port(80).live();
        Arc::clone(live.in_force().unwrap().evaluator.matched_headers_shared())
    };
    let first = looked(&client);
    for version in 2..6 {
        let mut routes = policy.routes.routes.iter();
        let place = routes.position(|route| !looks_at_headers(route)).unwrap();
        policy.routes.routes.remove(place);
        let next = encode(&policy);
        stream.send(Hear::Port(diff(&encoded, &next, port(80), &revision(version)))).await;
        assert_eq!(stream.ack().await.revision.unwrap().content, next.content());
        assert_eq!(*client.policy(80).unwrap(), policy);
        assert!(Arc::ptr_eq(&first, &looked(&client)), "version {version}");
        encoded = next;
    }
    let all = encoded.full(port(80), &revision(6));
    stream.send(Hear::Port(all)).await;
    stream.ack().await;
    policy.routes.routes.remove(1);
    let next = encode(&policy);
    stream.send(Hear::Port(diff(&encoded, &next, port(80), &revision(7)))).await;
    stream.ack().await;
    assert_eq!(*client.policy(80).unwrap(), policy, "arranged anew, and right");
}

fn looks_at_headers(route: &policy_core::Route) -> bool {
    route.rules.iter().flat_map(|rule| &rule.matches).any(|wanted| !wanted.headers().is_empty())
}

#[tokio::test]
async fn a_change_of_something_else_asks_for_the_full_state() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.begin(&policy(OPEN)).await;
    let (old, new) = (encode(&policy(SHUT)), encode(&policy(DefaultPolicy::Audit)));
    stream.send(Hear::Port(diff(&old, &new, port(80), &revision(2)))).await;
    assert_eq!(stream.next().await, Say::Resync(m::Resync { port: 80 }));
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN), "the last good policy stays");
    stream.send(Hear::Port(new.full(port(80), &revision(2)))).await;
    stream.ack().await;
    assert_eq!(*client.policy(80).unwrap(), policy(DefaultPolicy::Audit));
}

#[tokio::test]
async fn a_malformed_update_is_refused_by_its_field_and_the_last_good_policy_stays() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    let old = stream.begin(&policy(OPEN)).await;
    let mut broken = encode(&policy(SHUT)).full(port(80), &revision(2));
    broken.header.as_mut().unwrap().protocol = None;
    stream.send(Hear::Port(broken)).await;
    let nack = stream.nack().await;
    assert!(nack.field_path.starts_with("header.protocol"), "{nack:?}");
    assert!(nack.revision.is_some());
    assert_eq!(client.state(80), "stale");
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN));
    // A change still applies to the policy in force.
    let new = encode(&policy(SHUT));
    stream.send(Hear::Port(diff(&old, &new, port(80), &revision(3)))).await;
    stream.ack().await;
    assert_eq!(client.state(80), "current");
    let text = client.store.telemetry().encode(&client.store.status()).unwrap();
    assert!(text.contains("policy_updates_rejected_total 1"), "{text}");
}

#[tokio::test]
async fn a_workload_that_cannot_be_read_is_refused_by_its_field_and_changes_nothing() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.begin(&policy(OPEN)).await;
    stream.workload(&[80, 81], m::Undeclared::Unspecified).await;
    let nack = stream.nack().await;
    assert_eq!((nack.port, nack.revision, nack.field_path.as_str()), (0, None, "undeclared"));
    assert_eq!(client.state(81), "absent", "no part of it is in force");
    // Neither is an update based on it.
    stream.send(Hear::Port(encode(&policy(SHUT)).full(port(80), &revision(2)))).await;
    drop(stream);
    client.becomes(80, "stale").await;
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN));
    assert_eq!(controller.stream().await.hello().await.applied.len(), 1);
}

#[tokio::test]
async fn a_feature_unknown_here_is_refused() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.workload(&[80], m::Undeclared::Default).await;
    let mut update = encode(&policy(OPEN)).full(port(80), &revision(1));
    update.required_features.push("telepathy".to_owned());
    stream.send(Hear::Port(update)).await;
    let nack = stream.nack().await;
    assert!(nack.field_path.starts_with("required_features["), "{nack:?}");
    assert_eq!(client.policy(80).unwrap_err(), Denied::PolicyPending);
    assert!(client.store.unready().is_some());
}

#[tokio::test]
async fn acknowledgement_waits_for_every_worker() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let worker = client.store.workers().register();
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.workload(&[80], m::Undeclared::Default).await;
    let first = encode(&policy(OPEN));
    stream.send(Hear::Port(first.full(port(80), &revision(1)))).await;
    client.becomes(80, "current").await;
    assert!(stream.is_silent().await, "no worker has passed it");
    let second = encode(&policy(SHUT));
    stream.send(Hear::Port(diff(&first, &second, port(80), &revision(2)))).await;
    wait_until("the second policy", async || *client.policy(80).unwrap() == policy(SHUT)).await;
    worker.reach(client.store.workers().published());
    assert_eq!(stream.ack().await.revision.unwrap().content, second.content());
    assert!(stream.is_silent().await, "what was superseded is not acknowledged");
}

#[tokio::test]
async fn the_next_stream_goes_on_from_what_is_applied() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    let encoded = stream.begin(&policy(OPEN)).await;
    drop(stream);
    let mut next = controller.stream().await;
    let hello = next.hello().await;
    assert_eq!(hello.workload_revision, Some(encode_revision(&revision(7))));
    let applied = hello.applied;
    assert_eq!(applied.len(), 1);
    assert_eq!(applied[0].port, 80);
    assert_eq!(applied[0].revision.as_ref().unwrap().content, encoded.content());
    assert_eq!(applied[0].revision.as_ref().unwrap().epoch, "test");
    assert_eq!(client.state(80), "stale");
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN), "the last value stays");
    let handle = client.port(80);
    let changed = handle.changed();
    next.workload(&[80], m::Undeclared::Default).await;
    next.send(Hear::Port(diff(&encoded, &encoded, port(80), &revision(2)))).await;
    next.ack().await;
    assert_eq!(client.state(80), "current");
    assert!(!changed.has_changed().unwrap(), "nobody is woken for an equal policy");
}

#[tokio::test]
async fn streams_that_end_after_one_message_are_not_opened_in_a_loop() {
    let mut controller = Controller::start().await;
    let mut config = config(controller.address);
    config.backoff = (Duration::from_millis(40), Duration::from_millis(200));
    let _client = Client::start(config, StoreConfig::default(), IdentityHandle::empty());
    let begun = tokio::time::Instant::now();
    let mut streams = 0u32;
    while begun.elapsed() < Duration::from_secs(1) {
        let stream = controller.stream().await;
        stream.workload(&[80], m::Undeclared::Default).await;
        streams += 1;
    }
    // Delays are 20 to 40, 40 to 80, 80 to 160, then 100 to 200 ms.
    assert!((4..=14).contains(&streams), "{streams} streams in {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_request_that_the_server_will_never_accept_is_repeated_slowly() {
    for code in [Code::InvalidArgument, Code::FailedPrecondition] {
        let mut controller = Controller::refusing(Some(Status::new(code, "no"))).await;
        let mut config = config(controller.address);
        config.backoff = (Duration::from_millis(1), Duration::from_millis(800));
        let _client = Client::start(config, StoreConfig::default(), IdentityHandle::empty());
        controller.stream().await;
        let early =
            tokio::time::timeout(Duration::from_millis(350), controller.opened.recv()).await;
        assert!(early.is_err(), "{code:?} repeated at once");
        controller.stream().await;
    }
}

#[tokio::test]
async fn a_port_that_nothing_declares_is_asked_for_while_it_is_used() {
    let mut controller = Controller::start().await;
    let idle = StoreConfig { on_demand_idle: Duration::from_millis(1), ..StoreConfig::default() };
    let client = Client::start(config(controller.address), idle, IdentityHandle::empty());
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.begin(&policy(OPEN)).await;
    let used = client.port(9000);
    assert_eq!(stream.next().await, Say::Subscribe(m::Subscribe { ports: vec![9000] }));
    stream.send(Hear::Port(encode(&policy(SHUT)).full(port(9000), &revision(1)))).await;
    assert_eq!(stream.ack().await.port, 9000);
    assert_eq!(*client.policy(9000).unwrap(), policy(SHUT));
    drop(used);
    assert_eq!(stream.next().await, Say::Unsubscribe(m::Unsubscribe { ports: vec![9000] }));
    assert_eq!(
        client.store.ports().into_keys().collect::<BTreeSet<_>>(),
        BTreeSet::from([port(80)])
    );
}

#[tokio::test]
async fn a_port_that_was_given_up_is_asked_for_again_when_it_is_used_again_at_once() {
    let mut controller = Controller::start().await;
    let few = StoreConfig { on_demand_ports: 3, ..StoreConfig::default() };
    let client = Client::start(config(controller.address), few, IdentityHandle::empty());
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.begin(&policy(OPEN)).await;
    let used = |number, by: &str| client.store.port_for(port(number), by.parse().unwrap());
    let first = used(9000, "10.0.0.66");
    assert_eq!(stream.next().await, Say::Subscribe(m::Subscribe { ports: vec![9000] }));
    let encoded = encode(&policy(OPEN));
    stream.send(Hear::Port(encoded.full(port(9000), &revision(1)))).await;
    stream.ack().await;
    // No await, so that the client sees only the final state.
    let (_second, _third) = (used(9001, "10.0.0.66"), used(9002, "10.0.0.66"));
    let _other = used(9003, "10.0.0.1");
    assert!(first.is_evicted() && first.live().in_force().is_err());
    let again = used(9000, "10.0.0.2");
    assert!(!again.is_evicted());
    assert_eq!(stream.next().await, Say::Unsubscribe(m::Unsubscribe { ports: vec![9000] }));
    let ports = vec![9000, 9002, 9003];
    assert_eq!(stream.next().await, Say::Subscribe(m::Subscribe { ports }));
    stream.send(Hear::Port(encoded.full(port(9000), &revision(2)))).await;
    stream.ack().await;
    assert!(again.live().in_force().is_ok(), "it has its policy");
    assert!(first.live().in_force().is_err(), "nobody tells it of changes any more");
}

#[tokio::test]
async fn undeclared_ports_are_refused_without_asking_where_the_workload_says_so() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.workload(&[80], m::Undeclared::Deny).await;
    client.becomes(80, "waiting").await;
    assert_eq!(client.policy(9000).unwrap_err(), Denied::PortUndeclared);
    assert!(stream.is_silent().await);
}

#[tokio::test]
async fn a_workload_that_cannot_be_read_changes_nothing_and_ends_the_stream() {
    let mut controller = Controller::start().await;
    let client = Client::of(controller.address);
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.workload(&[80, 70_000], m::Undeclared::Default).await;
    let mut next = controller.stream().await;
    next.hello().await;
    next.workload(&[80], m::Undeclared::Unspecified).await;
    let mut last = controller.stream().await;
    last.hello().await;
    assert!(client.store.unready().unwrap().workload, "neither was believed");
}

#[tokio::test]
async fn a_policy_expires_without_the_controller_and_returns_with_it() {
    let mut controller = Controller::start().await;
    let store =
        StoreConfig { maximum_age: Some(Duration::from_millis(1)), ..StoreConfig::default() };
    let client = Client::start(config(controller.address), store, IdentityHandle::empty());
    let mut stream = controller.stream().await;
    stream.hello().await;
    let encoded = stream.begin(&policy(OPEN)).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(client.state(80), "current", "a living stream keeps it young");
    drop(stream);
    let mut next = controller.stream().await;
    next.hello().await;
    client.becomes(80, "expired").await;
    assert_eq!(client.policy(80).unwrap_err(), Denied::PolicyExpired);
    assert!(client.store.unready().is_some());
    next.workload(&[80], m::Undeclared::Default).await;
    next.send(Hear::Port(diff(&encoded, &encoded, port(80), &revision(1)))).await;
    client.becomes(80, "current").await;
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN));
}

#[tokio::test]
async fn a_message_beyond_the_bound_ends_the_stream_and_keeps_the_policy() {
    let mut controller = Controller::start().await;
    let mut config = config(controller.address);
    config.max_message = 1024;
    let client = Client::start(config, StoreConfig::default(), IdentityHandle::empty());
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.begin(&policy(OPEN)).await;
    let mut large = encode(&policy(SHUT)).full(port(80), &revision(2));
    large.required_features = vec!["x".repeat(2048)];
    stream.send(Hear::Port(large)).await;
    controller.stream().await.hello().await;
    assert_eq!(*client.policy(80).unwrap(), policy(OPEN));
}

#[tokio::test]
async fn a_silent_server_is_left_after_the_bound() {
    let mut controller = Controller::start().await;
    let mut config = config(controller.address);
    config.initial_timeout = Some(Duration::from_millis(100));
    config.idle_timeout = Some(Duration::from_millis(200));
    let _client = Client::start(config, StoreConfig::default(), IdentityHandle::empty());
    let silent = controller.stream().await;
    let mut idle = controller.stream().await;
    idle.hello().await;
    idle.begin(&policy(OPEN)).await;
    controller.stream().await.hello().await;
    drop((silent, idle));
}
