//! Servers and their selectors.

use crate::support::{check, claims, errors, object, resource};
use policy_core::DefaultPolicy;
use policy_crds::resource::{PortRef, ProxyProtocol, Server, WorkloadSelector};
use policy_crds::{Claims, LabelSelector, Resource};
use std::num::NonZeroU16;

const V3: &str = "policy.linkerd.io/v1beta3";

fn server(spec: &str) -> Server {
    match resource(object(V3, "Server", spec)) {
        Resource::Server(server) => server,
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_schema() {
    let server = server("podSelector: {}\nport: http");
    assert_eq!(server.workloads, WorkloadSelector::Pods(LabelSelector::default()));
    assert_eq!(server.port, PortRef::Name("http".into()));
    assert_eq!(server.protocol, ProxyProtocol::Unknown);
    assert_eq!(server.access_policy, DefaultPolicy::Deny);
}

#[test]
fn a_numeric_text_is_the_name_of_a_port_of_a_machine_and_of_no_container() {
    let of = |selector: &str| server(&format!("{selector}: {{}}\nport: \"80\"")).port;
    assert_eq!(of("externalWorkloadSelector"), PortRef::Name("80".into()));
    let number = PortRef::Number(NonZeroU16::new(80).unwrap());
    assert_eq!(server("podSelector: {}\nport: 80").port, number);
    let quoted = object(V3, "Server", "podSelector: {}\nport: \"80\"");
    let claimed = Some(WorkloadSelector::Pods(LabelSelector::default()));
    assert_eq!(claims(quoted), Claims::Server { workloads: claimed, port: Some(number) });
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_server_is_checked() {
    check(
        V3,
        "Server",
        &[
            ("podSelector: {}\nport: 1", &[]),
            ("podSelector: {}\nport: 65535\nproxyProtocol: HTTP/2\naccessPolicy: audit", &[]),
            ("externalWorkloadSelector: {matchLabels: {a: b}}\nport: 80", &[]),
            ("podSelector: {matchExpressions: [{key: a, operator: Exists, values: []}]}\nport: 80", &[]),
            ("podSelector: {}", &["spec.port: is required"]),
            ("podSelector: {}\nport:", &["spec.port: is required"]),
            ("podSelector: {}\nport: 0", &["spec.port: expected a number from 1 to 65535 or the name of a port, found `0`"]),
            ("podSelector: {}\nport: 65536", &["spec.port: expected a number from 1 to 65535 or the name of a port, found `65536`"]),
            ("podSelector: {}\nport: 80.5", &["spec.port: expected a number from 1 to 65535 or the name of a port, found `80.5`"]),
            ("podSelector: {}\nport: []", &["spec.port: expected a number from 1 to 65535 or the name of a port, found `[]`"]),
            ("podSelector: {}\nport: ''", &["spec.port: expected a number from 1 to 65535 or the name of a port, found `\"\"`"]),
            ("podSelector: {}\nport: '80'", &["spec.port: `80` in quotes is the name of a port, which no container can have; leave the quotes out for the number"]),
            ("podSelector: {}\nport: 8080/TCP", &["spec.port: `8080/TCP` is the name of no container's port: up to 15 lower-case letters, digits and `-` are allowed, a letter among them"]),
            ("podSelector: {}\nport: HTTP", &["spec.port: `HTTP` is the name of no container's port: up to 15 lower-case letters, digits and `-` are allowed, a letter among them"]),
            ("externalWorkloadSelector: {}\nport: HTTP", &[]),
            ("externalWorkloadSelector: 7\nport: HTTP", &["spec.externalWorkloadSelector: expected a mapping, found the number `7`"]),
            ("podSelector: {}\nport: 80\nproxyProtocol: http/1", &["spec.proxyProtocol: unknown value `http/1`, expected one of `unknown`, `HTTP/1`, `HTTP/2`, `gRPC`, `opaque`, `TLS`"]),
            ("podSelector: {}\nport: 80\naccessPolicy: all", &["spec.accessPolicy: unknown value `all`, expected one of `all-unauthenticated`, `all-authenticated`, `cluster-unauthenticated`, `cluster-authenticated`, `deny`, `audit`"]),
            ("port: 80", &["spec: one of `podSelector`, `externalWorkloadSelector` is required, `podSelector: {}` selects all pods"]),
            ("podSelector: {}\nexternalWorkloadSelector: {}\nport: 80", &["spec.externalWorkloadSelector: must be absent where `podSelector` is present: a Server is for one of them"]),
            ("podSelecter: {}\nport: 80", &["spec.podSelecter: unknown field, did you mean `podSelector`?", "spec: one of `podSelector`, `externalWorkloadSelector` is required, `podSelector: {}` selects all pods"]),
            ("podSelector: {}\nport: 80\nreplicas: 3", &["spec.replicas: unknown field, expected one of `podSelector`, `externalWorkloadSelector`, `port`, `proxyProtocol`, `accessPolicy`"]),
            ("- a", &["spec: expected a mapping, found a list"]),
            ("", &["spec: is required"]),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_selector_is_checked() {
    check(
        V3,
        "Server",
        &[
            ("port: 80\npodSelector: web", &["spec.podSelector: expected a mapping, found the text `web`"]),
            ("port: 80\npodSelector: {app: web}", &["spec.podSelector.app: unknown field, expected one of `matchLabels`, `matchExpressions`"]),
            ("port: 80\npodSelector: {matchLabels: {version: 1}}", &["spec.podSelector.matchLabels.version: expected text, found the number `1`"]),
            ("port: 80\npodSelector: {matchLabels: {a b: c}}", &["spec.podSelector.matchLabels[\"a b\"]: `a b` cannot be the name of a label"]),
            ("port: 80\npodSelector: {matchLabels: {x.io/a: 'c d'}}", &["spec.podSelector.matchLabels[\"x.io/a\"]: `c d` cannot be the value of a label"]),
            ("port: 80\npodSelector: {matchExpressions: [{operator: Exists}]}", &["spec.podSelector.matchExpressions[0].key: is required"]),
            ("port: 80\npodSelector: {matchExpressions: [{key: a}]}", &["spec.podSelector.matchExpressions[0].operator: is required"]),
            ("port: 80\npodSelector: {matchExpressions: [{key: a, operator: in, values: [b]}]}", &["spec.podSelector.matchExpressions[0].operator: unknown value `in`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`"]),
            ("port: 80\npodSelector: {matchExpressions: [{key: a, operator: In}]}", &["spec.podSelector.matchExpressions[0].values: at least one is required with one of `In`, `NotIn`"]),
            ("port: 80\npodSelector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}", &["spec.podSelector.matchExpressions[0].values: at least one is required with one of `In`, `NotIn`"]),
            ("port: 80\npodSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}", &["spec.podSelector.matchExpressions[0].values: must be absent with one of `Exists`, `DoesNotExist`"]),
            ("port: 80\npodSelector: {matchExpressions: [{key: a, operator: In, values: [1]}]}", &["spec.podSelector.matchExpressions[0].values[0]: expected text, found the number `1`"]),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn older_versions_have_the_fields_they_had() {
    let access = &[
        "spec.accessPolicy: unknown field, expected one of `podSelector`, `externalWorkloadSelector`, `port`, `proxyProtocol`",
    ];
    check(
        "policy.linkerd.io/v1beta2",
        "Server",
        &[
            ("podSelector: {}\nport: 80", &[]),
            ("podSelector: {}\nport: 80\naccessPolicy: deny", access),
        ],
    );
    check(
        "policy.linkerd.io/v1beta1",
        "Server",
        &[
            ("podSelector: {}\nport: 80", &[]),
            ("port: 80", &["spec.podSelector: is required"]),
            ("externalWorkloadSelector: {}\nport: 80", &["spec.externalWorkloadSelector: unknown field, expected one of `podSelector`, `port`, `proxyProtocol`", "spec.podSelector: is required"]),
        ],
    );
    check(
        "policy.linkerd.io/v1alpha1",
        "Server",
        &[
            ("podSelector: {matchLabels: {a: b}}\nport: 80", &[]),
            ("podSelector: {}\nport: 80", &["spec.podSelector: exactly one of `matchLabels` and `matchExpressions` is allowed in v1alpha1"]),
        ],
    );
    check(
        "policy.linkerd.io/v1",
        "Server",
        &[(
            "podSelector: {}\nport: 80",
            &[
                "apiVersion: version `v1` of Server is not known, expected one of `v1beta3`, `v1beta2`, `v1beta1`, `v1alpha1`",
            ],
        )],
    );
}

#[test]
fn a_server_without_a_version_claims_what_it_says() {
    let spec = "podSelector: {matchLabels: {app: web}}\nport: http";
    check(
        "policy.linkerd.io",
        "Server",
        &[(
            spec,
            &[
                "apiVersion: Server needs a version behind its group: one of `v1beta3`, `v1beta2`, `v1beta1`, `v1alpha1`",
            ],
        )],
    );
    let with_version = claims(object(V3, "Server", &format!("{spec}\nproxyProtocol: no")));
    assert_eq!(claims(object("policy.linkerd.io", "Server", spec)), with_version);
}

#[test]
fn an_invalid_server_claims_what_can_be_read() {
    let all_of = |spec: &str| claims(object(V3, "Server", spec));
    let web = LabelSelector {
        match_labels: [("app".into(), "web".into())].into(),
        ..LabelSelector::default()
    };
    let web = Some(WorkloadSelector::Pods(web));
    let all = Some(WorkloadSelector::Pods(LabelSelector::default()));
    let http = Some(PortRef::Name("http".into()));
    let table = [
        (
            "podSelector: {matchLabels: {app: web}}\nport: http\nproxyProtocol: x",
            web.clone(),
            http.clone(),
        ),
        ("podSelector: {matchLabels: {app: web}}\nport: 0", web.clone(), None),
        ("podSelector: {matchLabels: {app: web}}\nport: []\n", web.clone(), None),
        ("podSelector: {matchLabels: {app: web}}\nport: HTTP\n", web.clone(), None),
        ("podSelector: {matchLabels: {app: web, other: 1}}\nport: http", web.clone(), http.clone()),
        ("podSelector: {matchLabels: {app: web, b: -x}}\nport: http", web.clone(), http.clone()),
        ("podSelector: {matchLabels: {app: web, -b: x}}\nport: http", web.clone(), http.clone()),
        ("podSelector: {matchLabels: {app: web}, typo: {}}\nport: http", web.clone(), http.clone()),
        (
            "podSelector: {matchLabels: {app: web}, matchExpressions: [{key: a, operator: in}, \
             {key: a, operator: In}, {key: a, operator: In, values: [b, -c]}, {operator: Exists}, \
             {key: a, operator: Exists, values: [b]}, 7]}\nport: http",
            web.clone(),
            http.clone(),
        ),
        ("podSelector: {matchLables: {app: web}}\nport: http", all.clone(), http.clone()),
        ("podSelector: {matchLabels: 7, matchExpressions: 7}\nport: http", all, http.clone()),
        ("podSelector: 7\nport: http", None, http.clone()),
        ("podSelector: {}\nexternalWorkloadSelector: {}\nport: http", None, http.clone()),
        ("nothing: true", None, None),
        ("7", None, None),
    ];
    for (spec, workloads, port) in table {
        assert_eq!(all_of(spec), Claims::Server { workloads, port }, "{spec}");
    }
}

#[test]
fn errors_stop_at_a_hundred() {
    let labels: String = (0..500).map(|i| format!("l{i}: 1, ")).collect();
    let spec = format!("podSelector: {{matchLabels: {{{labels}}}}}\nport: 0");
    let server = object(V3, "Server", &spec);
    assert_eq!(errors(&server).len(), 100);
    let workloads = Some(WorkloadSelector::Pods(LabelSelector::default()));
    assert_eq!(claims(server), Claims::Server { workloads, port: None });
}
