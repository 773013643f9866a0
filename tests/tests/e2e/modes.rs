//! Every default policy that a namespace may have, for clients inside and outside of the cluster's
//! networks, with and without an identity.

use super::away::controller_stays;
use super::clients::{Got, How, Visitor, ask, ask_at, come_from, start_client, start_server};
use super::world::{eventually, identity, meshed_namespace, node};
use policy_tests::cluster::node::Place;
use std::net::{IpAddr, Ipv4Addr};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// An address in none of the networks that `policy.clusterNetworks` lists.
const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));

/// Default policies and the clients that they admit: a pod in plaintext and with an identity, then a
/// client outside of the cluster's networks in plaintext and with an identity.
const MODES: [(&str, [bool; 4]); 5] = [
    ("cluster-authenticated", [false, true, false, false]),
    ("cluster-unauthenticated", [true, true, false, false]),
    ("all-authenticated", [false, true, false, true]),
    ("all-unauthenticated", [true, true, true, true]),
    ("deny", [false, false, false, false]),
];

fn got(admitted: bool) -> Got {
    Got::Status(if admitted { 200 } else { 403 })
}

#[tokio::test]
async fn each_default_of_a_namespace_admits_whom_it_names_and_audit_names_whom_it_admits() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "modes", DENY).await;
    come_from(node, OUTSIDE).await;
    let inside = start_client(node, &namespace, "inside").await;
    let outside = Visitor::new(&identity(&namespace, "outside")).from(OUTSIDE);
    let (pod, address) = start_server(node, &namespace, "server").await;
    let url = format!("http://{address}:8080/page");
    let server = identity(&namespace, "server");
    let (pod, meshed) = (pod.as_str(), How::Meshed(&server));
    let asked = async || {
        let inside = (namespace.as_str(), inside.as_str());
        let from = format!("--from={OUTSIDE}");
        [
            ask(node, inside, How::Plain, &url).await,
            ask(node, inside, meshed, &url).await,
            ask_at(node, Place::Machine, &[&from], &url).await,
            outside.ask(node, meshed, &url).await,
        ]
    };
    let follow = async |mode: &str, admitted: [bool; 4]| {
        let value = format!("config.linkerd.io/default-inbound-policy={mode}");
        let name = format!("namespace/{namespace}");
        node.kubectl().run(&["annotate", "--overwrite", &name, &value]).await.unwrap();
        eventually(mode, admitted.map(got), asked).await;
    };
    let log = async || node.kubectl().logs(&namespace, pod, "portcullis-proxy").await.unwrap();
    assert_eq!(asked().await, [false; 4].map(got), "as the namespace began");
    assert!(!log().await.contains("request audited"), "before audit: {}", log().await);
    follow("audit", [true; 4]).await;
    let names = |client: &str| format!("client_id=\"{}\"", identity(&namespace, client));
    let from = OUTSIDE.to_string();
    for client in [names("inside"), names("outside"), from] {
        eventually(&client, true, async || {
            let log = log().await;
            let mut audited = log.lines().filter(|line| line.contains("request audited"));
            audited.any(|line| line.contains(&client) && line.contains("default audit"))
        })
        .await;
    }
    for (mode, admitted) in MODES {
        follow(mode, admitted).await;
    }
    node.remove_namespace(&namespace).await.unwrap();
}
