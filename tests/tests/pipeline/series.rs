//! The number of series of the sidecar's metrics is bounded, whatever clients send (bypass rule 41).

use crate::client::Kind;
use crate::world::{HTTP, World};
use policy_testkit::soon;
use std::collections::BTreeSet;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Names and labels of all series.
fn series(world: &World) -> BTreeSet<String> {
    let text = world.store.telemetry().encode(&world.store.status()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

/// Requests of which everything that a client chooses is another one each time.
async fn ask(world: &World, numbers: std::ops::Range<usize>) {
    let mut client = world.client(Kind::Http2).await;
    for n in numbers {
        // The echo knows a method by its letters.
        let letters: String = n.to_string().bytes().map(|b| char::from(b - b'0' + b'A')).collect();
        let mut stream = world.connect(HTTP).await;
        let head = format!(
            "{letters} /path-{n}?query={n} HTTP/1.1\r\nhost: host-{n}.example\r\nuser-agent: agent/{n}\r\n\
             x-{n}: {n}\r\nl5d-client-id: client-{n}\r\ncontent-type: text/{n}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        soon(stream.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", answer.escape_ascii());
        // Refused, by a target that is another one each time.
        let mut stream = world.connect(HTTP).await;
        let head = format!("GET /{n}/../{n} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        soon(stream.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", answer.escape_ascii());
        let name = format!("x-{n}");
        let mut request = client.request(&format!("/over-two-{n}"), &[(name.as_str(), "1")]);
        *request.method_mut() = letters.parse().unwrap();
        assert_eq!(client.send(request).await.status(), 200);
    }
}

#[tokio::test]
async fn a_client_adds_no_series_by_what_it_sends() {
    let world = World::start().await;
    ask(&world, 0..20).await;
    let before = series(&world);
    assert!(before.len() > 50, "{before:#?}");
    ask(&world, 20..320).await;
    let added: Vec<_> = series(&world).difference(&before).cloned().collect();
    assert!(added.is_empty(), "{} series: {added:#?}", added.len());
    let accepted = world.metric("proxy_connections_accepted_total");
    assert!(accepted >= 640, "{accepted} connections");
}
