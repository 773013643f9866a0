//! Clients' certificates are verified again while their connections are open.

use crate::support::*;
use crate::tls::{Mesh as _, connect};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy_core::Protocol;
use policy_testkit::{Authority, dns as san};
use policy_tls::identity::IdentityHandle;
use rcgen::SanType;
use rustls::pki_types::CertificateDer;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

/// A timeout that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

fn roots(of: &[&Authority]) -> Vec<CertificateDer<'static>> {
    of.iter().map(|authority| authority.root()).collect()
}

/// A client that trusts and is signed by `authority`, with a certificate that lasts as long.
fn client(authority: &Authority, bot: &str, lasts: Duration) -> TlsConnector {
    let now = rcgen::date_time_ymd(1970, 1, 1) + SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let names: [SanType; 1] = [san(&name(bot))];
    authority.client(authority.leaf_with(&names, |params| params.not_after = now + lasts))
}

/// Asserts that further frames arrive.
async fn flows(body: &mut Incoming) {
    for _ in 0..3 {
        tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
    }
}

async fn ends(body: &mut Incoming) {
    let read = async { while matches!(body.frame().await, Some(Ok(_))) {} };
    tokio::time::timeout(PATIENCE, read).await.expect("the stream ends");
}

async fn stream(setup: &Setup, connector: &TlsConnector) -> (Client, Incoming) {
    let mut client = Client::new(connect(setup, connector).await.unwrap()).await;
    let mut body = client.send(request("/stream", &[])).await.into_body();
    flows(&mut body).await;
    (client, body)
}

#[tokio::test]
async fn a_root_that_is_taken_out_ends_what_it_vouched_for_and_nothing_else() {
    let (kept, removed) = (Authority::new(), Authority::new());
    let app = App::start().await;
    let identity = IdentityHandle::new(kept.workload_with(roots(&[&kept, &removed])));
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, identity.clone(), |_| {}).await;
    let hour = Duration::from_secs(3600);
    // The client of the other root accepts our certificate all the same.
    let stranger = removed.client_trusting(removed.leaf(&[san(&name("a"))]), roots(&[&kept]));
    let (_first, mut lost) = stream(&setup, &stranger).await;
    let (_second, mut stays) = stream(&setup, &client(&kept, "b", hour)).await;
    // Another certificate of the workload, under the same roots, affects no connection.
    identity.replace(kept.workload_with(roots(&[&removed, &kept])));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    flows(&mut lost).await;
    identity.replace(kept.workload_with(roots(&[&kept])));
    ends(&mut lost).await;
    flows(&mut stays).await;
    let counted = "inbound_tcp_errors_total{error=\"tls_certificate_untrusted\"} 1";
    assert!(setup.metrics().contains(counted), "{}", setup.metrics());
    setup.logged("deny revoked a.").await;
    assert!(!setup.log.lines().iter().any(|line| line.contains("deny revoked b.")));
}

#[tokio::test]
async fn an_expired_certificate_ends_its_connections_after_the_grace_period() {
    let authority = Authority::new();
    let app = App::start().await;
    let identity = IdentityHandle::new(authority.workload());
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, identity, |config| {
        config.timeouts.grace = Duration::from_secs(2);
    });
    let setup = setup.await;
    let short = client(&authority, "a", Duration::from_secs(20));
    let (_first, mut lost) = stream(&setup, &short).await;
    let (_second, mut stays) = stream(&setup, &client(&authority, "b", PATIENCE * 60)).await;
    let mut idle = Client::new(connect(&setup, &short).await.unwrap()).await;
    assert_eq!(idle.get("/").await.status, http::StatusCode::OK);
    ends(&mut lost).await;
    flows(&mut stays).await;
    let again = tokio::time::timeout(PATIENCE, idle.closed()).await;
    assert!(again.is_ok(), "a connection without requests is closed too");
    let counted = "inbound_tcp_errors_total{error=\"tls_certificate_expired\"}";
    assert!(setup.metrics().contains(counted), "{}", setup.metrics());
}

#[tokio::test]
async fn opaque_connections_end_too() {
    let (kept, removed) = (Authority::new(), Authority::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let identity = IdentityHandle::new(kept.workload_with(roots(&[&kept, &removed])));
    let detect = Protocol::Detect { timeout: Duration::from_millis(50) };
    let policy = Some(server(detect, everybody()));
    let setup = Setup::with(policy, address, identity.clone(), |_| {}).await;
    let stranger = removed.client_trusting(removed.leaf(&[san(&name("a"))]), roots(&[&kept]));
    let mut lost = connect(&setup, &stranger).await.unwrap();
    setup.logged(&format!("allow - {} connection", name("a"))).await;
    identity.replace(kept.workload_with(roots(&[&kept])));
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, lost.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection ends");
    let counted = "inbound_tcp_errors_total{error=\"tls_certificate_untrusted\"} 1";
    assert!(setup.metrics().contains(counted), "{}", setup.metrics());
}

/// A client's certificate is compared with roots that were never removed.
#[tokio::test]
async fn an_identity_taken_back_and_given_again_without_a_root_counts_as_a_removal() {
    let (kept, removed) = (Authority::new(), Authority::new());
    let app = App::start().await;
    let identity = IdentityHandle::new(kept.workload_with(roots(&[&kept, &removed])));
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, identity.clone(), |_| {}).await;
    let stranger = removed.client_trusting(removed.leaf(&[san(&name("a"))]), roots(&[&kept]));
    let (_client, mut lost) = stream(&setup, &stranger).await;
    identity.clear();
    flows(&mut lost).await;
    identity.replace(kept.workload_with(roots(&[&kept])));
    ends(&mut lost).await;
}
