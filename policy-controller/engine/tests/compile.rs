//! The rows of the default-mode, authorization, route and probe tables: manifests in, decisions
//! out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::*;
use policy_core::{
    DefaultPolicy, NetworkMatch, Owner, Protocol, Undeclared, UndeclaredPorts, WorkloadKey,
};
use policy_engine::Compiled;
use policy_engine::behaviour::Behaviour;
use policy_engine::conditions::ConditionKind;
use policy_engine::config::{
    KubeletExemption, Namespaces, PodGateways, ProbeRoutes, ReferenceGrants,
};
use policy_engine::{ControllerConfig, compile_directory, compile_objects};
use std::path::Path;
use std::time::Duration;

const GET: &str = "GET /";

fn with_default(policy: DefaultPolicy) -> ControllerConfig {
    ControllerConfig { default_policy: policy, ..ControllerConfig::default() }
}

fn annotated(annotations: &str) -> String {
    POD.replace(
        "labels: {app: web}}",
        &format!("labels: {{app: web}}, annotations: {{{annotations}}}}}"),
    )
}

#[test]
fn the_examples_compile_without_complaint() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for set in ["emojivoto", "audit-mode", "per-route", "shop", "delegation"] {
        let compiled = compile_directory(&root.join(set), &ControllerConfig::default()).unwrap();
        assert!(compiled.diagnostics.is_empty(), "{set}: {:#?}", compiled.diagnostics);
        assert!(!compiled.workloads.is_empty(), "{set}");
        assert!(!compiled.conditions.is_empty(), "{set}");
        for conditions in compiled.conditions.values() {
            assert!(!conditions.is_empty(), "{set}");
            assert!(conditions.iter().all(|c| c.status), "{set}: {conditions:#?}");
        }
    }
}

#[test]
fn each_default_policy_admits_whom_it_names() {
    // policy, outsider, neighbour, meshed neighbour
    let table = [
        (DefaultPolicy::AllUnauthenticated, ["allow", "allow", "allow"]),
        (DefaultPolicy::AllAuthenticated, ["unauthorized", "unauthorized", "allow"]),
        (DefaultPolicy::ClusterUnauthenticated, ["unauthorized", "allow", "allow"]),
        (DefaultPolicy::ClusterAuthenticated, ["unauthorized", "unauthorized", "allow"]),
        (DefaultPolicy::Deny, ["unauthorized", "unauthorized", "unauthorized"]),
        (DefaultPolicy::Audit, ["audit", "audit", "audit"]),
    ];
    for (policy, expected) in table {
        let compiled = compiled_with(&[POD], &with_default(policy));
        let asked =
            [OUTSIDER, NEIGHBOUR, Who::Meshed("a.shop")].map(|w| ask(&compiled, 8080, w, GET));
        assert_eq!(asked, expected, "{policy:?}");
        assert_eq!(web(&compiled, 8080).owner, Owner::Default(policy));
        let access = compiled_with(
            &[POD, &server("HTTP/1", policy.as_str())],
            &with_default(DefaultPolicy::Deny),
        );
        let asked =
            [OUTSIDER, NEIGHBOUR, Who::Meshed("a.shop")].map(|w| ask(&access, 8080, w, GET));
        assert_eq!(asked, expected, "accessPolicy {policy:?}");
    }
}

#[test]
fn the_pod_decides_over_the_namespace_over_the_cluster() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: \
                     {config.linkerd.io/default-inbound-policy: deny}}";
    let owner = |documents: &[&str]| web(&compiled(documents), 8080).owner.clone();
    assert_eq!(owner(&[POD]), Owner::Default(DefaultPolicy::AllUnauthenticated));
    assert_eq!(owner(&[POD, namespace]), Owner::Default(DefaultPolicy::Deny));
    let pod = annotated("config.linkerd.io/default-inbound-policy: audit");
    assert_eq!(owner(&[&pod, namespace]), Owner::Default(DefaultPolicy::Audit));
    let pod = annotated("config.linkerd.io/default-inbound-policy: al-unauthenticated");
    assert_eq!(owner(&[&pod, namespace]), Owner::Default(DefaultPolicy::Deny));
}

#[test]
fn ports_are_opaque_require_identities_or_are_undeclared() {
    let pod = annotated(
        "config.linkerd.io/opaque-ports: '9000-9010', \
         config.linkerd.io/proxy-require-identity-inbound-ports: 'http', \
         portcullis.dev/undeclared-ports: deny",
    );
    let compiled = compiled(&[&pod]);
    assert_eq!(web(&compiled, 9005).protocol, Protocol::Opaque);
    assert_eq!(web(&compiled, 8080).owner, Owner::Default(DefaultPolicy::AllAuthenticated));
    assert_eq!(ask(&compiled, 8080, NEIGHBOUR, GET), "unauthorized");
    assert_eq!(ask(&compiled, 9999, NEIGHBOUR, GET), "port_undeclared");
    assert_eq!(connect(&compiled, 9005, NEIGHBOUR), "port_undeclared");
    let workload = &compiled.workloads[&WorkloadKey::pod("shop", "web")];
    assert_eq!(workload.state.undeclared, UndeclaredPorts::Deny);
    assert_eq!(workload.policy.undeclared, Undeclared::Deny);
    assert_eq!(workload.state.declared.iter().copied().collect::<Vec<_>>(), [port(8080)]);
    assert_eq!(&*workload.state.identity, "web.shop.serviceaccount.identity.linkerd.cluster.local");
}

#[test]
fn opaque_ports_are_the_pod_s_else_the_namespace_s() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: \
                     {config.linkerd.io/opaque-ports: '9000,http,smtp'}}";
    let protocol = |documents: &[&str], number: u16| {
        web(&compiled(documents), number).protocol == Protocol::Opaque
    };
    assert!(!protocol(&[POD], 9000));
    assert!(protocol(&[POD, namespace], 9000));
    assert!(protocol(&[POD, namespace], 8080), "by the name that it has in this pod");
    let own = annotated("config.linkerd.io/opaque-ports: '9001'");
    assert!(protocol(&[&own, namespace], 9001) && !protocol(&[&own, namespace], 9000));
    let none = annotated("config.linkerd.io/opaque-ports: ''");
    assert!(!protocol(&[&none, namespace], 9000), "an empty list is one");
}

#[test]
fn ports_that_ask_for_identities_are_the_workload_s_else_the_namespace_s() {
    const LIST: &str = "config.linkerd.io/proxy-require-identity-inbound-ports";
    let namespace = |list: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, annotations: {{{LIST}: '{list}'}}}}"
        )
    };
    let asks = |documents: &[&str], number: u16| {
        web(&compiled(documents), number).owner == Owner::Default(DefaultPolicy::AllAuthenticated)
    };
    let listed = namespace("9000,http,smtp");
    assert!(!asks(&[POD], 8080));
    assert!(asks(&[POD, &listed], 9000));
    assert!(asks(&[POD, &listed], 8080), "by the name that it has in this pod");
    assert!(!asks(&[POD, &listed], 9001), "`smtp` may be a port of another pod");
    let own = annotated(&format!("{LIST}: '9001'"));
    assert!(asks(&[&own, &listed], 9001) && !asks(&[&own, &listed], 9000));
    let none = annotated(&format!("{LIST}: ''"));
    assert!(!asks(&[&none, &listed], 9000), "an empty list is one");
    for broken in ["9000,8o80", "9000,70000", "9000,9-8", "9000,HTTP"] {
        assert!(asks(&[POD, &namespace(broken)], 1), "{broken} may have meant any port");
        assert!(!asks(&[&own, &namespace(broken)], 1), "{broken} where the pod says its own");
    }
    let external = "apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload\n\
                    metadata: {name: web, namespace: shop}\nspec: {meshTLS: {identity: a.b, serverName: a.b}, \
                    ports: [{name: http, port: 8080}], workloadIPs: [{ip: 10.0.0.1}]}";
    let compiled = compiled(&[external, &listed]);
    let key = WorkloadKey::external("shop", "web");
    let owner = |number| compiled.port(&key, port(number)).unwrap().owner.clone();
    assert_eq!(owner(8080), Owner::Default(DefaultPolicy::AllAuthenticated));
    assert_eq!(owner(9001), Owner::Default(DefaultPolicy::AllUnauthenticated));
}

#[test]
fn every_port_of_unknown_protocol_waits_as_long_as_is_set() {
    let timeout = Duration::from_secs(3);
    let config = ControllerConfig { detect_timeout: timeout, ..ControllerConfig::default() };
    let protocol =
        |documents: &[&str], number: u16| web(&compiled_with(documents, &config), number).protocol;
    let (unknown, invalid) = (server("unknown", "deny"), server("HTTP/9", "deny"));
    for documents in [&[POD][..], &[POD, &unknown], &[POD, &invalid]] {
        for number in [8080, 9999] {
            assert_eq!(protocol(documents, number), Protocol::Detect { timeout }, "{documents:?}");
        }
    }
}

/// A replica whose watch of Namespaces lags sees pods of one that it has not seen.
#[test]
fn a_namespace_that_was_not_read_yet_opens_nothing() {
    let asked = |namespaces: Namespaces, number: u16| {
        let config = ControllerConfig { namespaces, ..ControllerConfig::default() };
        let compiled = compile_objects(objects(&[POD]), &config);
        [NEIGHBOUR, Who::Meshed("a.b")].map(|who| ask(&compiled, number, who, GET))
    };
    assert_eq!(asked(Namespaces::Required, 8080), ["unauthorized", "unauthorized"]);
    assert_eq!(asked(Namespaces::Required, 9999), ["port_undeclared", "port_undeclared"]);
    assert_eq!(asked(Namespaces::Optional, 8080), ["allow", "allow"]);
    assert_eq!(asked(Namespaces::Optional, 9999), ["allow", "allow"]);
}

#[test]
fn a_namespace_that_cannot_be_read_opens_nothing() {
    let namespace = "apiVersion: v9\nkind: Namespace\nmetadata: {name: shop}";
    let asked = |pod: &str, number: u16| {
        let compiled = compiled(&[pod, namespace]);
        [NEIGHBOUR, Who::Meshed("a.b")].map(|who| ask(&compiled, number, who, GET))
    };
    assert_eq!(asked(POD, 8080), ["unauthorized", "unauthorized"]);
    let open = "config.linkerd.io/default-inbound-policy: all-unauthenticated";
    assert_eq!(asked(&annotated(open), 8080), ["unauthorized", "allow"]);
    assert_eq!(asked(&annotated(open), 9999), ["port_undeclared", "port_undeclared"]);
    let all = format!(
        "{open}, config.linkerd.io/proxy-require-identity-inbound-ports: '', \
         portcullis.dev/undeclared-ports: default"
    );
    assert_eq!(asked(&annotated(&all), 8080), ["allow", "allow"]);
    assert_eq!(asked(&annotated(&all), 9999), ["allow", "allow"]);
}

#[test]
fn the_admin_port_that_a_pod_states_is_none_of_our_sidecar() {
    let config =
        ControllerConfig { proxy_ports: [port(4191)].into(), ..with_default(DefaultPolicy::Deny) };
    let linkerds = annotated("config.linkerd.io/admin-port: '9090'");
    let ours = linkerds.replace("{app: web}", "{app: web, portcullis.dev/proxy: injected}");
    assert_ne!(linkerds, ours);
    let asked = |pod: &str| {
        let compiled = compiled_with(&[pod], &config);
        [4191, 9090].map(|number| ask(&compiled, number, Who::Meshed("a.b"), "GET /metrics"))
    };
    assert_eq!(asked(&linkerds), ["allow", "allow"]);
    assert_eq!(asked(&ours), ["allow", "unauthorized"], "there is the application");
}

#[test]
fn the_proxys_admin_port_is_declared_where_there_are_proxies() {
    let declared = |stated: &str, proxy_ports: &[u16]| {
        let pod = annotated(&format!("config.linkerd.io/admin-port: '{stated}'"));
        let proxy_ports = proxy_ports.iter().map(|number| port(*number)).collect();
        let config = ControllerConfig { proxy_ports, ..ControllerConfig::default() };
        let compiled = compiled_with(&[&pod], &config);
        let state = &compiled.workloads[&WorkloadKey::pod("shop", "web")].state;
        state.declared.iter().map(|port| port.get()).collect::<Vec<_>>()
    };
    assert_eq!(declared("14191", &[4191]), [4191, 8080, 14191]);
    assert_eq!(declared("14191", &[]), [8080]);
    assert_eq!(declared("0", &[4191]), [4191, 8080], "what cannot be read leaves the usual one");
}

#[test]
fn the_admin_port_admits_any_identity_and_the_node_whatever_the_default_is() {
    let pod = annotated("portcullis.dev/undeclared-ports: deny");
    for default in DefaultPolicy::ALL {
        let proxy_ports = [port(4191)].into();
        let config = ControllerConfig { proxy_ports, ..with_default(default) };
        let documents = [pod.as_str()];
        let compiled = compiled_with(&documents, &config);
        let asked = [NODE, Who::Meshed("a.b"), NEIGHBOUR, Who::Anonymous]
            .map(|who| ask(&compiled, 4191, who, "GET /metrics"));
        assert_eq!(asked, ["allow", "allow", "unauthorized", "unauthorized"], "{default:?}");
        assert_eq!(ask(&compiled, 4190, NODE, GET), "port_undeclared");
        let own = server("HTTP/1", "deny").replace("port: http", "port: 4191");
        let compiled = compiled_with(&[&pod, &own], &config);
        assert_eq!(ask(&compiled, 4191, NODE, "GET /metrics"), "unauthorized", "a Server decides");
    }
}

#[test]
fn the_first_address_of_a_pod_network_is_the_nodes_as_configured_and_else_proposed_at_most() {
    let asked = |pod_gateways| {
        let config = ControllerConfig { pod_gateways, ..with_default(DefaultPolicy::Deny) };
        let compiled = compiled_with(&[POD], &config);
        assert_eq!(ask(&compiled, 8080, NODE, "GET /ready"), "allow");
        let state = &compiled.workloads[&WorkloadKey::pod("shop", "web")].state;
        let proposed = state.facts.pod_gateways.iter().map(ToString::to_string).collect();
        (ask(&compiled, 8080, Who::Plain("10.42.1.1"), "GET /ready"), proposed)
    };
    let first: Vec<String> = vec!["10.42.1.1".to_owned()];
    assert_eq!(asked(PodGateways::default()), ("unauthorized".into(), first));
    assert_eq!(asked(PodGateways::OfNode), ("allow".into(), Vec::new()));
    assert_eq!(asked(PodGateways::OfPods), ("unauthorized".into(), Vec::new()));
}

#[test]
fn probes_pass_from_the_node_alone() {
    let config = with_default(DefaultPolicy::Deny);
    let compiled = compiled_with(&[POD], &config);
    for request in ["GET /ready", "GET /stop", "POST /grpc.health.v1.Health/Check"] {
        assert_eq!(ask(&compiled, 8080, NODE, request), "allow", "{request}");
        assert_eq!(ask(&compiled, 8080, Who::Plain("10.42.1.0"), request), "unauthorized");
        assert_eq!(ask(&compiled, 8080, Who::Plain("10.42.1.1"), request), "unauthorized");
        assert_eq!(ask(&compiled, 8080, NEIGHBOUR, request), "unauthorized", "{request}");
    }
    for request in ["POST /ready", "GET /", "GET /start"] {
        assert_eq!(ask(&compiled, 8080, NODE, request), "unauthorized", "{request}");
    }
    assert_eq!(connect(&compiled, 8080, Who::Passthrough("172.18.0.2")), "allow");
    assert_eq!(connect(&compiled, 8080, Who::Passthrough("10.1.2.3")), "unauthorized");
    assert_eq!(connect(&compiled, 8080, NODE), "unauthorized");
}

#[test]
fn probes_keep_passing_with_routes_unless_linkerds_way_is_asked_for() {
    let documents = [POD, &server("HTTP/1", "deny"), &route("shop", "cart")];
    let compiled = compiled(&documents);
    assert_eq!(ask(&compiled, 8080, NODE, "GET /ready"), "allow");
    let config =
        ControllerConfig { probe_routes: ProbeRoutes::Unrouted, ..ControllerConfig::default() };
    let unrouted = compiled_with(&documents, &config);
    assert_eq!(ask(&unrouted, 8080, NODE, "GET /ready"), "no_route");
    let unrouted = compiled_with(&[POD, &server("HTTP/1", "deny")], &config);
    assert_eq!(ask(&unrouted, 8080, NODE, "GET /ready"), "allow");
}

#[test]
fn the_kubelets_exemption_widens_and_moves_as_configured() {
    let all = ControllerConfig {
        kubelet_exemption: KubeletExemption::All,
        ..with_default(DefaultPolicy::Deny)
    };
    let compiled = compiled_with(&[POD], &all);
    assert_eq!(ask(&compiled, 8080, NODE, "DELETE /x"), "allow");
    assert_eq!(connect(&compiled, 9999, NODE), "allow");
    assert_eq!(ask(&compiled, 8080, NEIGHBOUR, "GET /ready"), "unauthorized");
    let moved = ControllerConfig {
        probe_networks: vec![NetworkMatch::net("10.1.0.0/16".parse().unwrap())],
        ..with_default(DefaultPolicy::Deny)
    };
    let compiled = compiled_with(&[POD], &moved);
    assert_eq!(ask(&compiled, 8080, NEIGHBOUR, "GET /ready"), "allow");
    assert_eq!(ask(&compiled, 8080, NODE, "GET /ready"), "unauthorized");
    let none = ControllerConfig { probe_networks: Vec::new(), ..all };
    assert_eq!(ask(&compiled_with(&[POD], &none), 8080, NODE, "GET /ready"), "unauthorized");
}

#[test]
fn loopback_is_granted_only_if_asked_for() {
    let loopback = Who::Plain("127.0.0.1");
    let documents = [POD, &server("HTTP/1", "audit")];
    let config = ControllerConfig { localhost_authorization: true, ..ControllerConfig::default() };
    assert_eq!(ask(&compiled_with(&documents, &config), 8080, loopback, GET), "allow");
    assert_eq!(ask(&compiled_with(&documents, &config), 8080, Who::Plain("::1"), GET), "allow");
    assert_eq!(ask(&compiled(&documents), 8080, loopback, GET), "audit");
}

#[test]
fn authorizations_on_a_server_hold_as_they_are_written() {
    let account = "kind: ServiceAccount, name: client";
    let identities =
        mesh_tls("shop", "friends", "'*.friends.serviceaccount.identity.linkerd.cluster.local'");
    let networks = "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
                    metadata: {name: near, namespace: shop}\n\
                    spec: {networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]}";
    let mesh = "group: policy.linkerd.io, kind: MeshTLSAuthentication, name: friends";
    let near = "group: policy.linkerd.io, kind: NetworkAuthentication, name: near";
    let set = "group: portcullis.dev, kind: NetworkSet, name: cluster";
    let in_cluster = ("10.2.3.4", "192.168.1.1");
    // refs, neighbour, another neighbour, outsider, client of shop, client of friends
    let table = [
        ("".to_owned(), ["allow"; 5]),
        (
            format!("{{{account}}}"),
            ["unauthorized", "unauthorized", "unauthorized", "allow", "unauthorized"],
        ),
        (
            format!("{{{mesh}}}"),
            ["unauthorized", "unauthorized", "unauthorized", "unauthorized", "allow"],
        ),
        (format!("{{{near}}}"), ["unauthorized", "allow", "unauthorized", "allow", "allow"]),
        (format!("{{{set}}}"), ["allow", "allow", "unauthorized", "allow", "allow"]),
        (
            format!("{{{mesh}}}, {{{near}}}"),
            ["unauthorized", "unauthorized", "unauthorized", "unauthorized", "allow"],
        ),
        (
            "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: missing}".to_owned(),
            ["unauthorized"; 5],
        ),
    ];
    for (refs, expected) in table {
        let policy = policy("p", ON_SERVER, &refs);
        let compiled = compiled(&[POD, &server("HTTP/1", "deny"), &identities, networks, &policy]);
        let who = [
            NEIGHBOUR,
            Who::Plain(in_cluster.0),
            OUTSIDER,
            Who::Meshed("client.shop"),
            Who::Meshed("x.friends"),
        ];
        assert_eq!(who.map(|w| ask(&compiled, 8080, w, GET)), expected, "{refs}");
    }
}

#[test]
fn server_authorizations_hold_as_they_are_written() {
    let authorization = |server: &str, client: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\n\
             metadata: {{name: z, namespace: shop}}\nspec: {{server: {{{server}}}, client: {{{client}}}}}"
        )
    };
    let table = [
        ("name: web", "unauthenticated: true", ["unauthorized", "allow", "allow", "allow"]),
        (
            "selector: {matchLabels: {tier: front}}",
            "unauthenticated: true",
            ["unauthorized", "allow", "allow", "allow"],
        ),
        ("selector: {matchLabels: {tier: back}}", "unauthenticated: true", ["unauthorized"; 4]),
        ("name: web", "unauthenticated: true, networks: [{cidr: 0.0.0.0/0}]", ["allow"; 4]),
        (
            "name: web",
            "meshTLS: {unauthenticatedTLS: true}",
            ["unauthorized", "unauthorized", "allow", "allow"],
        ),
        (
            "name: web",
            "meshTLS: {identities: ['*']}",
            ["unauthorized", "unauthorized", "unauthorized", "allow"],
        ),
        (
            "name: web",
            "meshTLS: {serviceAccounts: [{name: client}]}",
            ["unauthorized", "unauthorized", "unauthorized", "allow"],
        ),
        (
            "name: web",
            "meshTLS: {serviceAccounts: [{name: client, namespace: b}]}",
            ["unauthorized"; 4],
        ),
    ];
    let labelled = server("HTTP/1", "deny")
        .replace("name: web, namespace: shop", "name: web, namespace: shop, labels: {tier: front}");
    for (on, client, expected) in table {
        let compiled = compiled(&[POD, &labelled, &authorization(on, client)]);
        let who = [OUTSIDER, NEIGHBOUR, Who::Anonymous, Who::Meshed("client.shop")];
        assert_eq!(who.map(|w| ask(&compiled, 8080, w, GET)), expected, "{on} {client}");
    }
}

#[test]
fn a_policy_on_the_namespace_reaches_its_servers_and_nothing_else() {
    let on_namespace = policy("p", "kind: Namespace, name: shop", "");
    let config = with_default(DefaultPolicy::Deny);
    let compiled = compiled_with(&[POD, &server("HTTP/1", "deny"), &on_namespace], &config);
    assert_eq!(ask(&compiled, 8080, OUTSIDER, GET), "allow");
    assert_eq!(ask(&compiled, 9090, OUTSIDER, GET), "unauthorized");
}

#[test]
fn grants_are_credited_specific_first_and_audit_last() {
    let on_namespace = policy("a", "kind: Namespace, name: shop", "");
    let documents = [
        POD,
        &server("HTTP/1", "audit"),
        &on_namespace,
        &policy("z", ON_SERVER, ""),
        &policy("b", ON_SERVER, ""),
    ];
    let policy = web(&compiled(&documents), 8080);
    let names: Vec<String> = policy.authorizations.iter().map(|a| a.source.to_string()).collect();
    assert_eq!(
        names,
        [
            "AuthorizationPolicy shop/b",
            "AuthorizationPolicy shop/z",
            "AuthorizationPolicy shop/a",
            "default audit"
        ]
    );
}

#[test]
fn withheld_grants_say_why() {
    let refs = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: missing}";
    let compiled = compiled(&[POD, &server("HTTP/1", "deny"), &policy("p", ON_SERVER, refs)]);
    let policy = web(&compiled, 8080);
    assert_eq!(policy.withheld.len(), 1);
    assert_eq!(&*policy.withheld[0].reason, "MeshTLSAuthentication shop/missing does not exist");
    assert_eq!(
        conditions(&compiled, "p"),
        ["Accepted=true Accepted", "ResolvedRefs=false RefNotFound"]
    );
}

#[test]
fn another_namespaces_authentication_needs_a_grant() {
    let refs =
        "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: all, namespace: other}";
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: other}\nspec:\n\
                 \x20 from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: shop}]\n\
                 \x20 to: [{group: policy.linkerd.io, kind: MeshTLSAuthentication}]";
    let (server, policy) = (server("HTTP/1", "deny"), policy("p", ON_SERVER, refs));
    let all = mesh_tls("other", "all", "'*'");
    let base = [POD, &server, &policy];
    let verdict = |more: &[&str], config: &ControllerConfig| {
        let compiled = compiled_with(&[&base[..], more].concat(), config);
        (ask(&compiled, 8080, Who::Meshed("x.y"), GET), conditions(&compiled, "p")[1].clone())
    };
    let enforce = ControllerConfig::default();
    let refused = ("unauthorized".to_owned(), "ResolvedRefs=false RefNotPermitted".to_owned());
    assert_eq!(verdict(&[&all], &enforce), refused);
    assert_eq!(verdict(&[grant], &enforce), refused);
    let allowed = |reason: &str| ("allow".to_owned(), reason.to_owned());
    assert_eq!(verdict(&[&all, grant], &enforce), allowed("ResolvedRefs=true ResolvedRefs"));
    let warn = ControllerConfig { reference_grants: ReferenceGrants::Warn, ..enforce.clone() };
    assert_eq!(verdict(&[&all], &warn), allowed("ResolvedRefs=false RefNotPermitted"));
    assert_eq!(verdict(&[], &warn), refused);
    // What withholds the grant is the reason, whatever is used with a warning beside it.
    let networks = "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
                    metadata: {name: office, namespace: other}\nspec: {networks: [{cidr: 10.0.0.0/8}]}";
    let both = "{group: policy.linkerd.io, kind: NetworkAuthentication, name: office, namespace: other}, \
                {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: missing}";
    let both = self::policy("p", ON_SERVER, both);
    let compiled = compiled_with(&[POD, &server, &both, networks], &warn);
    assert_eq!(conditions(&compiled, "p")[1], "ResolvedRefs=false RefNotFound");
    let shared = ControllerConfig { shared_namespaces: ["other".into()].into(), ..enforce };
    assert_eq!(verdict(&[&all], &shared), allowed("ResolvedRefs=true ResolvedRefs"));
}

#[test]
fn the_oldest_server_owns_a_port_and_the_others_own_the_rest() {
    let server = |name: &str, created: &str, port: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
             metadata: {{name: {name}, namespace: shop, creationTimestamp: {created}}}\n\
             spec: {{podSelector: {{}}, port: {port}}}"
        )
    };
    let old = server("z", "'2020-01-01T00:00:00Z'", "8080");
    let young = server("a", "'2021-01-01T00:00:00Z'", "http");
    let numeric = server("number", "'2019-01-01T00:00:00Z'", "'8080'");
    let owner = |documents: &[&str], number| match &web(&compiled(documents), number).owner {
        Owner::Server(name) => name.name().to_string(),
        Owner::Default(policy) => policy.as_str().to_owned(),
    };
    assert_eq!(owner(&[POD, &young, &old], 8080), "z");
    // A number in quotes is a mistake, whose Server keeps the port that was meant.
    assert_eq!(owner(&[POD, &young, &old, &numeric], 8080), "number");
    assert_eq!(owner(&[POD, &young], 8080), "a");
    assert_eq!(owner(&[POD, &young], 8081), "all-unauthenticated");
}

#[test]
fn an_invalid_server_owns_and_denies() {
    let broken = |spec: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
             metadata: {{name: broken, namespace: shop}}\nspec: {spec}"
        )
    };
    let table = [
        ("{podSelector: {}, port: 8080, proxyProtocol: smtp}", "server_invalid", "allow"),
        ("{podSelector: 7, port: 8080}", "server_invalid", "allow"),
        ("{podSelector: {}, port: 0}", "server_invalid", "server_invalid"),
        ("{podSelector: {matchLabels: {app: other}}, port: 0}", "allow", "allow"),
        ("{}", "server_invalid", "server_invalid"),
    ];
    for (spec, own, other) in table {
        let compiled = compiled(&[POD, &broken(spec)]);
        assert_eq!(ask(&compiled, 8080, NEIGHBOUR, GET), own, "{spec}");
        assert_eq!(ask(&compiled, 7000, NEIGHBOUR, GET), other, "{spec}");
        assert_eq!(connect(&compiled, 8080, NODE), own, "{spec}");
        assert_eq!(conditions(&compiled, "broken"), ["Accepted=false Invalid"]);
    }
}

#[test]
fn routes_take_effect_where_their_protocol_is_spoken() {
    let grpc = "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\n\
                metadata: {name: r, namespace: shop}\nspec:\n\
                \x20 parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                \x20 rules: [{matches: [{method: {service: shop.Cart}}]}]";
    // protocol, HTTPRoute accepted, GRPCRoute accepted
    let table = [
        ("unknown", true, true),
        ("HTTP/1", true, false),
        ("HTTP/2", true, true),
        ("gRPC", false, true),
        ("opaque", false, false),
        ("TLS", false, false),
    ];
    for (protocol, http, grpc_accepted) in table {
        let open = server(protocol, "all-unauthenticated");
        let http_route = route("shop", "r");
        for (route, accepted, request) in
            [(&*http_route, http, "GET /cart"), (grpc, grpc_accepted, "POST /shop.Cart/Add")]
        {
            let compiled = compiled(&[POD, &open, route]);
            let expected = if accepted { "allow" } else { "routes_invalid" };
            assert_eq!(ask(&compiled, 8080, NEIGHBOUR, request), expected, "{protocol} {request}");
            let elsewhere = if accepted { "no_route" } else { "routes_invalid" };
            assert_eq!(ask(&compiled, 8080, NEIGHBOUR, "GET /x"), elsewhere, "{protocol}");
            let reason = if accepted {
                "Accepted=true Accepted"
            } else {
                "Accepted=false NotAllowedByListeners"
            };
            assert_eq!(conditions(&compiled, "r")[0], reason, "{protocol} {request}");
        }
    }
}

#[test]
fn an_invalid_route_keeps_its_server_bound() {
    let invalid = route("shop", "r").replace("/cart", "cart");
    let open = server("HTTP/1", "all-unauthenticated");
    let compiled_alone = compiled(&[POD, &open, &invalid]);
    assert_eq!(ask(&compiled_alone, 8080, NEIGHBOUR, GET), "routes_invalid");
    assert_eq!(conditions(&compiled_alone, "r")[0], "Accepted=false Invalid");
    let get = invalid.replace("cart}", "cart}, method: GET");
    let anywhere = route("shop", "valid").replace("/cart", "/");
    let beside = compiled(&[POD, &open, &get, &anywhere]);
    assert_eq!(ask(&beside, 8080, NEIGHBOUR, "POST /cart"), "allow");
    assert_eq!(ask(&beside, 8080, NEIGHBOUR, "GET /cart"), "route_invalid");
    assert_eq!(ask(&beside, 8080, NEIGHBOUR, GET), "route_invalid", "its path may have been any");
}

#[test]
fn a_route_whose_parents_cannot_be_read_denies_what_it_names_and_binds_all_else() {
    let open = server("HTTP/1", "all-unauthenticated");
    let anywhere = route("shop", "valid").replace("/cart", "/");
    let ask = |invalid: &str, request| {
        ask(&compiled(&[POD, &open, invalid, &anywhere]), 8080, NEIGHBOUR, request)
    };
    let named = route("shop", "r").replace("name: web,", "name: 7,");
    let named = named.replace("/cart}", "/cart}, method: GET");
    assert_eq!(ask(&named, "GET /cart"), "unauthorized");
    assert_eq!(ask(&named, "GET /other"), "allow");
    let partly = named.replace("/cart", "cart");
    assert_eq!(ask(&partly, "GET /other"), "route_invalid");
    assert_eq!(ask(&partly, "POST /other"), "allow");
    let nothing = partly.replace(", method: GET", "");
    assert_eq!(ask(&nothing, "GET /other"), "allow", "it may have been any Server's");
}

/// The policy for route `r` and the route itself say why it permits nothing.
#[track_caller]
fn assert_denial_is_explained(compiled: &Compiled) {
    let of_policy = compiled.conditions.values().flat_map(|all| all.iter());
    let mut of_policy = of_policy.filter(|c| &*c.object.name == "p");
    let message = &of_policy.next().unwrap().message;
    assert!(message.contains("r: spec.rules[0].filters[0].type: "), "{message}");
    let policy = web(compiled, 8080);
    let withheld = policy.routes.routes.iter().flat_map(|route| route.withheld.iter());
    let reasons: Vec<&str> = withheld.map(|grant| &*grant.reason).collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("is not supported here"), "{reasons:?}");
}

#[test]
fn a_route_with_a_filter_that_is_not_supported_denies_what_it_matches_and_nothing_else() {
    // A route on Server web with this match and filter.
    let filtered = |kind: &str, matched: &str, filter: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
             metadata: {{name: r, namespace: shop}}\nspec:\n\
             \x20 parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
             \x20 rules: [{{matches: [{matched}], filters: [{filter}]}}]"
        )
    };
    let everything = |kind: &str| {
        let rest = filtered(kind, "", "").replace("name: r,", "name: everything,");
        rest.replace("matches: [], filters: []", "")
    };
    let extension = "{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}";
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 80}}}";
    let rewrite = "{type: URLRewrite, urlRewrite: {hostname: a}}";
    let (path, call) = ("{path: {value: /cart}}", "{method: {service: shop.Cart}}");
    let rows = [
        ("HTTPRoute", path, "GET /cart", extension),
        ("HTTPRoute", path, "GET /cart", mirror),
        ("HTTPRoute", path, "GET /cart", rewrite),
        ("GRPCRoute", call, "POST /shop.Cart/Add", extension),
        ("GRPCRoute", call, "POST /shop.Cart/Add", mirror),
    ];
    for (kind, matched, request, filter) in rows {
        let open = server("HTTP/2", "all-unauthenticated");
        let target = format!("group: gateway.networking.k8s.io, kind: {kind}, name: r");
        let granted = policy("p", &target, "");
        let denying = filtered(kind, matched, filter);
        let said = |compiled: &Compiled| conditions(compiled, "r")[0].clone();
        let refused = "Accepted=false UnsupportedValue";

        let beside = compiled(&[POD, &open, &denying, &everything(kind), &granted]);
        assert_eq!(ask(&beside, 8080, NEIGHBOUR, request), "unauthorized", "{filter}");
        let other = request.replace("art", "lerk");
        assert_eq!(ask(&beside, 8080, NEIGHBOUR, &other), "allow", "{filter}");
        assert_eq!(said(&beside), refused, "{filter}");
        assert_eq!(conditions(&beside, "everything")[0], "Accepted=true Accepted");
        assert_eq!(conditions(&beside, "p")[0], "Accepted=true Accepted", "its target exists");
        assert_denial_is_explained(&beside);

        let alone = compiled(&[POD, &open, &denying, &granted]);
        assert_eq!(ask(&alone, 8080, NEIGHBOUR, request), "routes_invalid", "{filter}");
        assert_eq!(ask(&alone, 8080, NEIGHBOUR, &other), "routes_invalid", "{filter}");
        assert_eq!(said(&alone), refused, "{filter}");
        let mut as_linkerd = ControllerConfig::default();
        as_linkerd.as_linkerd.insert(Behaviour::InvalidRoutes);
        let ignored = compiled_with(&[POD, &open, &denying, &granted], &as_linkerd);
        assert_eq!(ask(&ignored, 8080, NEIGHBOUR, request), "allow", "{filter}");
        assert_eq!(said(&ignored), refused, "{filter}");
        // Other reasons come first: they hold whatever the filters are.
        let opaque = compiled(&[POD, &server("opaque", "deny"), &denying]);
        assert_eq!(said(&opaque), "Accepted=false NotAllowedByListeners", "{filter}");
        let homeless = compiled(&[POD, &denying]);
        assert_eq!(said(&homeless), "Accepted=false NoMatchingParent", "{filter}");
        let broken = denying.replace("type: ", "type: Not");
        assert_eq!(said(&compiled(&[POD, &open, &broken])), "Accepted=false Invalid", "{filter}");
    }
}

#[test]
fn a_filter_that_is_not_supported_denies_its_rule_alone() {
    let rewrite = "filters: [{type: URLRewrite, urlRewrite: {hostname: a}}]";
    let at = |path: &str, rest: &str| format!("{{matches: [{{path: {{value: {path}}}}}], {rest}}}");
    let of = |rules: &[String]| {
        let documents = [
            POD.to_owned(),
            server("HTTP/1", "all-unauthenticated"),
            format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {{name: r, namespace: shop}}\nspec:\n\
                 \x20 parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
                 \x20 rules: [{}]",
                rules.join(", ")
            ),
        ];
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        compiled(&documents)
    };
    let asked = |compiled: &Compiled| {
        ["/a", "/b", "/c", "/d"]
            .map(|path| ask(compiled, 8080, NEIGHBOUR, &format!("GET {path}")).clone())
    };
    let dropped = "PartiallyInvalid=true UnsupportedValue";
    let some = of(&[at("/a", ""), at("/b", rewrite), at("/c", "")]);
    assert_eq!(asked(&some), ["allow", "unauthorized", "allow", "no_route"]);
    let accepted = "Accepted=true Accepted";
    assert_eq!(conditions(&some, "r"), [accepted, dropped, "ResolvedRefs=true ResolvedRefs"]);
    // Of equal matches the first rule counts, as among rules that are all served.
    let first = of(&[at("/a", ""), at("/a", rewrite), at("/b", rewrite), at("/b", "")]);
    assert_eq!(asked(&first), ["allow", "unauthorized", "no_route", "no_route"]);
    let none = of(&[at("/a", rewrite), at("/b", rewrite)]);
    assert_eq!(asked(&none), ["routes_invalid"; 4]);
    let refused = "Accepted=false UnsupportedValue";
    assert_eq!(conditions(&none, "r"), [refused, "ResolvedRefs=true ResolvedRefs"]);
}

#[test]
fn a_strangers_route_closes_and_opens_nobodys_server() {
    let open = server("HTTP/1", "all-unauthenticated");
    let stranger = route("stranger", "r");
    let alone = compiled(&[POD, &open]);
    let beside = compiled(&[POD, &open, &stranger]);
    assert_eq!(web(&alone, 8080), web(&beside, 8080));
    assert_eq!(conditions(&beside, "r")[0], "Accepted=false RefNotPermitted");
    let broken = compiled(&[POD, &open, &stranger.replace("/cart", "cart")]);
    assert_eq!(web(&alone, 8080), web(&broken, 8080));
    let grant = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: shop}\nspec:\n\
                 \x20 from: [{group: policy.linkerd.io, kind: HTTPRoute, namespace: stranger}]\n\
                 \x20 to: [{group: policy.linkerd.io, kind: Server, name: web}]";
    let granted = compiled(&[POD, &open, &stranger, grant]);
    assert_eq!(ask(&granted, 8080, NEIGHBOUR, "GET /cart"), "allow");
    assert_eq!(ask(&granted, 8080, NEIGHBOUR, GET), "no_route");
    assert_eq!(conditions(&granted, "r")[0], "Accepted=true Accepted");
}

#[test]
fn a_route_grants_what_its_policies_grant_and_inherits_the_servers() {
    let on_route = policy("p", "group: policy.linkerd.io, kind: HttpRoute, name: cart", "");
    let documents = [POD, &server("HTTP/1", "deny"), &route("shop", "cart"), &on_route];
    let compiled_route = compiled(&documents);
    assert_eq!(ask(&compiled_route, 8080, OUTSIDER, "GET /cart"), "allow");
    assert_eq!(ask(&compiled_route, 8080, OUTSIDER, GET), "no_route");
    let inherited =
        compiled(&[POD, &server("HTTP/1", "all-authenticated"), &route("shop", "cart")]);
    assert_eq!(ask(&inherited, 8080, Who::Meshed("a.b"), "GET /cart"), "allow");
    assert_eq!(ask(&inherited, 8080, OUTSIDER, "GET /cart"), "unauthorized");
    let other_group =
        policy("p", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart", "");
    let missed = compiled(&[POD, &server("HTTP/1", "deny"), &route("shop", "cart"), &other_group]);
    assert_eq!(ask(&missed, 8080, OUTSIDER, "GET /cart"), "unauthorized");
    assert_eq!(conditions(&missed, "p")[0], "Accepted=false NoMatchingTarget");
}

#[test]
fn the_oldest_rate_limit_counts_and_the_others_are_told() {
    let limit = |name: &str, created: &str, rps: u32| {
        format!(
            "apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n\
             metadata: {{name: {name}, namespace: shop, creationTimestamp: {created}}}\n\
             spec: {{targetRef: {{{ON_SERVER}}}, total: {{requestsPerSecond: {rps}}}, \
             overrides: [{{requestsPerSecond: 1, clientRefs: [{{kind: ServiceAccount, name: c}}]}}]}}"
        )
    };
    let old = limit("z", "'2020-01-01T00:00:00Z'", 7);
    let young = limit("a", "'2021-01-01T00:00:00Z'", 9);
    let both = compiled(&[POD, &server("HTTP/1", "deny"), &young, &old]);
    let held = web(&both, 8080).rate_limit.clone().unwrap();
    assert_eq!(held.total.unwrap().get(), 7);
    assert_eq!(
        &*held.overrides[0].clients[0],
        "c.shop.serviceaccount.identity.linkerd.cluster.local"
    );
    assert_eq!(conditions(&both, "a"), ["Accepted=false RateLimitReasonAlreadyExists"]);
    assert_eq!(conditions(&both, "z"), ["Accepted=true Accepted"]);
    let opaque = compiled(&[POD, &server("opaque", "deny"), &old]);
    assert!(web(&opaque, 8080).rate_limit.is_none());
    assert_eq!(conditions(&opaque, "z"), ["Accepted=false UnsupportedValue"]);
    assert_eq!(conditions(&compiled(&[&old]), "z"), ["Accepted=false NoMatchingTarget"]);
}

#[test]
fn external_workloads_have_servers_of_their_own() {
    let workload = "apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload\n\
                    metadata: {name: vm, namespace: shop, labels: {app: web}}\n\
                    spec: {meshTLS: {identity: vm.example, serverName: vm.example}, \
                    ports: [{name: http, port: 8080}], workloadIPs: [{ip: 192.0.2.4}]}";
    let pods = server("HTTP/1", "deny");
    let machines =
        pods.replace("podSelector", "externalWorkloadSelector").replace("name: web,", "name: vm,");
    let compiled = compiled(&[POD, workload, &pods, &machines]);
    let owner = |key: &WorkloadKey| match &compiled.port(key, port(8080)).unwrap().owner {
        Owner::Server(name) => name.name().to_string(),
        Owner::Default(policy) => policy.as_str().to_owned(),
    };
    assert_eq!(owner(&WorkloadKey::pod("shop", "web")), "web");
    assert_eq!(owner(&WorkloadKey::external("shop", "vm")), "vm");
    let state = &compiled.workloads[&WorkloadKey::external("shop", "vm")].state;
    assert_eq!(&*state.identity, "vm.example");
    assert!(state.facts.node_local.is_empty());
}

/// An HTTPRoute on Server shop/web with these matches, one rule each.
fn rules(name: &str, matches: &[&str]) -> String {
    let rules: Vec<String> = matches.iter().map(|m| format!("{{matches: [{{{m}}}]}}")).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
         \x20 rules: [{}]\n",
        rules.join(", ")
    )
}

/// The precedence conditions, by object.
fn precedence(compiled: &Compiled) -> Vec<(String, String)> {
    let all = compiled.conditions.values().flat_map(|conditions| conditions.iter());
    all.filter(|c| c.kind == ConditionKind::PrecedenceDiffers)
        .map(|c| (c.object.to_string(), c.message.to_string()))
        .collect()
}

#[test]
fn routes_that_linkerd_would_order_otherwise_are_told() {
    const HEADER: &str = "headers: [{name: x, value: one}]";
    let path = |kind: &str, value: &str| format!("path: {{type: {kind}, value: {value}}}");
    let (exact, prefix, regex) =
        (path("Exact", "/a"), path("PathPrefix", "/a"), path("RegularExpression", "'/[ab]'"));
    let (get, post) = (format!("{prefix}, method: GET"), format!("{prefix}, method: POST"));
    let with_header = format!("{prefix}, {HEADER}");
    let other_value = format!("{prefix}, headers: [{{name: x, value: z}}], method: GET");
    let query = format!("{prefix}, queryParams: [{{name: q, value: r}}]");
    let below = format!("{}, {HEADER}", path("PathPrefix", "/a/b"));
    // First match, second match, whether the two orders differ.
    let table = [
        (&exact, &prefix, false),
        (&prefix, &exact, true),
        (&exact, &with_header, true),
        (&get, &with_header, true),
        (&with_header, &get, true),
        (&get, &post, false),
        (&get, &query, true),
        (&with_header, &query, false),
        (&with_header, &other_value, false),
        (&regex, &exact, true),
        (&exact, &regex, false),
        (&regex, &with_header, true),
        (&regex, &prefix, false),
        (&below, &get, false),
        (&below, &exact, false),
    ];
    for (first, second, differs) in table {
        let one = compiled(&[POD, &server("HTTP/1", "deny"), &rules("a", &[first, second])]);
        let told = precedence(&one);
        assert_eq!(told.len(), usize::from(differs), "{first} | {second}: {told:?}");
        let two = [POD, &server("HTTP/1", "deny"), &rules("a", &[first]), &rules("b", &[second])];
        let told = precedence(&compiled(&two));
        assert_eq!(told.len(), 2 * usize::from(differs), "{first} | {second}: {told:?}");
        let hosts = rules("b", &[second]).replace("  rules:", "  hostnames: [h.example]\n  rules:");
        let told = precedence(&compiled(&[two[0], two[1], two[2], &hosts]));
        assert!(told.is_empty(), "of another host: {told:?}");
    }
    let (_, message) = precedence(&compiled(&[
        POD,
        &server("HTTP/1", "deny"),
        &rules("a", &[&get]),
        &rules("b", &[&with_header]),
    ]))
    .remove(0);
    assert!(message.contains("`/a`"), "{message}");
    assert!(message.contains("shop/a spec.rules[0]"), "{message}");
    assert!(message.contains("shop/b spec.rules[0]"), "{message}");
}

#[test]
fn comparing_rules_has_an_end() {
    let many: Vec<String> = (0..16)
        .map(|n| format!("path: {{value: /a}}, headers: [{{name: h{n}, value: v}}]"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let gets = ["path: {value: /a}, method: GET"; 16];
    let mut documents = vec![POD.to_owned(), server("HTTP/1", "deny")];
    for number in 0..20 {
        documents.push(rules(&format!("a{number}"), &many));
        documents.push(rules(&format!("b{number}"), &gets));
    }
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let told = precedence(&compiled(&documents));
    assert!(told.iter().any(|(object, _)| object == "Server shop/web"), "{told:?}");
    assert!(told.iter().all(|(_, message)| message.len() < 16_384), "{told:?}");
}

#[test]
fn invalid_policies_are_listed_where_they_would_grant() {
    let refs = "{group: policy.linkerd.io, kind: MeshTLSAuthentication}";
    let on_route = "group: gateway.networking.k8s.io, kind: HTTPRoute, name: a";
    let authorization = |server: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\n\
             metadata: {{name: saz, namespace: shop}}\n\
             spec: {{server: {{{server}}}, client: {{unauthenticated: maybe}}}}"
        )
    };
    let route = rules("a", &["path: {value: /a}"]);
    let base = [POD, &server("HTTP/1", "deny"), &route];
    let with = |document: &str| web(&compiled(&[base[0], base[1], base[2], document]), 8080);
    for target in [ON_SERVER, "kind: Namespace, name: shop", on_route] {
        let policy = with(&policy("p", target, refs));
        let withheld = match target == on_route {
            true => policy.routes.routes[0].withheld.as_slice(),
            false => policy.withheld.as_slice(),
        };
        assert_eq!(withheld.len(), 1, "{target}");
        let reason = &withheld[0].reason;
        assert!(reason.contains("invalid: spec.requiredAuthenticationRefs[0].name"), "{reason}");
        assert!(
            policy.authorizations.is_empty() && policy.routes.routes[0].authorizations.is_empty()
        );
    }
    for server in ["name: web", "selector: {matchLabels: {}}"] {
        let policy = with(&authorization(server));
        assert_eq!(policy.withheld.len(), 1, "{server}");
        assert!(policy.withheld[0].reason.contains("unauthenticated"), "{:?}", policy.withheld);
        assert!(policy.authorizations.is_empty());
    }
}
