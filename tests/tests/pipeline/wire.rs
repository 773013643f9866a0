//! Messages of our controller, read by Linkerd's own client, decode in its types and in ours.

use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient as Theirs;
use linkerd2_proxy_api::inbound::{PortSpec, Server, proxy_protocol};
use policy_controller::directory::DirectorySource;
use policy_controller::run::start_embedded;
use policy_core::{Owner, Protocol};
use policy_engine::{ControllerConfig, compile_directory};
use policy_proto::compat;
use policy_testkit::soon;
use policy_tests::sources::root;
use prost::Message;
use std::collections::BTreeSet;
use tonic::transport::Endpoint;

/// The protocol as their type says it.
fn spoken(server: &Server) -> &'static str {
    let kind = server.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref());
    match kind.expect("every Server says its protocol") {
        proxy_protocol::Kind::Detect(_) => "detect",
        proxy_protocol::Kind::Http1(_) => "http1",
        proxy_protocol::Kind::Http2(_) => "http2",
        proxy_protocol::Kind::Grpc(_) => "grpc",
        proxy_protocol::Kind::Opaque(_) => "opaque",
        proxy_protocol::Kind::Tls(_) => "tls",
    }
}

fn meant(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Detect { .. } => "detect",
        Protocol::Http1 => "http1",
        Protocol::Http2 => "http2",
        Protocol::Grpc => "grpc",
        Protocol::Opaque => "opaque",
        Protocol::Tls => "tls",
    }
}

/// The owner as their message says it: without its namespace.
fn owner(owner: &Owner) -> String {
    match owner {
        Owner::Server(object) => format!("{}/{} {}", object.group(), object.kind(), object.name()),
        Owner::Default(policy) => policy.as_str().to_owned(),
    }
}

#[tokio::test]
async fn linkerds_client_reads_every_port_of_emojivoto() {
    let directory = root().join("examples/emojivoto");
    let config = ControllerConfig::default();
    let compiled = compile_directory(&directory, &config).unwrap();
    let source = DirectorySource::new(&directory, config.limits);
    let controller = start_embedded(config, source, ([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut synced = controller.policies.synced();
    soon(synced.wait_for(|synced| *synced)).await.unwrap();
    let address = format!("http://{}", controller.addr);
    let channel = soon(Endpoint::from_shared(address).unwrap().connect()).await.unwrap();
    let mut client = Theirs::new(channel);
    let mut protocols = BTreeSet::new();
    let mut ports = 0;
    for (key, workload) in &compiled.workloads {
        let token = format!("{}:{}", key.namespace, key.name);
        for (port, policy) in &workload.policy.ports {
            let spec = PortSpec { workload: token.clone(), port: port.get().into() };
            let mut stream = soon(client.watch_port(spec)).await.unwrap().into_inner();
            let server = soon(stream.message()).await.unwrap().expect("a first message");
            assert_eq!(spoken(&server), meant(policy.protocol), "{token} {port}");
            protocols.insert(spoken(&server));
            // Their message is one of ours with nothing lost, and says a policy.
            let bytes = server.encode_to_vec();
            let ours = policy_proto::linkerd::inbound::Server::decode(&*bytes).unwrap();
            let theirs = Server::decode(&*ours.encode_to_vec()).unwrap();
            assert_eq!(theirs, server, "{token} {port}");
            let decoded = compat::decode(&ours).unwrap_or_else(|e| panic!("{token} {port}: {e}"));
            assert_eq!(owner(&decoded.owner), owner(&policy.owner), "{token} {port}");
            assert_eq!(decoded.routes.routes.len(), server_routes(&server), "{token} {port}");
            ports += 1;
        }
    }
    assert!(ports >= 7, "{ports} ports");
    assert!(protocols.is_superset(&BTreeSet::from(["grpc", "http1"])), "{protocols:?}");
}

/// Routes in the message for the protocol spoken.
fn server_routes(server: &Server) -> usize {
    match server.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()) {
        Some(proxy_protocol::Kind::Detect(detect)) => detect.http_routes.len(),
        Some(proxy_protocol::Kind::Http1(http)) => http.routes.len(),
        Some(proxy_protocol::Kind::Http2(http)) => http.routes.len(),
        Some(proxy_protocol::Kind::Grpc(grpc)) => grpc.routes.len(),
        Some(proxy_protocol::Kind::Opaque(_) | proxy_protocol::Kind::Tls(_)) | None => 0,
    }
}
