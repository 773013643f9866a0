//! From a file to a client of Linkerd's API: where its connections lead, from a directory of
//! manifests to the messages that Linkerd publishes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::protocol_hint::{H2, Opaque, OpaqueTransport, Protocol};
use linkerd2_proxy_api::destination::tls_identity::{DnsLikeIdentity, Strategy};
use linkerd2_proxy_api::destination::update::Update as Change;
use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, NoEndpoints, ProtocolHint, TlsIdentity, Update,
    WeightedAddr, WeightedAddrSet,
};
use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use linkerd2_proxy_api::outbound::{
    OutboundPolicy, TrafficSpec, backend, opaque_route, proxy_protocol, traffic_spec,
};
use policy_controller::directory::DirectorySource;
use policy_controller::run::{Embedded, start_embedded};
use policy_engine::ControllerConfig;
use policy_testkit::soon;
use std::net::SocketAddr;
use std::path::Path;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

const WEB_SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]
";

/// Two pods of one Service, one of them with a sidecar; and a database with a sidecar, whose port is
/// declared as bytes.
const REST: &str = r#"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.42.1.7], conditions: {ready: true}, targetRef: {kind: Pod, namespace: shop, name: web-1}}
- {addresses: [10.42.1.8], conditions: {ready: true}, targetRef: {kind: Pod, namespace: shop, name: web-2}}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  namespace: shop
  labels: {app: web, portcullis.dev/proxy: injected}
  annotations:
    portcullis.dev/sidecar: '{"version":"1","inboundPort":4143,"outbound":"on","capture":"init-container"}'
spec:
  serviceAccountName: web
  containers: [{name: app, ports: [{containerPort: 8080}]}]
status: {phase: Running, podIP: 10.42.1.7, podIPs: [{ip: 10.42.1.7}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: shop, labels: {app: web}}
spec: {containers: [{name: app, ports: [{containerPort: 8080}]}]}
status: {phase: Running, podIP: 10.42.1.8, podIPs: [{ip: 10.42.1.8}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec:
  clusterIP: 10.96.0.11
  clusterIPs: [10.96.0.11]
  ports: [{port: 3306, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: "", port: 3306, protocol: TCP}]
endpoints: [{addresses: [10.42.1.9], conditions: {ready: true}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  namespace: shop
  labels: {app: db, portcullis.dev/proxy: injected}
  annotations:
    portcullis.dev/sidecar: '{"version":"1","inboundPort":4143,"outbound":"on","capture":"init-container"}'
spec:
  serviceAccountName: db
  containers: [{name: app, ports: [{containerPort: 3306}]}]
status: {phase: Running, podIP: 10.42.1.9, podIPs: [{ip: 10.42.1.9}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, port: 3306, proxyProtocol: opaque}
"#;

async fn serve(directory: &Path) -> (Embedded, Channel) {
    let config = ControllerConfig::default();
    let source = DirectorySource::new(directory, config.limits);
    let embedded = start_embedded(config, source, ([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut synced = embedded.policies.synced();
    soon(synced.wait_for(|synced| *synced)).await.unwrap();
    let address = format!("http://{}", embedded.addr);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    (embedded, channel)
}

fn at(address: &str) -> TrafficSpec {
    let address: SocketAddr = address.parse().unwrap();
    let target = Some(traffic_spec::Target::Addr(address.into()));
    TrafficSpec { source_workload: "shop:client".into(), target }
}

fn lookup(path: &str) -> GetDestination {
    let context_token = r#"{"ns":"shop","nodeName":"node-1","pod":"client"}"#.into();
    GetDestination { path: path.into(), context_token, ..GetDestination::default() }
}

/// The path for `Destination.Get` that a client gets for its bytes, and whether they are all it has.
fn leads_to(policy: OutboundPolicy) -> (String, bool) {
    let (bytes, only) = match policy.protocol.unwrap().kind.unwrap() {
        proxy_protocol::Kind::Detect(detect) => (detect.opaque.unwrap(), false),
        proxy_protocol::Kind::Opaque(bytes) => (bytes, true),
        other @ (proxy_protocol::Kind::Http1(_)
        | proxy_protocol::Kind::Http2(_)
        | proxy_protocol::Kind::Grpc(_)
        | proxy_protocol::Kind::Tls(_)) => panic!("{other:?}"),
    };
    let distribution = bytes.routes[0].rules[0].backends.clone().unwrap().kind.unwrap();
    let opaque_route::distribution::Kind::FirstAvailable(first) = distribution else {
        panic!("{distribution:?}")
    };
    let backend = first.backends[0].backend.clone().unwrap().kind.unwrap();
    let backend::Kind::Balancer(balancer) = backend else { panic!("{backend:?}") };
    let backend::endpoint_discovery::Kind::Dst(get) = balancer.discovery.unwrap().kind.unwrap();
    (get.path, only)
}

fn plain(address: &str, owner: &str) -> WeightedAddr {
    let address: SocketAddr = address.parse().unwrap();
    let labels = [("namespace", "shop"), ("pod", owner)];
    WeightedAddr {
        addr: Some(address.into()),
        weight: 10_000,
        metric_labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
        ..WeightedAddr::default()
    }
}

fn meshed(address: &str, owner: &str, account: &str, hint: ProtocolHint) -> WeightedAddr {
    let config = ControllerConfig::default();
    let identity = config.certifiable_identity("shop", account).unwrap();
    let name = || DnsLikeIdentity { name: identity.to_string() };
    let strategy = Some(Strategy::DnsLikeIdentity(name()));
    let tls_identity = Some(TlsIdentity { strategy, server_name: Some(name()) });
    WeightedAddr { tls_identity, protocol_hint: Some(hint), ..plain(address, owner) }
}

fn http() -> ProtocolHint {
    ProtocolHint { protocol: Some(Protocol::H2(H2 {})), opaque_transport: None }
}

fn by_header() -> ProtocolHint {
    let opaque_transport = Some(OpaqueTransport { inbound_port: 4143 });
    ProtocolHint { protocol: Some(Protocol::Opaque(Opaque {})), opaque_transport }
}

fn add(service: &str, mut addrs: Vec<WeightedAddr>) -> Update {
    let labels = [("namespace", "shop"), ("service", service)];
    let metric_labels = labels.map(|(key, value)| (key.into(), value.into())).into();
    addrs.sort_by_key(|one| one.addr.map(|addr| SocketAddr::try_from(addr).unwrap()));
    Update { update: Some(Change::Add(WeightedAddrSet { addrs, metric_labels })) }
}

fn none(exists: bool) -> Update {
    Update { update: Some(Change::NoEndpoints(NoEndpoints { exists })) }
}

async fn next<M>(stream: &mut Streaming<M>) -> M {
    soon(stream.message()).await.unwrap().expect("the stream goes on")
}

fn service(name: &str, port: u32) -> Option<Metadata> {
    let resource = Resource {
        group: "core".into(),
        kind: "Service".into(),
        name: name.into(),
        namespace: "shop".into(),
        section: String::new(),
        port,
    };
    Some(Metadata { kind: Some(metadata::Kind::Resource(resource)) })
}

/// A Service's profile names it, a pod's has its endpoint, and nobody's is empty.
async fn profiles_are_as_expected(
    destinations: &mut DestinationClient<Channel>,
    database: WeightedAddr,
) {
    let web = "web.shop.svc.cluster.local:80";
    let of_service = DestinationProfile {
        fully_qualified_name: "web.shop.svc.cluster.local".into(),
        parent_ref: service("web", 80),
        ..DestinationProfile::default()
    };
    let endpoint = |endpoint: WeightedAddr, opaque_protocol| DestinationProfile {
        endpoint: Some(endpoint),
        opaque_protocol,
        ..DestinationProfile::default()
    };
    let profiles = [
        ("10.96.0.10:80", of_service.clone()),
        (web, of_service),
        ("10.42.1.7:8080", endpoint(meshed("10.42.1.7:8080", "web-1", "web", http()), false)),
        ("10.42.1.8:8080", endpoint(plain("10.42.1.8:8080", "web-2"), false)),
        ("10.42.1.9:3306", endpoint(database, true)),
        ("192.0.2.1:443", DestinationProfile::default()),
        ("www.example.com:443", DestinationProfile::default()),
    ];
    for (path, expected) in profiles {
        let mut stream = soon(destinations.get_profile(lookup(path))).await.unwrap().into_inner();
        assert_eq!(next(&mut stream).await, expected, "{path}");
    }
}

/// As Linkerd's proxy does for each connection: the policy of the address and its profile, then the
/// endpoints of the name that the policy leads to.
#[tokio::test]
async fn a_client_of_linkerds_api_finds_the_pods_of_a_service() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("service.yaml", WEB_SERVICE);
    write("rest.yaml", REST);
    let (embedded, channel) = serve(directory.path()).await;
    let mut policies = OutboundPoliciesClient::new(channel.clone());
    let mut destinations = DestinationClient::new(channel);
    let web = "web.shop.svc.cluster.local:80";
    let mut endpoints = soon(destinations.get(lookup(web))).await.unwrap().into_inner();
    let both =
        vec![meshed("10.42.1.7:8080", "web-1", "web", http()), plain("10.42.1.8:8080", "web-2")];
    assert_eq!(next(&mut endpoints).await, add("web", both));
    let db = "db.shop.svc.cluster.local:3306";
    let mut of_db = soon(destinations.get(lookup(db))).await.unwrap().into_inner();
    let database = meshed("10.42.1.9:3306", "db-0", "db", by_header());
    assert_eq!(next(&mut of_db).await, add("db", vec![database.clone()]));

    let cases = [
        ("10.96.0.10:80", "web.shop.svc.cluster.local:80", false),
        ("10.96.0.11:3306", "db.shop.svc.cluster.local:3306", true),
    ];
    for (address, path, opaque) in cases {
        let policy = soon(policies.get(at(address))).await.unwrap().into_inner();
        assert_eq!(leads_to(policy), (path.to_owned(), opaque));
    }

    profiles_are_as_expected(&mut destinations, database).await;
    // No policy sends a client to a pod: it takes the endpoint of the profile.
    for address in ["10.42.1.7:8080", "192.0.2.1:443"] {
        let refusal = soon(policies.watch(at(address))).await.unwrap_err();
        assert_eq!(refusal.code(), Code::NotFound, "{address}");
    }
    let mut watched = soon(policies.watch(at("10.96.0.10:80"))).await.unwrap().into_inner();
    assert_eq!(leads_to(next(&mut watched).await), (web.to_owned(), false));
    // The second pod gets a sidecar, then the Service goes.
    let marked = REST.replace(
        "name: web-2, namespace: shop, labels: {app: web}",
        "name: web-2, namespace: shop, labels: {app: web, portcullis.dev/proxy: injected}, \
         annotations: {portcullis.dev/sidecar: '{\"version\":\"1\",\"inboundPort\":4143,\
         \"outbound\":\"on\",\"capture\":\"init-container\"}'}",
    );
    assert_ne!(marked, REST);
    write("rest.yaml", &marked);
    let second = meshed("10.42.1.8:8080", "web-2", "default", http());
    assert_eq!(next(&mut endpoints).await, add("web", vec![second]));
    std::fs::remove_file(directory.path().join("service.yaml")).unwrap();
    assert_eq!(next(&mut endpoints).await, none(false));
    assert_eq!(soon(watched.message()).await.unwrap_err().code(), Code::NotFound);
    embedded.shutdown().await;
}
