//! Open streams end within a second of losing their permission; streams that keep it go on.

use crate::client::{Client, Kind};
use crate::world::{BASE, EDIT, HERE, HTTP, RAW, REVOKED, World, clients};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy_testkit::soon;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const VICTIM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const BYSTANDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// One of each kind of what stays open, for one client.
struct Open {
    response: Incoming,
    call: Incoming,
    tunnel: TcpStream,
    opaque: TcpStream,
}

impl Open {
    async fn start(world: &World, from: Ipv4Addr) -> Self {
        let mut client = Client::new(world.connect_from(from, HTTP).await, Kind::Http1).await;
        let wish = [("echo-stream", "100000"), ("echo-interval-ms", "20")];
        let mut response = client.send(client.request("/feed", &wish)).await.into_body();
        soon(response.frame()).await.unwrap().unwrap();

        let stream = world.connect_from(from, Kind::Grpc.port()).await;
        let mut client = Client::new(stream, Kind::Grpc).await;
        let watch = client.request("/grpc.health.v1.Health/Watch", &[]);
        let mut call = client.send(watch).await.into_body();
        soon(call.frame()).await.unwrap().unwrap();

        let mut tunnel = world.connect_from(from, HTTP).await;
        let head =
            "GET /ws HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        tunnel.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(soon(tunnel.read_u8()).await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
        ping(&mut tunnel).await;

        let mut opaque = world.connect_from(from, RAW).await;
        ping(&mut opaque).await;
        Self { response, call, tunnel, opaque }
    }
}

/// Bytes go there and come back.
async fn ping(stream: &mut TcpStream) {
    stream.write_all(b"\x01ping").await.unwrap();
    let mut back = [0; 5];
    soon(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"\x01ping");
}

/// Reads until the stream has ended, gracefully or not.
async fn closes(mut stream: TcpStream) {
    let mut buffer = [0; 64];
    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
}

#[tokio::test]
async fn what_is_open_ends_within_a_second_of_losing_its_permission_and_bystanders_go_on() {
    let world = World::start().await;
    world.write("clients.yaml", &clients(&["127.0.0.1/32", "127.0.0.2/32"]));
    let stream = world.connect_from(BYSTANDER, HTTP).await;
    Client::new(stream, Kind::Http1).await.turns("/", 403, 200).await;
    let Open { mut response, mut call, tunnel, opaque } = Open::start(&world, VICTIM).await;
    let mut stays = Open::start(&world, BYSTANDER).await;
    let mut probe = world.client(Kind::Http1).await;

    world.write("clients.yaml", &clients(&["127.0.0.2/32"]));
    assert!(probe.turns("/", 200, 403).await < EDIT);
    let in_force = Instant::now();
    let ended = async {
        let response = async { while let Some(Ok(_)) = response.frame().await {} };
        let trailers = async {
            loop {
                match call.frame().await {
                    Some(Ok(frame)) if frame.is_trailers() => break frame.into_trailers().ok(),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break None,
                }
            }
        };
        tokio::join!(response, trailers, closes(tunnel), closes(opaque)).1
    };
    let trailers = tokio::time::timeout(REVOKED, ended).await.expect("all end within a second");
    assert!(in_force.elapsed() < REVOKED);
    let trailers = trailers.expect("the call learns why");
    assert_eq!(trailers["grpc-status"], "7");

    // All four of the other client carry on.
    for _ in 0..3 {
        soon(stays.response.frame()).await.unwrap().unwrap();
    }
    ping(&mut stays.tunnel).await;
    ping(&mut stays.opaque).await;
    let silence = tokio::time::timeout(Duration::from_millis(100), stays.call.frame()).await;
    assert!(silence.is_err(), "the bystander's call ended: {silence:?}");
    world.told(&format!("deny revoked - {RAW}")).await;
}

/// Routes `kept` and `lost`, each granted to the authentication of its name.
fn routes() -> String {
    let route = |name: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
             metadata: {{name: {name}, namespace: shop}}\nspec:\n\
             \x20 parentRefs: [{{group: policy.linkerd.io, kind: Server, name: http}}]\n\
             \x20 rules: [{{matches: [{{path: {{type: PathPrefix, value: /{name}}}}}]}}]\n---\n\
             apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: {name}, namespace: shop}}\nspec:\n\
             \x20 targetRef: {{group: policy.linkerd.io, kind: HTTPRoute, name: {name}}}\n\
             \x20 requiredAuthenticationRefs:\n\
             \x20 - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: {name}}}\n---\n"
        )
    };
    route("kept") + &route("lost")
}

fn authentication(name: &str) -> String {
    clients(&[HERE]).replace("name: clients", &format!("name: {name}"))
}

#[tokio::test]
async fn streams_of_one_connection_end_one_by_one() {
    let (routes, kept, lost) = (routes(), authentication("kept"), authentication("lost"));
    let files = [
        ("base.yaml", BASE),
        ("routes.yaml", &*routes),
        ("kept.yaml", &*kept),
        ("lost.yaml", &*lost),
    ];
    let world = World::with(&files).await;
    let mut client = world.client(Kind::Http2).await;
    let wish = [("echo-stream", "100000"), ("echo-interval-ms", "20")];
    let mut open = async |path: &str| {
        let mut body = client.send(client.request(path, &wish)).await.into_body();
        soon(body.frame()).await.unwrap().unwrap();
        body
    };
    let mut stays = open("/kept/feed").await;
    let mut goes = open("/lost/feed").await;
    let mut probe = world.client(Kind::Http1).await;
    world.delete("lost.yaml");
    assert!(probe.turns("/lost/x", 200, 403).await < EDIT);
    let ended = async { while let Some(Ok(_)) = goes.frame().await {} };
    tokio::time::timeout(REVOKED, ended).await.expect("ends within a second");
    for _ in 0..3 {
        soon(stays.frame()).await.unwrap().unwrap();
    }
    assert_eq!(client.ask("/kept/x").await, 200, "the connection goes on");
    assert_eq!(client.ask("/lost/x").await, 403);
}

#[tokio::test]
async fn an_opaque_connection_without_permission_reaches_nobody() {
    let world = World::start().await;
    let before = world.application.counters().connections();
    let mut stream = world.connect_from(BYSTANDER, RAW).await;
    let _ = stream.write_all(b"\x01ping").await;
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
    assert!(answer.is_empty(), "{answer:?}");
    assert_eq!(world.application.counters().connections(), before);
}
