//! `Destination` and `OutboundPolicies` with the clients that Linkerd publishes.

mod outbound;

use crate::serve::{AuthzConfig, ServeConfig, StaleNotice};
use crate::testing::mesh::{Mesh, OWN};
use crate::testing::{QUIET, port, soon};
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::protocol_hint::{H2, Protocol};
use linkerd2_proxy_api::destination::tls_identity::{DnsLikeIdentity, Strategy};
use linkerd2_proxy_api::destination::update::Update as Change;
use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, NoEndpoints, ProtocolHint, TlsIdentity, Update,
    WeightedAddr,
};
use linkerd2_proxy_api::meta;
use linkerd2_proxy_api::net::TcpAddress;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use linkerd2_proxy_api::outbound::{TrafficSpec, traffic_spec};
use policy_core::WorkloadKey;
use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use policy_engine::{ClientPlace, DestinationScope, PublishedDestination, ScopeKind};
use policy_tls::control::ControllerAddress;
use prost::Message;
use std::collections::HashMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

const DOMAIN: &str = "cluster.local";
const WEB: &str = "web.ns.svc.cluster.local:80";

async fn mesh() -> Mesh {
    with(ServeConfig::default()).await
}

async fn with(config: ServeConfig) -> Mesh {
    Mesh::made(AuthzConfig::default(), config, |server, _| server.with_linkerd_discovery(DOMAIN))
        .await
}

fn lookup(path: &str, token: &str) -> GetDestination {
    GetDestination { path: path.into(), context_token: token.into(), ..GetDestination::default() }
}

async fn profile_stream(
    channel: &Channel,
    path: &str,
) -> Result<Streaming<DestinationProfile>, Status> {
    let mut client = DestinationClient::new(channel.clone());
    Ok(soon(client.get_profile(lookup(path, ""))).await?.into_inner())
}

async fn endpoints(
    channel: &Channel,
    path: &str,
    token: &str,
) -> Result<Streaming<Update>, Status> {
    let mut client = DestinationClient::new(channel.clone());
    Ok(soon(client.get(lookup(path, token))).await?.into_inner())
}

async fn next<M: Message + Default>(stream: &mut Streaming<M>) -> M {
    soon(stream.message()).await.unwrap().expect("the stream goes on")
}

async fn quiet<M: Message + Default + Debug + 'static>(stream: &mut Streaming<M>) {
    let silence = tokio::time::timeout(QUIET, stream.message()).await;
    assert!(silence.is_err(), "unexpected: {silence:?}");
}

fn plain(address: &str) -> Endpoint {
    let mesh = EndpointMesh::Plaintext(PlaintextReason::Unmeshed);
    Endpoint { address: address.parse().unwrap(), owner: "".into(), namespace: "".into(), mesh }
}

fn meshed(address: &str, opaque: bool) -> Endpoint {
    let mesh = EndpointMesh::Meshed(MeshEndpoint {
        identity: OWN.into(),
        server_name: OWN.into(),
        inbound_port: Some(port(4143)),
        opaque,
    });
    Endpoint { mesh, ..plain(address) }
}

fn web(endpoints: Vec<Endpoint>) -> Destination {
    let service = ServiceName { namespace: "ns".into(), name: "web".into() };
    let endpoints = endpoints.into();
    Destination::Service(ServiceDestination { service, port: port(80), affinity: None, endpoints })
}

fn published(destination: Destination, needs: ScopeKind) -> PublishedDestination {
    PublishedDestination { destination, needs, is_pending: false }
}

fn set_web(mesh: &Mesh, endpoints: Vec<Endpoint>) {
    let published = published(web(endpoints), ScopeKind::All);
    mesh.index.destinations.publish_service(("web", 80), DestinationScope::All, published);
}

fn sent(address: &str) -> WeightedAddr {
    let address: SocketAddr = address.parse().unwrap();
    WeightedAddr { addr: Some(address.into()), weight: 10_000, ..WeightedAddr::default() }
}

fn sent_meshed(address: &str) -> WeightedAddr {
    let name = || DnsLikeIdentity { name: OWN.into() };
    let strategy = Some(Strategy::DnsLikeIdentity(name()));
    let tls_identity = Some(TlsIdentity { strategy, server_name: Some(name()) });
    let hint = ProtocolHint { protocol: Some(Protocol::H2(H2 {})), opaque_transport: None };
    WeightedAddr { tls_identity, protocol_hint: Some(hint), ..sent(address) }
}

fn of_service() -> DestinationProfile {
    let resource = meta::Resource {
        group: "core".into(),
        kind: "Service".into(),
        name: "web".into(),
        namespace: "ns".into(),
        section: String::new(),
        port: 80,
    };
    let kind = Some(meta::metadata::Kind::Resource(resource));
    DestinationProfile {
        fully_qualified_name: "web.ns.svc.cluster.local".into(),
        parent_ref: Some(meta::Metadata { kind }),
        ..DestinationProfile::default()
    }
}

/// The addresses that an update adds.
fn added(update: Update) -> Vec<WeightedAddr> {
    match update.update {
        Some(Change::Add(set)) => {
            let labels = [("namespace", "ns"), ("service", "web")];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(set.metric_labels, HashMap::from(labels));
            set.addrs
        }
        other => panic!("expected endpoints, got {other:?}"),
    }
}

#[tokio::test]
async fn a_profile_follows_what_an_address_stands_for() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    let destinations = &mesh.index.destinations;
    let mut stream = profile_stream(&channel, "10.0.0.1:80").await.unwrap();
    assert_eq!(next(&mut stream).await, DestinationProfile::default());
    destinations.set("10.0.0.1:80", Destination::Workload(meshed("10.0.0.1:80", false)));
    let of_pod =
        DestinationProfile { endpoint: Some(sent_meshed("10.0.0.1:80")), ..Default::default() };
    assert_eq!(next(&mut stream).await, of_pod);
    destinations.set("10.0.0.1:80", web(vec![plain("10.1.0.1:80")]));
    assert_eq!(next(&mut stream).await, of_service());
    // A profile says nothing of endpoints.
    destinations.set("10.0.0.1:80", web(vec![meshed("10.1.0.2:80", false)]));
    quiet(&mut stream).await;
    destinations.set("10.0.0.1:80", web(vec![meshed("10.1.0.2:80", true)]));
    assert_eq!(
        next(&mut stream).await,
        DestinationProfile { opaque_protocol: true, ..of_service() }
    );
    destinations.set("10.0.0.1:80", Destination::Node);
    assert_eq!(next(&mut stream).await, DestinationProfile::default());
}

/// A pod may have the address by now, which would get bytes in plaintext.
#[tokio::test]
async fn that_nobody_has_an_address_is_taken_back_where_a_pod_may_have_it() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    let publish = |destination: Destination, is_pending: bool| {
        let published =
            PublishedDestination { is_pending, ..published(destination, ScopeKind::All) };
        mesh.index.destinations.publish("10.0.0.1:80", DestinationScope::All, published);
    };
    publish(Destination::Unknown, false);
    let mut profiles = profile_stream(&channel, "10.0.0.1:80").await.unwrap();
    let mut addresses = endpoints(&channel, "10.0.0.1:80", "").await.unwrap();
    assert_eq!(next(&mut profiles).await, DestinationProfile::default());
    next(&mut addresses).await;
    publish(Destination::Unknown, true);
    for ended in
        [soon(profiles.message()).await.unwrap_err(), soon(addresses.message()).await.unwrap_err()]
    {
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    }
    // Asked anew, it waits; and an identity that was stated stays.
    let mut profiles = profile_stream(&channel, "10.0.0.1:80").await.unwrap();
    quiet(&mut profiles).await;
    publish(Destination::Workload(meshed("10.0.0.1:80", false)), false);
    let endpoint = Some(sent_meshed("10.0.0.1:80"));
    let of_pod = DestinationProfile { endpoint, ..DestinationProfile::default() };
    assert_eq!(next(&mut profiles).await, of_pod);
    publish(Destination::Unknown, true);
    quiet(&mut profiles).await;
}

#[tokio::test]
async fn a_name_has_the_profile_of_its_service_or_none() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    set_web(&mesh, Vec::new());
    let nothing = DestinationProfile::default();
    let cases = [
        (WEB, of_service()),
        ("gone.ns.svc.cluster.local:80", nothing.clone()),
        ("web.ns.svc.east.example:80", nothing.clone()),
        ("web-0.web.ns.svc.cluster.local:80", nothing),
    ];
    for (path, expected) in cases {
        let mut stream = profile_stream(&channel, path).await.unwrap();
        assert_eq!(next(&mut stream).await, expected, "{path}");
        quiet(&mut stream).await;
    }
}

#[tokio::test]
async fn endpoints_come_at_once_and_change_by_address() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    let mut stream = endpoints(&channel, WEB, "").await.unwrap();
    let none = |exists| Update { update: Some(Change::NoEndpoints(NoEndpoints { exists })) };
    assert_eq!(next(&mut stream).await, none(false));
    set_web(&mesh, Vec::new());
    assert_eq!(next(&mut stream).await, none(true));
    set_web(&mesh, vec![plain("10.1.0.1:80"), meshed("10.1.0.2:80", false)]);
    let both = [sent("10.1.0.1:80"), sent_meshed("10.1.0.2:80")];
    assert_eq!(added(next(&mut stream).await), both);
    set_web(&mesh, vec![meshed("10.1.0.1:80", false), plain("10.1.0.3:80")]);
    let changed = [sent_meshed("10.1.0.1:80"), sent("10.1.0.3:80")];
    assert_eq!(added(next(&mut stream).await), changed);
    match next(&mut stream).await.update {
        Some(Change::Remove(set)) => assert_eq!(set.addrs, [sent("10.1.0.2:80").addr.unwrap()]),
        other => panic!("expected a removal, got {other:?}"),
    }
    set_web(&mesh, Vec::new());
    assert_eq!(next(&mut stream).await, none(true));
    // Names of elsewhere lead nowhere.
    for path in ["web.ns.svc.east.example:80", "example.com:443"] {
        let mut stream = endpoints(&channel, path, "").await.unwrap();
        assert_eq!(next(&mut stream).await, none(false), "{path}");
    }
}

#[tokio::test]
async fn a_large_service_comes_in_several_messages() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    let address = |n: u16| format!("10.1.{}.{}:80", n / 250, n % 250);
    set_web(&mesh, (0..1200).map(|n| plain(&address(n))).collect());
    let mut stream = endpoints(&channel, WEB, "").await.unwrap();
    let mut sizes = Vec::new();
    for _ in 0..3 {
        sizes.push(added(next(&mut stream).await).len());
    }
    assert_eq!(sizes, [500, 500, 200]);
    quiet(&mut stream).await;
}

#[tokio::test]
async fn a_client_gets_the_endpoints_for_its_place() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    let destinations = &mesh.index.destinations;
    let set = |scope: DestinationScope, needs, address: &str| {
        let published = published(web(vec![plain(address)]), needs);
        destinations.publish_service(("web", 80), scope, published);
    };
    let place = ClientPlace { node: Some("node-1".into()), zone: Some("zone-1".into()) };
    destinations.put(&WorkloadKey::pod("ns", "client"), place);
    set(DestinationScope::All, ScopeKind::Zone, "10.1.0.1:80");
    set(DestinationScope::Zone("zone-1".into()), ScopeKind::Zone, "10.1.0.2:80");
    let here = r#"{"ns":"ns","nodeName":"node-1","pod":"client"}"#;
    let new_pod = r#"{"ns":"ns","nodeName":"node-1","pod":"new"}"#;
    let mut in_zone = endpoints(&channel, WEB, here).await.unwrap();
    assert_eq!(added(next(&mut in_zone).await), [sent("10.1.0.2:80")]);
    for nowhere in ["", "ns:client", new_pod, "{"] {
        let mut stream = endpoints(&channel, WEB, nowhere).await.unwrap();
        assert_eq!(added(next(&mut stream).await), [sent("10.1.0.1:80")], "{nowhere}");
    }
    // From now on it depends on the node, which a token names itself.
    set(DestinationScope::Node("node-1".into()), ScopeKind::Node, "10.1.0.3:80");
    set(DestinationScope::All, ScopeKind::Node, "10.1.0.1:80");
    set(DestinationScope::Zone("zone-1".into()), ScopeKind::Node, "10.1.0.1:80");
    assert_eq!(added(next(&mut in_zone).await), [sent("10.1.0.3:80")]);
    let mut on_node = endpoints(&channel, WEB, new_pod).await.unwrap();
    assert_eq!(added(next(&mut on_node).await), [sent("10.1.0.3:80")]);
}

fn at(address: &str) -> TrafficSpec {
    let address: SocketAddr = address.parse().unwrap();
    let target = traffic_spec::Target::Addr(TcpAddress::from(address));
    TrafficSpec { source_workload: "ns:web-0".into(), target: Some(target) }
}

#[tokio::test]
async fn requests_that_cannot_be_read_are_refused_by_their_field() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    let refusal = endpoints(&channel, "web:0", "").await.unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument);
    assert_eq!(refusal.message(), "path: no port from 1 to 65535 in `web:0`");
    let spec = TrafficSpec { source_workload: "ns:web-0".into(), target: None };
    let mut client = OutboundPoliciesClient::new(channel.clone());
    let refusal = soon(client.watch(spec)).await.unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument);
    assert_eq!(refusal.message(), "target: must be set");
    let refusal = endpoints(&channel, WEB, &"a".repeat(5000)).await.unwrap_err();
    assert_eq!(refusal.code(), Code::OutOfRange);
}

#[tokio::test]
async fn destinations_are_for_identities_of_the_mesh_whatever_they_are() {
    let mesh = mesh().await;
    let channel = mesh.channel("any.other.serviceaccount.identity.linkerd.cluster.local").await;
    let mut stream = profile_stream(&channel, "10.0.0.1:80").await.unwrap();
    assert_eq!(next(&mut stream).await, DestinationProfile::default());
    let stranger = mesh.connect(mesh.authority.stranger()).await.unwrap();
    let refusals = [
        profile_stream(&stranger, "10.0.0.1:80").await.unwrap_err(),
        endpoints(&stranger, WEB, "").await.unwrap_err(),
        soon(OutboundPoliciesClient::new(stranger.clone()).get(at("10.0.0.1:80")))
            .await
            .unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.code(), Code::Unauthenticated, "{refusal:?}");
    }
}

#[tokio::test]
async fn before_objects_are_listed_nothing_is_said() {
    let mesh = mesh().await;
    mesh.index.set_synced(false);
    let channel = mesh.channel(OWN).await;
    let refusals = [
        profile_stream(&channel, "10.0.0.1:80").await.unwrap_err(),
        endpoints(&channel, WEB, "").await.unwrap_err(),
        soon(OutboundPoliciesClient::new(channel.clone()).get(at("10.0.0.1:80")))
            .await
            .unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.code(), Code::Unavailable, "{refusal:?}");
    }
}

#[tokio::test]
async fn streams_are_counted_and_end_as_those_of_policies_do() {
    let config = ServeConfig {
        max_streams_per_peer: 1,
        max_connection_age: Some(Duration::from_secs(3)),
        ..ServeConfig::default()
    };
    let mesh = with(config).await;
    let channel = mesh.channel(OWN).await;
    let mut stream = profile_stream(&channel, "10.0.0.1:80").await.unwrap();
    next(&mut stream).await;
    let refusal = endpoints(&channel, WEB, "").await.unwrap_err();
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    assert_eq!(soon(stream.message()).await.unwrap(), None, "it ends with its connection");
    let mut stream = endpoints(&channel, WEB, "").await.unwrap();
    next(&mut stream).await;
    mesh.stale.send_replace(StaleNotice { times: 1, watch: "Services".into() });
    let end = soon(stream.message()).await.unwrap_err();
    assert_eq!(end.code(), Code::Unavailable);
}

/// Otherwise one client holds as many copies of an answer as it opens streams that it does not read.
#[tokio::test]
async fn streams_about_one_service_share_its_messages() {
    let mesh = mesh().await;
    let channel = mesh.channel(OWN).await;
    set_web(&mesh, vec![plain("10.1.0.1:80"), plain("10.1.0.2:80")]);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(endpoints(&channel, WEB, "").await.unwrap());
    }
    for stream in &mut streams {
        let all = [sent("10.1.0.1:80"), sent("10.1.0.2:80")];
        assert_eq!(added(next(stream).await), all);
    }
    assert_eq!(mesh.metrics.encodings(), (1, 2));
    set_web(&mesh, vec![plain("10.1.0.1:80"), plain("10.1.0.3:80")]);
    for stream in &mut streams {
        assert_eq!(added(next(stream).await), [sent("10.1.0.3:80")]);
        let removed = next(stream).await.update;
        assert!(matches!(removed, Some(Change::Remove(_))), "{removed:?}");
    }
    assert_eq!(mesh.metrics.encodings(), (2, 4));
}

/// Linkerd's controller knows routes and retries, which an answer of ours would drop.
#[tokio::test]
async fn where_outbound_policy_is_forwarded_all_of_it_is() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let made = Mesh::made(AuthzConfig::default(), ServeConfig::default(), |server, tls| {
        let to = ControllerAddress::loopback(gone).unwrap();
        server.with_linkerd_discovery(DOMAIN).with_outbound(to, Some(tls))
    });
    let mesh = made.await;
    let channel = mesh.channel(OWN).await;
    mesh.index.destinations.set("10.0.0.1:80", web(Vec::new()));
    let mut client = OutboundPoliciesClient::new(channel.clone());
    let refusal = soon(client.get(at("10.0.0.1:80"))).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable);
    assert!(refusal.message().contains(&gone.to_string()), "{refusal}");
    let mut stream = profile_stream(&channel, "10.0.0.1:80").await.unwrap();
    assert_eq!(next(&mut stream).await, of_service());
}
