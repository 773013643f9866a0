//! Pods, what makes them, nodes and external workloads.

use crate::support::{check, errors, object, resource, value};
use policy_crds::resource::{ExternalWorkload, Pod, Probe, ProbeAction, ProbeOrigin};
use policy_crds::{Resource, parse, pods_of};
use std::net::IpAddr;

fn pod(spec: &str) -> Pod {
    match resource(object("v1", "Pod", spec)) {
        Resource::Pod(pod) => pod,
        other => panic!("{other:?}"),
    }
}

/// Port, and path or kind, of each probe of a container.
fn probes(container: &str) -> Vec<String> {
    let spec = format!("containers: [{{name: a, {container}}}]");
    let show = |probe: &Probe| match &probe.action {
        ProbeAction::HttpGet { path, tls: false } => format!("{} {path}", probe.port),
        ProbeAction::HttpGet { path, tls: true } => format!("{} tls {path}", probe.port),
        ProbeAction::Grpc => format!("{} grpc", probe.port),
        ProbeAction::TcpSocket => format!("{} tcp", probe.port),
    };
    pod(&spec).probes.iter().map(show).collect()
}

#[test]
fn ports_are_those_of_containers_and_init_containers_over_tcp() {
    let pod = pod("serviceAccountName: web\nnodeName: n1\nunknown: {whatever: 1}\n\
         containers:\n\
         - {name: a, image: x, ports: [{containerPort: 80, name: http}, {containerPort: 53, protocol: UDP}]}\n\
         - {name: b, ports: [{containerPort: 81, name: http, protocol: tcp}, {containerPort: 80, name: http}]}\n\
         initContainers: [{name: c, ports: [{containerPort: 90}]}]\n");
    let ports: Vec<_> = pod.ports.iter().map(|p| (p.number.get(), p.name.as_deref())).collect();
    assert_eq!(ports, [(80, Some("http")), (81, Some("http")), (90, None)]);
    assert_eq!(&*pod.service_account, "web");
    assert_eq!(pod.node.as_deref(), Some("n1"));
}

#[test]
fn a_pod_without_a_service_account_has_the_default_one() {
    assert_eq!(&*pod("containers: []").service_account, "default");
    assert_eq!(&*pod("containers: []\nserviceAccountName: ''").service_account, "default");
    assert_eq!(&*pod("containers: []\nserviceAccount: old").service_account, "old");
}

#[test]
fn addresses_come_from_the_status() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n\
                status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}], hostIP: 10.9.9.9}";
    let Resource::Pod(pod) = resource(parse(&value(text)).unwrap()) else { panic!() };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(pod.addresses, [address("10.0.0.1"), address("fd00::1")]);
    assert_eq!(pod.host_addresses, [address("10.9.9.9")]);
}

#[test]
fn probes_of_all_kinds_and_hooks_are_found() {
    let http = |path: &str| format!("{{httpGet: {{path: {path}, port: 80}}}}");
    let all = format!(
        "livenessProbe: {}, readinessProbe: {}, startupProbe: {}, lifecycle: {{postStart: {}, preStop: {}}}",
        http("/l"),
        http("/r"),
        http("/s"),
        http("/po"),
        http("/pr"),
    );
    assert_eq!(probes(&all), ["80 /l", "80 /po", "80 /pr", "80 /r", "80 /s"]);
    assert_eq!(probes("livenessProbe: {grpc: {port: 9000, service: x}}"), ["9000 grpc"]);
    assert_eq!(probes("livenessProbe: {tcpSocket: {port: 9000}}"), ["9000 tcp"]);
    assert_eq!(probes("livenessProbe: {exec: {command: [a]}}"), [""; 0]);
    let twice = format!("livenessProbe: {}, readinessProbe: {}", http("/l"), http("/l"));
    assert_eq!(probes(&twice), ["80 /l"]);
}

#[test]
fn a_rewritten_tcp_probe_declares_the_port_of_the_application() {
    let get = |path: &str, port: u16| {
        probes(&format!("livenessProbe: {{httpGet: {{path: {path}, port: {port}}}}}"))
    };
    assert_eq!(get("/probe/tcp/9000", 4191), ["4191 /probe/tcp/9000", "9000 tcp"]);
    assert_eq!(get("/probe/tcp/9000", 80), ["80 /probe/tcp/9000"]);
    assert_eq!(get("/probe/tcp/0", 4191), ["4191 /probe/tcp/0"]);
    assert_eq!(get("/probe/tcp/x", 4191), ["4191 /probe/tcp/x"]);
}

#[test]
fn probe_paths_are_what_the_kubelet_asks_for() {
    for (path, expected) in [
        ("/healthz", vec!["80 /healthz"]),
        ("healthz", vec!["80 /healthz"]),
        ("/healthz?full=1", vec!["80 /healthz"]),
        ("/healthz#x", vec!["80 /healthz"]),
        ("''", vec!["80 /"]),
        ("'?a'", vec!["80 /"]),
        ("/%7euser/%c3%a9", vec!["80 /~user/%C3%A9"]),
        ("/a b", vec!["80 /a%20b"]),
        ("/é", vec!["80 /%C3%A9"]),
        // Refused by the sidecar, and by no other reason for being there.
        ("//healthz", vec!["80 //healthz"]),
        ("/../x", vec!["80 /../x"]),
        ("/a;b", vec!["80 /a;b"]),
        ("'/100%'", vec!["80 /100%"]),
        ("'/%4'", vec!["80 /%4"]),
    ] {
        let found = probes(&format!("livenessProbe: {{httpGet: {{path: {path}, port: 80}}}}"));
        assert_eq!(found, expected, "{path}");
    }
    assert_eq!(probes("livenessProbe: {httpGet: {port: 80}}"), ["80 /"]);
}

#[test]
fn probe_ports_are_numbers_or_names_of_the_same_container() {
    let get = |port: &str| {
        format!(
            "ports: [{{containerPort: 81, name: http}}], livenessProbe: {{httpGet: {{port: {port}}}}}"
        )
    };
    assert_eq!(probes(&get("http")), ["81 /"]);
    assert_eq!(probes(&get("HTTP")), ["81 /"]);
    assert_eq!(probes(&get("'8080'")), ["8080 /"]);
    assert_eq!(probes(&get("admin")), [""; 0]);
    let other = "containers: [{name: a, ports: [{containerPort: 81, name: http}]}, {name: b, livenessProbe: {httpGet: {port: http}}}]";
    assert_eq!(pod(other).probes, []);
}

#[test]
fn probes_over_tls_of_other_hosts_and_hooks_are_marked() {
    assert_eq!(probes("livenessProbe: {httpGet: {port: 1, scheme: HTTPS}}"), ["1 tls /"]);
    assert_eq!(probes("livenessProbe: {httpGet: {port: 1, scheme: HTTP, host: ''}}"), ["1 /"]);
    let other = "livenessProbe: {httpGet: {port: 1, host: example.com}}";
    let hook = "lifecycle: {preStop: {httpGet: {port: 1}}}";
    let hook_elsewhere = "lifecycle: {preStop: {httpGet: {port: 1, host: example.com}}}";
    for (container, expected) in [
        ("livenessProbe: {httpGet: {port: 1}}", Some((ProbeOrigin::Probe, true))),
        (other, Some((ProbeOrigin::OtherHost, false))),
        (hook, Some((ProbeOrigin::Hook, true))),
        (hook_elsewhere, None),
    ] {
        let pod = pod(&format!("containers: [{{name: a, {container}}}]"));
        let found = pod.probes.first().map(|probe| (probe.origin, probe.reaches_the_pod()));
        assert_eq!(found, expected, "{container}");
    }
    assert_eq!(probes("livenessProbe: {tcpSocket: {port: 1, host: example.com}}"), [""; 0]);
}

#[test]
fn what_is_read_of_a_pod_is_typed() {
    check(
        "v1",
        "Pod",
        &[
            ("{}", &["spec.containers: is required"]),
            ("containers: {}", &["spec.containers: expected a list, found a mapping"]),
            (
                "containers: [{ports: [{containerPort: 0}]}]",
                &[
                    "spec.containers[0].ports[0].containerPort: expected a whole number from 1 to 65535, found the number `0`",
                ],
            ),
            (
                "containers: [{ports: [{name: a}]}]",
                &["spec.containers[0].ports[0].containerPort: is required"],
            ),
            (
                "containers: [{livenessProbe: {httpGet: {port: 99999}}}]",
                &[
                    "spec.containers[0].livenessProbe.httpGet.port: expected a whole number from 1 to 65535, found the number `99999`",
                ],
            ),
            (
                "containers: []\nserviceAccountName: 7",
                &["spec.serviceAccountName: expected text, found the number `7`"],
            ),
        ],
    );
}

#[test]
fn workloads_stand_for_their_pods() {
    let template =
        "template: {metadata: {labels: {app: web}, annotations: {a: b}}, spec: {containers: []}}";
    for (api_version, kind, spec, expected) in [
        ("apps/v1", "Deployment", template.to_owned(), 1),
        ("apps/v1", "Deployment", format!("replicas: 3\n{template}"), 3),
        ("apps/v1", "StatefulSet", format!("replicas: 0\n{template}"), 1),
        ("apps/v1", "ReplicaSet", format!("replicas: 2\n{template}"), 2),
        ("apps/v1", "DaemonSet", format!("replicas: 9\n{template}"), 1),
        ("batch/v1", "Job", format!("parallelism: 2\n{template}"), 2),
        ("batch/v1", "CronJob", format!("jobTemplate: {{spec: {{{template}}}}}"), 1),
    ] {
        let pods = pods_of(&object(api_version, kind, &spec));
        assert_eq!(pods.len(), expected, "{kind}");
        for (i, pod) in pods.iter().enumerate() {
            assert_eq!(pod.meta.key.to_string(), format!("Pod here/it-{i}"));
            assert_eq!(pod.meta.labels.get("app").map(|v| &**v), Some("web"));
            assert_eq!(pod.meta.annotations.get("a").map(|v| &**v), Some("b"));
        }
    }
    let pod = object("v1", "Pod", "containers: []");
    assert_eq!(pods_of(&pod), [pod]);
    assert_eq!(pods_of(&object("apps/v1", "Deployment", "{}")), []);
    assert_eq!(
        pods_of(&object("policy.linkerd.io/v1beta3", "Server", "{port: 1, podSelector: {}}")),
        []
    );
}

#[test]
fn a_misspelt_field_of_metadata_is_an_error_in_a_manifest() {
    let of = |metadata: &str, template: &str| {
        let text = format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: a{metadata}}}, \
             spec: {{template: {{metadata: {{{template}}}, spec: {{containers: []}}}}}}}}"
        );
        errors(&policy_crds::parse_written(&value(&text)).unwrap())
    };
    let at =
        |field: &str, meant: &str| vec![format!("{field}: unknown field, did you mean `{meant}`?")];
    assert_eq!(of("", "labels: {a: b}, generation: 1, uid: a"), [""; 0]);
    assert_eq!(of("", "lables: {a: b}"), at("spec.template.metadata.lables", "labels"));
    assert_eq!(of("", "labels: {}, label: {a: b}"), at("spec.template.metadata.label", "labels"));
    assert_eq!(of(", annotation: {a: b}", ""), at("metadata.annotation", "annotations"));
    assert_eq!(of(", labels: {}, lables: {a: b}", ""), at("metadata.lables", "labels"));
}

#[test]
fn a_workload_that_cannot_be_read_says_where() {
    check(
        "apps/v1",
        "Deployment",
        &[
            ("replicas: 1", &["spec.template: is required"]),
            (
                "replicas: -1\ntemplate: {spec: {containers: []}}",
                &["spec.replicas: expected a whole number from 0 to 10000, found the number `-1`"],
            ),
            (
                "replicas: 1000000\ntemplate: {spec: {containers: []}}",
                &[
                    "spec.replicas: expected a whole number from 0 to 10000, found the number `1000000`",
                ],
            ),
            (
                "template: {metadata: {labels: {a: 1}}, spec: {containers: []}}",
                &["spec.template.metadata.labels.a: expected text, found the number `1`"],
            ),
            ("template: {spec: {}}", &["spec.template.spec.containers: is required"]),
        ],
    );
    let cron = object("batch/v1", "CronJob", "schedule: x");
    assert_eq!(errors(&cron), ["spec.jobTemplate: is required"]);
}

#[test]
fn nodes_have_addresses_and_pod_gateways() {
    let text = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n\
                spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.1.0.0/24, 'fd00:1::/64']}\n\
                status: {addresses: [{type: InternalIP, address: 192.168.0.1}, {type: Hostname, address: node-1}, {type: ExternalIP, address: 192.168.0.1}]}";
    let object = parse(&value(text)).unwrap();
    assert_eq!(object.meta.key.to_string(), "Node node-1");
    let Resource::Node(node) = resource(object) else { panic!() };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(node.addresses, [address("192.168.0.1")]);
    assert_eq!(node.pod_gateways, [address("10.1.0.1"), address("fd00:1::1")]);
    let bare = "{apiVersion: v1, kind: Node, metadata: {name: node-1}}";
    let Resource::Node(node) = resource(parse(&value(bare)).unwrap()) else { panic!() };
    assert!(node.addresses.is_empty() && node.pod_gateways.is_empty());
}

fn external(api_version: &str, spec: &str) -> ExternalWorkload {
    match resource(object(api_version, "ExternalWorkload", spec)) {
        Resource::ExternalWorkload(workload) => workload,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_versions_of_external_workloads_are_read_by_their_own_spelling() {
    const V1BETA1: &str = "workload.linkerd.io/v1beta1";
    const V1ALPHA1: &str = "workload.linkerd.io/v1alpha1";
    let good = "meshTLS: {identity: a, serverName: b}\nworkloadIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]\n\
                ports: [{port: 80, name: http}, {port: 53, protocol: UDP, name: dns}, {port: 81, name: http}]";
    let workload = external(V1BETA1, good);
    assert_eq!((&*workload.identity, &*workload.server_name), ("a", "b"));
    assert_eq!(workload.addresses.len(), 2);
    assert_eq!(workload.named_ports.get("http").map(|p| p.get()), Some(81));
    assert_eq!(workload.ports.iter().map(|p| p.get()).collect::<Vec<_>>(), [80, 81]);
    external(V1ALPHA1, "meshTls: {identity: a, serverName: b}");
    let mesh = "meshTLS: {identity: a, serverName: b}";
    check(
        V1BETA1,
        "ExternalWorkload",
        &[
            (
                "meshTls: {identity: a, serverName: b}",
                &[
                    "spec.meshTls: unknown field, did you mean `meshTLS`?",
                    "spec.meshTLS: is required",
                ],
            ),
            ("meshTLS: {identity: a}", &["spec.meshTLS.serverName: is required"]),
            (
                "meshTLS: {identity: '', serverName: b}",
                &["spec.meshTLS.identity: must not be empty"],
            ),
            (
                &format!("{mesh}\nports: [{{port: 0}}]"),
                &[
                    "spec.ports[0].port: expected a whole number from 1 to 65535, found the number `0`",
                ],
            ),
            (
                &format!("{mesh}\nworkloadIPs: [{{ip: web}}]"),
                &[
                    "spec.workloadIPs[0].ip: `web` is not an address such as `10.1.2.3` or `fd00::1`",
                ],
            ),
            (
                &format!("{mesh}\nworkloadIPs: [{{ip: '::1'}}, {{ip: '::2'}}, {{ip: '::3'}}]"),
                &["spec.workloadIPs: 3 elements, at most 2 are allowed"],
            ),
        ],
    );
    check(
        V1ALPHA1,
        "ExternalWorkload",
        &[(
            "meshTls: {identity: a, serverName: b}\nworkloadIPs: [{ip: '::1'}, {ip: '::2'}]",
            &["spec.workloadIPs: 2 elements, at most 1 are allowed"],
        )],
    );
}

#[test]
fn a_pod_runs_while_its_phase_says_so_and_nobody_asked_for_its_end() {
    let running = |status: &str, metadata: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: x{metadata}}}, \
              spec: {{containers: [{{name: a}}]}}{status}}}"
        );
        match resource(parse(&value(&text)).unwrap()) {
            Resource::Pod(pod) => pod.running,
            other => panic!("{other:?}"),
        }
    };
    let phase = |phase: &str| format!(", status: {{phase: {phase}}}");
    assert!(running(&phase("Running"), ""));
    assert!(!running(&phase("Running"), ", deletionTimestamp: '2026-11-21T12:00:00Z'"));
    for other in ["Pending", "Succeeded", "Failed", "Unknown", "running", "7", "[Running]"] {
        assert!(!running(&phase(other), ""), "{other}");
    }
    assert!(!running("", ""));
}
