//! Cilium's policies: a table of cases with the semantics of its documentation, decided on what is imported.
//! Nothing that the source denies is allowed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{Client, WEB, World};
use policy_import::{Fidelity, ImportFile, Imported, cilium};

const CART: Client = Client::Account("shop", "cart");
const BANK: Client = Client::Account("bank", "ledger");
const OFFICE: Client = Client::Plain("192.0.2.7");
const STRANGER: Client = Client::Plain("203.0.113.9");
const POD: Client = Client::Plain("10.9.9.8");
const HTTP: (&str, &str, u16) = ("shop", "web", 8080);
const ADMIN: (&str, &str, u16) = ("shop", "web", 9090);

const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
";

fn import(policies: &str, cluster: &[&str]) -> Result<Imported, Vec<String>> {
    let read = |text: &&str| ImportFile::read("source.yaml", text.as_bytes()).unwrap();
    let files: Vec<ImportFile> = [policies, WEB, NAMESPACE].iter().map(read).collect();
    let cluster: Vec<String> = cluster.iter().map(|it| (*it).to_owned()).collect();
    cilium(&files, Some("shop"), &cluster)
}

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\n\
         metadata: {{name: p, namespace: shop}}\nspec: {spec}\n"
    )
}

fn on_web(parts: &str) -> String {
    policy(&format!("{{endpointSelector: {{matchLabels: {{'k8s:app': web}}}}, {parts}}}"))
}

fn imported(text: &str) -> (World, Imported) {
    let found = import(text, &["10.0.0.0/8"]).unwrap();
    (World::new(&[WEB, &found.yaml()]), found)
}

fn holds(text: &str, to: (&str, &str, u16), table: &[(&str, Client, bool)]) {
    let (world, _) = imported(text);
    for (request, client, may) in table {
        let verdict = world.ask(to, *client, request);
        assert_eq!(verdict == "allow", *may, "{client:?} {request} to {}: {verdict}\n{text}", to.2);
    }
}

fn fidelity(text: &str, subject: &str) -> Fidelity {
    let (_, found) = imported(text);
    let row = found.rows.iter().find(|row| row.subject == subject);
    row.unwrap_or_else(|| panic!("{:?}", found.rows)).fidelity
}

#[test]
fn networks_of_cilium_are_clients_outside_of_the_cluster() {
    let set = on_web(
        "ingress: [{fromCIDRSet: [{cidr: 192.0.2.0/24, except: [192.0.2.128/25]}], \
         toPorts: [{ports: [{port: '8080', protocol: TCP}]}]}]",
    );
    let table = [
        ("GET /", OFFICE, true),
        ("GET /", Client::Plain("192.0.2.200"), false),
        ("GET /", STRANGER, false),
        ("GET /", CART, false),
    ];
    holds(&set, HTTP, &table);
    holds(&set, ADMIN, &[("GET /", OFFICE, false)]);
    assert_eq!(fidelity(&set, "CiliumNetworkPolicy p rule 1"), Fidelity::Exact);
    let all = on_web("ingress: [{fromCIDR: [0.0.0.0/0]}]");
    holds(&all, HTTP, &[("GET /", STRANGER, true), ("GET /", POD, false), ("GET /", CART, false)]);
    let pods = on_web("ingress: [{fromCIDR: [10.9.0.0/16]}]");
    holds(&pods, HTTP, &[("GET /", POD, false), ("GET /", CART, false)]);
    // Without the networks of the cluster, its pods cannot be left out.
    let found = import(&all, &[]).unwrap();
    let world = World::new(&[WEB, &found.yaml()]);
    assert_ne!(world.ask(HTTP, STRANGER, "GET /"), "allow");
}

#[test]
fn pods_and_entities_of_cilium_are_identities_or_nobody() {
    for (rule, [cart, bank, stranger]) in [
        ("{}", [false, false, false]),
        ("{fromEndpoints: []}", [false, false, false]),
        ("{fromEndpoints: [{}]}", [true, false, false]),
        (
            "{fromEndpoints: [{matchLabels: {'k8s:io.kubernetes.pod.namespace': bank}}]}",
            [false, true, false],
        ),
        (
            "{fromEndpoints: [{matchExpressions: \
             [{key: 'k8s:io.kubernetes.pod.namespace', operator: In, values: [bank, dev]}]}]}",
            [false, true, false],
        ),
        (
            "{fromEndpoints: [{matchExpressions: \
             [{key: 'k8s:io.kubernetes.pod.namespace', operator: Exists}]}]}",
            [true, true, false],
        ),
        (
            "{fromEndpoints: [{matchExpressions: \
             [{key: io.kubernetes.pod.namespace, operator: NotIn, values: [bank]}]}]}",
            [false, false, false],
        ),
        (
            "{fromEndpoints: [{matchLabels: {io.cilium.k8s.policy.serviceaccount: cart}}]}",
            [true, false, false],
        ),
        ("{fromEndpoints: [{matchLabels: {app: absent}}]}", [false, false, false]),
        ("{fromEndpoints: [{matchLabels: {'reserved:host': ''}}]}", [false, false, false]),
        ("{fromEntities: [all]}", [true, true, true]),
        ("{fromEntities: [cluster]}", [true, true, false]),
        ("{fromEntities: [world]}", [false, false, true]),
        ("{fromEntities: [host, remote-node]}", [false, false, false]),
        ("{fromGroups: [{aws: {labels: {a: b}}}]}", [false, false, false]),
        ("{fromEntities: [all], fromCIDR: [0.0.0.0/0]}", [false, false, false]),
        ("{fromEntities: [all]}, {fromRequires: [{}]}", [false, false, false]),
        ("{fromEntities: [all], authentication: {mode: required}}", [false, false, false]),
        ("{toPorts: [{ports: [{port: http}]}]}", [true, true, true]),
        ("{toPorts: [{ports: [{port: '53', protocol: UDP}]}]}", [false, false, false]),
        ("{toPorts: [{ports: [{port: '8000', endPort: 8100}]}]}", [true, true, true]),
    ] {
        let table = [("GET /", CART, cart), ("GET /", BANK, bank), ("GET /", STRANGER, stranger)];
        holds(&on_web(&format!("ingress: [{rule}]")), HTTP, &table);
    }
}

#[test]
fn a_former_version_of_cilium_is_told_what_to_write() {
    let former = on_web("ingress: [{}]").replace("cilium.io/v2", "cilium.io/v1");
    let errors = import(&former, &[]).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert!(error.contains("version `cilium.io/v1` is not read, write `cilium.io/v2`"), "{error}");
}

#[test]
fn requests_of_cilium_are_matched_with_their_query() {
    let http = |rule: &str| {
        on_web(&format!(
            "ingress: [{{toPorts: [{{ports: [{{port: '8080', protocol: TCP}}], rules: {{http: [{rule}]}}}}]}}]"
        ))
    };
    let api = http("{method: GET, path: '/api/.*'}");
    let table = [
        ("GET /api/x", CART, true),
        ("GET /api/x", STRANGER, true),
        ("POST /api/x", CART, false),
        ("GET /apis", CART, false),
    ];
    holds(&api, HTTP, &table);
    assert_eq!(fidelity(&api, "CiliumNetworkPolicy p rule 1"), Fidelity::Exact);
    let nothing = [("GET /public", CART, false), ("GET /public?a=b", CART, false)];
    holds(&http("{path: /public}"), HTTP, &nothing);
    holds(&http("{host: 'web'}"), HTTP, &nothing);
    holds(&http("{headers: ['X-Token: a']}"), HTTP, &nothing);
    let (world, _) = imported(&http("{headers: ['X-Token: a.c']}"));
    assert_eq!(world.ask_with(HTTP, CART, "GET /", &[("x-token", "a.c")]), "allow");
    assert_ne!(world.ask_with(HTTP, CART, "GET /", &[("x-token", "abc")]), "allow");
    let expression = http("{path: '/a/[0-9]+/.*'}");
    holds(&expression, HTTP, &[("GET /a/1/x", CART, true), ("GET /a/b/x", CART, false)]);
    assert_eq!(fidelity(&expression, "CiliumNetworkPolicy p rule 1"), Fidelity::Narrower);
}

#[test]
fn what_cilium_denies_is_allowed_by_no_rule() {
    for (denial, office, cart) in [
        ("{fromCIDR: [192.0.2.0/24]}", false, false),
        ("{fromEndpoints: [{matchLabels: {app: cart}}]}", false, false),
        ("{fromEntities: [world]}", false, false),
        ("{toPorts: [{ports: [{port: '8080'}]}]}", false, false),
        ("{fromGroups: [{}]}", false, false),
        ("{toPorts: [{ports: [{port: '9090'}]}]}", true, true),
        ("{toPorts: [{ports: [{port: '8080', protocol: UDP}]}]}", true, true),
    ] {
        let text = on_web(&format!("ingress: [{{fromEntities: [all]}}], ingressDeny: [{denial}]"));
        holds(&text, HTTP, &[("GET /", OFFICE, office), ("GET /", CART, cart)]);
    }
}

#[test]
fn clusterwide_policies_lists_of_specs_and_what_is_left_out() {
    let text = "apiVersion: cilium.io/v2\nkind: CiliumClusterwideNetworkPolicy\nmetadata: {name: c}\n\
                specs:\n- {endpointSelector: {matchLabels: {app: web}}, ingress: [{fromEndpoints: [{}]}]}\n\
                - {nodeSelector: {}, ingress: [{fromEntities: [all]}]}\n\
                - {endpointSelector: {}, egress: [{}]}\n";
    holds(text, HTTP, &[("GET /", CART, true), ("GET /", BANK, true), ("GET /", STRANGER, false)]);
    let kind = "CiliumClusterwideNetworkPolicy c";
    assert_eq!(fidelity(text, &format!("{kind} spec 2")), Fidelity::Omitted);
    assert_eq!(fidelity(text, &format!("{kind} spec 3")), Fidelity::Omitted);
    for part in [
        "unknown: 1, ",
        "endpointSelector: {matchLabels: {'container:a': b}}, ",
        "endpointSelector: {matchLabels: {'k8s:io.kubernetes.pod.namespace': bank}}, ",
    ] {
        let text = policy(&format!("{{{part}ingress: [{{fromEntities: [all]}}]}}"));
        holds(&text, HTTP, &[("GET /", CART, false), ("GET /", STRANGER, false)]);
    }
    assert!(import("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n", &[]).is_err());
    assert!(import(&on_web("ingress: [{}]"), &["10.0.0.1"]).is_err());
}

/// A rule without a protocol opens UDP too, so that `exact` was wrong.
#[test]
fn a_rule_of_cilium_without_a_protocol_is_narrower() {
    let rule = |to_ports: &str| {
        let spec = format!(
            "{{endpointSelector: {{matchLabels: {{app: web}}}}, ingress: [{{fromCIDR: [192.0.2.0/24]{to_ports}}}]}}"
        );
        let found = import(&policy(&spec), &["10.0.0.0/8"]).unwrap();
        let row = found.rows.iter().find(|row| row.subject.ends_with(" rule 1")).unwrap();
        (row.fidelity, row.note.contains("UDP, SCTP and ICMP too, which pass no sidecar"))
    };
    assert_eq!(rule(""), (Fidelity::Narrower, true));
    assert_eq!(rule(", toPorts: [{ports: [{port: '8080'}]}]"), (Fidelity::Narrower, true));
    assert_eq!(
        rule(", toPorts: [{ports: [{port: '8080', protocol: ANY}]}]"),
        (Fidelity::Narrower, true)
    );
    assert_eq!(
        rule(", toPorts: [{ports: [{port: '8080', protocol: TCP}]}]"),
        (Fidelity::Exact, false)
    );
}
