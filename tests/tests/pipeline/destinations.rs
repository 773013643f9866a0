//! What connections lead to: a directory of Services, EndpointSlices and pods, the controller, gRPC,
//! and the table of a sidecar.

use crate::world::{PATIENCE, World};
use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_proxy::discover::{self, DiscoverConfig};
use policy_proxy::outbound::table::{DestinationTable, EntryRef, Knowledge, TableSettings};
use policy_testkit::wait_within;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityHandle;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A Service, and its slice with these endpoints.
fn service(addresses: &[&str]) -> String {
    let list: String = addresses
        .iter()
        .map(|address| format!("- {{addresses: [{address}], conditions: {{ready: true}}}}\n"))
        .collect();
    let list = if list.is_empty() { "[]".to_owned() } else { format!("\n{list}") };
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: db, namespace: shop}}
spec: {{clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{{name: sql, port: 3306, targetPort: 3306}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: db-1, namespace: shop, labels: {{kubernetes.io/service-name: db}}}}
addressType: IPv4
ports: [{{name: sql, port: 3306, protocol: TCP}}]
endpoints: {list}
"
    )
}

/// A pod; with a sidecar if `meshed`.
fn pod(name: &str, address: &str, meshed: bool) -> String {
    let (mark, sidecar) = if meshed {
        (
            ", labels: {portcullis.dev/proxy: v1}, annotations: {portcullis.dev/sidecar: \
             '{\"version\":\"1\",\"inboundPort\":4143,\"outbound\":\"on\",\"capture\":\"init-container\"}'}",
            "\n  - name: portcullis-proxy",
        )
    } else {
        ("", "")
    };
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop{mark}}}
spec:
  serviceAccountName: db
  containers:
  - name: db{sidecar}
status: {{phase: Running, podIPs: [{{ip: {address}}}], podIP: {address}}}
"
    )
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn endpoint(address: &str, mesh: EndpointMesh) -> Endpoint {
    Endpoint { address: at(address), owner: "".into(), namespace: "shop".into(), mesh }
}

fn meshed() -> EndpointMesh {
    let identity: Arc<str> = "db.shop.serviceaccount.identity.linkerd.cluster.local".into();
    EndpointMesh::Meshed(MeshEndpoint {
        server_name: identity.clone(),
        identity,
        inbound_port: NonZeroU16::new(4143),
        opaque: false,
    })
}

fn unmeshed() -> EndpointMesh {
    EndpointMesh::Plaintext(PlaintextReason::Unmeshed)
}

fn sql(endpoints: &[Endpoint]) -> Destination {
    Destination::Service(ServiceDestination {
        service: ServiceName { namespace: "shop".into(), name: "db".into() },
        port: NonZeroU16::new(3306).unwrap(),
        affinity: None,
        endpoints: endpoints.into(),
    })
}

/// What is compared: owners are names for people.
fn nameless(known: Knowledge) -> Knowledge {
    let Knowledge::Known { destination, is_fresh } = known else { return known };
    let nameless = |endpoint: &Endpoint| Endpoint { owner: "".into(), ..endpoint.clone() };
    let destination = match &*destination {
        Destination::Service(service) => Destination::Service(ServiceDestination {
            endpoints: service.endpoints.iter().map(nameless).collect(),
            ..service.clone()
        }),
        Destination::Workload(endpoint) => Destination::Workload(nameless(endpoint)),
        Destination::Unknown | Destination::Node | Destination::UndeclaredPort(_) => {
            Destination::clone(&destination)
        }
    };
    Knowledge::Known { destination: Arc::new(destination), is_fresh }
}

async fn becomes(entry: &EntryRef<()>, destination: Destination, is_fresh: bool) {
    let wanted = Knowledge::Known { destination: Arc::new(destination), is_fresh };
    let arrived = async || nameless(entry.state()) == wanted;
    wait_within(&format!("{entry:?} is {wanted:?}"), PATIENCE, arrived).await;
}

/// The table of a sidecar of the pod `shop/web`.
fn follow(world: &World) -> (DestinationTable<()>, DropGuard) {
    let stale_unmeshed = Duration::from_millis(500);
    let table = DestinationTable::new(TableSettings { stale_unmeshed, ..TableSettings::default() });
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
    let controller = ControllerAddress::loopback(world.listens()).unwrap();
    let mut config = DiscoverConfig::new(controller, "shop:web");
    config.backoff = (Duration::from_millis(20), Duration::from_millis(200));
    config.destinations = Some(Arc::new(table.clone()));
    let stop = CancellationToken::new();
    tokio::spawn(discover::run(config, store, IdentityHandle::empty(), stop.clone()));
    (table, stop.drop_guard())
}

#[tokio::test]
async fn endpoints_follow_the_cluster_and_stay_while_the_controller_is_away() {
    let mut world = World::start().await;
    world.write("db.yaml", &service(&["10.1.0.1", "10.1.0.2"]));
    world.write("db-0.yaml", &pod("db-0", "10.1.0.1", true));
    world.write("db-1.yaml", &pod("db-1", "10.1.0.2", false));
    let (table, _stop) = follow(&world);
    let lookup = |text: &str| table.entry(at(text)).unwrap();
    let (front, closed) = (lookup("10.96.0.7:3306"), lookup("10.96.0.7:3307"));
    let (first, second, nobody) =
        (lookup("10.1.0.1:3306"), lookup("10.1.0.2:3306"), lookup("10.1.0.9:80"));
    let one = || endpoint("10.1.0.1:3306", meshed());
    let two = |mesh| endpoint("10.1.0.2:3306", mesh);
    becomes(&front, sql(&[one(), two(unmeshed())]), true).await;
    let name = ServiceName { namespace: "shop".into(), name: "db".into() };
    becomes(&closed, Destination::UndeclaredPort(name), true).await;
    becomes(&first, Destination::Workload(one()), true).await;
    becomes(&second, Destination::Workload(two(unmeshed())), true).await;
    becomes(&nobody, Destination::Unknown, true).await;

    // The second pod is made anew with a sidecar.
    world.write("db-1.yaml", &pod("db-1", "10.1.0.2", true));
    becomes(&second, Destination::Workload(two(meshed())), true).await;
    becomes(&front, sql(&[one(), two(meshed())]), true).await;
    // And the first is not ready any more.
    world.write("db.yaml", &service(&["10.1.0.2"]));
    becomes(&front, sql(&[two(meshed())]), true).await;
    world.write("db.yaml", &service(&[]));
    becomes(&front, sql(&[]), true).await;
    world.write("db.yaml", &service(&["10.1.0.2"]));
    becomes(&front, sql(&[two(meshed())]), true).await;

    // The controller crashes; what it said stays, but it ages.
    world.kill_controller().await;
    becomes(&front, sql(&[two(meshed())]), false).await;
    becomes(&nobody, Destination::Unknown, false).await;
    let new = lookup("10.1.0.3:3306");
    assert_eq!(new.state(), Knowledge::Unanswered);
    world.write("db-2.yaml", &pod("db-2", "10.1.0.3", true));
    world.start_controller().await;
    becomes(&front, sql(&[two(meshed())]), true).await;
    becomes(&nobody, Destination::Unknown, true).await;
    becomes(&new, Destination::Workload(endpoint("10.1.0.3:3306", meshed())), true).await;
}
