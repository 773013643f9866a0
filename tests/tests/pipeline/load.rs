//! Many requests: denied ones stay denied while policy churns, and limits limit.

use crate::client::{Client, Kind};
use crate::world::{BASE, GRANT, HERE, HTTP, PATIENCE, World, clients};
use policy_testkit::{long_or, soon, wait_within};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Fewest requests of the soak.
const REQUESTS: usize = 20_000;

/// Fewest changes of the policy meanwhile.
const CHANGES: u64 = 10;

/// On how many connections.
const CONNECTIONS: usize = 4;

/// Policies that differ in everything but this: nobody from [`HERE`] may do anything.
fn churn(round: usize) -> [(&'static str, Option<String>); 3] {
    let route = |name: &str, path: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
             metadata: {{name: {name}, namespace: shop}}\nspec:\n\
             \x20 parentRefs: [{{group: policy.linkerd.io, kind: Server, name: http}}]\n\
             \x20 rules: [{{matches: [{{path: {{type: PathPrefix, value: {path}}}}}]}}]\n"
        )
    };
    let grant = match round % 4 {
        0 => clients(&["127.0.0.2/32"]),
        1 => clients(&["127.0.0.2/32", "203.0.113.0/24"]),
        // Invalid, and then gone.
        2 => clients(&["127.0.0.1/33"]),
        _ => "# nobody\n".to_owned(),
    };
    let first = match round % 3 {
        0 => None,
        1 => Some(route("first", "/")),
        _ => Some(route("first", "/admin")),
    };
    let second = (!round.is_multiple_of(5)).then(|| route("second", &format!("/{round}")));
    [("clients.yaml", Some(grant)), ("first.yaml", first), ("second.yaml", second)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_requests_stay_denied_while_policy_churns() {
    let files = [("base.yaml", BASE), ("grant.yaml", GRANT), ("clients.yaml", "# nobody\n")];
    let world = Arc::new(World::with(&files).await);
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (world, done) = (world.clone(), done.clone());
        tokio::spawn(async move {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                for (name, text) in churn(round) {
                    world.write(name, &text.unwrap_or_default());
                }
                round += 1;
                // Long enough for the source to believe what it sees.
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        })
    };
    let generation = |world: &World| world.store.status().iter().map(|port| port.generation).max();
    let before = generation(&world).unwrap();
    let begun = Instant::now();
    let enough = long_or("REQUESTS", REQUESTS) / CONNECTIONS;
    let mut asking = Vec::new();
    for number in 0..CONNECTIONS {
        let kind = if number % 2 == 0 { Kind::Http1 } else { Kind::Http2 };
        let mut client = world.client(kind).await;
        let world = world.clone();
        asking.push(tokio::spawn(async move {
            let mut n = 0;
            loop {
                let changed = generation(&world).unwrap() >= before + CHANGES;
                if changed && n >= enough {
                    break;
                }
                assert!(changed || begun.elapsed() < 2 * PATIENCE, "policy stands still");
                n += 1;
                let path = ["/", "/admin", "/1", "/admin/x"][n % 4];
                let status = client.ask(path).await;
                assert!(matches!(status, 403 | 404), "request {n} for {path} got {status}");
            }
        }));
    }
    for client in asking {
        client.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    assert_eq!(world.application.counters().requests(), 0, "nothing got through");
    // The churn itself grants: somebody else is let in by one of its rounds.
    world.write("first.yaml", "");
    world.write("second.yaml", "");
    world.write("clients.yaml", &clients(&["127.0.0.2/32"]));
    let stream = world.connect_from(Ipv4Addr::new(127, 0, 0, 2), HTTP).await;
    let mut other = Client::new(stream, Kind::Http1).await;
    let let_in = async {
        while other.ask("/").await != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(let_in).await;
}

/// A limit of two requests per second on a Server.
fn limit(server: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n\
         metadata: {{name: {server}, namespace: shop}}\nspec:\n\
         \x20 targetRef: {{group: policy.linkerd.io, kind: Server, name: {server}}}\n\
         \x20 total: {{requestsPerSecond: 2}}\n"
    )
}

#[tokio::test]
async fn requests_beyond_the_limit_are_told_so_and_the_limit_can_be_lifted() {
    let files = [
        ("base.yaml", BASE),
        ("grant.yaml", GRANT),
        ("clients.yaml", &clients(&[HERE])),
        ("http.yaml", &limit("http")),
        ("grpc.yaml", &limit("grpc")),
    ];
    let world = World::with(&files).await;
    for (kind, path, limited) in
        [(Kind::Http1, "/", 429), (Kind::Http2, "/", 429), (Kind::Grpc, "/pkg.S/M", 8)]
    {
        let mut client = world.client(kind).await;
        let mut codes = Vec::new();
        for _ in 0..20 {
            codes.push(client.ask(path).await);
        }
        let count = |code| codes.iter().filter(|found| **found == code).count();
        assert_eq!(count(kind.allowed()) + count(limited), codes.len(), "{kind:?}: {codes:?}");
        assert!(count(limited) >= 10, "{kind:?}: {codes:?}");
    }
    // Whoever is not permitted is refused for that, and takes nothing from those who are.
    let stream = world.connect_from(Ipv4Addr::new(127, 0, 0, 2), HTTP).await;
    let mut stranger = Client::new(stream, Kind::Http1).await;
    assert_eq!(stranger.ask("/").await, 403);
    let mut client = world.client(Kind::Http1).await;
    world.delete("http.yaml");
    let lifted = async || {
        let mut all = true;
        for _ in 0..20 {
            all &= client.ask("/").await == 200;
        }
        all
    };
    wait_within("the limit is lifted", PATIENCE, lifted).await;
}
