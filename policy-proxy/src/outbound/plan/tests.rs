//! Each row of the table of destinations, in each mode.

use super::*;
use crate::outbound::settings::PlaintextAllowed;
use policy_core::MeshEndpoint;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

const SERVICE: &str = "10.96.0.10";

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn name(name: &str, namespace: &str) -> ServiceName {
    ServiceName { namespace: namespace.into(), name: name.into() }
}

fn meshed(number: u8) -> Endpoint {
    let mesh = MeshEndpoint {
        identity: "web.shop.serviceaccount.identity.mesh.local".into(),
        server_name: "web.shop.serviceaccount.identity.mesh.local".into(),
        inbound_port: Some(port(4143)),
        opaque: false,
    };
    Endpoint { mesh: EndpointMesh::Meshed(mesh), ..plain(number) }
}

fn plain(number: u8) -> Endpoint {
    Endpoint {
        address: SocketAddr::from(([10, 1, 0, number], 8080)),
        owner: "deployment/web".into(),
        namespace: "shop".into(),
        mesh: EndpointMesh::Plaintext(PlaintextReason::Unmeshed),
    }
}

fn service_of(service: ServiceName, endpoints: &[Endpoint]) -> Destination {
    let endpoints = Arc::from(endpoints);
    Destination::Service(ServiceDestination { service, port: port(80), affinity: None, endpoints })
}

fn service(endpoints: &[Endpoint]) -> Destination {
    service_of(name("web", "shop"), endpoints)
}

fn known(destination: Destination, is_fresh: bool) -> Knowledge {
    Knowledge::Known { destination: Arc::new(destination), is_fresh }
}

fn settings(mode: OutboundMode, unanswered: Unanswered) -> OutboundSettings {
    OutboundSettings { mode, unanswered, ..OutboundSettings::default() }
}

const LONG: Waited =
    Waited { since_start: Duration::from_secs(3), since_unknown: Duration::from_secs(2) };

/// The step after all waiting, in mode on, mesh-only, and both with plaintext without an answer.
fn steps(known: &Knowledge) -> [Plan; 4] {
    let (on, only) = (OutboundMode::On, OutboundMode::MeshOnly);
    let (refuse, plaintext) = (Unanswered::Refuse, Unanswered::Plaintext);
    [(on, refuse), (only, refuse), (on, plaintext), (only, plaintext)].map(|(mode, unanswered)| {
        plan(SERVICE.parse().unwrap(), known, LONG, &settings(mode, unanswered))
    })
}

#[test]
fn each_row_of_the_table_has_its_step() {
    use PlaintextReason as P;
    use Refusal as R;
    let (all, mesh) = (Plan::Endpoint(Candidates::All), Plan::Endpoint(Candidates::Meshed));
    let (straight, no) = (Plan::Straight, Plan::Refuse);
    let unanswered = [
        no(R::DiscoveryUnavailable),
        no(R::DiscoveryUnavailable),
        straight(P::Unknown),
        no(R::MeshOnly),
    ];
    let stale_plain =
        [no(R::DiscoveryUnavailable), no(R::MeshOnly), straight(P::Unknown), no(R::MeshOnly)];
    let undeclared = Destination::UndeclaredPort(name("web", "shop"));
    let rows = [
        ("no answer", Knowledge::Unanswered, unanswered),
        ("a refused lookup", Knowledge::Refused { reason: "full".into() }, unanswered),
        ("meshed endpoints", known(service(&[meshed(1), meshed(2)]), true), [all, mesh, all, mesh]),
        ("some meshed", known(service(&[meshed(1), plain(2)]), true), [all, mesh, all, mesh]),
        (
            "no meshed endpoint",
            known(service(&[plain(1)]), true),
            [all, no(R::MeshOnly), all, no(R::MeshOnly)],
        ),
        ("no endpoint", known(service(&[]), true), [no(R::NoEndpoint); 4]),
        ("an undeclared port", known(undeclared.clone(), true), [no(R::UndeclaredPort); 4]),
        ("a meshed pod", known(Destination::Workload(meshed(1)), true), [all, mesh, all, mesh]),
        (
            "a pod outside the mesh",
            known(Destination::Workload(plain(1)), true),
            [all, no(R::MeshOnly), all, no(R::MeshOnly)],
        ),
        (
            "a node",
            known(Destination::Node, true),
            [straight(P::NodePort), no(R::NodePort), straight(P::NodePort), no(R::NodePort)],
        ),
        (
            "nobody",
            known(Destination::Unknown, true),
            [straight(P::Unknown), no(R::MeshOnly), straight(P::Unknown), no(R::MeshOnly)],
        ),
        // What was known when the controller was lost: meshed stays, everything else does not.
        ("once meshed", known(service(&[meshed(1)]), false), [mesh; 4]),
        ("once some meshed", known(service(&[meshed(1), plain(2)]), false), [mesh; 4]),
        ("once a meshed pod", known(Destination::Workload(meshed(1)), false), [mesh; 4]),
        ("once not meshed", known(service(&[plain(1)]), false), stale_plain),
        ("once a pod without", known(Destination::Workload(plain(1)), false), stale_plain),
        ("once a node", known(Destination::Node, false), unanswered),
        ("once nobody", known(Destination::Unknown, false), unanswered),
        ("once undeclared", known(undeclared, false), [no(R::UndeclaredPort); 4]),
        ("once without endpoints", known(service(&[]), false), [no(R::NoEndpoint); 4]),
    ];
    for (row, known, want) in rows {
        assert_eq!(steps(&known), want, "{row}");
    }
}

#[test]
fn a_connection_waits_for_an_answer_and_longer_for_the_holder_of_an_address() {
    let step = |known: &Knowledge, since_start, since_unknown| {
        let waited = Waited { since_start, since_unknown };
        let settings = settings(OutboundMode::On, Unanswered::Refuse);
        plan(SERVICE.parse().unwrap(), known, waited, &settings)
    };
    let (zero, unanswered) = (Duration::ZERO, Knowledge::Unanswered);
    assert_eq!(step(&unanswered, zero, zero), Plan::Wait(seconds(3)));
    assert_eq!(step(&unanswered, seconds(2), zero), Plan::Wait(seconds(1)));
    let unavailable = Plan::Refuse(Refusal::DiscoveryUnavailable);
    assert_eq!(step(&unanswered, seconds(3), zero), unavailable);
    for stale in [Destination::Unknown, Destination::Node, service(&[plain(1)])] {
        let stale = known(stale, false);
        assert_eq!(step(&stale, seconds(1), seconds(9)), Plan::Wait(seconds(2)));
        assert_eq!(step(&stale, seconds(4), seconds(9)), unavailable);
    }
    let nobody = known(Destination::Unknown, true);
    assert_eq!(step(&nobody, zero, zero), Plan::Wait(seconds(2)));
    assert_eq!(step(&nobody, seconds(9), seconds(1)), Plan::Wait(seconds(1)));
    // An address that was unknown for long delays no further connection.
    assert_eq!(step(&nobody, zero, seconds(2)), Plan::Straight(PlaintextReason::Unknown));
    let refused = Knowledge::Refused { reason: "full".into() };
    assert_eq!(step(&refused, zero, zero), unavailable, "a refusal is final");
}

#[test]
fn mesh_only_leaves_the_api_server_and_what_is_allowed() {
    let mut settings = settings(OutboundMode::MeshOnly, Unanswered::Refuse);
    settings.plaintext_allowed = vec![
        PlaintextAllowed::Network("10.96.7.0/24".parse().unwrap()),
        PlaintextAllowed::Service(name("db", "shop")),
    ];
    let step = |address: &str, destination: Destination| {
        plan(address.parse().unwrap(), &known(destination, true), LONG, &settings)
    };
    let plain_of = |service: ServiceName| service_of(service, &[plain(1)]);
    let all = Plan::Endpoint(Candidates::All);
    assert_eq!(step(SERVICE, plain_of(name("kubernetes", "default"))), all);
    assert_eq!(step(SERVICE, plain_of(name("db", "shop"))), all);
    assert_eq!(step("10.96.7.9", plain_of(name("web", "shop"))), all);
    assert_eq!(step("10.96.7.9", Destination::Unknown), Plan::Straight(PlaintextReason::Unknown));
    assert_eq!(step("10.96.7.9", Destination::Node), Plan::Straight(PlaintextReason::NodePort));
    for other in [name("kubernetes", "shop"), name("db", "default"), name("web", "default")] {
        assert_eq!(step(SERVICE, plain_of(other)), Plan::Refuse(Refusal::MeshOnly));
    }
    // Where the node translates addresses as sockets connect, and for clients of one API server.
    let api = |number| {
        let mesh = EndpointMesh::Plaintext(PlaintextReason::ApiServer);
        Endpoint { mesh, ..plain(number) }
    };
    assert_eq!(step("10.7.0.1", Destination::Workload(api(1))), all);
    assert_eq!(step("10.7.0.1", Destination::Workload(plain(1))), Plan::Refuse(Refusal::MeshOnly));
    let mixed = service(&[api(1), plain(2)]);
    assert_eq!(step(SERVICE, mixed), Plan::Refuse(Refusal::MeshOnly));
    // Both kinds of endpoint may be used where plaintext may.
    assert_eq!(step(SERVICE, service_of(name("db", "shop"), &[meshed(1), plain(2)])), all);
}

#[test]
fn candidates_are_all_or_those_in_the_mesh() {
    assert!(Candidates::All.admit(&plain(1)) && Candidates::All.admit(&meshed(1)));
    assert!(Candidates::Meshed.admit(&meshed(1)) && !Candidates::Meshed.admit(&plain(1)));
}

#[test]
fn addresses_outside_the_networks_are_not_looked_up() {
    let settings = OutboundSettings::default();
    for (address, inside) in [
        ("10.1.2.3", true),
        ("192.168.7.1", true),
        ("172.32.0.1", false),
        ("93.184.216.34", false),
        ("fd00::1", true),
        ("2606:2800::1", false),
    ] {
        assert_eq!(settings.is_looked_up(address.parse().unwrap()), inside, "{address}");
    }
}

#[test]
fn each_reason_has_a_name_of_its_own() {
    let mut names: Vec<_> = Refusal::ALL.iter().map(|reason| reason.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Refusal::ALL.len());
    for (place, reason) in Refusal::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, place);
    }
}
