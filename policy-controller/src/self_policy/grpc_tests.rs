//! The gRPC port behind its guard, under a cluster that denies by default.

use crate::args::SelfPolicyArgs;
use crate::self_policy::{OwnPorts, SelfPolicy};
use policy_core::{DefaultPolicy, ObjectRef, Owner, Protocol, ServerPolicy, Unmatched};
use policy_discovery::serve::{AuthzConfig, ServeConfig};
use policy_discovery::testing::client::{Client, hello, until};
use policy_discovery::testing::mesh::{Mesh, OWN, SUFFIX, get, watch_port};
use policy_discovery::testing::{policy, port, soon};
use policy_engine::config::ControllerConfig;
use policy_proto::messages::watch_request::Kind;
use std::sync::Arc;
use tonic::Code;

async fn mesh() -> (Mesh, SelfPolicy) {
    let config = ControllerConfig { default_policy: DefaultPolicy::Deny, ..Default::default() };
    let ports = OwnPorts { grpc: port(8090), admission: None, admin: port(8080) };
    let settings = SelfPolicyArgs::default().settings(Some("controller-0"), "ns");
    let guard = SelfPolicy::new(&settings, ports, &config).unwrap();
    let access = AuthzConfig::default();
    (Mesh::behind(Some(guard.grpc()), access, ServeConfig::default()).await, guard)
}

#[tokio::test]
async fn every_identity_reaches_the_service_which_decides_what_it_may_watch() {
    let (mesh, _guard) = mesh().await;
    let channel = mesh.channel(OWN).await;
    soon(get(channel.clone(), "ns:web-0")).await.unwrap();
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(channel, first).await.unwrap();
    client.workload().await;
    client.port().await;
    let other = mesh.channel(&format!("other.ns.{SUFFIX}")).await;
    let status = soon(get(other, "ns:web-0")).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains(OWN), "the service's answer: {status:?}");
}

#[tokio::test]
async fn who_has_neither_identity_nor_token_is_told_so_before_the_guard_is_asked() {
    let (mesh, _guard) = mesh().await;
    let channel = mesh.connect(mesh.authority.stranger()).await.unwrap();
    let status = soon(get(channel, "ns:web-0")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
}

#[tokio::test]
async fn a_server_of_the_cluster_that_closes_the_port_ends_open_streams() {
    let (mesh, guard) = mesh().await;
    let pod = mesh.index.pod("controller-0", &[8090, 8080]);
    let open = policy("open");
    for number in [8090, 8080] {
        mesh.index.set(&pod, number, &open, 1);
    }
    let following = tokio::spawn(guard.clone().follow(mesh.policies.clone()));
    let mut stream = soon(watch_port(mesh.channel(OWN).await, "ns:web-0")).await.unwrap();
    until(|| mesh.index.watchers(&pod, 8090) > 0).await;
    let owner = Owner::Server(ObjectRef::new("policy.linkerd.io", "Server", "ns", "closed"));
    let mut closed = ServerPolicy::without_grants(owner, Protocol::Grpc);
    closed.routes.otherwise = Unmatched::DefaultRoute;
    mesh.index.set(&pod, 8090, &Arc::new(closed), 2);
    soon(stream.message()).await.unwrap_err();
    let channel = mesh.channel(OWN).await;
    let status = soon(get(channel.clone(), "ns:web-0")).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    mesh.index.delete(&pod);
    let served = async {
        while get(channel.clone(), "ns:web-0").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    soon(served).await;
    following.abort();
}
