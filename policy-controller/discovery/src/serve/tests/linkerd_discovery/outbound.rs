//! What an address stands for, by `OutboundPolicies`.

use super::{WEB, at, mesh, meshed, next, of_service, plain, published, quiet, set_web, web};
use crate::testing::mesh::OWN;
use crate::testing::soon;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use linkerd2_proxy_api::outbound::proxy_protocol::Kind;
use linkerd2_proxy_api::outbound::{OutboundPolicy, TrafficSpec, traffic_spec};
use policy_core::WorkloadKey;
use policy_core::destination::{Destination, ServiceName};
use policy_engine::{ClientPlace, DestinationScope, ScopeKind};
use tonic::Code;

fn named(authority: &str) -> TrafficSpec {
    let target = traffic_spec::Target::Authority(authority.into());
    TrafficSpec { source_workload: "ns:web-0".into(), target: Some(target) }
}

/// The name that a policy sends its client to, and whether connections are bytes from the start.
fn leads_to(policy: &OutboundPolicy) -> (String, bool) {
    use linkerd2_proxy_api::outbound::backend::Kind as Backend;
    use linkerd2_proxy_api::outbound::backend::endpoint_discovery::Kind as Discovery;
    use linkerd2_proxy_api::outbound::opaque_route::distribution::Kind as Distribution;
    assert_eq!(policy.metadata, of_service().parent_ref);
    let (bytes, opaque) = match policy.protocol.clone().unwrap().kind.unwrap() {
        Kind::Detect(detect) => (detect.opaque.unwrap(), false),
        Kind::Opaque(bytes) => (bytes, true),
        other @ (Kind::Http1(_) | Kind::Http2(_) | Kind::Grpc(_) | Kind::Tls(_)) => {
            panic!("{other:?}")
        }
    };
    let distribution = bytes.routes[0].rules[0].backends.clone().unwrap().kind.unwrap();
    let Distribution::FirstAvailable(first) = distribution else { panic!("{distribution:?}") };
    let backend = first.backends[0].backend.clone().unwrap().kind.unwrap();
    let Backend::Balancer(balancer) = backend else { panic!("{backend:?}") };
    let Discovery::Dst(get) = balancer.discovery.unwrap().kind.unwrap();
    (get.path, opaque)
}

#[tokio::test]
async fn the_policy_of_a_service_sends_its_client_to_the_endpoints() {
    let mesh = mesh().await;
    let destinations = &mesh.index.destinations;
    let mut client = OutboundPoliciesClient::new(mesh.channel(OWN).await);
    destinations.set("10.0.0.1:80", web(vec![plain("10.1.0.1:80")]));
    set_web(&mesh, Vec::new());
    for spec in [at("10.0.0.1:80"), named(WEB)] {
        let policy = soon(client.get(spec)).await.unwrap().into_inner();
        assert_eq!(leads_to(&policy), (WEB.to_owned(), false));
    }
    let mut stream = soon(client.watch(at("10.0.0.1:80"))).await.unwrap().into_inner();
    assert_eq!(leads_to(&next(&mut stream).await), (WEB.to_owned(), false));
    destinations.set("10.0.0.1:80", web(vec![plain("10.1.0.2:80")]));
    quiet(&mut stream).await;
    destinations.set("10.0.0.1:80", web(vec![meshed("10.1.0.2:80", true)]));
    assert_eq!(leads_to(&next(&mut stream).await), (WEB.to_owned(), true));
    // Connections to a port that is not declared fail for want of endpoints.
    let service = ServiceName { namespace: "ns".into(), name: "web".into() };
    destinations.set("10.0.0.1:80", Destination::UndeclaredPort(service));
    assert_eq!(leads_to(&next(&mut stream).await), (WEB.to_owned(), false));
    destinations.set("10.0.0.1:80", Destination::Unknown);
    let end = soon(stream.message()).await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::NotFound, "not a Service"));
}

/// Whether a port is bytes may depend on the endpoints of the client's own node.
#[tokio::test]
async fn a_policy_is_for_the_place_of_its_client() {
    let mesh = mesh().await;
    let destinations = &mesh.index.destinations;
    let set = |scope: DestinationScope, endpoints| {
        destinations.publish("10.0.0.1:80", scope, published(web(endpoints), ScopeKind::Node));
    };
    let place = ClientPlace { node: Some("node-1".into()), zone: None };
    destinations.put(&WorkloadKey::pod("ns", "web-0"), place);
    set(DestinationScope::All, Vec::new());
    set(DestinationScope::Node("node-1".into()), vec![meshed("10.1.0.1:80", true)]);
    let mut client = OutboundPoliciesClient::new(mesh.channel(OWN).await);
    for (source, opaque) in [("ns:web-0", true), ("ns:new", false), ("?", false)] {
        let spec = TrafficSpec { source_workload: source.into(), ..at("10.0.0.1:80") };
        let policy = soon(client.get(spec)).await.unwrap().into_inner();
        assert_eq!(leads_to(&policy), (WEB.to_owned(), opaque), "{source}");
    }
}

#[tokio::test]
async fn what_is_no_service_has_no_policy() {
    let mesh = mesh().await;
    let destinations = &mesh.index.destinations;
    let mut client = OutboundPoliciesClient::new(mesh.channel(OWN).await);
    destinations.set("10.0.0.2:80", Destination::Workload(meshed("10.0.0.2:80", false)));
    destinations.set("10.0.0.3:80", Destination::Node);
    let specs = [
        at("10.0.0.1:80"),
        at("10.0.0.2:80"),
        at("10.0.0.3:80"),
        named("gone.ns.svc.cluster.local:80"),
        named("example.com:443"),
    ];
    for spec in specs {
        let refusal = soon(client.get(spec.clone())).await.unwrap_err();
        assert_eq!((refusal.code(), refusal.message()), (Code::NotFound, "not a Service"));
        let refusal = soon(client.watch(spec)).await.unwrap_err();
        assert_eq!((refusal.code(), refusal.message()), (Code::NotFound, "not a Service"));
    }
}
