//! Connections that are not HTTP.

use crate::support::*;
use policy_core::{Predicate, Protocol};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Reads to the end, then answers with what it read, reversed.
async fn reverser() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.unwrap();
                read.reverse();
                stream.write_all(&read).await.unwrap();
            });
        }
    });
    address
}

/// Sends a byte each 20 ms until the connection closes.
async fn ticker() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                while stream.write_all(b".").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn half_close_is_carried_through() {
    let setup = Setup::new(server(Protocol::Opaque, everybody()), reverser().await).await;
    assert_eq!(
        raw(setup.address, b"GET / HTTP/1.1\r\n\r\nabc", true).await,
        "cba\n\r\n\r1.1/PTTH / TEG"
    );
    setup.logged("allow - - connection").await;
    assert!(setup.metrics().contains("inbound_tcp_authz_allow_total"));
}

#[tokio::test]
async fn a_server_may_speak_first_on_an_opaque_port() {
    let setup = Setup::new(server(Protocol::Opaque, everybody()), ticker().await).await;
    let mut stream = setup.connect().await;
    let mut byte = [0; 1];
    stream.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b".");
}

#[tokio::test]
async fn a_refused_connection_gets_no_byte_and_reaches_nobody() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Opaque, nobody()), app.address).await;
    assert_eq!(raw(setup.address, b"hello", true).await, "");
    assert_eq!(app.connections(), 0);
    setup.logged("deny unauthorized - connection").await;
}

#[tokio::test]
async fn other_protocols_are_carried_where_they_are_looked_for() {
    let setup = Setup::new(server(detect(), everybody()), reverser().await).await;
    assert_eq!(raw(setup.address, b"EHLO a\r\n", true).await, "\n\ra OLHE");
}

#[tokio::test]
async fn a_tls_server_wants_a_client_hello() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Tls, everybody()), app.address).await;
    assert_eq!(raw(setup.address, b"hello, this is not TLS", true).await, "");
    assert_eq!(app.connections(), 0);
    setup.logged("deny tls_required - connection").await;
}

#[tokio::test]
async fn a_connection_that_loses_its_permission_ends_within_a_second_and_others_stay() {
    let address = ticker().await;
    let both = server(Protocol::Opaque, everybody());
    let setup = Setup::new(both, address).await;
    let mut stream = setup.connect().await;
    let mut byte = [0; 1];
    stream.read_exact(&mut byte).await.unwrap();
    // A change with the same grants does not affect it.
    let mut same = server(Protocol::Opaque, everybody());
    same.paths = policy_core::PathHandling::Raw;
    setup.apply(same).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.read_exact(&mut byte).await.unwrap();
    setup.apply(server(Protocol::Opaque, nobody())).await;
    let begun = Instant::now();
    while stream.read_exact(&mut byte).await.is_ok() {}
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    setup.logged("deny revoked - connection").await;
    assert!(setup.metrics().contains("inbound_tcp_authz_terminate_total"));
}

#[tokio::test]
async fn opaque_connections_are_cut_when_http_is_looked_for_on_the_port() {
    for protocol in [Protocol::Http1, detect()] {
        let setup = Setup::new(server(Protocol::Opaque, everybody()), ticker().await).await;
        let mut stream = setup.connect().await;
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).await.unwrap();
        setup.apply(server(protocol, everybody())).await;
        let ended = async { while stream.read_exact(&mut byte).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap();
    }
}

#[tokio::test]
async fn connections_that_nobody_looked_into_are_cut_when_routes_are_attached() {
    for protocol in [Protocol::Opaque, detect()] {
        let setup = Setup::new(server(protocol, everybody()), ticker().await).await;
        let mut stream = setup.connect().await;
        stream.write_all(b"EHLO a\r\n").await.unwrap();
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).await.unwrap();
        let routes = vec![route(prefix("/open"), everybody())];
        setup.apply(with_routes(server(detect(), everybody()), routes)).await;
        let ended = async { while stream.read_exact(&mut byte).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap();
        setup.logged("deny revoked - connection").await;
    }
}

#[tokio::test]
async fn a_request_in_what_looks_like_a_client_hello_is_not_passed_on() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut hello = crate::tls::hello_for("somebody.else");
    // The random bytes of the hello.
    hello[11..33].copy_from_slice(b" /admin HTTP/1.1\r\na: b");
    let answer = raw(setup.address, &hello, true).await;
    assert_eq!((answer.as_str(), app.requests()), ("", 0));
    setup.logged("deny protocol_mismatch - connection").await;
}

#[tokio::test]
async fn a_grant_for_tls_that_is_passed_through_needs_a_client_hello() {
    // The policy that permits HTTPS probes.
    let mut policy = server(Protocol::Http1, nobody());
    let source = policy_core::Source::Default("probe".into());
    let condition =
        policy_core::Condition { source: source.clone(), test: Predicate::TlsPassthrough };
    let requirement = policy_core::Requirement::All([condition].into());
    let authorization =
        std::sync::Arc::new(policy_core::Authorization { source, requirement, audit: false });
    policy.exemptions = vec![policy_core::Exemption { request: None, authorization }];
    let setup = Setup::new(policy, reverser().await).await;
    let hello = crate::tls::hello_for("somebody.else");
    let answer = {
        let mut stream = TcpStream::connect(setup.address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let reversed: Vec<u8> = hello.into_iter().rev().collect();
    assert_eq!(answer, reversed, "passed through unread");
    // A client that closes its side at once may count as gone: this one waits for its response.
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(raw(setup.address, request, false).await.contains("403"));
}
