//! `InboundServerPolicies` with the client that Linkerd publishes.

use crate::serve::ServeConfig;
use crate::testing::{Harness, QUIET, policy, routed, soon};
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use linkerd2_proxy_api::net::ip_address::Ip;
use policy_core::{
    Authorization, Condition, Facts, NetworkMatch, NetworkSymbol, Predicate, Requirement,
    ServerPolicy, Source,
};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

async fn client(harness: &Harness) -> InboundServerPoliciesClient<Channel> {
    InboundServerPoliciesClient::new(harness.channel().await)
}

fn spec(workload: &str, port: u32) -> PortSpec {
    PortSpec { workload: workload.into(), port }
}

async fn watch(harness: &Harness, workload: &str, port: u32) -> Result<Streaming<Server>, Status> {
    let mut client = client(harness).await;
    Ok(soon(client.watch_port(spec(workload, port))).await?.into_inner())
}

fn server_name(server: &Server) -> &str {
    &server.labels["name"]
}

#[tokio::test]
async fn a_watch_begins_with_the_value_and_sends_each_change() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("one"), 1);
    let mut stream = watch(&harness, "ns:web-0", 80).await.unwrap();
    let first = soon(stream.message()).await.unwrap().unwrap();
    assert_eq!(server_name(&first), "one");
    harness.index.set(&pod, 80, &policy("two"), 2);
    assert_eq!(server_name(&soon(stream.message()).await.unwrap().unwrap()), "two");
    // The same policy again, newly made and of a newer revision: nothing a client could see.
    harness.index.set(&pod, 80, &policy("two"), 3);
    assert!(tokio::time::timeout(QUIET, stream.message()).await.is_err());
    harness.index.delete(&pod);
    assert!(soon(stream.message()).await.unwrap().is_none(), "ends with OK");
}

#[tokio::test]
async fn a_port_is_got_once() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let token = "{\"ns\":\"ns\",\"pod\":\"web-0\"}\n";
    let server = soon(client(&harness).await.get_port(spec(token, 80))).await.unwrap();
    assert_eq!(server_name(server.get_ref()), "web");
}

#[tokio::test]
async fn refusals_have_the_code_that_proxies_expect_and_say_what_is_wrong() {
    let harness = Harness::start().await;
    harness.index.pod("web-0", &[]);
    let cases = [
        ("web", 80, Code::InvalidArgument, "Invalid workload: expected `namespace:pod`"),
        ("{\"ns\":\"ns\"}", 80, Code::InvalidArgument, "Invalid workload: one of the keys `pod`"),
        ("ns:web-0", 0, Code::InvalidArgument, "Invalid port: `0` is not from 1 to 65535"),
        ("ns:web-0", 65_536, Code::InvalidArgument, "Invalid port: `65536` is not"),
        ("ns:gone", 80, Code::NotFound, "unknown server: no workload `ns/gone`"),
        ("ns:web-0", 81, Code::ResourceExhausted, "too many ports of `ns/web-0`"),
    ];
    for (workload, port, code, message) in cases {
        let status = watch(&harness, workload, port).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().starts_with(message), "{status:?}");
        let status = client(&harness).await.get_port(spec(workload, port)).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
    }
    // Not one of the codes that make a proxy give up.
    harness.index.set_synced(false);
    let status = watch(&harness, "ns:web-0", 80).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn pods_of_one_shape_share_one_encoding_and_have_their_own_addresses() {
    let harness = Harness::start().await;
    let shared = routed("web", &["a"]);
    let mut servers = Vec::new();
    for (name, last) in [("web-0", 3), ("web-1", 4)] {
        let pod = harness.index.pod(name, &[80]);
        harness.index.change(&pod, |state| {
            let pod_addresses = vec![[10, 1, 2, last].into()];
            state.facts = Arc::new(Facts { pod_addresses, ..Facts::default() });
        });
        harness.index.set(&pod, 80, &shared, 1);
        let mut stream = watch(&harness, &format!("ns:{name}"), 80).await.unwrap();
        let server = soon(stream.message()).await.unwrap().unwrap();
        let addresses: Vec<_> = server.server_ips.iter().map(|ip| ip.ip).collect();
        let bits = Ipv4Addr::new(10, 1, 2, last).to_bits();
        assert_eq!(addresses, [Some(Ip::Ipv4(bits))]);
        servers.push((stream, Server { server_ips: Vec::new(), ..server }));
    }
    assert_eq!(servers[0].1, servers[1].1);
    assert_eq!(harness.metrics.encodings(), (1, 1));
}

#[tokio::test]
async fn a_policy_too_large_for_the_client_is_a_denial() {
    let config = ServeConfig { max_policy_bytes: 4096, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    let names: Vec<String> = (0..500).map(|i| format!("route-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    harness.index.set(&pod, 80, &routed("web", &names), 1);
    let server = client(&harness).await.get_port(spec("ns:web-0", 80)).await.unwrap().into_inner();
    assert_eq!(server_name(&server), "web");
    assert!(server.authorizations.is_empty(), "{server:?}");
}

#[tokio::test]
async fn watches_over_the_bound_of_a_peer_are_refused_until_one_ends() {
    let config = ServeConfig { max_streams_per_peer: 2, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let first = watch(&harness, "ns:web-0", 80).await.unwrap();
    let _second = watch(&harness, "ns:web-0", 80).await.unwrap();
    let status = watch(&harness, "ns:web-0", 80).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "this address has 2 open watches, the most allowed");
    drop(first);
    let again = async {
        while watch(&harness, "ns:web-0", 80).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    soon(again).await;
}

/// A policy with a grant of its own for the addresses of the pod's node.
fn for_the_node(name: &str) -> Arc<ServerPolicy> {
    let mut policy = ServerPolicy::clone(&policy(name));
    let network = NetworkMatch::symbol(NetworkSymbol::NodeLocal);
    let source = Source::Default("probe".into());
    let condition = Condition { source: source.clone(), test: Predicate::Network(vec![network]) };
    let requirement = Requirement::All([condition].into());
    let grant = Authorization { source, requirement, audit: false };
    policy.authorizations = [Arc::new(grant)].into();
    Arc::new(policy)
}

/// Beside Linkerd a policy is on many nodes, and mostly names none.
#[tokio::test]
async fn a_policy_that_does_not_name_the_node_is_encoded_once_for_all_nodes() {
    for (policy, expected) in [(policy("web"), 1), (for_the_node("web"), 100)] {
        let harness = Harness::start().await;
        let mut streams = Vec::new();
        for node in 0..100_u8 {
            let pod = harness.index.pod(&format!("web-{node}"), &[80]);
            harness.index.change(&pod, |state| {
                let facts = Facts::clone(&state.facts);
                let node_local = vec![format!("10.9.0.{node}/32").parse().unwrap()];
                state.facts = Arc::new(Facts { node_local, ..facts });
            });
            harness.index.set(&pod, 80, &policy, 1);
            let mut stream = watch(&harness, &format!("ns:web-{node}"), 80).await.unwrap();
            let server = soon(stream.message()).await.unwrap().unwrap();
            let own = format!("10.9.0.{node}");
            let names = server.authorizations[0].networks.iter().any(|network| {
                let net = network.net.as_ref().and_then(|net| net.ip.as_ref()?.ip.as_ref());
                matches!(net, Some(Ip::Ipv4(bits)) if Ipv4Addr::from(*bits).to_string() == own)
            });
            assert_eq!(names, expected == 100, "{server:?}");
            streams.push(stream);
        }
        assert_eq!(harness.metrics.encodings().0, expected);
    }
}
