//! Policies of other systems: for each a table of cases with the semantics of its documentation, decided on
//! what is imported. Nothing that the source denies is allowed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{Client, WEB, World};
use policy_import::{Fidelity, ImportFile, Imported, IstioMesh, consul, network_policies, smi};

/// An import of policies.
type Import = fn(&[ImportFile], Option<&str>) -> Result<Imported, Vec<String>>;

fn istio(files: &[ImportFile], namespace: Option<&str>) -> Result<Imported, Vec<String>> {
    policy_import::istio(files, namespace, &IstioMesh::default())
}

fn files(texts: &[&str]) -> Vec<ImportFile> {
    let read = |text: &&str| ImportFile::read("source.yaml", text.as_bytes()).unwrap();
    texts.iter().map(read).collect()
}

/// The Namespace of the workloads.
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: web}}
";

/// The world after an import, and the import.
fn world(import: Import, policies: &str, workloads: &str) -> (World, Imported) {
    let found = import(&files(&[policies, workloads, NAMESPACE]), Some("shop")).unwrap();
    (World::new(&[workloads, &found.yaml()]), found)
}

const CART: Client = Client::Account("shop", "cart");
const BANK: Client = Client::Account("bank", "ledger");
const OFFICE: Client = Client::Plain("192.0.2.7");
const STRANGER: Client = Client::Plain("203.0.113.9");
const HTTP: (&str, &str, u16) = ("shop", "web", 8080);
const ADMIN: (&str, &str, u16) = ("shop", "web", 9090);

/// Holds a world to a table: requests to the port of the pod, and whether each client may send them.
fn holds(world: &World, to: (&str, &str, u16), table: &[(&str, Client, bool)]) {
    for (request, client, may) in table {
        let verdict = world.ask(to, *client, request);
        assert_eq!(verdict == "allow", *may, "{client:?} {request} to {}: {verdict}", to.2);
    }
}

fn fidelities(found: &Imported) -> Vec<(&str, Fidelity)> {
    let named = found.rows.iter().filter(|row| row.place.is_some());
    named.map(|row| (&*row.subject, row.fidelity)).collect()
}

/// The example of the specification of TrafficTarget: metrics for Prometheus.
const SMI: &str = "
kind: TCPRoute
apiVersion: specs.smi-spec.io/v1alpha4
metadata: {name: the-routes, namespace: shop}
spec: {matches: {ports: [8080]}}
---
kind: HTTPRouteGroup
apiVersion: specs.smi-spec.io/v1alpha4
metadata: {name: the-routes, namespace: shop}
spec:
  matches:
  - {name: metrics, pathRegex: /metrics, methods: [GET]}
  - {name: everything, pathRegex: '.*', methods: ['*']}
---
kind: TrafficTarget
apiVersion: access.smi-spec.io/v1alpha3
metadata: {name: path-specific, namespace: shop}
spec:
  destination: {kind: ServiceAccount, name: web, namespace: shop}
  rules:
  - {kind: TCPRoute, name: the-routes}
  - {kind: HTTPRouteGroup, name: the-routes, matches: [metrics]}
  sources:
  - {kind: ServiceAccount, name: cart, namespace: shop}
";

#[test]
fn smi_allows_its_sources_what_its_rules_name_on_their_ports() {
    let (world, found) = world(smi, SMI, WEB);
    holds(
        &world,
        HTTP,
        &[
            ("GET /metrics", CART, true),
            ("POST /metrics", CART, false),
            ("GET /metrics/x", CART, false),
            ("GET /", CART, false),
            ("GET /metrics", BANK, false),
            ("GET /metrics", STRANGER, false),
        ],
    );
    holds(&world, ADMIN, &[("GET /metrics", CART, false)]);
    holds(&world, ("shop", "web", 7777), &[("GET /metrics", CART, false)]);
    assert_eq!(fidelities(&found), [("TrafficTarget path-specific", Fidelity::Exact)]);
}

#[test]
fn an_smi_target_that_is_invalid_closes_its_destination() {
    for (part, broken) in [
        ("matches: [metrics]", "matches: [absent]"),
        // It may be what says on which ports the requests are allowed.
        ("{kind: TCPRoute, name: the-routes}", "{kind: TcpRoute, name: the-routes}"),
        ("- {kind: ServiceAccount, name: cart, namespace: shop}", "[]"),
        ("name: the-routes, matches", "name: other, matches"),
    ] {
        let text = SMI.replace(part, broken);
        let text = text.replace("sources:\n  []", "sources: []");
        let (world, found) = world(smi, &text, WEB);
        let denied = [("GET /metrics", CART, false), ("GET /", STRANGER, false)];
        holds(&world, HTTP, &denied);
        holds(&world, ADMIN, &denied);
        let [(_, fidelity)] = fidelities(&found)[..] else { panic!("{:?}", found.rows) };
        assert_eq!(fidelity, Fidelity::Omitted, "{broken}");
    }
}

#[test]
fn an_smi_target_of_another_namespace_is_left_out() {
    let text = SMI.replace("name: web, namespace: shop", "name: web, namespace: bank");
    let found = smi(&files(&[&text, WEB]), None).unwrap();
    assert_eq!(found.manifests, []);
    assert_eq!(fidelities(&found), [("TrafficTarget path-specific", Fidelity::Omitted)]);
}

#[test]
fn smi_of_its_first_version_and_bindings_are_read() {
    let old = "
kind: HTTPRouteGroup
apiVersion: specs.smi-spec.io/v1alpha1
metadata: {name: routes, namespace: shop}
matches: [{name: api, pathRegex: '/api/.*', methods: [GET]}]
---
kind: TrafficTarget
apiVersion: access.smi-spec.io/v1alpha1
metadata: {name: api, namespace: shop}
destination: {kind: ServiceAccount, name: web, namespace: shop, port: 8080}
specs: [{kind: HTTPRouteGroup, name: routes}]
sources: [{kind: ServiceAccount, name: cart, namespace: shop}]
";
    let (first, _) = world(smi, old, WEB);
    holds(&first, HTTP, &[("GET /api/x", CART, true), ("GET /x", CART, false)]);
    holds(&first, ADMIN, &[("GET /api/x", CART, false)]);
    let binding = |schemes: &str| {
        format!(
            "
kind: IdentityBinding
apiVersion: access.smi-spec.io/v1alpha4
metadata: {{name: web, namespace: shop}}
spec: {{schemes: {schemes}}}
---
kind: TCPRoute
apiVersion: specs.smi-spec.io/v1alpha4
metadata: {{name: all, namespace: shop}}
spec: {{}}
---
kind: TrafficTarget
apiVersion: access.smi-spec.io/v1alpha4
metadata: {{name: bound, namespace: shop}}
spec:
  destination: {{kind: IdentityBinding, name: web}}
  rules: [{{kind: TCPRoute, name: all}}]
  sources: [{{kind: ServiceAccount, name: cart}}]
"
        )
    };
    let labels = binding("{podLabelSelectors: [{matchLabels: {app: web}}]}");
    let (bound, _) = world(smi, &labels, WEB);
    assert_eq!(bound.connect(HTTP, CART), "allow");
    assert_ne!(bound.connect(HTTP, BANK), "allow");
    let both = "{podLabelSelectors: [{matchLabels: {app: web}}], serviceAccount: web}";
    let (closed, found) = world(smi, &binding(both), WEB);
    assert_ne!(closed.connect(HTTP, CART), "allow");
    let rows =
        [("IdentityBinding web", Fidelity::Omitted), ("TrafficTarget bound", Fidelity::Omitted)];
    assert_eq!(fidelities(&found), rows);
}

#[test]
fn workloads_that_share_labels_are_told_apart() {
    let two = format!(
        "{WEB}---
apiVersion: v1
kind: Pod
metadata: {{name: canary, namespace: shop, labels: {{app: web, track: canary}}}}
spec:
  serviceAccountName: canary
  containers: [{{name: app, image: app, ports: [{{containerPort: 8080}}]}}]
"
    );
    let (world, _) = world(smi, SMI, &two);
    holds(&world, HTTP, &[("GET /metrics", CART, true)]);
    holds(&world, ("shop", "canary", 8080), &[("GET /metrics", CART, false)]);
}

#[test]
fn a_workload_with_a_default_of_its_own_is_named() {
    let open = WEB.replace(
        "labels: {app: web}",
        "labels: {app: web}, annotations: {config.linkerd.io/default-inbound-policy: all-unauthenticated}",
    );
    let (world, found) = world(smi, SMI, &open);
    holds(&world, HTTP, &[("GET /metrics", CART, true), ("GET /metrics", STRANGER, false)]);
    assert!(fidelities(&found).contains(&("workload web", Fidelity::Omitted)), "{:?}", found.rows);
}

fn authorization(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n\
         metadata: {{name: {name}, namespace: shop}}\nspec: {spec}\n---\n"
    )
}

const BY_CART: &str = "from: [{source: {principals: [cluster.local/ns/shop/sa/cart]}}]";

#[test]
fn istio_allows_what_some_rule_allows_and_nothing_that_one_denies() {
    let reads = authorization(
        "reads",
        &format!(
            "{{selector: {{matchLabels: {{app: web}}}}, action: ALLOW, rules: [{{{BY_CART}, \
             to: [{{operation: {{methods: [GET], paths: [/api/*, /exact], ports: ['8080']}}}}]}}]}}"
        ),
    );
    let (allowed, found) = world(istio, &reads, WEB);
    let table = [
        ("GET /api/x", CART, true),
        ("GET /api/", CART, true),
        ("GET /exact", CART, true),
        ("GET /api", CART, false),
        ("GET /exact/x", CART, false),
        ("POST /api/x", CART, false),
        ("GET /api/x", BANK, false),
        ("GET /api/x", STRANGER, false),
    ];
    holds(&allowed, HTTP, &table);
    holds(&allowed, ADMIN, &[("GET /api/x", CART, false)]);
    let rows = [
        ("AuthorizationPolicy reads", Fidelity::Exact),
        ("AuthorizationPolicy reads rule 1", Fidelity::Exact),
    ];
    assert_eq!(fidelities(&found), rows);

    let deny = authorization(
        "deny",
        "{action: DENY, rules: [{to: [{operation: {paths: [/api/secret*]}}]}]}",
    );
    let (denied, _) = world(istio, &format!("{reads}{deny}"), WEB);
    // `/api/*` reaches into what is denied, and no route of the denial certainly comes first.
    let table = [
        ("GET /exact", CART, true),
        ("GET /api/secret", CART, false),
        ("GET /api/secrets/x", CART, false),
    ];
    holds(&denied, HTTP, &table);
}

#[test]
fn istio_denies_a_path_of_what_is_open_otherwise() {
    let deny = authorization(
        "deny",
        "{selector: {matchLabels: {app: web}}, action: DENY, \
         rules: [{to: [{operation: {paths: [/admin*], methods: [DELETE, POST]}}]}]}",
    );
    let (world, _) = world(istio, &deny, WEB);
    let table = [
        ("GET /", STRANGER, true),
        ("GET /admin", CART, true),
        ("POST /admin/x", CART, false),
        ("DELETE /administrator", STRANGER, false),
    ];
    holds(&world, HTTP, &table);
    holds(&world, ADMIN, &table);
}

#[test]
fn istio_takes_plaintext_and_denied_accounts_out_of_grants() {
    let all = authorization("all", "{rules: [{}]}");
    let strict = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n\
                  metadata: {name: default, namespace: istio-system}\n\
                  spec: {mtls: {mode: STRICT}}\n---\n";
    let (strict_world, _) = world(istio, &format!("{all}{strict}"), WEB);
    let table = [("GET /", CART, true), ("GET /", BANK, true), ("GET /", STRANGER, false)];
    holds(&strict_world, HTTP, &table);
    let two = authorization(
        "two",
        "{rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/cart, cluster.local/ns/bank/sa/ledger]}}]}]}",
    );
    let bank =
        authorization("bank", "{action: DENY, rules: [{from: [{source: {namespaces: [bank]}}]}]}");
    let (world, _) = world(istio, &format!("{two}{bank}"), WEB);
    let table = [("GET /", CART, true), ("GET /", BANK, false), ("GET /", STRANGER, false)];
    holds(&world, HTTP, &table);
}

#[test]
fn what_istio_denies_in_a_way_that_cannot_be_said_is_denied_as_a_whole() {
    let all = authorization("all", "{rules: [{}]}");
    let nothing = [("GET /", CART, false), ("GET /x", BANK, false), ("GET /", STRANGER, false)];
    for other in [
        "{action: DENY, rules: [{when: [{key: 'request.headers[x]', values: [a]}]}]}",
        "{action: CUSTOM, provider: {name: p}, rules: [{to: [{operation: {paths: [/x]}}]}]}",
        "{action: DENY, rules: [{to: [{operation: {notPaths: [/x]}}]}]}",
        "{action: DENY, rules: [{from: [{source: {requestPrincipals: ['*']}}]}]}",
    ] {
        let text = format!("{all}{}", authorization("other", other));
        let (world, _) = world(istio, &text, WEB);
        holds(&world, HTTP, &nothing);
    }
    let tokens = "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\n\
                  metadata: {name: jwt, namespace: shop}\nspec: {jwtRules: [{issuer: a}]}\n";
    let (world, found) = world(istio, &format!("{all}{tokens}"), WEB);
    holds(&world, HTTP, &nothing);
    let row = found.rows.iter().find(|row| row.subject == "RequestAuthentication jwt").unwrap();
    assert_eq!(row.fidelity, Fidelity::Omitted);
}

#[test]
fn rules_of_istio_that_cannot_be_said_grant_nothing() {
    for rule in [
        "{when: [{key: 'request.auth.claims[a]', values: [b]}]}",
        "{from: [{source: {notPrincipals: [cluster.local/ns/shop/sa/cart]}}]}",
        "{from: [{source: {remoteIpBlocks: [10.0.0.0/8]}}]}",
        "{to: [{operation: {notPaths: [/x]}}]}",
        "{to: [{operation: {hosts: [web]}}]}",
        "{to: [{operation: {paths: [/a*b]}}]}",
        "{to: [{operation: {methods: [GET], unknown: [x]}}]}",
        "{from: [{source: {ipBlocks: [not-a-network]}}]}",
    ] {
        let text = authorization("odd", &format!("{{rules: [{rule}]}}"));
        let (world, found) = world(istio, &text, WEB);
        holds(&world, HTTP, &[("GET /", CART, false), ("GET /x", STRANGER, false)]);
        let rows = fidelities(&found);
        assert!(
            rows.contains(&("AuthorizationPolicy odd rule 1", Fidelity::Omitted)),
            "{rule}: {rows:?}"
        );
    }
    let nothing = authorization("nothing", "{}");
    let (world, _) = world(istio, &nothing, WEB);
    holds(&world, HTTP, &[("GET /", CART, false), ("GET /", STRANGER, false)]);
}

/// A template that renders an empty list, or none, has not meant everybody. Both systems refuse such an object.
#[test]
fn a_part_of_a_rule_without_a_value_grants_nothing() {
    for rule in [
        "from: [{source: {}}]",
        "from: [{source: {principals: []}}]",
        "to: [{operation: {}}]",
        "to: [{operation: {paths: [], methods: []}}]",
        "from: [{source: {namespaces: [shop]}}], to: [{operation: {ports: []}}]",
    ] {
        let spec = format!("{{action: ALLOW, rules: [{{{rule}}}]}}");
        let (world, found) = world(istio, &authorization("empty", &spec), WEB);
        holds(&world, HTTP, &[("GET /", CART, false), ("GET /", STRANGER, false)]);
        let omitted = ("AuthorizationPolicy empty rule 1", Fidelity::Omitted);
        assert!(fidelities(&found).contains(&omitted), "{rule}: {:?}", found.rows);
    }
    // What denies then denies everything.
    let spec = "{action: DENY, rules: [{from: [{source: {principals: []}}]}]}";
    let open = authorization("open", "{rules: [{}]}");
    let both = format!("{open}\n---\n{}", authorization("empty", spec));
    let (denied, _) = world(istio, &both, WEB);
    holds(&denied, HTTP, &[("GET /", CART, false), ("GET /", STRANGER, false)]);
}

/// Fields at the wrong depth, and lists that a template left empty, were meant to narrow the rule.
#[test]
fn what_is_misplaced_or_empty_in_a_rule_of_istio_widens_nothing() {
    const FROM: &str = "source: {namespaces: [shop]}";
    for (spec, note) in [
        (
            format!("{{rules: [{{from: [{{{FROM}, to: [{{operation: {{paths: [/a]}}}}]}}]}}]}}"),
            "`to` does not belong beside `source`",
        ),
        (
            "{rules: [{to: [{operation: {methods: [GET]}, paths: [/a]}]}]}".to_owned(),
            "`paths` does not belong beside `operation`",
        ),
        (format!("{{rules: [{{from: [{{{FROM}}}]}}], to: []}}"), "`to` is unknown"),
        (
            "{selectors: {matchLabels: {app: other}}, rules: [{}]}".to_owned(),
            "`selectors` is unknown",
        ),
        ("{rules: [{from: []}]}".to_owned(), "`from` is an empty list, which Istio refuses"),
        ("{rules: [{to: []}]}".to_owned(), "`to` is an empty list, which Istio refuses"),
        ("{rules: [{from: [{source: {}}]}]}".to_owned(), "`source` is empty"),
        ("{rules: [{to: [{operation: {}}]}]}".to_owned(), "`operation` is empty"),
        (
            "{rules: [{from: [{source: {principals: []}}]}]}".to_owned(),
            "`principals` is an empty list",
        ),
        ("{rules: [{to: [{operation: {paths: []}}]}]}".to_owned(), "`paths` is an empty list"),
    ] {
        let (world, found) = world(istio, &authorization("odd", &spec), WEB);
        holds(&world, HTTP, &[("GET /", CART, false), ("GET /", STRANGER, false)]);
        assert!(found.rows.iter().any(|row| row.note.contains(note)), "{spec}: {:?}", found.rows);
    }
    for (spec, message) in [
        ("{mtls: STRICT}", "spec.mtls: expected a mapping, found a string"),
        ("{mtls: {modes: STRICT}}", "`modes` is unknown, did you mean `mode`?"),
    ] {
        let text = authorization("web", spec).replace("AuthorizationPolicy", "PeerAuthentication");
        let errors = istio(&files(&[&text, WEB]), Some("shop")).unwrap_err();
        assert!(errors[0].contains(message), "{errors:?}");
    }
}

#[test]
fn service_accounts_of_istio_are_those_of_the_policys_namespace_or_of_a_named_one() {
    let rule = |source: &str, action: &str| {
        let rules = format!("{{action: {action}, rules: [{{from: [{{source: {{{source}}}}}]}}]}}");
        authorization("accounts", &rules)
    };
    for (source, cart, bank) in [
        ("serviceAccounts: [cart]", true, false),
        ("serviceAccounts: [bank/ledger, shop/other]", false, true),
        ("serviceAccounts: ['*']", false, false),
    ] {
        let (world, _) = world(istio, &rule(source, "ALLOW"), WEB);
        holds(
            &world,
            HTTP,
            &[("GET /", CART, cart), ("GET /", BANK, bank), ("GET /", OFFICE, false)],
        );
    }
    let (world, _) = world(istio, &rule("notServiceAccounts: [cart]", "DENY"), WEB);
    holds(&world, HTTP, &[("GET /", CART, true), ("GET /", BANK, false), ("GET /", OFFICE, false)]);
}

/// One name among ten that cannot be said took the other nine with it.
#[test]
fn what_cannot_be_said_of_a_list_that_allows_is_left_out_alone() {
    let rule = |source: &str, paths: &str, action: &str| {
        let rule = format!(
            "{{from: [{{source: {{principals: {source}}}}}], to: [{{operation: {{paths: {paths}}}}}]}}"
        );
        authorization("list", &format!("{{action: {action}, rules: [{rule}]}}"))
    };
    let principals = "['*/sa/cart', cluster.local/ns/bank/sa/ledger]";
    let (world, found) = world(istio, &rule(principals, "[/a, /b*c]", "ALLOW"), WEB);
    let table = [("GET /a", BANK, true), ("GET /bc", BANK, false), ("GET /a", CART, false)];
    holds(&world, HTTP, &table);
    let row =
        found.rows.iter().find(|row| row.subject == "AuthorizationPolicy list rule 1").unwrap();
    assert_eq!(row.fidelity, Fidelity::Narrower);
    for note in ["`*/sa/cart` names nobody here", "the path `/b*c` has a form of its own"] {
        assert!(row.note.contains(note), "{}", row.note);
    }
    let (world, _) = beside_open(&rule(principals, "[/a, /b*c]", "DENY"));
    holds(
        &world,
        HTTP,
        &[("GET /a", BANK, false), ("GET /bc", CART, false), ("GET /x", CART, false)],
    );
}

#[test]
fn a_port_that_no_container_declares_is_named() {
    let text = authorization("port", "{rules: [{to: [{operation: {ports: ['8080', '7777']}}]}]}");
    let note = "no container of its workloads declares the port 7777: it stays closed";
    let (_, found) = world(istio, &text, WEB);
    assert!(found.rows.iter().any(|row| row.note == note), "{:?}", found.rows);
    let text = network_policy("{podSelector: {}, ingress: [{ports: [{port: web}, {port: 8080}]}]}");
    let note = "no container of its workloads declares the port `web`: it stays closed";
    let (_, found) = world(network_policies, &text, WEB);
    assert!(found.rows.iter().any(|row| row.note == note), "{:?}", found.rows);
}

/// An API server refuses these, so that none is in force anywhere.
#[test]
fn network_policies_that_no_api_server_takes_are_errors() {
    let peer = "podSelector: {}";
    for (rest, message) in [
        ("policyTypes: [ingress]".to_owned(), "`Ingress` and `Egress` are allowed"),
        ("ingress: [{ports: [{port: 80, protocol: tcp}]}]".to_owned(), "protocol `tcp`: `TCP`,"),
        ("ingress: [{ports: [{port: '8080'}]}]".to_owned(), "a number has no quotes"),
        ("ingress: [{ports: [{endPort: 90}]}]".to_owned(), "endPort: `port` is required"),
        ("ingress: [{ports: [{port: 90, endPort: 80}]}]".to_owned(), "is below `port`"),
        ("ingress: [{ports: [{port: http, endPort: 80}]}]".to_owned(), "endPort: must be absent"),
        ("ingress: [{from: [{}]}]".to_owned(), "names nobody"),
        (
            format!("ingress: [{{from: [{{{peer}, ipBlock: {{cidr: 192.0.2.0/24}}}}]}}]"),
            "ipBlock: stands alone in a peer",
        ),
        (
            "ingress: [{from: [{podSelector: web}]}]".to_owned(),
            "expected a mapping, found a string",
        ),
    ] {
        let text = network_policy(&format!("{{podSelector: {{}}, {rest}}}"));
        let errors = network_policies(&files(&[&text, WEB]), Some("shop")).unwrap_err();
        assert!(errors[0].contains(message), "{rest}: {errors:?}");
    }
}

#[test]
fn namespaces_are_named_by_expressions_as_well() {
    let peer = |operator: &str| {
        let expression = format!(
            "{{key: kubernetes.io/metadata.name, operator: {operator}, values: [bank, dev]}}"
        );
        let spec = format!(
            "{{podSelector: {{}}, ingress: [{{from: [{{namespaceSelector: {{matchExpressions: \
             [{expression}]}}}}]}}]}}"
        );
        world(network_policies, &network_policy(&spec), WEB).0
    };
    holds(&peer("In"), HTTP, &[("GET /", BANK, true), ("GET /", CART, false)]);
    holds(&peer("NotIn"), HTTP, &[("GET /", BANK, false), ("GET /", CART, false)]);
}

/// Labels of a Namespace count where the files have it; that a label is absent is not known of the cluster.
#[test]
fn namespaces_of_the_files_are_selected_by_their_labels() {
    let peer = |selector: &str| {
        let spec = format!(
            "{{podSelector: {{}}, ingress: [{{from: [{{namespaceSelector: {selector}}}]}}]}}"
        );
        world(network_policies, &network_policy(&spec), WEB)
    };
    for (selector, cart) in [
        ("{matchLabels: {team: web}}", true),
        ("{matchExpressions: [{key: team, operator: Exists}]}", true),
        ("{matchExpressions: [{key: other, operator: DoesNotExist}]}", false),
        ("{matchLabels: {team: other}}", false),
    ] {
        let (world, found) = peer(selector);
        holds(&world, HTTP, &[("GET /", CART, cart), ("GET /", BANK, false)]);
        let note = "of the namespaces with these labels, those of the files alone";
        assert_eq!(found.rows.iter().any(|row| row.note.contains(note)), cart, "{selector}");
    }
}

#[test]
fn files_without_the_policies_are_told_what_they_have() {
    let old = "apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRole\nmetadata: {name: r}\n";
    let errors = istio(&files(&[WEB, old]), Some("shop")).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    for part in ["no policy of Istio", "Pod (v1), ServiceRole (rbac.istio.io/v1alpha1)"] {
        assert!(error.contains(part), "{error}");
    }
    let former =
        network_policy("{podSelector: {}}").replace("networking.k8s.io/v1", "extensions/v1beta1");
    let errors = network_policies(&files(&[&former, WEB]), Some("shop")).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert!(error.contains("version `extensions/v1beta1` is not read, write"), "{error}");
    let read = ImportFile::read("a.hcl", b"Kind = \"service-intentions\"\n").map(|_| ());
    let message = "`a.hcl`: line 1: expected a mapping, found a string";
    assert_eq!(read, Err(vec![message.to_owned()]));
}

fn network_policy(spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
         metadata: {{name: web, namespace: shop}}\nspec: {spec}\n"
    )
}

#[test]
fn ingress_rules_of_network_policies_are_servers_and_grants() {
    let spec = "{podSelector: {matchLabels: {app: web}}, ingress: [\
        {from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.128/25]}}], ports: [{port: http}]}, \
        {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bank}}}], \
         ports: [{port: 9000, endPort: 9100}, {port: 53, protocol: UDP}]}]}";
    let (world, found) = world(network_policies, &network_policy(spec), WEB);
    holds(
        &world,
        HTTP,
        &[
            ("GET /", OFFICE, true),
            ("GET /", Client::Plain("192.0.2.200"), false),
            ("GET /", STRANGER, false),
            ("GET /", BANK, false),
        ],
    );
    holds(
        &world,
        ADMIN,
        &[("GET /", BANK, true), ("GET /", CART, false), ("GET /", OFFICE, false)],
    );
    holds(&world, ("shop", "web", 7777), &[("GET /", OFFICE, false), ("GET /", BANK, false)]);
    let rows = [
        ("NetworkPolicy web", Fidelity::Narrower),
        ("NetworkPolicy web rule 1", Fidelity::Exact),
        ("NetworkPolicy web rule 2", Fidelity::Narrower),
    ];
    assert_eq!(fidelities(&found), rows);
}

/// A rule without ports opens UDP too, so that `exact` was wrong.
#[test]
fn a_rule_of_a_network_policy_without_ports_is_narrower() {
    let rule = |rest: &str| {
        let spec = format!(
            "{{podSelector: {{}}, ingress: [{{from: [{{ipBlock: {{cidr: 192.0.2.0/24}}}}]{rest}}}]}}"
        );
        let found = world(network_policies, &network_policy(&spec), WEB).1;
        let row = found.rows.iter().find(|row| row.subject == "NetworkPolicy web rule 1").unwrap();
        (row.fidelity, row.note.contains("UDP and SCTP too, which pass no sidecar"))
    };
    assert_eq!(rule(""), (Fidelity::Narrower, true));
    assert_eq!(rule(", ports: []"), (Fidelity::Narrower, true));
    assert_eq!(rule(", ports: [{port: 8080}]"), (Fidelity::Exact, false));
}

#[test]
fn pods_of_network_policies_are_the_accounts_that_they_have_alone() {
    let cart = "apiVersion: v1\nkind: Pod\nmetadata: {name: cart, namespace: shop, labels: {app: cart}}\n\
                spec: {serviceAccountName: cart, containers: [{name: a, image: a}]}\n";
    let other = cart.replace("name: cart,", "name: other,").replace("app: cart", "app: other");
    let spec = "{podSelector: {matchLabels: {app: web}}, \
                ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]}";
    let alone = format!("{WEB}---\n{cart}");
    let (first, _) = world(network_policies, &network_policy(spec), &alone);
    holds(&first, HTTP, &[("GET /", CART, true), ("GET /", BANK, false)]);
    let shared = format!("{alone}---\n{other}");
    let (second, _) = world(network_policies, &network_policy(spec), &shared);
    holds(&second, HTTP, &[("GET /", CART, false)]);
    for (spec, cart, stranger) in [
        ("{podSelector: {}}", false, false),
        ("{podSelector: {}, ingress: [{}]}", true, true),
        ("{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}", true, false),
        (
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {a: b}}}]}]}",
            false,
            false,
        ),
        (
            "{podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 53, protocol: UDP}]}]}",
            false,
            false,
        ),
    ] {
        let (world, _) = world(network_policies, &network_policy(spec), WEB);
        holds(&world, HTTP, &[("GET /", CART, cart), ("GET /", STRANGER, stranger)]);
    }
}

/// Pods of the services that intentions name.
const SERVICES: &str = "
apiVersion: v1
kind: Pod
metadata: {name: cart, namespace: shop, labels: {app: cart}}
spec: {serviceAccountName: cart, containers: [{name: a, image: a, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ledger, namespace: bank, labels: {app: ledger}}
spec: {serviceAccountName: ledger, containers: [{name: a, image: a, ports: [{containerPort: 8080}]}]}
";

fn intentions(name: &str, destination: &str, sources: &str) -> String {
    format!(
        "apiVersion: consul.hashicorp.com/v1alpha1\nkind: ServiceIntentions\nmetadata: {{name: {name}}}\n\
         spec: {{destination: {{name: '{destination}'}}, sources: [{sources}]}}\n---\n"
    )
}

#[test]
fn of_the_intentions_of_consul_the_most_specific_one_counts() {
    let workloads = format!("{WEB}---{SERVICES}");
    let cart = "{name: cart, action: allow}";
    let every = "{name: '*', action: allow}";
    let cases = [
        (intentions("a", "web", cart), [true, false, false]),
        (intentions("a", "web", every), [true, true, false]),
        (intentions("a", "*", "{name: '*', action: deny}"), [false, false, false]),
        (
            intentions("a", "web", cart) + &intentions("b", "*", "{name: '*', action: deny}"),
            [true, false, false],
        ),
        // The name of the destination comes before that of the source.
        (
            intentions("a", "web", "{name: '*', action: deny}")
                + &intentions("b", "*", "{name: cart, action: allow}"),
            [false, false, false],
        ),
        // Everybody but one cannot be said: each service that has an intention stays, the others do not.
        (
            intentions("a", "web", &format!("{every}, {cart}, {{name: ledger, action: deny}}")),
            [true, false, false],
        ),
        (intentions("a", "web", &format!("{cart}, {{name: cart, action: deny}}")), [false; 3]),
        (
            intentions("a", "web", "{name: absent, action: deny}, {name: '*', action: allow}"),
            [false; 3],
        ),
        (intentions("a", "web", "{name: cart, peer: other, action: allow}"), [false; 3]),
    ];
    for (text, [by_cart, by_bank, by_stranger]) in cases {
        let (world, _) = world(consul, &text, &workloads);
        let table =
            [("GET /", CART, by_cart), ("GET /", BANK, by_bank), ("GET /", STRANGER, by_stranger)];
        holds(&world, HTTP, &table);
    }
}

#[test]
fn the_first_permission_of_consul_that_matches_counts() {
    let workloads = format!("{WEB}---{SERVICES}");
    let permissions = "{name: cart, permissions: [\
        {action: deny, http: {pathPrefix: /admin}}, \
        {action: allow, http: {pathExact: /admin/x}}, \
        {action: allow, http: {pathPrefix: /api, methods: [GET, put]}}, \
        {action: deny, http: {header: [{name: x, present: true}]}}, \
        {action: allow, http: {pathExact: /late}}]}";
    let text = intentions("a", "web", &format!("{permissions}, {{name: '*', action: allow}}"));
    let (world, found) = world(consul, &text, &workloads);
    let table = [
        ("GET /api", CART, true),
        ("PUT /api/x", CART, true),
        ("POST /api", CART, false),
        ("GET /admin/x", CART, false),
        ("GET /late", CART, false),
        ("GET /", CART, false),
        ("GET /api", STRANGER, false),
        // Everybody would be the one that has permissions of its own, too.
        ("GET /", BANK, false),
    ];
    holds(&world, HTTP, &table);
    let rows = [
        ("ServiceIntentions a", Fidelity::Exact),
        ("ServiceIntentions a from cart", Fidelity::Narrower),
        ("ServiceIntentions a from *", Fidelity::Narrower),
    ];
    let mut named = fidelities(&found);
    named.sort_by_key(|(subject, _)| (subject.len(), *subject == "ServiceIntentions a from cart"));
    let mut rows = rows.to_vec();
    rows.sort_by_key(|(subject, _)| (subject.len(), *subject == "ServiceIntentions a from cart"));
    assert_eq!(named, rows);
}

#[test]
fn a_dry_run_of_istio_decides_nothing() {
    let dry = |action: &str, rules: &str| {
        let spec = format!("{{action: {action}, rules: {rules}}}");
        let run = "namespace: shop, annotations: {istio.io/dry-run: 'true'}";
        authorization("dry", &spec).replace("namespace: shop", run)
    };
    let closed = authorization("closed", "{}");
    let (world, found) = world(istio, &format!("{closed}{}", dry("ALLOW", "[{}]")), WEB);
    holds(&world, HTTP, &[("GET /", CART, false)]);
    let row = found.rows.iter().find(|row| row.subject == "AuthorizationPolicy dry").unwrap();
    let expected = (Fidelity::Omitted, "dry-run: it decides nothing");
    assert_eq!((row.fidelity, &*row.note), expected);
    let open = authorization("open", "{rules: [{}]}");
    let (world, _) = self::world(istio, &format!("{open}{}", dry("DENY", "[{}]")), WEB);
    holds(&world, HTTP, &[("GET /", CART, true)]);
}

/// A policy that allows everything, and another.
fn beside_open(other: &str) -> (World, Imported) {
    let open = authorization("open", "{rules: [{}]}");
    world(istio, &format!("{open}{other}"), WEB)
}

#[test]
fn principals_of_another_trust_domain_are_not_accounts_of_this_cluster() {
    let other = "{rules: [{from: [{source: {principals: [other/ns/shop/sa/cart]}}]}]}";
    let (none, _) = world(istio, &authorization("other", other), WEB);
    holds(&none, HTTP, &[("GET /", CART, false)]);
    let denial =
        "{action: DENY, rules: [{from: [{source: {notPrincipals: [other/ns/shop/sa/cart]}}]}]}";
    let (denied, _) = beside_open(&authorization("denial", denial));
    holds(&denied, HTTP, &[("GET /", CART, false), ("GET /", STRANGER, false)]);
    let mesh = IstioMesh { trust_domain: "other", ..IstioMesh::default() };
    let sources = files(&[&authorization("other", other), WEB, NAMESPACE]);
    let found = policy_import::istio(&sources, None, &mesh).unwrap();
    let own = World::new(&[WEB, &found.yaml()]);
    holds(&own, HTTP, &[("GET /", CART, true), ("GET /", BANK, false)]);
}

/// Istio takes `cluster.local` for the mesh's own trust domain, whatever it is called.
#[test]
fn cluster_local_is_the_own_trust_domain_whatever_it_is_called() {
    let mesh = IstioMesh { trust_domain: "mesh.example", ..IstioMesh::default() };
    for principal in ["cluster.local/ns/shop/sa/cart", "cluster.local/ns/shop/*"] {
        let rules =
            format!("{{rules: [{{from: [{{source: {{principals: [\"{principal}\"]}}}}]}}]}}");
        let sources = files(&[&authorization("own", &rules), WEB, NAMESPACE]);
        let found = policy_import::istio(&sources, None, &mesh).unwrap();
        let own = World::new(&[WEB, &found.yaml()]);
        holds(&own, HTTP, &[("GET /", CART, true), ("GET /", BANK, false)]);
    }
}

#[test]
fn a_field_that_istio_has_is_no_misspelling_of_another() {
    let note = |rules: &str| {
        let rules = format!("{{rules: [{rules}]}}");
        let (_, found) = world(istio, &authorization("odd", &rules), WEB);
        let row = found.rows.iter().find(|row| row.subject == "AuthorizationPolicy odd rule 1");
        row.unwrap().note.clone()
    };
    for (rule, expected) in [
        ("{to: [{operation: {notPaths: [/a]}}]}", "`notPaths` is not translated"),
        ("{from: [{source: {notPrincipals: [a]}}]}", "`notPrincipals` is not translated"),
        ("{from: [{source: {notPrincipals: [a], paths: [/a]}}]}", "`paths` is unknown"),
        (
            "{from: [{source: {namespace: [a]}}]}",
            "`namespace` is unknown, did you mean `namespaces`?",
        ),
        ("{when: [{key: a, values: [b]}]}", "`when` is not translated"),
    ] {
        let note = note(rule);
        assert_eq!(note.split_once("; ").map_or(&*note, |(first, _)| first), expected, "{rule}");
    }
}

#[test]
fn a_denial_at_a_target_that_may_be_a_waypoint_withholds() {
    let at = |kind: &str| {
        let target = format!("{{group: gateway.networking.k8s.io, kind: {kind}, name: edge}}");
        authorization("at", &format!("{{targetRefs: [{target}], action: DENY, rules: [{{}}]}}"))
    };
    let gateway = |class: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {{name: edge, namespace: shop}}\nspec: {{gatewayClassName: {class}}}\n---\n"
        )
    };
    for (others, may) in [
        (at("Service"), false),
        (at("Gateway"), false),
        (gateway("istio-waypoint") + &at("Gateway"), false),
        (gateway("istio") + &at("Gateway"), true),
    ] {
        let (world, _) = beside_open(&others);
        holds(&world, HTTP, &[("GET /", CART, may)]);
    }
}

#[test]
fn a_selector_that_the_files_cannot_answer_widens_nothing() {
    let denial = |selector: &str| {
        authorization("denial", &format!("{{selector: {selector}, action: DENY, rules: [{{}}]}}"))
    };
    for label in ["pod-template-hash", "istio.io/rev"] {
        let (world, _) = beside_open(&denial(&format!("{{matchLabels: {{{label}: a}}}}")));
        holds(&world, HTTP, &[("GET /", CART, false)]);
    }
    let (other, _) = beside_open(&denial("{matchLabels: {app: other}}"));
    holds(&other, HTTP, &[("GET /", CART, true)]);
    let absent = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
                  metadata: {name: web, namespace: shop}\nspec: {podSelector: \
                  {matchExpressions: [{key: job-name, operator: DoesNotExist}]}, ingress: [{}]}\n";
    let (closed, _) = world(network_policies, absent, WEB);
    holds(&closed, HTTP, &[("GET /", STRANGER, false)]);
}

#[test]
fn what_denies_by_default_closes_every_namespace_of_the_files() {
    let bank = WEB.replace("namespace: shop", "namespace: bank");
    let namespace = NAMESPACE.replace("name: shop", "name: bank");
    let workloads = format!("{WEB}---{bank}---{namespace}");
    let (world, found) = world(smi, SMI, &workloads);
    holds(&world, ("bank", "web", 8080), &[("GET /metrics", STRANGER, false)]);
    let shop = found.values().find(|it| it["metadata"]["name"] == "shop").unwrap();
    assert_eq!(shop["metadata"]["labels"], serde_json::json!({"team": "web"}));
    let without = smi(&files(&[SMI, WEB]), Some("shop")).unwrap();
    assert!(without.values().all(|it| it["kind"] != "Namespace"));
    let row = without.rows.iter().find(|row| row.subject == "namespace shop").unwrap();
    let command = "kubectl annotate namespace shop config.linkerd.io/default-inbound-policy=deny";
    assert!(row.fidelity == Fidelity::Omitted && row.note.contains(command), "{}", row.note);
}

#[test]
fn a_service_of_consul_is_that_of_its_namespace_alone() {
    let intentions = |destination: &str, source: &str| {
        format!(
            "apiVersion: consul.hashicorp.com/v1alpha1\nkind: ServiceIntentions\n\
             metadata: {{name: web}}\nspec: {{destination: {destination}, sources: [{source}]}}\n"
        )
    };
    let cart = WEB.replace("web", "cart");
    let one = format!("{WEB}---{cart}");
    let two = format!("{one}---{}", WEB.replace("namespace: shop", "namespace: bank"));
    for (destination, source, workloads, may) in [
        ("{name: web}", "{name: cart, action: allow}", &one, true),
        (
            "{name: web, namespace: shop}",
            "{name: cart, namespace: shop, action: allow}",
            &one,
            true,
        ),
        ("{name: web, namespace: bank}", "{name: cart, action: allow}", &one, false),
        ("{name: web}", "{name: cart, namespace: bank, action: allow}", &one, false),
        ("{name: web, partition: a}", "{name: cart, action: allow}", &one, false),
        ("{name: web}", "{name: cart, action: allow}", &two, false),
    ] {
        let (world, _) = world(consul, &intentions(destination, source), workloads);
        holds(&world, HTTP, &[("GET /", CART, may)]);
    }
}

#[test]
fn an_absent_route_of_smi_and_a_binding_without_pods_open_nothing() {
    let route = |rules: &str| {
        format!(
            "kind: IdentityBinding\napiVersion: access.smi-spec.io/v1alpha4\n\
             metadata: {{name: web, namespace: shop}}\nspec: {{schemes: {{spiffeIdentities: ['spiffe://a/b']}}}}\n---\n\
             kind: TrafficTarget\napiVersion: access.smi-spec.io/v1alpha4\n\
             metadata: {{name: t, namespace: shop}}\n{rules}\n"
        )
    };
    for destination in ["{kind: ServiceAccount, name: web}", "{kind: IdentityBinding, name: web}"] {
        let text = route(&format!(
            "spec: {{destination: {destination}, rules: [{{kind: TCPRoute, name: absent}}], \
             sources: [{{kind: ServiceAccount, name: cart}}]}}"
        ));
        let (world, found) = world(smi, &text, WEB);
        assert_ne!(world.connect(HTTP, CART), "allow");
        assert_eq!(fidelities(&found), [("TrafficTarget t", Fidelity::Omitted)]);
    }
}

#[test]
fn objects_that_are_not_read_are_named_and_policies_that_may_deny_refused() {
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
                  metadata: {name: web, namespace: shop}\nspec: {podSelector: {}}\n---\n";
    let other =
        |kind: &str| format!("{policy}apiVersion: a/v1\nkind: {kind}\nmetadata: {{name: o}}\n");
    let (_, found) = world(network_policies, &other("Rollout"), WEB);
    assert!(fidelities(&found).contains(&("Rollout o", Fidelity::Omitted)), "{:?}", found.rows);
    for kind in ["AdminNetworkPolicy", "CiliumNetworkPolicy", "GlobalNetworkPolicy"] {
        let errors = network_policies(&files(&[&other(kind), WEB]), Some("shop")).unwrap_err();
        assert!(errors[0].contains("may deny what a NetworkPolicy allows"), "{errors:?}");
    }
}
