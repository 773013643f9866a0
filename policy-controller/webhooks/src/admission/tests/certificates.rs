//! Certificates in files, replaced while they are in use.

use super::http::{allowed, connect, http1, sound, webhook, webhook_after, write_pair};
use std::time::Duration;

/// Waits until connections that trust `roots` succeed.
async fn eventually_serves(address: std::net::SocketAddr, roots: &rustls::RootCertStore) {
    for _ in 0..200 {
        if connect(address, roots, b"http/1.1").await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the new certificate is not served");
}

#[tokio::test]
async fn renewed_files_are_served_and_open_connections_go_on() {
    let (webhook, old) = webhook().await;
    let mut open = http1(webhook.address, &old).await;
    let new = write_pair(webhook.folder.path());
    eventually_serves(webhook.address, &new).await;
    assert!(connect(webhook.address, &old, b"http/1.1").await.is_err());
    assert!(allowed(open.send_request(sound()).await.unwrap()).await);
    let mut sender = http1(webhook.address, &new).await;
    assert!(allowed(sender.send_request(sound()).await.unwrap()).await);
}

#[tokio::test]
async fn files_renewed_before_they_are_watched_are_served() {
    let (webhook, new) = webhook_after(|folder, _| write_pair(folder)).await;
    eventually_serves(webhook.address, &new).await;
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_ones_in_use() {
    let (webhook, old) = webhook().await;
    let folder = webhook.folder.path();
    std::fs::write(folder.join("tls.crt"), "no certificate").unwrap();
    // Longer than the interval at which files are read.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(connect(webhook.address, &old, b"http/1.1").await.is_ok());
    // A certificate without its key is not used either, until its key is there.
    let key = std::fs::read(folder.join("tls.key")).unwrap();
    let new = write_pair(folder);
    let new_key = std::fs::read(folder.join("tls.key")).unwrap();
    std::fs::write(folder.join("tls.key"), key).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(connect(webhook.address, &old, b"http/1.1").await.is_ok());
    std::fs::write(folder.join("tls.key"), new_key).unwrap();
    eventually_serves(webhook.address, &new).await;
}
