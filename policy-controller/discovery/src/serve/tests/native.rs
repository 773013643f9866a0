//! `PolicyDiscovery.Watch`: what is sent, and when.

use crate::serve::ServeConfig;
use crate::testing::client::{Client, hello, refusal, until};
use crate::testing::{Harness, policy, routed, with_host_table};
use policy_core::Denied;
use policy_core::feature::Feature;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{Ack, Hello, Resync, Subscribe, Unsubscribe};
use policy_proto::native::{PortState, encode_features};
use std::collections::BTreeSet;
use tonic::Code;

#[tokio::test]
async fn the_workload_comes_first_then_every_declared_port_in_full() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80, 4191]);
    harness.index.set(&pod, 80, &routed("web", &["a", "b"]), 3);
    harness.index.set(&pod, 4191, &policy("admin"), 2);
    let mut client = Client::open(&harness, hello("{\"ns\":\"ns\",\"pod\":\"web-0\"}\n")).await;
    let workload = client.workload().await;
    assert_eq!(workload.name, "ns/web-0");
    assert_eq!(workload.declared_ports, [80, 4191]);
    assert_eq!(workload.facts.unwrap().pod_addresses, [vec![10, 1, 2, 3]]);
    let (first, second) = (client.port().await, client.port().await);
    assert_eq!((first.port, second.port), (80, 4191));
    assert!(first.base.is_none() && second.base.is_none());
    let mut state = PortState::default();
    assert_eq!(*state.apply(&first).unwrap(), *routed("web", &["a", "b"]));
    let sent = first.revision.unwrap();
    assert_eq!(sent.epoch, "test");
    assert_eq!(sent.versions.get("policy.linkerd.io/Server"), Some(&3));
    assert_ne!(sent.content, 0);
    client.quiet().await;
}

#[tokio::test]
async fn a_change_of_one_route_sends_that_route_alone() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &routed("web", &["a", "b", "c"]), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let full = client.port().await;
    assert_eq!(full.routes.len(), 3);
    let mut state = PortState::default();
    state.apply(&full).unwrap();
    harness.index.set(&pod, 80, &routed("web", &["a", "d", "c"]), 2);
    let change = client.port().await;
    assert_eq!(change.base, Some(full.revision.unwrap().content));
    assert_eq!((change.routes.len(), change.removed_routes.len()), (1, 1));
    assert!(change.header.is_none() && change.server_authorizations.is_none());
    assert_eq!(*state.apply(&change).unwrap(), *routed("web", &["a", "d", "c"]));
}

#[tokio::test]
async fn nothing_is_sent_when_nothing_changed() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.port().await;
    // Another allocation, the same policy of the same revision.
    harness.index.set(&pod, 80, &policy("web"), 1);
    client.quiet().await;
    // A newer revision of the same policy is a change of nothing, so that the client can say so.
    harness.index.set(&pod, 80, &policy("web"), 2);
    let update = client.port().await;
    assert_eq!(update.base, update.revision.as_ref().map(|revision| revision.content));
    assert!(update.header.is_none() && update.routes.is_empty());
}

#[tokio::test]
async fn ports_are_subscribed_and_given_up_on_demand() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    harness.index.set(&pod, 9000, &policy("extra"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.port().await;
    client.send(Kind::Subscribe(Subscribe { ports: vec![9000, 80] })).await;
    assert_eq!(client.port().await.port, 9000);
    client.send(Kind::Unsubscribe(Unsubscribe { ports: vec![9000, 80] })).await;
    let again = client.port().await;
    assert_eq!((again.port, again.base), (80, None), "declared ports stay");
    harness.index.set(&pod, 9000, &policy("other"), 2);
    client.quiet().await;
    client.send(Kind::Subscribe(Subscribe { ports: vec![9000] })).await;
    assert!(client.port().await.base.is_none(), "the client forgot what it had");
}

/// Neither side knows of the other's step: the client has dropped the port when it learns that the
/// workload declares it.
#[tokio::test]
async fn a_port_given_up_as_it_is_declared_is_sent_again() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[]);
    harness.index.set(&pod, 9000, &policy("extra"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.send(Kind::Subscribe(Subscribe { ports: vec![9000] })).await;
    client.port().await;
    harness.index.declare(&pod, &[9000]);
    assert_eq!(client.workload().await.declared_ports, [9000]);
    client.send(Kind::Unsubscribe(Unsubscribe { ports: vec![9000] })).await;
    let again = client.port().await;
    assert_eq!(*PortState::default().apply(&again).unwrap(), *policy("extra"));
    harness.index.declare(&pod, &[]);
    client.workload().await;
    until(|| harness.index.watchers(&pod, 9000) == 0).await;
}

#[tokio::test]
async fn a_port_given_up_is_not_listened_to_any_more() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[]);
    harness.index.set(&pod, 9000, &policy("extra"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    for _ in 0..3 {
        client.send(Kind::Subscribe(Subscribe { ports: vec![9000] })).await;
        client.port().await;
        assert_ne!(harness.index.watchers(&pod, 9000), 0);
        client.send(Kind::Unsubscribe(Unsubscribe { ports: vec![9000] })).await;
        until(|| harness.index.watchers(&pod, 9000) == 0).await;
    }
    client.quiet().await;
}

#[tokio::test]
async fn ports_given_up_do_not_pile_up_while_a_client_goes_on_asking() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[]);
    harness.index.set(&pod, 9000, &policy("extra"), 1);
    let (index, watched) = (harness.index.clone(), pod.clone());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let looking = tokio::task::spawn_blocking(move || {
        let mut most = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            most = most.max(index.watchers(&watched, 9000));
        }
        most
    });
    let on_and_off = (0..30).flat_map(|_| {
        let ports = vec![9000];
        [
            Kind::Subscribe(Subscribe { ports: ports.clone() }),
            Kind::Unsubscribe(Unsubscribe { ports }),
        ]
    });
    let burst = std::iter::once(Kind::Hello(hello("ns:web-0"))).chain(on_and_off);
    let mut client = Client::raw(&harness, burst.collect()).await.unwrap();
    client.workload().await;
    until(|| harness.index.watchers(&pod, 9000) == 0).await;
    drop(stop);
    let most = looking.await.unwrap();
    assert!(most <= 4, "{most} listened at once");
}

#[tokio::test]
async fn ports_declared_later_come_unasked_and_facts_come_when_they_change() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[]);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    assert_eq!(client.workload().await.declared_ports, [] as [u32; 0]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    harness.index.declare(&pod, &[80]);
    assert_eq!(client.workload().await.declared_ports, [80]);
    assert_eq!(client.port().await.port, 80);
    harness.index.change(&pod, |state| state.facts = std::sync::Arc::default());
    assert_eq!(client.workload().await.facts.unwrap().pod_addresses.len(), 0);
    harness.index.declare(&pod, &[]);
    client.workload().await;
    harness.index.set(&pod, 80, &policy("other"), 2);
    client.quiet().await;
}

#[tokio::test]
async fn a_client_without_a_guarding_feature_gets_a_denial_and_one_with_it_the_policy() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &with_host_table("web"), 1);
    let lacking = |features: Vec<String>| Hello { features, ..hello("ns:web-0") };
    let all_but: BTreeSet<_> =
        Feature::ALL.into_iter().filter(|feature| *feature != Feature::HostTables).collect();
    let mut client = Client::open(&harness, lacking(encode_features(&all_but))).await;
    client.workload().await;
    let denied = PortState::default().apply(&client.port().await).unwrap();
    assert_eq!(denied.deny, Some(Denied::ProxyUnsupported), "{denied:?}");
    // One that knows no reasons either is granted nothing, in words that it knows.
    let mut client = Client::open(&harness, lacking(vec!["telepathy".to_owned()])).await;
    client.workload().await;
    let update = client.port().await;
    assert_eq!(update.required_features, [] as [&str; 0]);
    let closed = PortState::default().apply(&update).unwrap();
    assert!(closed.authorizations.is_empty() && closed.routes.routes.is_empty(), "{closed:?}");
    let mut able = Client::open(&harness, hello("ns:web-0")).await;
    able.workload().await;
    let update = able.port().await;
    assert!(update.required_features.contains(&"host-tables".to_owned()));
    assert_eq!(*PortState::default().apply(&update).unwrap(), *with_host_table("web"));
}

#[tokio::test]
async fn too_many_undeclared_ports_are_denied_one_by_one_and_the_stream_goes_on() {
    let config = ServeConfig { max_ports_per_stream: 1, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    for number in [80, 81, 82] {
        harness.index.set(&pod, number, &policy("web"), 1);
    }
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.port().await;
    client.send(Kind::Subscribe(Subscribe { ports: vec![81, 82] })).await;
    let mut answers = [client.port().await, client.port().await];
    answers.sort_by_key(|update| update.port);
    let policies = answers.each_ref().map(|u| PortState::default().apply(u).unwrap());
    assert_eq!(policies.map(|p| p.deny), [None, Some(Denied::PolicyPending)]);
    client.send(Kind::Unsubscribe(Unsubscribe { ports: vec![81] })).await;
    client.send(Kind::Subscribe(Subscribe { ports: vec![82] })).await;
    let update = client.port().await;
    assert_eq!(PortState::default().apply(&update).unwrap().deny, None, "there is room now");
}

#[tokio::test]
async fn malformed_requests_are_told_which_field_is_wrong() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[]);
    let good = || Kind::Hello(hello("ns:web-0"));
    let cases = [
        (vec![Kind::Hello(hello("web"))], "hello.workload: expected `namespace:pod`"),
        (vec![Kind::Subscribe(Subscribe { ports: vec![1] })], "the first message must be hello"),
        (vec![good(), good()], "hello: sent a second time"),
        (
            vec![good(), Kind::Subscribe(Subscribe { ports: vec![80, 0] })],
            "subscribe.ports[1]: `0` is not from 1 to 65535",
        ),
        (
            vec![good(), Kind::Unsubscribe(Unsubscribe { ports: vec![65_536] })],
            "unsubscribe.ports[0]: `65536` is not from 1 to 65535",
        ),
        (vec![good(), Kind::Ack(Ack { port: 80, revision: None })], "ack.revision: must be set"),
        (vec![good(), Kind::Resync(Resync { port: 0 })], "resync.port: `0` is not"),
    ];
    for (first, message) in cases {
        let (code, text) = refusal(&harness, first).await;
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.starts_with(message), "{text}");
    }
    harness.index.delete(&pod);
    let (code, text) = refusal(&harness, vec![good()]).await;
    assert_eq!((code, &*text), (Code::NotFound, "unknown server: no workload `ns/web-0`"));
    harness.index.set_synced(false);
    assert_eq!(refusal(&harness, vec![good()]).await.0, Code::Unavailable);
}

#[tokio::test]
async fn the_stream_ends_with_ok_when_the_workload_goes_away() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.port().await;
    harness.index.delete(&pod);
    assert_eq!(client.end().await.code(), Code::Ok);
}

#[tokio::test]
async fn clients_of_the_same_features_share_one_encoding() {
    let harness = Harness::start().await;
    let shared = routed("web", &["a"]);
    let mut clients = Vec::new();
    for name in ["web-0", "web-1", "web-2"] {
        let pod = harness.index.pod(name, &[80]);
        harness.index.set(&pod, 80, &shared, 1);
        let mut client = Client::open(&harness, hello(&format!("ns:{name}"))).await;
        client.workload().await;
        client.port().await;
        clients.push(client);
    }
    assert_eq!(harness.metrics.encodings(), (1, 2));
}

#[tokio::test]
async fn a_client_that_does_not_read_gets_the_newest_state_and_none_between() {
    // A window smaller than one policy: the first fills it.
    let config = ServeConfig { window_bytes: 64 * 1024, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    let large = |n: usize| {
        let names: Vec<String> = (0..2000).map(|i| format!("{n}-{i}")).collect();
        routed("web", &names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    harness.index.set(&pod, 80, &large(0), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    for version in 1..40 {
        let number = usize::try_from(version).unwrap();
        harness.index.set(&pod, 80, &large(number), version);
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    client.workload().await;
    let mut state = PortState::default();
    let (mut updates, newest) = (0, large(39));
    loop {
        let update = client.port().await;
        updates += 1;
        if *state.apply(&update).unwrap() == *newest {
            break;
        }
    }
    assert!(updates < 20, "{updates} of 39 states were kept for a client that did not read");
}
