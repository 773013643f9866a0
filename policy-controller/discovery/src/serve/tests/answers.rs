//! `PolicyDiscovery.Watch`: acknowledgements, refusals, and what the client has already.

use crate::serve::ServeConfig;
use crate::testing::client::{Client, hello, until};
use crate::testing::{Harness, policy, port, revision, routed};
use policy_core::UndeclaredPorts;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{Ack, Hello, Nack, PortRevision, Resync, Undeclared};
use policy_proto::native::{PortState, encode_revision};
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn an_acknowledgement_counts_for_the_objects_of_the_policy() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    let first = routed("web", &["a"]);
    harness.index.set(&pod, 80, &first, 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let update = client.port().await;
    assert!(harness.applied.counts().is_empty(), "nothing is known before it answers");
    client.ack(&update).await;
    let counts = || harness.applied.counts().into_values().next().unwrap_or_default();
    until(|| counts().applied == 1).await;
    assert_eq!(harness.applied.counts().len(), 3, "Server, HTTPRoute, AuthorizationPolicy");
    let port_of = |n| harness.applied.port(&pod, port(n));
    assert!(port_of(80)[0].is_current());
    harness.index.set(&pod, 80, &routed("web", &["b"]), 2);
    let change = client.port().await;
    until(|| counts().pending == 1).await;
    assert_eq!(port_of(80)[0].in_force.as_ref().unwrap().0, first);
    client.ack(&update).await;
    client.ack(&change).await;
    until(|| counts().applied == 1).await;
    drop(client);
    until(|| harness.applied.counts().is_empty()).await;
}

#[tokio::test]
async fn a_refused_update_is_recorded_and_the_next_comes_in_full() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &routed("web", &["a"]), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let update = client.port().await;
    client
        .send(Kind::Nack(Nack {
            port: 80,
            revision: update.revision.clone(),
            reason: "regular expression too large".into(),
            field_path: "routes[0].rules[0]".into(),
        }))
        .await;
    until(|| !harness.applied.port(&pod, port(80)).is_empty()).await;
    let refused = harness.applied.port(&pod, port(80))[0].refused.clone().unwrap();
    assert_eq!(refused.field_path, "routes[0].rules[0]");
    client.quiet().await;
    harness.index.set(&pod, 80, &routed("web", &["b"]), 2);
    let next = client.port().await;
    assert!(next.base.is_none() && next.header.is_some());
}

#[tokio::test]
async fn a_resync_is_answered_in_full() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &routed("web", &["a"]), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let full = client.port().await;
    harness.index.set(&pod, 80, &routed("web", &["b"]), 2);
    let change = client.port().await;
    assert!(change.base.is_some());
    let mut stranger = PortState::default();
    assert!(stranger.apply(&change).is_err(), "it has nothing to build on");
    client.send(Kind::Resync(Resync { port: 80 })).await;
    let again = client.port().await;
    assert_eq!(*stranger.apply(&again).unwrap(), *routed("web", &["b"]));
    assert_ne!(again.revision, full.revision);
    client.send(Kind::Resync(Resync { port: 81 })).await;
    client.quiet().await;
}

fn applied(version: u64, content: u64) -> Vec<PortRevision> {
    let mut revision = revision(version);
    revision.content = content;
    vec![PortRevision { port: 80, revision: Some(encode_revision(&revision)) }]
}

#[tokio::test]
async fn a_replica_behind_its_client_sends_nothing_until_it_has_caught_up() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("old"), 4);
    harness.index.see(4, 1);
    let ahead = Hello { applied: applied(5, 1), ..hello("ns:web-0") };
    let mut client = Client::open(&harness, ahead).await;
    client.workload().await;
    client.quiet().await;
    // Something else moved on, but not the kind in question.
    harness.index.set(&pod, 80, &policy("still-old"), 4);
    client.quiet().await;
    harness.index.set(&pod, 80, &policy("new"), 5);
    harness.index.see(5, 1);
    let update = client.port().await;
    assert_eq!(*PortState::default().apply(&update).unwrap(), *policy("new"));
    client.quiet().await;
}

/// Undeclared ports that were closed would be open again, without a revision that a hold could go by.
#[tokio::test]
async fn a_workload_older_than_the_clients_is_not_sent() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 4);
    harness.index.see(4, 1);
    let has = Some(encode_revision(&revision(5)));
    let ahead = || Hello { workload_revision: has.clone(), ..hello("ns:web-0") };
    let mut client = Client::open(&harness, ahead()).await;
    client.quiet().await;
    harness.index.refreshed().await;
    harness.index.change_at(&pod, 5, |state| state.undeclared = UndeclaredPorts::Deny);
    client.quiet().await;
    harness.index.see(5, 1);
    let workload = client.workload().await;
    assert_eq!(workload.undeclared(), Undeclared::Deny);
    assert_eq!(workload.revision, has);
    assert_eq!(client.port().await.port, 80);
    let mut client = Client::open(&harness, ahead()).await;
    client.workload().await;
    assert!(!harness.index.is_asked().await, "it has been seen");
}

/// A change of a port, a revocation perhaps, would wait for as long as this replica lags.
#[tokio::test]
async fn a_workload_that_stays_held_ends_its_stream_so_that_ports_are_not_silent_for_ever() {
    let max_workload_hold = Duration::from_millis(700);
    let harness = Harness::with(ServeConfig { max_workload_hold, ..ServeConfig::default() }).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &routed("web", &["a"]), 4);
    harness.index.see(4, 1);
    let has = Some(encode_revision(&revision(5)));
    let ahead = || Hello { workload_revision: has.clone(), ..hello("ns:web-0") };
    let mut held = Client::open(&harness, ahead()).await;
    // Its grants go meanwhile, and nothing tells it.
    harness.index.set(&pod, 80, &policy("web"), 4);
    let status = held.next().await.expect_err("it ends");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("lags behind"), "{status}");
    // A client whose hold ended in time continues.
    let mut client = Client::open(&harness, ahead()).await;
    harness.index.change_at(&pod, 5, |state| state.undeclared = UndeclaredPorts::Deny);
    harness.index.see(5, 1);
    client.workload().await;
    assert_eq!(client.port().await.port, 80);
    tokio::time::sleep(max_workload_hold * 2).await;
    client.quiet().await;
}

#[tokio::test]
async fn a_complete_list_begun_after_the_client_asked_ends_every_hold() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let ahead = Hello { applied: applied(900, 1), ..hello("ns:web-0") };
    let mut client = Client::open(&harness, ahead).await;
    client.workload().await;
    client.quiet().await;
    // The first list to end may have begun before the client asked.
    harness.index.see(2, 2);
    client.quiet().await;
    harness.index.see(2, 3);
    assert_eq!(client.port().await.port, 80);
}

#[tokio::test]
async fn a_hold_has_everything_listed_until_a_list_begun_after_it_has_ended() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.port().await;
    assert!(!harness.index.is_asked().await, "whoever has nothing waits for nothing");
    let ahead = Hello { applied: applied(900, 1), ..hello("ns:web-0") };
    let mut client = Client::open(&harness, ahead).await;
    client.workload().await;
    harness.index.refreshed().await;
    // News without a list are no reason to ask again.
    harness.index.see(2, 1);
    assert!(!harness.index.is_asked().await);
    harness.index.see(2, 2);
    harness.index.refreshed().await;
    client.quiet().await;
    harness.index.see(2, 3);
    assert_eq!(client.port().await.port, 80);
    assert!(!harness.index.is_asked().await);
}

/// The revisions that a client reports are not proved by anything.
#[tokio::test]
async fn what_one_client_claims_has_everything_listed_in_no_great_number() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut lists = 0;
    for round in 0..20 {
        let ahead = Hello { applied: applied(900 + round, 1), ..hello("ns:web-0") };
        let mut client = Client::open(&harness, ahead).await;
        client.workload().await;
        client.quiet().await;
        lists += u32::from(harness.index.is_asked().await);
    }
    assert_eq!(lists, 6);
    // The hold stands nevertheless, and ends when the watches have told what was missed.
    let ahead = Hello { applied: applied(900, 1), ..hello("ns:web-0") };
    let mut client = Client::open(&harness, ahead).await;
    client.workload().await;
    client.quiet().await;
    harness.index.see(900, 1);
    assert_eq!(client.port().await.port, 80);
}

#[tokio::test]
async fn an_acknowledgement_after_a_later_refusal_counts_and_the_refusal_stays() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    let good = routed("web", &["a"]);
    harness.index.set(&pod, 80, &good, 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let first = client.port().await;
    harness.index.set(&pod, 80, &routed("web", &["b"]), 2);
    let second = client.port().await;
    let (reason, field_path) = ("too large".to_owned(), String::new());
    let nack = Nack { port: 80, revision: second.revision.clone(), reason, field_path };
    client.send(Kind::Nack(nack)).await;
    client.ack(&first).await;
    let record = || harness.applied.port(&pod, port(80)).into_iter().next();
    until(|| record().is_some_and(|record| record.in_force.is_some())).await;
    let record = record().unwrap();
    assert_eq!(record.in_force.unwrap().0, good);
    assert_eq!(record.refused.unwrap().reason, "too large", "the newest is still refused");
}

#[tokio::test]
async fn a_resync_before_the_first_update_is_answered_in_full() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 4);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let revision = client.port().await.revision;
    // Held, so that the request is there before the answer.
    let mut ahead = revision.clone().unwrap();
    ahead.versions.insert("policy.linkerd.io/Server".into(), 5);
    let has = vec![PortRevision { port: 80, revision: Some(ahead) }];
    let mut client = Client::open(&harness, Hello { applied: has, ..hello("ns:web-0") }).await;
    client.workload().await;
    client.send(Kind::Resync(Resync { port: 80 })).await;
    client.quiet().await;
    harness.index.see(5, 1);
    let update = client.port().await;
    assert!(update.base.is_none() && update.header.is_some(), "{update:?}");
}

#[tokio::test]
async fn a_refused_workload_is_counted_and_ends_the_stream() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    client.port().await;
    let nack = Nack { port: 0, reason: "facts".into(), ..Nack::default() };
    client.send(Kind::Nack(nack)).await;
    assert_eq!(client.end().await.code(), Code::Aborted);
    assert_eq!(harness.metrics.refused("workload"), 1);
}

/// A client that reads 64-bit numbers as doubles acknowledges nothing, which nobody was told.
#[tokio::test]
async fn an_acknowledgement_of_what_was_not_sent_is_counted() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let update = client.port().await;
    let mut rounded = update.revision.clone().unwrap();
    rounded.content ^= 1;
    let revision = Some(rounded);
    client.send(Kind::Ack(Ack { port: 80, revision: revision.clone() })).await;
    let nack = Nack { port: 80, revision: revision.clone(), ..Nack::default() };
    client.send(Kind::Nack(nack)).await;
    client.send(Kind::Ack(Ack { port: 81, revision })).await;
    client.send(Kind::Resync(Resync { port: 81 })).await;
    let counted = || ["ack", "nack", "resync"].map(|message| harness.metrics.unmatched_of(message));
    until(|| counted() == [2, 1, 1]).await;
    client.ack(&update).await;
    until(|| !harness.applied.port(&pod, port(80)).is_empty()).await;
    assert_eq!(counted(), [2, 1, 1]);
}

#[tokio::test]
async fn another_epoch_holds_up_nothing() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut other = applied(900, 1);
    other[0].revision.as_mut().unwrap().epoch = "before the restart".into();
    let mut client = Client::open(&harness, Hello { applied: other, ..hello("ns:web-0") }).await;
    client.workload().await;
    assert!(client.port().await.base.is_none());
}

/// Either side may be the one that has not noticed that the storage was restored.
#[tokio::test]
async fn another_epoch_of_the_same_lease_waits_for_a_list_begun_after_the_client_asked() {
    for epoch in ["test.1", "test.7"] {
        let harness = Harness::start().await;
        let pod = harness.index.pod("web-0", &[80]);
        harness.index.set(&pod, 80, &policy("web"), 9);
        harness.index.see(9, 1);
        let mut other = applied(5, 1);
        other[0].revision.as_mut().unwrap().epoch = epoch.into();
        let hello = Hello { applied: other, ..hello("ns:web-0") };
        let mut client = Client::open(&harness, hello).await;
        client.workload().await;
        harness.index.refreshed().await;
        client.quiet().await;
        harness.index.see(10, 2);
        client.quiet().await;
        harness.index.see(10, 3);
        assert!(client.port().await.base.is_none(), "{epoch}");
    }
}

#[tokio::test]
async fn a_client_that_has_the_policy_already_is_sent_no_second_copy() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &routed("web", &["a"]), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let full = client.port().await;
    let mut state = PortState::default();
    state.apply(&full).unwrap();
    drop(client);
    let has = vec![PortRevision { port: 80, revision: full.revision.clone() }];
    let mut client = Client::open(&harness, Hello { applied: has, ..hello("ns:web-0") }).await;
    client.workload().await;
    let nothing = client.port().await;
    assert_eq!(nothing.base, full.revision.map(|revision| revision.content));
    assert!(nothing.header.is_none() && nothing.routes.is_empty());
    assert_eq!(*state.apply(&nothing).unwrap(), *routed("web", &["a"]));
}

#[tokio::test]
async fn a_claim_by_hash_alone_is_answered_in_full() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &routed("web", &["a"]), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let full = client.port().await;
    drop(client);
    let mut revision = full.revision.clone().unwrap();
    revision.epoch = "another".to_owned();
    let has = vec![PortRevision { port: 80, revision: Some(revision) }];
    let mut client = Client::open(&harness, Hello { applied: has, ..hello("ns:web-0") }).await;
    client.workload().await;
    assert_eq!(client.port().await, full);
}
