//! The kubelet's probes from the address of a bridge, which is the node's if the pod's default
//! route leads to it.

use crate::sidecar::Sidecar;
use crate::support::*;
use policy_core::feature::Feature;
use policy_core::{
    Authorization, Condition, DefaultPolicy, Exemption, Facts, NetworkMatch, NetworkSymbol, Owner,
    PathPattern, Predicate, Protocol, RequestMatch, Requirement, Revision, ServerPolicy, Source,
};
use policy_proto::messages::policy_discovery_server::{PolicyDiscovery, PolicyDiscoveryServer};
use policy_proto::messages::watch_response::Kind;
use policy_proto::messages::{Undeclared, WatchRequest, WatchResponse, Workload};
use policy_proto::native::{encode_facts, encode_port};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

const WEB: NonZeroU16 = NonZeroU16::new(8080).unwrap();
const ADMIN: NonZeroU16 = NonZeroU16::new(4191).unwrap();

/// A policy that grants the probe to the node alone.
fn policy() -> ServerPolicy {
    let source = Source::Default("probe".into());
    let network = NetworkMatch::symbol(NetworkSymbol::NodeLocal);
    let condition = Condition { source: source.clone(), test: Predicate::Network(vec![network]) };
    let requirement = Requirement::All([condition].into());
    let probe = RequestMatch::path(PathPattern::exact("/ready"));
    let owner = Owner::Default(DefaultPolicy::Deny);
    let mut policy = ServerPolicy::without_grants(owner, Protocol::Http1);
    policy.exemptions = vec![Exemption {
        request: Some(probe.with_method(Some(http::Method::GET)).into()),
        authorization: Arc::new(Authorization { source, requirement, audit: false }),
    }];
    policy
}

/// A controller that describes every workload as the pod, and proposes the client's addresses as
/// the node's.
struct Proposing;

#[tonic::async_trait]
impl PolicyDiscovery for Proposing {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        _: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let facts = Facts {
            pod_addresses: POD.to_vec(),
            node_local: vec!["172.18.0.2/32".parse().unwrap()],
            pod_gateways: CLIENT.to_vec(),
            ..Facts::default()
        };
        let workload = Workload {
            name: "pod ns/web-0".to_owned(),
            facts: Some(encode_facts(&facts)),
            declared_ports: vec![ADMIN.get().into(), WEB.get().into()],
            undeclared: Undeclared::Default.into(),
            revision: None,
            takes_refusals: false,
        };
        let encoded = encode_port(&policy(), &Feature::ALL.into_iter().collect());
        // The application's port last: a client that waits for it has the others, too.
        let ports = [ADMIN, WEB].map(|port| Kind::Port(encoded.full(port, &Revision::default())));
        let (say, stream) = mpsc::channel(8);
        for kind in std::iter::once(Kind::Workload(workload)).chain(ports) {
            say.send(Ok(WatchResponse { kind: Some(kind) })).await.unwrap();
        }
        // The stream stays open as long as the server.
        tokio::spawn(async move { say.closed().await });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Serves on loopback of the pod.
fn controller(pod: &Namespace) -> SocketAddr {
    let listener = pod.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let service = PolicyDiscoveryServer::new(Proposing);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
    });
    address
}

/// An HTTP/1 server in the pod, on every address.
fn application(pod: &Namespace) {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, WEB.get()));
    let listener = pod.inside(|| TcpListener::bind(address).unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 1024];
            // The client may be gone.
            let _ = stream.read(&mut head);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
}

/// Starts a pod with these default gateways, and its sidecar.
fn routed(gateways: &[IpAddr]) -> Option<(World, Sidecar)> {
    let world = world_or_skip()?;
    for gateway in gateways {
        let family = if gateway.is_ipv4() { "-4" } else { "-6" };
        world.pod.run(&format!("ip {family} route add default via {gateway}"));
    }
    let output = world.redirect("");
    assert!(output.status.success(), "{}", said(&output));
    application(&world.pod);
    let sidecar = Sidecar::following(&world, controller(&world.pod), &[]);
    Some((world, sidecar))
}

/// The status that the client gets.
fn get(world: &World, to: SocketAddr, path: &str) -> String {
    let mut stream = world.connect(to).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").unwrap();
    read_all(stream).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// The client's responses, per address family: its probe, another request, and the probe of the
/// sidecar itself.
fn answers(world: &World) -> [[String; 3]; 2] {
    POD.map(|pod| {
        let web = SocketAddr::new(pod, WEB.get());
        let own = SocketAddr::new(pod, ADMIN.get());
        [get(world, web, "/ready"), get(world, web, "/"), get(world, own, "/live")]
    })
}

const NODE: [&str; 3] = ["200", "403", "200"];
const STRANGER: [&str; 3] = ["403", "403", "403"];

/// Number of log lines about the outcome of a proposed address.
fn told(sidecar: &Sidecar, what: &str) -> usize {
    sidecar.log().lines().filter(|line| line.contains(what)).count()
}

#[test]
fn probes_from_a_proposed_address_pass_where_it_is_the_pods_default_gateway() {
    let Some((world, sidecar)) = routed(&CLIENT) else { return };
    assert_eq!(answers(&world), [NODE, NODE]);
    assert_eq!(told(&sidecar, "default gateway of this pod, added"), 2, "once for each family");
}

#[test]
fn a_proposed_address_that_is_no_default_gateway_may_be_a_pods_and_is_not_exempt() {
    let other = CLIENT.map(|address| match address {
        IpAddr::V4(_) => "10.77.0.9".parse().unwrap(),
        IpAddr::V6(_) => "fd77::9".parse().unwrap(),
    });
    for gateways in [other.as_slice(), &[]] {
        let Some((world, sidecar)) = routed(gateways) else { return };
        assert_eq!(answers(&world), [STRANGER, STRANGER], "{gateways:?}");
        assert_eq!(
            told(&sidecar, "not a default gateway of this pod, not added"),
            2,
            "{gateways:?}"
        );
    }
}

#[test]
fn each_family_has_a_default_gateway_of_its_own() {
    for (family, expected) in [[NODE, STRANGER], [STRANGER, NODE]].into_iter().enumerate() {
        let Some((world, _sidecar)) = routed(&CLIENT[family..=family]) else { return };
        assert_eq!(answers(&world), expected, "{family}");
    }
}
