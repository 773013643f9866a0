//! Whose address it is.

use crate::world::{
    NOBODY, ask, bare_pod, machine, mesh, meshed, node, object, of_pod, of_service, outside,
    plaintext, pod, published, question, service, slice, undeclared, unknown, web, with, world,
    world_of, written,
};
use policy_core::{Destination, Endpoint, EndpointMesh, PlaintextReason};
use policy_engine::outbound::OutboundConfig;
use policy_engine::{ControllerConfig, DestinationScope, PublishedDestination, ScopeKind};
use serde_json::{Value, json};

#[test]
fn the_address_of_a_pod_is_that_pod_on_every_port() {
    let mut history = world(&[pod("p", "10.42.0.1"), bare_pod("q", "10.42.0.2")]);
    for number in [8080, 9999] {
        let address = format!("10.42.0.1:{number}");
        assert_eq!(ask(&mut history, &address), Destination::Workload(meshed(&address)));
    }
    let bare = plaintext("10.42.0.2:8080", PlaintextReason::Unmeshed);
    assert_eq!(ask(&mut history, "10.42.0.2:8080"), Destination::Workload(bare));
    assert_eq!(ask(&mut history, "10.42.0.3:8080"), Destination::Unknown);
}

/// The EndpointSlice by which the API server states its addresses.
fn api_server(name: &str, addresses: &[&str]) -> Value {
    let endpoints = addresses.iter().copied().map(written).collect();
    let own =
        json!({"metadata": {"namespace": "default"}, "ports": [{"name": "https", "port": 6443}]});
    with(slice("kubernetes", name, endpoints), own)
}

#[test]
fn the_api_servers_own_addresses_are_known_as_such() {
    let stated = api_server("kubernetes", &["10.7.0.1", "10.42.0.1", "10.42.0.2", "10.7.0.9"]);
    let mut history = world(&[
        stated,
        api_server("kubernetes-more", &["10.7.0.3"]),
        node("n1", "10.7.0.1", "a"),
        pod("p", "10.42.0.1"),
        bare_pod("q", "10.42.0.2"),
    ]);
    let api = |address: &str| {
        let mesh = EndpointMesh::Plaintext(PlaintextReason::ApiServer);
        let (owner, namespace) = ("".into(), "".into());
        Destination::Workload(Endpoint {
            address: address.parse().unwrap(),
            owner,
            namespace,
            mesh,
        })
    };
    assert_eq!(ask(&mut history, "10.7.0.1:6443"), api("10.7.0.1:6443"), "of a node");
    assert_eq!(ask(&mut history, "10.7.0.9:6443"), api("10.7.0.9:6443"), "of nobody");
    assert_eq!(ask(&mut history, "10.7.0.1:443"), Destination::Node, "another port");
    assert_eq!(ask(&mut history, "10.7.0.3:6443"), Destination::Unknown, "not its own slice");
    let meshed = Destination::Workload(meshed("10.42.0.1:6443"));
    assert_eq!(ask(&mut history, "10.42.0.1:6443"), meshed, "never a way around a sidecar");
    let bare = plaintext("10.42.0.2:6443", PlaintextReason::ApiServer);
    assert_eq!(ask(&mut history, "10.42.0.2:6443"), Destination::Workload(bare), "a pod");
    history.apply(vec![Ok(object(&api_server("kubernetes", &[])))]);
    assert_eq!(ask(&mut history, "10.7.0.9:6443"), Destination::Unknown);
}

#[test]
fn an_address_is_known_by_each_of_the_pods_families() {
    let addresses = json!({"status": {"podIPs": [{"ip": "10.42.0.1"}, {"ip": "fd00::1"}]}});
    let mut history = world(&[with(pod("p", ""), addresses)]);
    for address in ["10.42.0.1:80", "[fd00::1]:80"] {
        assert_eq!(ask(&mut history, address), Destination::Workload(meshed(address)));
    }
}

#[test]
fn a_pod_counts_from_its_first_address_until_it_ends() {
    let phase = |phase: &str| {
        let mut history =
            world(&[with(pod("p", "10.42.0.1"), json!({"status": {"phase": phase}}))]);
        ask(&mut history, "10.42.0.1:80")
    };
    let known = Destination::Workload(meshed("10.42.0.1:80"));
    assert_eq!(phase("Pending"), known);
    assert_eq!(phase("Running"), known);
    assert_eq!(phase("Unknown"), known);
    assert_eq!(phase("Succeeded"), Destination::Unknown);
    assert_eq!(phase("Failed"), Destination::Unknown);
    let ends = json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}});
    let mut history = world(&[with(pod("p", "10.42.0.1"), ends)]);
    assert_eq!(ask(&mut history, "10.42.0.1:80"), known);
}

#[test]
fn of_two_pods_with_one_address_the_newest_that_lives_has_it() {
    let started = |value, time: &str| with(value, json!({"status": {"startTime": time}}));
    let old = started(bare_pod("z", "10.42.0.1"), "2026-01-01T00:00:00Z");
    let new = started(pod("a", "10.42.0.1"), "2026-01-01T00:00:01Z");
    let mut history = world(&[old.clone(), new.clone()]);
    let meshed = Destination::Workload(meshed("10.42.0.1:80"));
    assert_eq!(ask(&mut history, "10.42.0.1:80"), meshed);
    let mut history = world(&[new.clone(), old.clone()]);
    assert_eq!(ask(&mut history, "10.42.0.1:80"), meshed);
    let job = with(new, json!({"status": {"phase": "Succeeded"}}));
    let mut history = world(&[job, old]);
    let bare = plaintext("10.42.0.1:80", PlaintextReason::Unmeshed);
    assert_eq!(ask(&mut history, "10.42.0.1:80"), Destination::Workload(bare));
}

/// A node reports the addresses of its own pods, whichever it likes.
#[test]
fn a_pod_without_a_sidecar_takes_no_address_of_one_that_has_one() {
    let started = |value, time: &str| with(value, json!({"status": {"startTime": time}}));
    let victim = started(pod("a", "10.42.0.1"), "2026-01-01T00:00:00Z");
    let thief = started(bare_pod("z", "10.42.0.1"), "2030-01-01T00:00:00Z");
    let mut history = world(&[victim, thief.clone()]);
    let held = Destination::Workload(meshed("10.42.0.1:80"));
    assert_eq!(ask(&mut history, "10.42.0.1:80"), held);
    let ended = with(pod("a", "10.42.0.1"), json!({"status": {"phase": "Failed"}}));
    let mut history = world(&[ended, thief]);
    let bare = plaintext("10.42.0.1:80", PlaintextReason::Unmeshed);
    assert_eq!(ask(&mut history, "10.42.0.1:80"), Destination::Workload(bare));
}

/// The endpoint of a pod of this name.
fn named(name: &str, address: &str) -> Value {
    with(of_pod(address), json!({"targetRef": {"name": name}}))
}

#[test]
fn the_address_of_a_node_is_never_a_pod() {
    let host = with(pod("p", "172.18.0.2"), json!({"spec": {"hostNetwork": true}}));
    let all = [
        node("n1", "172.18.0.2", "a"),
        host.clone(),
        service("web", "10.96.0.1"),
        slice("web", "s", json!([named("p", "172.18.0.2")])),
    ];
    let mut history = world(&all);
    assert_eq!(ask(&mut history, "172.18.0.2:30080"), Destination::Node);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[unknown("172.18.0.2:8080")]));
    assert_eq!(ask(&mut world(&[host]), "172.18.0.2:80"), Destination::Unknown);
}

/// Discovery of machines in the namespace `vms`, outside of 10.0.0.0/8.
fn with_machines() -> ControllerConfig {
    let external_workload_namespaces = ["vms".into()].into();
    ControllerConfig {
        cluster_networks: vec!["10.0.0.0/8".parse().unwrap()],
        outbound: Some(OutboundConfig { external_workload_namespaces, ..Default::default() }),
        ..ControllerConfig::default()
    }
}

#[test]
fn a_machine_counts_by_address_only_where_the_operator_says_so() {
    let config = with_machines();
    let asked = |machines: &[serde_json::Value], address: &str| {
        ask(&mut world_of(&config, machines), address)
    };
    let known = Destination::Workload(outside("vms", "db", "192.0.2.1:5432"));
    assert_eq!(asked(&[machine("vms", "db", "192.0.2.1")], "192.0.2.1:5432"), known);
    assert_eq!(
        asked(&[machine("shop", "db", "192.0.2.1")], "192.0.2.1:5432"),
        Destination::Unknown
    );
    // Of the cluster's own networks it claims nothing, held by a pod or not.
    let inside = machine("vms", "db", "10.42.0.1");
    assert_eq!(asked(std::slice::from_ref(&inside), "10.42.0.1:5432"), Destination::Unknown);
    let held = Destination::Workload(meshed("10.42.0.1:5432"));
    assert_eq!(asked(&[inside, pod("p", "10.42.0.1")], "10.42.0.1:5432"), held);
    // The oldest keeps it.
    let created = |value, time: &str| with(value, json!({"metadata": {"creationTimestamp": time}}));
    let old = created(machine("vms", "db", "192.0.2.1"), "2026-01-01T00:00:00Z");
    let new = created(machine("vms", "a", "192.0.2.1"), "2026-01-02T00:00:00Z");
    assert_eq!(asked(&[new, old], "192.0.2.1:5432"), known);
}

#[test]
fn a_machine_that_cannot_be_read_keeps_its_address_and_is_not_reached() {
    let broken =
        with(machine("vms", "db", "192.0.2.1"), json!({"spec": {"meshTLS": {"identity": 1}}}));
    let mut history = world_of(&with_machines(), &[broken]);
    let mut endpoint = outside("vms", "db", "192.0.2.1:5432");
    endpoint.mesh = mesh(NOBODY);
    assert_eq!(ask(&mut history, "192.0.2.1:5432"), Destination::Workload(endpoint));
}

#[test]
fn elsewhere_a_machine_is_an_endpoint_of_services_of_its_namespace() {
    let mut history = world_of(
        &with_machines(),
        &[
            machine("other", "a", "192.0.2.1"),
            machine("shop", "db", "192.0.2.1"),
            machine("other", "b", "192.0.2.2"),
            machine("vms", "c", "192.0.2.3"),
            service("web", "10.96.0.1"),
            slice(
                "web",
                "s",
                json!([written("192.0.2.1"), written("192.0.2.2"), written("192.0.2.3"),]),
            ),
        ],
    );
    let endpoints = [
        outside("shop", "db", "192.0.2.1:8080"),
        unknown("192.0.2.2:8080"),
        outside("vms", "c", "192.0.2.3:8080"),
    ];
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&endpoints));
    assert_eq!(ask(&mut history, "192.0.2.1:8080"), Destination::Unknown);
}

#[test]
fn the_other_addresses_of_a_service_lead_to_it_too() {
    let more = json!({
        "spec": {"externalIPs": ["192.0.2.10"], "internalTrafficPolicy": "Local"},
        "status": {"loadBalancer": {"ingress": [
            {"ip": "192.0.2.11"}, {"ip": "192.0.2.12", "ipMode": "Proxy"}, {"hostname": "lb.example"},
        ]}},
    });
    let mut history = world(&[
        with(service("web", "10.96.0.1"), more),
        slice("web", "s", json!([of_pod("10.42.0.1")])),
        pod("p", "10.42.0.1"),
    ]);
    let endpoints = web(&[meshed("10.42.0.1:8080")]);
    // The local policy is about the address in the cluster alone.
    assert_eq!(ask(&mut history, "192.0.2.10:80"), endpoints);
    assert_eq!(ask(&mut history, "192.0.2.11:80"), endpoints);
    assert_eq!(ask(&mut history, "192.0.2.11:81"), undeclared("web"));
    assert_eq!(ask(&mut history, "192.0.2.12:80"), Destination::Unknown);
    let local = published(&mut history, &question("10.96.0.1:80", &DestinationScope::All));
    assert_eq!(
        local,
        PublishedDestination { destination: web(&[]), needs: ScopeKind::Node, is_pending: false }
    );
}

/// Whoever may write Services may write any address into them.
#[test]
fn another_address_of_a_service_takes_neither_a_pods_nor_a_services_own() {
    let stolen = |address: &str| json!({"spec": {"externalIPs": [address]}});
    let mut history = world(&[
        service("web", "10.96.0.1"),
        slice("web", "s", json!([of_pod("10.42.0.1")])),
        pod("p", "10.42.0.1"),
        with(service("thief", "10.96.0.2"), stolen("10.42.0.1")),
        with(service("robber", "10.96.0.3"), stolen("10.96.0.1")),
    ]);
    assert_eq!(ask(&mut history, "10.42.0.1:80"), Destination::Workload(meshed("10.42.0.1:80")));
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.1:8080")]));
}

#[test]
fn another_address_of_a_service_takes_no_machine_away_that_the_operator_trusts() {
    let thief =
        with(service("thief", "10.96.0.2"), json!({"spec": {"externalIPs": ["192.0.2.1"]}}));
    let all = [machine("vms", "db", "192.0.2.1"), thief.clone()];
    let mut history = world_of(&with_machines(), &all);
    for number in [80, 5432] {
        let address = format!("192.0.2.1:{number}");
        let known = Destination::Workload(outside("vms", "db", &address));
        assert_eq!(ask(&mut history, &address), known);
    }
    // One of another namespace counts for nobody else.
    let mut history = world_of(&with_machines(), &[machine("shop", "db", "192.0.2.1"), thief]);
    assert_eq!(ask(&mut history, "192.0.2.1:5432"), undeclared("thief"));
}

#[test]
fn a_service_that_cannot_be_read_takes_no_port_of_an_address_from_others() {
    let stolen = json!({
        "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"externalIPs": ["192.0.2.10", "172.18.0.2"], "ports": [{"port": 0}]},
    });
    let front =
        |name: &str, address: &str, spec: serde_json::Value| with(service(name, address), spec);
    let shared = json!({
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"externalIPs": ["192.0.2.10", "172.18.0.2"]},
    });
    let mut history = world(&[
        node("n1", "172.18.0.2", "a"),
        front("broken", "10.96.0.2", stolen),
        front("web", "10.96.0.1", shared),
    ]);
    assert_eq!(ask(&mut history, "192.0.2.10:80"), web(&[]));
    assert_eq!(ask(&mut history, "172.18.0.2:80"), web(&[]));
    assert_eq!(ask(&mut history, "172.18.0.2:6443"), Destination::Node);
    // Nobody knows which ports it declares, so that the others are no way out.
    assert_eq!(ask(&mut history, "192.0.2.10:81"), of_service("broken", 81, None, &[]));
}

/// Nodes would carry a connection there nowhere, and that of a sidecar to the other Service's pods,
/// past their sidecars' expectation of mesh TLS.
#[test]
fn the_address_of_a_service_is_no_endpoint_of_another() {
    let mut history = world(&[
        service("db", "10.96.0.2"),
        slice("db", "d", json!([of_pod("10.42.0.1")])),
        pod("p", "10.42.0.1"),
        service("web", "10.96.0.1"),
        slice("web", "s", json!([written("10.96.0.2"), written("10.42.0.1")])),
    ]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.1:8080")]));
}

/// Other clients of the Service reach that machine. A sidecar's connection would be led to the pods of
/// whoever writes such an address, and never in mesh TLS.
#[test]
fn what_nodes_lead_on_to_another_service_is_no_endpoint_in_plaintext() {
    let front = |name: &str, address: &str, number: u16| {
        let spec = json!({
            "externalIPs": ["192.0.2.1", "10.42.0.1", "172.18.0.2"],
            "ports": [{"name": "http", "port": number}],
        });
        with(service(name, address), json!({"spec": spec}))
    };
    let slices = json!([written("192.0.2.1"), of_pod("10.42.0.1"), named("host", "172.18.0.2")]);
    let all = [
        node("n1", "172.18.0.2", "a"),
        with(bare_pod("host", "172.18.0.2"), json!({"spec": {"hostNetwork": true}})),
        pod("p", "10.42.0.1"),
        service("web", "10.96.0.1"),
        slice("web", "s", slices),
    ];
    let (machine, held) = (unknown("192.0.2.1:8080"), meshed("10.42.0.1:8080"));
    let every = web(&[held.clone(), unknown("172.18.0.2:8080"), machine]);
    let mut history = world(&all);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), every);
    history.apply(vec![Ok(object(&front("thief", "10.96.0.2", 8081)))]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), every, "of another port");
    history.apply(vec![Ok(object(&front("thief", "10.96.0.2", 8080)))]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[held]));
    // Back to the Service itself it may be led.
    let own = json!({"spec": {"externalIPs": ["172.18.0.2"], "ports": [
        {"name": "http", "port": 80}, {"name": "own", "port": 8080},
    ]}});
    let mut history = world(&[&all[..], &[with(service("web", "10.96.0.1"), own)]].concat());
    assert_eq!(ask(&mut history, "10.96.0.1:80"), every);
}

#[test]
fn services_share_an_address_by_port_and_a_node_keeps_the_rest_of_its_own() {
    let front = |name: &str, address: &str, number: u16| {
        let spec = json!({
            "externalIPs": ["192.0.2.10", "172.18.0.2"],
            "ports": [{"name": "http", "port": number}],
        });
        with(service(name, address), json!({"spec": spec}))
    };
    let mut history = world(&[
        node("n1", "172.18.0.2", "a"),
        front("web", "10.96.0.1", 80),
        front("other", "10.96.0.2", 443),
    ]);
    let other = of_service("other", 443, None, &[]);
    for address in ["192.0.2.10", "172.18.0.2"] {
        assert_eq!(ask(&mut history, &format!("{address}:80")), web(&[]));
        assert_eq!(ask(&mut history, &format!("{address}:443")), other);
    }
    assert_eq!(ask(&mut history, "192.0.2.10:22"), undeclared("other"));
    assert_eq!(ask(&mut history, "172.18.0.2:22"), Destination::Node);
}

#[test]
fn a_mapped_address_is_the_ipv4_address() {
    let mut history = world(&[pod("p", "::ffff:10.42.0.1")]);
    assert_eq!(ask(&mut history, "10.42.0.1:80"), Destination::Workload(meshed("10.42.0.1:80")));
}

/// In plaintext after two seconds otherwise, where the watch of pods is behind that of slices.
#[test]
fn an_address_that_a_slice_calls_a_pods_waits_for_pods_as_new_as_the_slice() {
    let versioned =
        |value, version: &str| with(value, json!({"metadata": {"resourceVersion": version}}));
    let endpoints = json!([of_pod("10.42.0.1"), of_pod("203.0.113.1")]);
    let named = versioned(slice("web", "pods", endpoints), "3");
    let hand = versioned(slice("web", "hand", json!([written("10.42.0.2")])), "3");
    let mut history = world(&[named, hand, pod("other", "10.42.0.9")]);
    let address = |address: &str| question(address, &DestinationScope::All);
    let asked = address("10.42.0.1:8080");
    let followed = history.follow_destination(&asked).unwrap();
    let now = || (followed.current().destination.clone(), followed.current().is_pending);
    assert_eq!(now(), (Destination::Unknown, true));
    for outside in ["203.0.113.1:8080", "10.42.0.2:8080", "10.42.0.3:8080"] {
        let answer = published(&mut history, &address(outside));
        assert_eq!((answer.destination, answer.is_pending), (Destination::Unknown, false));
    }
    let mut apply = |value: Value| history.apply(vec![Ok(object(&value))]);
    apply(pod("another", "10.42.0.8"));
    assert_eq!(now(), (Destination::Unknown, true), "pods of version 2");
    apply(node("n1", "10.0.0.1", "a"));
    assert_eq!(now(), (Destination::Unknown, true), "of another kind");
    apply(pod("another", "10.42.0.7"));
    assert_eq!(now(), (Destination::Unknown, false), "there is no such pod");
    apply(pod("p", "10.42.0.1"));
    let found = Destination::Workload(meshed("10.42.0.1:8080"));
    assert_eq!(now(), (found, false));
}

/// A writer of slices would keep clients from an address for good otherwise.
#[test]
fn a_slice_that_is_written_again_is_waited_for_once() {
    let versioned = |value, version: u64| {
        with(value, json!({"metadata": {"resourceVersion": version.to_string()}}))
    };
    let named = |version| versioned(slice("web", "pods", json!([of_pod("10.42.0.1")])), version);
    // The history counts its own versions: each batch is one.
    let mut history = world(&[named(4), pod("other", "10.42.0.9")]);
    let asked = question("10.42.0.1:8080", &DestinationScope::All);
    let followed = history.follow_destination(&asked).unwrap();
    let is_pending = || followed.current().is_pending;
    assert!(is_pending());
    let mut apply = |value: Value| history.apply(vec![Ok(object(&value))]);
    for version in [90, 91, 92] {
        apply(named(version));
    }
    assert!(is_pending(), "no newer pods yet");
    apply(pod("other", "10.42.0.8"));
    assert!(!is_pending(), "pods of the first statement");
    apply(named(93));
    assert!(!is_pending(), "it says nothing new");
    apply(versioned(slice("web", "pods", json!([])), 94));
    apply(named(95));
    assert!(is_pending(), "it had taken it back");
    apply(versioned(slice("web", "pods", json!([])), 96));
    assert!(!is_pending(), "it says so no more");
}

#[test]
fn pods_that_come_cost_the_addresses_that_slices_call_a_pods_nothing() {
    let addresses: Vec<String> = (1..=100).map(|last| format!("10.42.7.{last}")).collect();
    let endpoints = addresses.iter().map(|address| of_pod(address)).collect();
    let named =
        with(slice("web", "pods", endpoints), json!({"metadata": {"resourceVersion": "3"}}));
    let mut history = world(&[named, pod("other", "10.42.0.9")]);
    let follow = |address: &String| {
        let asked = question(&format!("{address}:8080"), &DestinationScope::All);
        history.follow_destination(&asked).unwrap()
    };
    let followed: Vec<_> = addresses.iter().map(follow).collect();
    let mut cost = |address: &str| {
        let before = history.effort().1;
        history.apply(vec![Ok(object(&pod("other", address)))]);
        history.effort().1 - before
    };
    let costs = ["10.42.0.1", "10.42.0.2", "10.42.0.3"].map(&mut cost);
    assert!(costs[0] < 10 && costs[2] < 10 && costs[1] >= 100, "{costs:?}");
    assert!(followed.iter().all(|answer| !answer.current().is_pending));
}
