//! `export_smi`: what the objects of SMI admit, as read back by `smi`, beside what the policies admit.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Client, WEB, World};
use policy_engine::{ControllerConfig, compile_objects};
use policy_import::{Exported, ExportedAccount, Fidelity, ImportFile, export_smi, smi};
use std::num::NonZeroU16;

const CART: Client = Client::Account("shop", "cart");
const BANK: Client = Client::Account("bank", "ledger");
const PLAIN: Client = Client::Plain("10.9.9.9");
const HTTP: (&str, &str, u16) = ("shop", "web", 8080);
const ADMIN: (&str, &str, u16) = ("shop", "web", 9090);

const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {config.linkerd.io/default-inbound-policy: deny}}
";

fn server(name: &str, port: u16, protocol: &str) -> String {
    format!(
        "\n---\napiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: {port}, proxyProtocol: {protocol}}}\n"
    )
}

fn route(name: &str, matches: &str) -> String {
    format!(
        "\n---\napiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n  \
         rules: [{{matches: {matches}}}]\n"
    )
}

/// A grant of an object to ServiceAccounts.
fn grant(name: &str, target: &str, accounts: &str) -> String {
    format!(
        "\n---\napiVersion: policy.linkerd.io/v1alpha1\nkind: MeshTLSAuthentication\n\
         metadata: {{name: {name}, namespace: shop}}\nspec: {{identityRefs: {accounts}}}\n\
         ---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  targetRef: {target}\n  requiredAuthenticationRefs:\n  \
         - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: {name}}}\n"
    )
}

const BY_CART: &str = "[{kind: ServiceAccount, name: cart, namespace: shop}]";
const BY_BANK: &str = "[{kind: ServiceAccount, name: ledger, namespace: bank}]";
const ON_SERVER: &str = "{group: policy.linkerd.io, kind: Server, name: web}";

fn on_route(name: &str) -> String {
    format!("{{group: policy.linkerd.io, kind: HTTPRoute, name: {name}}}")
}

fn export(manifests: &str) -> Exported {
    let documents = policy_crds::document::read(manifests);
    let objects = documents
        .iter()
        .map(|document| document.value.clone().unwrap())
        .filter(|value| !value.is_null())
        .map(|value| policy_crds::parse(&value).unwrap());
    let config = ControllerConfig::default();
    let compiled = compile_objects(objects.collect(), &config);
    let mut accounts = std::collections::BTreeMap::<_, ExportedAccount>::new();
    for (key, workload) in &compiled.workloads {
        let name = (key.namespace.to_string(), workload.state.service_account.to_string());
        let account = accounts.entry(name).or_default();
        for port in [8080, 9090] {
            let policy = compiled.port(key, NonZeroU16::new(port).unwrap()).unwrap();
            account.ports.entry(port).or_default().push(policy);
        }
    }
    export_smi(&accounts, &|identity| {
        let (name, namespace) = config.service_account_of(identity)?;
        Some((namespace.to_owned(), name.to_owned()))
    })
}

/// The policies, what they are exported to, and what that admits once it is imported again.
fn worlds(policies: &str) -> (World, Exported, Option<World>) {
    let manifests = format!("{WEB}---{NAMESPACE}{policies}");
    let exported = export(&manifests);
    let again = (!exported.objects.is_empty()).then(|| {
        let texts = [exported.yaml(), WEB.to_owned(), NAMESPACE.to_owned()];
        let files = texts.map(|text| ImportFile::read("smi.yaml", text.as_bytes()).unwrap());
        let imported = smi(&files, None).unwrap();
        World::new(&[WEB, &imported.yaml()])
    });
    (World::new(&[&manifests]), exported, again)
}

const REQUESTS: &[&str] = &[
    "GET /",
    "GET /pub",
    "GET /pub/a/b",
    "POST /pub/a",
    "GET /pub/secret",
    "GET /pub/secret/x",
    "GET /public",
    "GET /books/7",
    "GET /books/7/x",
    "DELETE /books/7",
    "GET /metrics",
    "GET /s.v1.S/Get",
    "GET /api/a",
    "GET /api",
];

/// Holds that nothing is admitted which the policies deny, and returns what is admitted on the first port
/// by each client, and the fidelity of the ports.
fn admitted(policies: &str) -> (Vec<String>, Vec<Fidelity>) {
    let (before, exported, after) = worlds(policies);
    let mut found = Vec::new();
    for (to, client, name) in [
        (HTTP, CART, "cart"),
        (HTTP, BANK, "bank"),
        (HTTP, PLAIN, "plain"),
        (ADMIN, CART, "cart:admin"),
        (ADMIN, PLAIN, "plain:admin"),
    ] {
        let mut hold = |what: &str, before: String, after: Option<String>| {
            if after.is_some_and(|verdict| verdict == "allow") {
                assert_eq!(before, "allow", "{name} {what} of {policies}");
                found.push(format!("{name} {what}"));
            }
        };
        let connected = after.as_ref().map(|after| after.connect(to, client));
        hold("TCP", before.connect(to, client), connected);
        // On a port of bytes a request is bytes.
        let requests = if policies.contains("opaque") { &[] } else { REQUESTS };
        for request in requests {
            let asked = after.as_ref().map(|after| after.ask(to, client, request));
            hold(request, before.ask(to, client, request), asked);
        }
    }
    (found, exported.rows.iter().map(|row| row.fidelity).collect())
}

use Fidelity::{Exact, Narrower, Omitted};

#[test]
fn a_server_with_accounts_is_exported_exactly() {
    let policies = server("web", 8080, "HTTP/1") + &grant("cart", ON_SERVER, BY_CART);
    let (found, fidelities) = admitted(&policies);
    let all: Vec<String> = REQUESTS.iter().map(|request| format!("cart {request}")).collect();
    assert_eq!((found, fidelities), (all, vec![Exact, Exact]));
    let opaque = server("web", 8080, "opaque") + &grant("cart", ON_SERVER, BY_CART);
    assert_eq!(admitted(&opaque), (vec!["cart TCP".to_owned()], vec![Exact, Exact]));
    let unknown = server("web", 8080, "unknown") + &grant("cart", ON_SERVER, BY_CART);
    let (found, fidelities) = admitted(&unknown);
    let requests = REQUESTS.iter().map(|request| format!("cart {request}"));
    let all: Vec<String> = ["cart TCP".to_owned()].into_iter().chain(requests).collect();
    assert_eq!((found, fidelities), (all, vec![Exact, Exact]));
}

#[test]
fn routes_become_matches_of_those_who_may_send_them() {
    let policies = server("web", 8080, "HTTP/1")
        + &route("metrics", "[{path: {type: Exact, value: /metrics}, method: GET}]")
        + &route("pub", "[{path: {type: PathPrefix, value: /pub}}]")
        + &grant("cart", &on_route("metrics"), BY_CART)
        + &grant("bank", &on_route("pub"), BY_BANK);
    let (found, fidelities) = admitted(&policies);
    let expected = [
        "cart GET /metrics",
        "bank GET /pub",
        "bank GET /pub/a/b",
        "bank POST /pub/a",
        "bank GET /pub/secret",
        "bank GET /pub/secret/x",
    ];
    assert_eq!(found, expected);
    assert_eq!(fidelities, [Narrower, Exact]);
}

#[test]
fn what_a_closer_route_denies_is_not_exported_with_the_wider_one() {
    let secret = |path: &str| {
        server("web", 8080, "HTTP/1")
            + &route("pub", "[{path: {type: PathPrefix, value: /pub}}]")
            + &route("secret", path)
            + &grant("cart", &on_route("pub"), BY_CART)
            + &grant("bank", &on_route("secret"), BY_BANK)
    };
    let (found, fidelities) = admitted(&secret("[{path: {type: Exact, value: /pub/secret}}]"));
    assert_eq!(found, ["bank GET /pub/secret"]);
    assert_eq!(fidelities, [Narrower, Exact]);
    let (found, _) = admitted(&secret("[{path: {type: RegularExpression, value: '/pub/s.*'}}]"));
    assert_eq!(found, Vec::<String>::new());
    // Another method takes nothing away, and neither does a wider route.
    let reads = server("web", 8080, "HTTP/1")
        + &route("reads", "[{path: {type: PathPrefix, value: /pub}, method: GET}]")
        + &route("writes", "[{path: {type: PathPrefix, value: /pub}, method: POST}]")
        + &route("all", "[{path: {type: PathPrefix, value: /}}]")
        + &grant("cart", &on_route("reads"), BY_CART);
    let (found, _) = admitted(&reads);
    let expected = ["/pub", "/pub/a/b", "/pub/secret", "/pub/secret/x"];
    assert_eq!(found, expected.map(|path| format!("cart GET {path}")));
}

#[test]
fn what_smi_cannot_say_is_denied_and_named() {
    let all = "\n---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
               metadata: {name: all, namespace: shop}\n\
               spec:\n  targetRef: {group: policy.linkerd.io, kind: Server, name: web}\n  \
               requiredAuthenticationRefs: []\n";
    let named = |identities: &str| {
        format!(
            "\n---\napiVersion: policy.linkerd.io/v1alpha1\nkind: MeshTLSAuthentication\n\
             metadata: {{name: some, namespace: shop}}\nspec: {{identities: {identities}}}\n\
             ---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: some, namespace: shop}}\n\
             spec:\n  targetRef: {ON_SERVER}\n  requiredAuthenticationRefs:\n  \
             - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: some}}\n"
        )
    };
    let hosted = route("hosted", "[{path: {type: PathPrefix, value: /}}]")
        .replace("rules:", "hostnames: [a.example]\n  rules:");
    let query = "[{path: {type: PathPrefix, value: /}, queryParams: [{name: a, value: b}]}]";
    let table = [
        (all.to_owned(), "AuthorizationPolicy shop/all: it grants to everybody"),
        (named("['*']"), "it names no ServiceAccounts"),
        (
            named("['*.shop.serviceaccount.identity.linkerd.cluster.local']"),
            "all ServiceAccounts of a",
        ),
        (named("['spiffe://other/x']"), "`spiffe://other/x` is no ServiceAccount of this mesh"),
        (hosted + &grant("cart", ON_SERVER, BY_CART), "its routes depend on hosts"),
        (route("q", query) + &grant("cart", &on_route("q"), BY_CART), "query parameters"),
    ];
    for (policies, reason) in table {
        let policies = server("web", 8080, "HTTP/1") + &policies;
        assert_eq!(admitted(&policies), (Vec::new(), vec![Omitted, Exact]), "{policies}");
        let note = &worlds(&policies).1.rows[0].note;
        assert!(note.contains(reason), "{note}");
    }
    // What can be said beside it is.
    let both = server("web", 8080, "HTTP/1") + all + &grant("cart", ON_SERVER, BY_CART);
    let (found, fidelities) = admitted(&both);
    assert_eq!((found.len(), fidelities), (REQUESTS.len(), vec![Narrower, Exact]));
}

#[test]
fn pods_of_one_account_with_other_policies_are_not_exported() {
    let other = WEB
        .replace("name: web, namespace: shop, labels: {app: web}", "name: other, namespace: shop");
    assert_ne!(other, WEB);
    let policies = server("web", 8080, "HTTP/1") + &grant("cart", ON_SERVER, BY_CART);
    let exported = export(&format!("{WEB}---{other}---{NAMESPACE}{policies}"));
    assert_eq!(exported.objects, Vec::<serde_json::Value>::new());
    assert_eq!(exported.rows[0].note, "pods of the ServiceAccount have different policies");
}

#[test]
fn smi_that_was_imported_is_exported_again() {
    let source = "
kind: HTTPRouteGroup
apiVersion: specs.smi-spec.io/v1alpha4
metadata: {name: routes, namespace: shop}
spec: {matches: [{name: m, pathRegex: /metrics, methods: [GET]}, {name: a, pathRegex: '/api/.*'}]}
---
kind: TrafficTarget
apiVersion: access.smi-spec.io/v1alpha3
metadata: {name: t, namespace: shop}
spec:
  destination: {kind: ServiceAccount, name: web, namespace: shop}
  rules: [{kind: HTTPRouteGroup, name: routes}]
  sources: [{kind: ServiceAccount, name: cart, namespace: shop}]
";
    let files = [source, WEB, NAMESPACE];
    let files = files.map(|text| ImportFile::read("smi.yaml", text.as_bytes()).unwrap());
    let imported = smi(&files, None).unwrap();
    // The pod's namespace is written again by the import.
    let exported = export(&format!("{WEB}---\n{}", imported.yaml()));
    let targets: Vec<&str> = exported
        .objects
        .iter()
        .filter(|object| object["kind"] == "TrafficTarget")
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(targets, ["web.8080.1", "web.9090.1"]);
    let group = exported.objects.iter().find(|it| it["kind"] == "HTTPRouteGroup").unwrap();
    let found = &group["spec"]["matches"];
    let expected = ("/metrics$", serde_json::json!(["GET"]));
    let is_said = |it: &serde_json::Value| {
        (it["pathRegex"].as_str().unwrap(), it["methods"].clone()) == expected
    };
    assert!(found.as_array().unwrap().iter().any(is_said), "{found}");
    assert_eq!(found.as_array().unwrap().len(), 2);
}
