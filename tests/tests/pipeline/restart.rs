//! The controller goes and comes back; the sidecar never decides by anything but policy.

use crate::client::Kind;
use crate::world::{BASE, EDIT, GRANT, HERE, HTTP, PATIENCE, RAW, World, clients};
use policy_testkit::{soon, wait_within};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The state of the HTTP port and the epoch of its policy.
fn state(world: &World) -> (&'static str, Option<String>) {
    let status = world.store.status().into_iter().find(|status| status.port.get() == HTTP).unwrap();
    (status.state, status.revision.map(|revision| revision.epoch.to_string()))
}

#[tokio::test]
async fn without_a_controller_the_last_policy_decides_and_a_new_one_is_believed() {
    let mut world = World::start().await;
    let mut client = world.client(Kind::Http1).await;
    let (current, first) = state(&world);
    assert_eq!((current, client.ask("/").await), ("current", 200));
    world.kill_controller().await;
    wait_within("the policy is known to be old", PATIENCE, async || state(&world).0 == "stale")
        .await;
    for _ in 0..20 {
        assert_eq!(client.ask("/").await, 200);
    }
    assert_eq!(world.client(Kind::Http2).await.ask("/").await, 200, "new connections too");
    world.start_controller().await;
    let back = async || {
        assert_eq!(client.ask("/").await, 200, "nothing flickers");
        state(&world).0 == "current"
    };
    wait_within("the new controller is followed", PATIENCE, back).await;
    let (_, second) = state(&world);
    assert_ne!(first, second, "a controller on a directory has an epoch of its own");
    world.write("clients.yaml", &clients(&["203.0.113.0/24"]));
    assert!(client.turns("/", 200, 403).await < EDIT);
}

#[tokio::test]
async fn what_was_revoked_while_no_controller_ran_is_revoked_on_reconnecting() {
    let mut world = World::start().await;
    let mut client = world.client(Kind::Http1).await;
    let mut opaque = world.connect(RAW).await;
    opaque.write_all(b"\x01ping").await.unwrap();
    let mut back = [0; 5];
    soon(opaque.read_exact(&mut back)).await.unwrap();
    world.kill_controller().await;
    world.delete("clients.yaml");
    for _ in 0..20 {
        assert_eq!(client.ask("/").await, 200);
    }
    world.start_controller().await;
    assert!(client.turns("/", 200, 403).await < EDIT);
    let ended = tokio::time::timeout(Duration::from_secs(1), opaque.read(&mut back)).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "still open: {ended:?}");
}

#[tokio::test]
async fn a_connection_before_the_first_policy_waits_and_is_decided_by_it() {
    // The default would admit everybody, the Server admits nobody.
    let open =
        BASE.replace("default-inbound-policy: deny", "default-inbound-policy: all-unauthenticated");
    let mut world = World::without_controller(&[("base.yaml", &open)], PATIENCE).await;
    let mut client = world.client(Kind::Http1).await;
    let mut call = world.client(Kind::Grpc).await;
    let answers = tokio::spawn(async move { (client.ask("/").await, call.ask("/pkg.S/M").await) });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!answers.is_finished(), "decided without a policy");
    world.start_controller().await;
    assert_eq!(soon(answers).await.unwrap(), (403, 7));
    assert_eq!(world.application.counters().requests(), 0);

    let files = [("base.yaml", BASE), ("grant.yaml", GRANT), ("clients.yaml", &clients(&[HERE]))];
    let mut world = World::without_controller(&files, PATIENCE).await;
    let mut client = world.client(Kind::Http1).await;
    let answer = tokio::spawn(async move { client.ask("/").await });
    world.start_controller().await;
    assert_eq!(soon(answer).await.unwrap(), 200);
}

#[tokio::test]
async fn a_connection_that_waits_in_vain_is_refused_as_pending() {
    let bound = Duration::from_millis(300);
    let world = World::without_controller(&[("base.yaml", BASE)], bound).await;
    let begun = Instant::now();
    let mut client = world.client(Kind::Http1).await;
    let answer = client.send(client.request("/", &[])).await;
    assert_eq!(answer.status(), 503);
    assert!(begun.elapsed() >= bound, "refused before the bound");
    let mut call = world.client(Kind::Grpc).await;
    assert_eq!(call.ask("/pkg.S/M").await, 14, "UNAVAILABLE");
    let mut opaque = world.connect(RAW).await;
    let _ = opaque.write_all(b"\x01ping").await;
    let mut answer = Vec::new();
    let _ = soon(opaque.read_to_end(&mut answer)).await;
    assert!(answer.is_empty());
    assert_eq!(world.application.counters().connections(), 0);
    world.told(&format!("deny policy_pending - {HTTP}")).await;
}
