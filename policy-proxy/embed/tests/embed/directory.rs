//! A directory of manifests as the source of policy.

use crate::support::*;
use axum::Router;
use axum::routing::get as on_get;
use policy_embed::{EmbedError, Policies, WorkloadKey};
use policy_testkit::{http2_client, soon};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn application() -> Router {
    Router::new().route("/{a}/{b}", on_get(|| async { "hello" }))
}

#[tokio::test]
async fn an_edit_that_breaks_a_manifest_ends_its_grants_and_opens_nothing() {
    let folder = manifests();
    let policies = policies(folder.path()).await;
    let address = serve(&policies, application()).await;
    assert_eq!(status(address, "/open/x").await, 200);
    // The Server is in it: were the port nobody's, the default policy would admit everybody.
    std::fs::write(folder.path().join("base.yaml"), "kind: [").unwrap();
    wait_for_status(address, "/open/x", 403).await;
    assert_eq!(status(address, "/admin/x").await, 403);
    std::fs::write(folder.path().join("base.yaml"), MANIFESTS).unwrap();
    wait_for_status(address, "/open/x", 200).await;
    assert_eq!(status(address, "/admin/x").await, 403);
}

/// Whoever writes a file again may empty it first, and its Server is gone for that moment.
#[tokio::test]
async fn a_file_that_is_emptied_before_it_is_written_opens_nothing() {
    let folder = manifests();
    let (pods, others): (Vec<&str>, Vec<&str>) =
        MANIFESTS.split("\n---\n").partition(|document| document.contains("kind: Pod"));
    assert_eq!(pods.len(), 1);
    let (file, others) = (folder.path().join("base.yaml"), others.join("\n---\n"));
    std::fs::write(folder.path().join("pod.yaml"), pods[0]).unwrap();
    std::fs::write(&file, &others).unwrap();
    let policies = policies(folder.path()).await;
    let address = serve(&policies, application()).await;
    for _ in 0..4 {
        std::fs::write(&file, "").unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
        std::fs::write(&file, &others).unwrap();
        // Longer than the interval of looks and the pause while a file is empty.
        for _ in 0..17 {
            assert_eq!(status(address, "/admin/x").await, 403);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn a_workload_that_the_manifests_lack_is_an_error_at_the_start() {
    let folder = manifests();
    let error = |path: std::path::PathBuf, name: &'static str| async move {
        Policies::from_directory(path, &WorkloadKey::pod("shop", name)).await.unwrap_err()
    };
    let missing = error(folder.path().to_owned(), "db-0").await;
    assert!(matches!(&missing, EmbedError::NoWorkload(name) if name == "shop/db-0"), "{missing}");
    let unread = error(folder.path().join("nothing"), "web-0").await;
    assert!(matches!(&unread, EmbedError::Manifests(_)), "{unread}");
}

#[tokio::test]
async fn a_server_that_shuts_down_takes_no_connection_and_ends_those_that_are_idle() {
    let folder = manifests();
    let policies = policies(folder.path()).await;
    let (listener, address) = listener().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let server = policies.server(8080).unwrap();
    let serving = tokio::spawn(server.serve_until(listener, application(), shutdown));
    assert_eq!(status(address, "/open/x").await, 200);
    let idle = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut idle = policy_testkit::http1_client(idle).await;
    assert_eq!(idle.send_request(get("/open/x")).await.unwrap().status(), 200);
    stop.send(()).unwrap();
    soon(serving).await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_does_not_say_what_it_speaks_is_not_waited_for() {
    let folder = manifests();
    let policies = policies(folder.path()).await;
    let (listener, address) = listener().await;
    let server = policies.server(8080).unwrap().head_timeout(Duration::from_millis(300));
    tokio::spawn(server.serve(listener, application()));
    // Silent, at the beginning of HTTP/2, and within a head of HTTP/1.
    for begun in ["", "PRI * HTTP", "GET /open/x HTTP/1.1\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = soon(stream.read_to_end(&mut rest)).await;
        let said = String::from_utf8_lossy(&rest);
        assert!(ended.is_err() || rest.is_empty() || said.contains("408"), "{begun}: {said}");
    }
    // A client that has spoken may be silent for longer.
    let stream = TcpStream::connect(address).await.unwrap();
    let mut client = http2_client(stream).await;
    let ask = || {
        let request = http::Request::get("http://web.example/open/x");
        request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap()
    };
    assert_eq!(client.send_request(ask()).await.unwrap().status(), 200);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(client.send_request(ask()).await.unwrap().status(), 200);
}
