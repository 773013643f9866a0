//! Client addresses, and refused destinations.

use crate::support::*;
use policy_core::{Authorization, Condition, NetworkMatch, Predicate, Requirement, Source};
use policy_proxy::sidecar::Target;
use policy_tls::identity::IdentityHandle;
use std::sync::Arc;

fn network(net: &str) -> policy_core::AuthorizationSet {
    let source = Source::Default("test".into());
    let test = Predicate::Network(vec![NetworkMatch::net(net.parse().unwrap())]);
    let requirement = Requirement::All([Condition { source: source.clone(), test }].into());
    [Arc::new(Authorization { source, requirement, audit: false })].into()
}

#[tokio::test]
async fn policy_sees_the_address_that_a_clients_address_stands_for() {
    let app = App::start().await;
    for (net, status) in [("10.9.9.9/32", 200), ("127.0.0.0/8", 403)] {
        let policy = Some(server(detect(), network(net)));
        let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
            config.client_address = Some(Arc::new(|from| {
                assert!(from.is_loopback());
                "10.9.9.9".parse().unwrap()
            }));
        })
        .await;
        let mut client = Client::new(setup.connect().await).await;
        assert_eq!(client.get("/").await.status, status, "{net}");
    }
}

/// Without a redirect there is no original destination, or it is the listener itself; either way it
/// is a direct connection, which needs mutual TLS and a transport header.
#[tokio::test]
async fn a_connection_that_was_not_redirected_is_refused_and_counted() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.listeners[0].target = Target::Original;
    })
    .await;
    assert_eq!(raw(setup.address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false).await, "");
    assert_eq!(app.connections(), 0);
    setup.counted("inbound_tcp_errors_total{error=\"direct_unauthenticated\"}", 1).await;
    assert!(setup.log.lines().is_empty(), "nothing was decided");
}
