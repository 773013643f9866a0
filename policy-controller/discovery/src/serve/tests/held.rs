//! Memory that one client makes the server hold. A client writes frames itself, because libraries do not
//! misbehave so; what is counted are the allocations of the thread that serves it.

use super::connection::ask;
use crate::serve::ServeConfig;
use crate::testing::{Harness, PATIENCE, policy, routed, soon};
use linkerd2_proxy_api::inbound::PortSpec;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_proto::messages::destination_request::Kind as Ask;
use policy_proto::messages::{Begin, DestinationRequest, Release};
use policy_proto::native::destination::encode_lookup;
use prost::Message;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;

/// All memory of a client that leaves everything unread: 8 MiB of windows over its 128 connections, 4 MiB of
/// unfinished messages, and some 30 KiB of state for each connection.
const BOUND: i64 = 24 * 1024 * 1024;

/// Connections of one client.
const CONNECTIONS: usize = 128;

const WATCH: &str = "/portcullis.policy.v1.DestinationDiscovery/Watch";
const WATCH_POLICY: &str = "/portcullis.policy.v1.PolicyDiscovery/Watch";
const GET_PORT: &str = "/io.linkerd.proxy.inbound.InboundServerPolicies/GetPort";
const WATCH_PORT: &str = "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The preface, and settings by which streams may send `window` bytes.
fn preface(window: u32) -> Vec<u8> {
    let mut setting = vec![0, 4];
    setting.extend(window.to_be_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &setting));
    bytes
}

/// A POST to `path` with this number of further header fields, as short as they may be.
fn head(stream: u32, path: &str, fields: u16) -> Vec<u8> {
    // `:method`, `:scheme`, then literals that are not indexed.
    let mut block = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &[u8]| {
        block.extend([0, u8::try_from(name.len()).unwrap()]);
        block.extend(name);
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value);
    };
    literal(b":path", path.as_bytes());
    literal(b":authority", b"a");
    literal(b"content-type", b"application/grpc");
    literal(b"te", b"trailers");
    for field in 0..fields {
        literal(format!("{field:x}").as_bytes(), b"");
    }
    frame(1, 4, stream, &block)
}

/// A message behind gRPC's prefix.
fn message(message: &impl Message) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    message.encode(&mut bytes).unwrap();
    bytes
}

fn said(kind: Ask) -> Vec<u8> {
    message(&DestinationRequest { kind: Some(kind) })
}

async fn connect(address: SocketAddr, window: u32) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&preface(window)).await.unwrap();
    stream
}

/// Writes as much as is taken while the server is not read.
async fn push(stream: &mut TcpStream, bytes: &[u8]) {
    let writing = stream.write_all(bytes);
    let _ = tokio::time::timeout(Duration::from_secs(2), writing).await;
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn harness() -> Harness {
    let harness = Harness::with(ServeConfig::default()).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    harness
}

/// The bytes that are held when `attack` is over, and its client is not gone.
fn held<T>(runtime: &Runtime, attack: impl Future<Output = T>) -> (i64, T) {
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        kept = Some(runtime.block_on(async {
            let kept = attack.await;
            // What was sent arrives.
            tokio::time::sleep(Duration::from_secs(1)).await;
            kept
        }));
    });
    (counted.bytes_current, kept.unwrap())
}

/// A client with another address is served.
async fn another_is_served(address: SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let asked = tokio::time::timeout(PATIENCE, ask(stream)).await;
    asked.expect("in time").unwrap();
}

#[test]
fn what_one_client_leaves_unread_over_all_its_connections_stays_below_24_mib() {
    let runtime = runtime();
    let (harness, mut connections) = runtime.block_on(async {
        let harness = harness().await;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(connect(harness.address, 0).await);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        (harness, connections)
    });
    // Answers are not taken, so that what comes then is not read: one window of a connection.
    let mut asked = said(Ask::Begin(Begin { workload: "ns:web-0".into(), client: String::new() }));
    let lookup = said(Ask::Lookup(encode_lookup(1, "10.1.0.1:80".parse().unwrap())));
    let release = said(Ask::Release(Release { id: 1 }));
    while asked.len() < 65_535 {
        asked.extend(&lookup);
        asked.extend(&release);
    }
    asked.truncate(65_535);
    // Half of the connections send the beginning of a message first. It is read, by which at least half of
    // the window is free again.
    let mut begun = vec![0];
    begun.extend(65_000_u32.to_be_bytes());
    begun.resize(65_000, b'a');
    let begun: Vec<u8> = begun.chunks(1000).flat_map(|part| frame(0, 0, 1, part)).collect();
    // And a few send heads with the most fields, of requests whose messages do not come.
    let heads: Vec<u8> = (1..9).flat_map(|n| head(2 * n + 1, GET_PORT, 440)).collect();
    let sizes = [1, 1].into_iter().chain([64].repeat(6)).chain([1000].repeat(CONNECTIONS - 8));
    let half = CONNECTIONS / 2;
    let attack = async {
        for stream in &mut connections[..half] {
            push(stream, &head(1, WATCH_POLICY, 0)).await;
            push(stream, &begun).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        for (at, (stream, size)) in connections.iter_mut().zip(sizes).enumerate() {
            if at >= CONNECTIONS - 4 {
                push(stream, &heads).await;
            }
            push(stream, &head(101, WATCH, 0)).await;
            let unread = if at < half { &asked[..32_000] } else { &asked };
            let frames = unread.chunks(size).flat_map(|part| frame(0, 0, 101, part));
            push(stream, &frames.collect::<Vec<u8>>()).await;
        }
    };
    let (held, ()) = held(&runtime, attack);
    assert!(held > 6 * 1024 * 1024, "less is held than may be: {held}");
    assert!(held < BOUND, "{held} bytes are held");
    runtime.block_on(another_is_served(harness.address));
    drop(connections);
}

/// One client could have had the controller hold as many copies of a large policy as it may have watches.
#[test]
fn streams_that_are_not_read_hold_no_copies_of_their_policy() {
    const STREAMS: u32 = 500;
    let runtime = runtime();
    let names: Vec<String> = (0..2000).map(|number| format!("route-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let spec = message(&PortSpec { workload: "ns:web-0".into(), port: 80 });
    let (harness, mut stream) = runtime.block_on(async {
        let harness = harness().await;
        harness.index.set(&harness.index.pod("web-0", &[80]), 80, &routed("web", &names), 1);
        // One byte of each answer may be sent.
        let mut stream = connect(harness.address, 1).await;
        let first = [head(1, WATCH_PORT, 0), frame(0, 1, 1, &spec)].concat();
        stream.write_all(&first).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        (harness, stream)
    });
    let (held, ()) = held(&runtime, async {
        for number in 1..STREAMS {
            let stream_id = 2 * number + 1;
            let watch = [head(stream_id, WATCH_PORT, 0), frame(0, 1, stream_id, &spec)].concat();
            push(&mut stream, &watch).await;
        }
    });
    let each = held / i64::from(STREAMS);
    assert!((500..20_000).contains(&each), "{each} bytes a stream");
    runtime.block_on(another_is_served(harness.address));
}

/// Over many connections a client could have had streams that nothing counted.
#[tokio::test]
async fn answers_that_a_client_does_not_take_count_for_it_and_another_one_is_served() {
    let config = ServeConfig { max_streams_per_peer: 20, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let spec = message(&PortSpec { workload: "ns:web-0".into(), port: 80 });
    let mut connections = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(harness.address, 0).await;
        for number in 0..10 {
            let id = 2 * number + 1;
            let get = [head(id, GET_PORT, 0), frame(0, 1, id, &spec)].concat();
            stream.write_all(&get).await.unwrap();
        }
        connections.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let refused = soon(ask(TcpStream::connect(harness.address).await.unwrap())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    another_is_served(harness.address).await;
    drop(connections);
    let again = async {
        while ask(TcpStream::connect(harness.address).await.unwrap()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(again).await;
}

/// Over many connections a client could have had streams that nothing counted: those whose sessions had ended
/// and whose ends it did not take.
#[tokio::test]
async fn watches_that_ended_count_until_their_client_takes_the_end() {
    let config = ServeConfig { max_streams_per_peer: 20, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut connections = Vec::new();
    for path in [WATCH, WATCH_POLICY] {
        let mut stream = connect(harness.address, 0).await;
        for number in 0..10 {
            let id = 2 * number + 1;
            // A message that says nothing, which ends the session with an error.
            let ended = [head(id, path, 0), frame(0, 0, id, &[0; 5])].concat();
            stream.write_all(&ended).await.unwrap();
        }
        connections.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut client = InboundServerPoliciesClient::new(harness.channel().await);
    let spec = PortSpec { workload: "ns:web-0".into(), port: 80 };
    let refused = soon(client.watch_port(spec.clone())).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    drop(connections);
    let again = async {
        while client.watch_port(spec.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(again).await;
}
