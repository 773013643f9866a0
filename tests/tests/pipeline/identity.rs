//! Identity of a client: proved by TLS, and by nothing that a client sends.

use crate::client::{Client, Kind};
use crate::tls::{Mesh as _, web};
use crate::world::{BASE, GRANT, HERE, HTTP, PATIENCE, World, account, clients};
use bytes::Bytes;
use http_body_util::BodyExt;
use policy_cli::echo::http::ReceivedRequest;
use policy_testkit::{Authority, Leaf, dns, uri};
use policy_testkit::{soon, wait_within};
use rcgen::date_time_ymd;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

/// Grants everything to whoever has proved any mesh identity.
const MESH: &str = "\
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: mesh, namespace: shop}
spec: {identities: ['*']}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: mesh, namespace: shop}
spec:
  targetRef: {kind: Namespace, name: shop}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: mesh}
";

async fn meshed() -> World {
    World::with(&[("base.yaml", BASE), ("mesh.yaml", MESH)]).await
}

/// The status of one request over TLS; none if the connection ends without an answer.
async fn status(world: &World, connector: &TlsConnector) -> Option<u16> {
    let ask = async {
        let mut stream = connector.connect(web(), world.connect(HTTP).await).await.ok()?;
        // With TLS 1.3 a client learns only afterwards that its certificate was refused.
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        String::from_utf8_lossy(&answer).get(9..12)?.parse().ok()
    };
    soon(ask).await
}

/// Refused in the handshake, and counted under this error once more than before.
async fn assert_handshake_fails(world: &World, connector: &TlsConnector, error: &str) {
    let series = format!("inbound_tcp_errors_total{{error=\"{error}\"}}");
    let before = world.metric(&series);
    assert_eq!(status(world, connector).await, None, "{error}");
    let counted = async || world.metric(&series) == before + 1;
    wait_within(&format!("{error} is counted"), PATIENCE, counted).await;
}

#[tokio::test]
async fn certificates_prove_one_identity_or_none() {
    let world = meshed().await;
    let authority = &world.authority;
    let bot = account("bot");
    let spiffe = "spiffe://cluster.local/ns/shop/sa/bot";
    let cases = [
        (vec![dns(&bot)], 200, bot.as_str()),
        (vec![uri(spiffe)], 200, spiffe),
        (vec![dns(&bot), uri(spiffe)], 200, spiffe),
        (vec![uri(spiffe), uri("spiffe://cluster.local/ns/shop/sa/other")], 403, "-"),
        (vec![dns(&bot), dns("other.example")], 403, "-"),
        (vec![], 403, "-"),
    ];
    for (names, expected, client) in cases {
        let connector = authority.client(Some(authority.leaf(&names)), &TLS13);
        assert_eq!(status(&world, &connector).await, Some(expected), "{names:?}");
        let verdict = if expected == 200 { "allow" } else { "deny unauthorized" };
        world.told(&format!("{verdict} {client} {HTTP}")).await;
    }
    let anonymous = authority.client(None, &TLS13);
    assert_eq!(status(&world, &anonymous).await, Some(403), "no certificate");
}

#[tokio::test]
async fn handshakes_that_prove_nothing_are_refused_and_counted_by_reason() {
    let world = meshed().await;
    let authority = &world.authority;
    let bot = || [dns(&account("bot"))];
    let old = authority.client(Some(authority.leaf(&bot())), &TLS12);
    assert_handshake_fails(&world, &old, "tls_version").await;
    let expired = authority.leaf_with(&bot(), |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let expired = authority.client(Some(expired), &TLS13);
    assert_handshake_fails(&world, &expired, "tls_certificate_expired").await;
    let later = authority.leaf_with(&bot(), |params| {
        params.not_before = date_time_ymd(2999, 1, 1);
        params.not_after = date_time_ymd(3000, 1, 1);
    });
    let later = authority.client(Some(later), &TLS13);
    assert_handshake_fails(&world, &later, "tls_certificate_expired").await;
    let stranger: Leaf = Authority::new().leaf(&bot());
    let stranger = authority.client(Some(stranger), &TLS13);
    assert_handshake_fails(&world, &stranger, "tls_certificate_untrusted").await;
    assert_eq!(world.application.counters().connections(), 0);
    // And the next one is served.
    let good = authority.client(Some(authority.leaf(&bot())), &TLS13);
    assert_eq!(status(&world, &good).await, Some(200));
}

/// The first bytes of a ClientHello to our own name.
async fn hello() -> Vec<u8> {
    let (near, mut far) = tokio::io::duplex(16 * 1024);
    let connector = Authority::new().client(None, &TLS13);
    tokio::spawn(async move { connector.connect(web(), near).await.map(drop) });
    let mut bytes = vec![0; 16 * 1024];
    let read = soon(far.read(&mut bytes)).await.unwrap();
    bytes.truncate(read);
    bytes
}

#[tokio::test]
async fn a_truncated_client_hello_is_nobody() {
    let world = meshed().await;
    let hello = hello().await;
    for length in [1, 5, 6, 43, hello.len() / 2, hello.len() - 1] {
        let mut stream = world.connect(HTTP).await;
        stream.write_all(&hello[..length]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert!(answer.is_empty(), "{length} bytes of a ClientHello were answered {answer:?}");
    }
    // One that stops and waits is let go after the bound.
    let mut stream = world.connect(HTTP).await;
    stream.write_all(&hello[..hello.len() - 1]).await.unwrap();
    let _ = soon(stream.read_to_end(&mut Vec::new())).await;
    let counted =
        async || world.metric("inbound_tcp_errors_total{error=\"tls_detect_timeout\"}") == 1;
    wait_within("it is counted", PATIENCE, counted).await;
    assert_eq!(world.application.counters().connections(), 0);
}

/// Request as the application received it.
async fn received(client: &mut Client, headers: &[(&str, &str)]) -> ReceivedRequest {
    let request = client.request("/", headers);
    let response = client.send(request).await;
    assert_eq!(response.status(), 200);
    let body: Bytes = soon(response.into_body().collect()).await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[track_caller]
fn assert_client_ids(received: &ReceivedRequest, expected: &[&str]) {
    let like = |name: &str| {
        let folded = name.to_ascii_lowercase().replace(['_', '.', ' '], "-");
        folded.starts_with("l5d-client-id") || folded.contains("l5d-proxy-client")
    };
    let found: Vec<_> =
        received.headers.iter().filter(|(name, _)| like(name)).flat_map(|(_, v)| v).collect();
    assert_eq!(found, expected, "{:?}", received.headers);
}

#[tokio::test]
async fn what_a_client_says_of_itself_never_reaches_the_application() {
    let files = [
        ("base.yaml", BASE),
        ("grant.yaml", GRANT),
        ("clients.yaml", &clients(&[HERE])),
        ("mesh.yaml", MESH),
    ];
    let world = World::with(&files).await;
    let admin = account("admin");
    let spoofed = [
        vec![("l5d-client-id", &*admin)],
        vec![("L5D-Client-ID", &*admin)],
        vec![("l5d-client-id", &*admin), ("L5d-Client-Id", &*admin)],
        vec![("l5d_client_id", &*admin)],
        vec![("connection", "l5d-client-id"), ("l5d-client-id", &*admin)],
    ];
    let leaf = world.authority.leaf(&[dns(&account("bot"))]);
    let connector = world.authority.client(Some(leaf), &TLS13);
    for kind in [Kind::Http1, Kind::Http2] {
        let mut plain = world.client(kind).await;
        let stream = connector.connect(web(), world.connect(HTTP).await).await.unwrap();
        let mut meshed = Client::new(stream, kind).await;
        for headers in &spoofed {
            let connection = headers.iter().any(|(name, _)| *name == "connection");
            if kind == Kind::Http2 && connection {
                continue;
            }
            assert_client_ids(&received(&mut plain, headers).await, &[]);
            assert_client_ids(&received(&mut meshed, headers).await, &[&account("bot")]);
        }
    }
}

/// The annotation reaches the sidecar while connections are open, and so does its absence.
#[tokio::test]
async fn an_annotation_on_the_server_switches_informational_headers_off_and_on_again() {
    let files = [("base.yaml", BASE), ("grant.yaml", GRANT), ("clients.yaml", &clients(&[HERE]))];
    let world = World::with(&files).await;
    let mut client = world.client(Kind::Http1).await;
    let forged = [("l5d-connection-secure", "true"), ("l5d_connection_secure", "true")];
    let secure = async |client: &mut Client| {
        let received = received(client, &forged).await;
        let values = |name: &str| received.headers.get(name).cloned().unwrap_or_default();
        (values("l5d-connection-secure"), values("forwarded").len())
    };
    assert_eq!(secure(&mut client).await, (vec!["false".to_owned()], 1));
    let off = "metadata: {name: http, namespace: shop, annotations: \
               {portcullis.dev/http-informational-headers: disabled}}";
    world.write("base.yaml", &BASE.replace("metadata: {name: http, namespace: shop}", off));
    let silent = async || secure(&mut client).await == (Vec::new(), 0);
    wait_within("nothing is told", PATIENCE, silent).await;
    world.write("base.yaml", BASE);
    let told = async || secure(&mut client).await == (vec!["false".to_owned()], 1);
    wait_within("it is told again", PATIENCE, told).await;
}
