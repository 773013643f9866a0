//! What outbound discovery reads: Services, EndpointSlices, and the sidecars and owners of pods.

use crate::support::{claims, errors, object, resource, value};
use policy_core::AddressFamily;
use policy_crds::annotation::SIDECAR_MARK;
use policy_crds::resource::{
    EndpointSlice, Pod, PodSidecar, Service, ServicePort, SliceEndpoint, SlicePort,
};
use policy_crds::{
    Body, Capture, Claims, Kind, Object, OutboundMode, Resource, SidecarMark, parse, pods_of,
};
use serde_json::json;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn service(spec: &str) -> Service {
    service_of(object("v1", "Service", spec))
}

fn service_of(object: Object) -> Service {
    match resource(object) {
        Resource::Service(service) => service,
        other => panic!("{other:?}"),
    }
}

/// A Service with a specification and a status.
fn with_status(spec: &str, status: &str) -> Object {
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: it, namespace: here}}\nspec: {{{spec}}}\n\
         status: {{{status}}}"
    );
    parse(&value(&text)).unwrap()
}

#[test]
fn a_service_has_addresses_ports_and_rules_by_which_endpoints_are_chosen() {
    let object = with_status(
        "type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1'], \
         externalIPs: [192.0.2.1, 192.0.2.2], internalTrafficPolicy: Local, \
         ports: [{name: http, port: 80, targetPort: web}, {name: dns, port: 53, protocol: UDP}, \
         {name: db, port: 5432, protocol: TCP}], publishNotReadyAddresses: true, \
         sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}, selector: {app: web}",
        "loadBalancer: {ingress: [{ip: 192.0.2.2}, {ip: 192.0.2.3, ipMode: VIP}, \
         {ip: 192.0.2.4, ipMode: Proxy}, {hostname: lb.example}]}",
    );
    let expected = Service {
        cluster_addresses: vec![address("10.96.0.1"), address("fd00::1")],
        external_addresses: ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(address).into(),
        ports: vec![
            ServicePort {
                name: "http".into(),
                port: port(80),
                target: Some(policy_crds::resource::PortRef::Name("web".into())),
            },
            ServicePort { name: "db".into(), port: port(5432), target: None },
        ],
        is_local: true,
        affinity: Some(Duration::from_secs(60)),
        is_external_name: false,
        selector: [("app".into(), "web".into())].into(),
    };
    assert_eq!(service_of(object), expected);
}

#[test]
fn what_a_service_does_not_say_is_as_the_api_server_has_it() {
    let plain = Service { cluster_addresses: vec![address("10.96.0.1")], ..Service::default() };
    assert_eq!(service("clusterIP: 10.96.0.1"), plain);
    assert_eq!(
        service("clusterIP: 10.96.0.1\nsessionAffinity: None\ninternalTrafficPolicy: Cluster"),
        plain
    );
    let unnamed = Service {
        ports: vec![ServicePort { name: "".into(), port: port(80), target: None }],
        affinity: Some(Duration::from_secs(10_800)),
        ..plain.clone()
    };
    let text = "clusterIP: 10.96.0.1\nports: [{port: 80}]\nsessionAffinity: ClientIP";
    assert_eq!(service(text), unnamed);
    // Zeros in front were legal once.
    assert_eq!(service("clusterIP: 010.096.000.001"), plain);
    assert_eq!(service("clusterIP: '::ffff:10.96.0.1'"), plain);
}

#[test]
fn nodes_answer_no_address_of_a_service_without_one_in_the_cluster() {
    let none = Service::default();
    for spec in ["clusterIP: None", "clusterIP: ''", "clusterIPs: [None]", "type: ClusterIP"] {
        assert_eq!(service(&format!("{spec}\nexternalIPs: [192.0.2.1]")), none, "{spec}");
    }
    let named = "type: ExternalName\nexternalName: db.example\nclusterIP: 10.96.0.1";
    assert_eq!(service(named), Service { is_external_name: true, ..none });
}

#[test]
fn a_service_that_cannot_be_read_claims_the_addresses_that_can() {
    let claimed = |addresses: &[&str]| Claims::Service {
        addresses: addresses.iter().map(|text| address(text)).collect(),
    };
    for (spec, error, addresses) in [
        ("ports: [{port: 0}]", "spec.ports[0].port: expected a whole number", &["10.96.0.1"][..]),
        ("ports: [{name: http}]", "spec.ports[0].port: is required", &["10.96.0.1"]),
        ("ports: {}", "spec.ports: expected a list", &["10.96.0.1"]),
        (
            "externalIPs: [192.0.2.1, nowhere]",
            "spec.externalIPs[1]: `nowhere` is not an IP address",
            &["10.96.0.1", "192.0.2.1"],
        ),
        (
            "sessionAffinity: ClientIP\nsessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: expected a whole number",
            &["10.96.0.1"],
        ),
    ] {
        let object = object("v1", "Service", &format!("clusterIP: 10.96.0.1\n{spec}"));
        let found = errors(&object);
        assert!(found.len() == 1 && found[0].starts_with(error), "{error}: {found:?}");
        assert_eq!(claims(object), claimed(addresses), "{spec}");
    }
    let unknown = object("v1", "Service", "clusterIP: 10.96.0.256\nexternalIPs: [192.0.2.1]");
    assert_eq!(errors(&unknown), ["spec.clusterIP: `10.96.0.256` is not an IP address"]);
    assert_eq!(claims(unknown), claimed(&["192.0.2.1"]));
    let nothing = parse(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}));
    assert_eq!(claims(nothing.unwrap()), claimed(&[]));
}

/// Whoever may write Services may write as many as an object holds, and write them anew every second.
#[test]
fn addresses_of_a_service_beyond_a_bound_are_not_kept() {
    let of = |count: usize| {
        let listed: Vec<String> =
            (0..count).map(|at| format!("192.0.{}.{}", at / 256, at % 256)).collect();
        object("v1", "Service", &format!("clusterIP: 10.96.0.1\nexternalIPs: {listed:?}"))
    };
    assert_eq!(service_of(of(1024)).external_addresses.len(), 1024);
    let many = of(60_000);
    let error = "spec.externalIPs[1024]: follows 1024 other addresses, the most of a Service";
    assert_eq!(errors(&many), [error]);
    let Claims::Service { addresses } = claims(many) else { panic!("no Service") };
    assert_eq!(addresses.len(), 1025);
}

fn slice(metadata: &str, rest: &str) -> Object {
    let text = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: it, namespace: here, {metadata}}}\n{rest}"
    );
    parse(&value(&text)).unwrap()
}

fn slice_of(object: Object) -> EndpointSlice {
    match resource(object) {
        Resource::EndpointSlice(slice) => slice,
        other => panic!("{other:?}"),
    }
}

/// A ready endpoint that carries no hint.
fn endpoint(text: &str) -> SliceEndpoint {
    SliceEndpoint {
        address: address(text),
        is_ready: true,
        is_serving: true,
        is_terminating: false,
        pod: None,
        node: None,
        zones: Vec::new(),
        nodes: Vec::new(),
    }
}

#[test]
fn a_slice_has_the_endpoints_of_a_service_with_what_decides_who_may_use_them() {
    let object = slice(
        "labels: {kubernetes.io/service-name: web}",
        "addressType: IPv4\n\
         ports: [{name: http, port: 8080, protocol: TCP}, {port: 53, protocol: UDP}, {name: any}, {name: null, port: 1}]\n\
         endpoints:\n\
         - {addresses: [10.1.0.1, 10.1.0.9]}\n\
         - {addresses: [10.1.0.2], nodeName: n1, hints: {forZones: [{name: a}, {name: b}], forNodes: [{name: n1}]}}\n\
         - {addresses: [10.1.0.3], nodeName: '', conditions: {ready: false, serving: true, terminating: true}}\n\
         - {addresses: [10.1.0.4], conditions: {ready: false, serving: null}}\n\
         - {addresses: []}\n",
    );
    let slice_port =
        |name: &str, number: Option<u16>| SlicePort { name: name.into(), port: number.map(port) };
    let names = |names: &[&str]| -> Vec<Arc<str>> { names.iter().map(|it| (*it).into()).collect() };
    let expected = EndpointSlice {
        version: None,
        service: Some("web".into()),
        family: Some(AddressFamily::V4),
        ports: vec![
            slice_port("http", Some(8080)),
            slice_port("any", None),
            slice_port("", Some(1)),
        ],
        endpoints: vec![
            endpoint("10.1.0.1"),
            SliceEndpoint {
                node: Some("n1".into()),
                zones: names(&["a", "b"]),
                nodes: names(&["n1"]),
                ..endpoint("10.1.0.2")
            },
            SliceEndpoint { is_ready: false, is_terminating: true, ..endpoint("10.1.0.3") },
            SliceEndpoint { is_ready: false, ..endpoint("10.1.0.4") },
        ],
    };
    let found = slice_of(object);
    assert_eq!(found, expected);
    let (node, hint) = (found.endpoints[1].node.as_ref().unwrap(), &found.endpoints[1].nodes[0]);
    assert!(Arc::ptr_eq(node, hint), "one text of each name");
}

#[test]
fn slices_of_other_families_and_of_no_service_are_read() {
    let object =
        slice("labels: {a: b}", "addressType: IPv6\nendpoints: [{addresses: ['fd00::1']}]");
    let six = EndpointSlice {
        version: None,
        service: None,
        family: Some(AddressFamily::V6),
        ports: Vec::new(),
        endpoints: vec![endpoint("fd00::1")],
    };
    assert_eq!(slice_of(object), six);
    let named = slice(
        "labels: {kubernetes.io/service-name: ''}",
        "addressType: FQDN\nendpoints: [{addresses: [db.example]}]",
    );
    assert_eq!(slice_of(named), EndpointSlice { family: None, endpoints: Vec::new(), ..six });
}

#[test]
fn a_slice_of_which_a_part_cannot_be_read_has_no_endpoint() {
    for (rest, error) in [
        ("endpoints: []", "addressType: is required"),
        ("addressType: IPv5", "addressType: unknown value `IPv5`, expected one of"),
        ("addressType: IPv4\nendpoints: {}", "endpoints: expected a list"),
        (
            "addressType: IPv4\nendpoints: [{addresses: [10.1.0.1]}, {addresses: [nowhere]}]",
            "endpoints[1].addresses[0]: `nowhere` is not an IP address",
        ),
        (
            "addressType: IPv4\nendpoints: [{addresses: ['fd00::1']}]",
            "endpoints[0].addresses[0]: `fd00::1` is not of the slice's `addressType`",
        ),
        (
            "addressType: IPv4\nendpoints: [{addresses: [10.1.0.1], conditions: {ready: maybe}}]",
            "endpoints[0].conditions.ready: expected `true` or `false`",
        ),
        (
            "addressType: IPv4\nendpoints: [{addresses: [10.1.0.1], hints: {forZones: [a]}}]",
            "endpoints[0].hints.forZones[0]: expected a mapping",
        ),
        ("addressType: IPv4\nports: [{port: 70000}]", "ports[0].port: expected a whole number"),
    ] {
        let object = slice("labels: {}", rest);
        let found = errors(&object);
        assert!(found.len() == 1 && found[0].starts_with(error), "{error}: {found:?}");
        assert_eq!(claims(object), Claims::Nothing);
    }
}

fn pod(metadata: &str, spec: &str, status: &str) -> Pod {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: it, namespace: here, {metadata}}}\n\
         spec: {{{spec}}}\nstatus: {{{status}}}"
    );
    match resource(parse(&value(&text)).unwrap()) {
        Resource::Pod(pod) => pod,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_says_since_when_and_for_how_long_it_holds_its_addresses() {
    let of = |metadata: &str, spec: &str, status: &str| {
        let pod = pod(metadata, &format!("containers: [{{name: a}}], {spec}"), status);
        (pod.started, pod.has_ended, pod.uses_host_network)
    };
    let created = "creationTimestamp: '2026-01-31T12:00:00Z'";
    assert_eq!(of("uid: u", "nodeName: n1", "phase: Pending"), (None, false, false));
    assert_eq!(of(created, "nodeName: n1", "phase: Running"), (Some(1_769_860_800), false, false));
    let started = "startTime: '2026-01-31T12:00:05Z'";
    let host = of(created, "hostNetwork: true", &format!("phase: Succeeded, {started}"));
    assert_eq!(host, (Some(1_769_860_805), true, true));
    assert!(of(created, "hostNetwork: false", "phase: Failed, startTime: 7").1);
    assert_eq!(of(created, "hostNetwork: false", "startTime: now").0, Some(1_769_860_800));
}

#[test]
fn a_pod_belongs_to_its_controller_and_through_a_replicaset_to_its_deployment() {
    let owner = |labels: &str, owners: &str| {
        let metadata = format!("labels: {{{labels}}}, ownerReferences: {owners}");
        pod(&metadata, "containers: []", "phase: Running").owner.as_deref().map(str::to_owned)
    };
    let set = "[{kind: Node, name: n}, {kind: ReplicaSet, name: web-5d69b8c7f, controller: true}]";
    let is = |name: &str| Some(name.to_owned());
    assert_eq!(owner("pod-template-hash: 5d69b8c7f", set), is("deployment/web"));
    assert_eq!(owner("pod-template-hash: other", set), is("replicaset/web-5d69b8c7f"));
    assert_eq!(owner("a: b", set), is("replicaset/web-5d69b8c7f"));
    assert_eq!(owner("rollouts-pod-template-hash: 5d69b8c7f", set), is("rollout/web"));
    let replicas = "[{kind: ReplicationController, name: web-3, controller: true}]";
    assert_eq!(owner("deploymentconfig: web", replicas), is("deploymentconfig/web"));
    assert_eq!(owner("deploymentconfig: other", replicas), is("replicationcontroller/web-3"));
    assert_eq!(
        owner("a: b", "[{kind: StatefulSet, name: db, controller: true}]"),
        is("statefulset/db")
    );
    assert_eq!(owner("a: b", "[{kind: StatefulSet, name: db, controller: false}]"), None);
    assert_eq!(owner("a: b", "[]"), None);
    let text = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, \
                spec: {template: {spec: {containers: []}}}}";
    let pods = pods_of(&parse(&value(text)).unwrap());
    let Body::Valid(Resource::Pod(pod)) = &pods[0].body else { panic!("{pods:?}") };
    assert_eq!(pod.owner.as_deref(), Some("statefulset/db"));
}

#[test]
fn the_sidecar_of_a_pod_is_known_by_its_mark_where_there_can_be_one() {
    let mark = SidecarMark {
        version: "1.2.3".into(),
        inbound_port: port(4143),
        skipped: Default::default(),
        identity: None,
        server_name: None,
        outbound: OutboundMode::On,
        capture: Capture::InitContainer,
    };
    let marked = PodSidecar::Marked(Arc::new(mark.clone()));
    let label = "portcullis.dev/proxy: injected";
    let (written, wrong) = (mark.to_json(), "{}".to_owned());
    for (label, container, text, expected) in [
        (label, "web", Some(&written), marked.clone()),
        ("a: b", "portcullis-proxy", Some(&written), marked),
        (label, "web", Some(&wrong), PodSidecar::Unreadable),
        ("a: b", "portcullis-proxy", Some(&wrong), PodSidecar::Unreadable),
        ("a: b", "web", Some(&written), PodSidecar::None),
        ("a: b", "web", Some(&wrong), PodSidecar::None),
        ("portcullis.dev/proxy: other", "web", Some(&written), PodSidecar::None),
        (label, "web", None, PodSidecar::Unmarked),
        ("a: b", "portcullis-proxy", None, PodSidecar::Unmarked),
        ("a: b", "web", None, PodSidecar::None),
    ] {
        let mark = text.map(|text| format!("{SIDECAR_MARK}: '{text}'")).unwrap_or_default();
        let metadata = format!("labels: {{{label}}}, annotations: {{{mark}}}");
        for list in ["containers", "containers: [], initContainers"] {
            let pod = pod(&metadata, &format!("{list}: [{{name: {container}}}]"), "phase: Running");
            assert_eq!(pod.sidecar, expected, "{label} {container} {text:?} {list}");
        }
    }
}

/// Who may patch a pod could otherwise have clients reach it in plaintext.
#[test]
fn a_mark_that_contradicts_the_init_container_leaves_the_pod_unreachable() {
    let read = |skipped: &str, init: Option<&str>, capture: &str| {
        let mark = format!(
            "{{\"capture\":\"{capture}\",\"inboundPort\":4143,\"outbound\":\"on\",\
              \"skippedInboundPorts\":\"{skipped}\",\"version\":\"1\"}}"
        );
        let metadata = format!(
            "labels: {{portcullis.dev/proxy: injected}}, annotations: {{{SIDECAR_MARK}: '{mark}'}}"
        );
        let init =
            init.map(|arguments| format!("{{name: portcullis-init, args: [redirect{arguments}]}}"));
        let spec = format!("containers: [], initContainers: [{}]", init.unwrap_or_default());
        pod(&metadata, &spec, "phase: Running").sidecar == PodSidecar::Unreadable
    };
    let skips = ", '--skip-inbound-ports=25,80-81'";
    for (skipped, init, capture, unreadable) in [
        ("", Some(""), "init-container", false),
        ("25,80-81", Some(skips), "init-container", false),
        ("25,80-82", Some(skips), "init-container", true),
        ("25", Some(""), "init-container", true),
        ("", Some(skips), "init-container", true),
        ("25", None, "init-container", true),
        ("25", None, "cni-plugin", false),
        // The plugin captures pods that have no init container.
        ("25", Some(""), "cni-plugin", true),
        ("25,80-81", Some(skips), "cni-plugin", true),
    ] {
        assert_eq!(read(skipped, init, capture), unreadable, "{skipped} {init:?} {capture}");
    }
}

#[test]
fn no_object_refers_to_what_discovery_alone_reads() {
    for kind in Kind::watched_for_discovery() {
        let named = |other: Kind| other.spec().references.iter().any(|it| it.to.contains(&kind));
        assert!(!Kind::ALL.into_iter().any(named), "{kind:?}");
        assert!(!kind.spec().contributes && !kind.spec().of_ports, "{kind:?}");
    }
    let grant = object(
        "gateway.networking.k8s.io/v1",
        "ReferenceGrant",
        "from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}]\n\
         to: [{group: '', kind: Service}]",
    );
    let Resource::ReferenceGrant(grant) = resource(grant) else { panic!("no grant") };
    let fields = grant.from[0].fields(&grant.to[0]);
    assert_eq!(fields.len(), 1, "backends need it: {fields:?}");
}
