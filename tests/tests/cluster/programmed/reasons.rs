//! Every reason of the table in docs/controller.md, each with a manifest, as a real API server shows it
//! after a real controller has written it.

mod table;

use super::proxy::Proxy;
use super::{free, replica};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use policy_crds::Kind;
use policy_testkit::wait_within;
use policy_tests::cluster::{Cluster, cluster_or_skip};
use policy_tests::sources::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use table::{INVALID, MANIFESTS, OTHERS, POLICIES, ROWS, Row, SERVERS};

/// Most that anything may take that is waited for here.
const PATIENCE: Duration = Duration::from_secs(40);

fn server((name, apps, port): (&str, &str, &str)) -> String {
    format!(
        "---\napiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {name}, namespace: NS}}\n\
         spec: {{podSelector: {{matchExpressions: [{{key: app, operator: In, values: [{apps}]}}]}}, \
         port: {port}, proxyProtocol: HTTP/1}}\n"
    )
}

fn manifests(ns: &str) -> String {
    let mut all = format!("{MANIFESTS}---{OTHERS}");
    all += &SERVERS.map(server).concat();
    for (name, kind, target, clients) in POLICIES {
        all += &format!(
            "---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: {name}, namespace: NS}}\n\
             spec: {{targetRef: {{group: policy.linkerd.io, kind: {kind}, name: {target}}}, \
             requiredAuthenticationRefs: [{{group: policy.linkerd.io, \
             kind: MeshTLSAuthentication, name: {clients}}}]}}\n"
        );
    }
    for name in ["everybody", "lost", "of-bare", "unused"] {
        all += &format!(
            "---\napiVersion: policy.linkerd.io/v1alpha1\nkind: MeshTLSAuthentication\n\
             metadata: {{name: {name}, namespace: NS}}\nspec: {{identities: ['*']}}\n"
        );
    }
    all.replace("NS", ns)
}

fn running(ns: &str, names: &[&str]) -> String {
    let status = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {ns}}}\n\
             status: {{phase: Running}}\n---\n"
        )
    };
    names.iter().map(status).collect()
}

fn api(cluster: &Cluster, kind: Kind, ns: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(kind.group(), kind.versions()[0], kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    Api::namespaced_with(cluster.client(), ns, &resource)
}

/// The whole conditions of an object that are about its generation; of a route, about its parent.
async fn conditions(cluster: &Cluster, ns: &str, kind: Kind, name: &str) -> Vec<String> {
    let object = api(cluster, kind, ns).get(name).await.unwrap();
    let status = &object.data["status"];
    let holder = if kind.is_route() { &status["parents"][0] } else { status };
    let line = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or("-").to_owned();
        let (kind, status) = (text("type"), text("status"));
        format!("{kind}={status} {}: {}", text("reason"), text("message"))
    };
    let mut lines: Vec<String> =
        holder["conditions"].as_array().into_iter().flatten().map(line).collect();
    lines.sort();
    lines
}

/// Waits until objects are told this, and no longer than until `deadline`: what they are told else.
async fn until_told(cluster: &Cluster, ns: &str, rows: &[Row]) {
    let deadline = Instant::now() + PATIENCE;
    let mut wrong = Vec::new();
    for (kind, name, expected) in rows {
        let filled = |line: &&str| line.replace("NS", ns).replace("INVALID", INVALID);
        let mut expected: Vec<String> = expected.iter().map(filled).collect();
        expected.sort();
        loop {
            let told = conditions(cluster, ns, *kind, name).await;
            if told == expected {
                break;
            }
            if Instant::now() > deadline {
                wrong.push(format!("{kind:?} {name}: {told:#?} instead of {expected:#?}"));
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The Warnings about objects: `name reason`, each as often as it is there.
async fn warnings(cluster: &Cluster, ns: &str) -> Vec<String> {
    let api: Api<Event> = Api::namespaced(cluster.client(), ns);
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let warning = all.into_iter().filter(|event| event.type_.as_deref() == Some("Warning"));
    let mut told: Vec<String> = warning
        .map(|event| {
            let name = event.regarding.and_then(|regarding| regarding.name).unwrap_or_default();
            format!("{name} {}", event.reason.unwrap_or_default())
        })
        .collect();
    told.sort();
    told
}

/// The reasons of a condition that the table of the documentation has.
fn documented(condition: &str) -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("docs/controller.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with(&format!("| `{condition}` |")));
    let reasons = rows.filter_map(|line| Some(line.split('|').nth(3)?.trim().trim_matches('`')));
    reasons.filter(|reason| !reason.is_empty()).map(str::to_owned).collect()
}

/// Columns that `kubectl get` shows of an object, by heading.
async fn columns(cluster: &Cluster, ns: &str, kind: Kind, name: &str) -> Vec<(String, Value)> {
    let path = format!(
        "/apis/{}/{}/namespaces/{ns}/{}/{name}",
        kind.group(),
        kind.versions()[0],
        kind.plural()
    );
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = cluster.client().request(request).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let names = names.map(|column| column["name"].as_str().unwrap().to_owned());
    names.zip(table["rows"][0]["cells"].as_array().unwrap().iter().cloned()).collect()
}

async fn cell(cluster: &Cluster, ns: &str, (kind, name): (Kind, &str), heading: &str) -> Value {
    let columns = columns(cluster, ns, kind, name).await;
    let found = columns.iter().find(|(name, _)| name == heading);
    found.unwrap_or_else(|| panic!("{kind:?} has no column {heading}: {columns:?}")).1.clone()
}

#[tokio::test]
async fn what_is_in_force_nowhere_says_so_and_why() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let home = cluster.namespace("home").await.unwrap();
    let ns = &*cluster.namespace("reasons").await.unwrap();
    let [at, ..] = free();
    let mut controller = replica(cluster.kubeconfig(), &home, at, &[at]).await;
    let _web = Proxy::of(&format!("{ns}:web"), &[at]);
    // The Server that comes first is the older one.
    cluster.apply(&manifests(ns)).await.unwrap();
    let running = running(ns, &["web", "silent", "bare", "linkerd", "mixed-0", "mixed-1", "skips"]);
    cluster.apply_status(&running).await.unwrap();
    until_told(&cluster, ns, ROWS).await;
    columns_say_why(&cluster, ns).await;
    events_say_what_changed(&cluster, ns).await;
    // Another controller finds everything as it should be, and tells nothing again.
    let before = warnings(&cluster, ns).await;
    controller.kill();
    let [at, ..] = free();
    let _second = replica(cluster.kubeconfig(), &home, at, &[at]).await;
    cluster.apply(&server(("newer", "linkerd", "9090")).replace("NS", ns)).await.unwrap();
    let linkerd = ROWS.iter().find(|(_, name, _)| *name == "linkerd").unwrap();
    until_told(&cluster, ns, &[(linkerd.0, "newer", linkerd.2)]).await;
    assert_eq!(warnings(&cluster, ns).await, before);
}

/// `REASON` is that of the first condition that is not true; nothing where all are.
async fn columns_say_why(cluster: &Cluster, ns: &str) {
    for (object, expected) in [
        ((Kind::Server, "a-web"), None),
        ((Kind::Server, "b-web"), Some("Conflicted")),
        ((Kind::Server, "typo"), Some("NoTarget")),
        ((Kind::AuthorizationPolicy, "no-clients"), Some("RefNotFound")),
        ((Kind::MeshTlsAuthentication, "unused"), Some("NotReferenced")),
        ((Kind::PolicyHttpRoute, "bare"), Some("NoSidecar")),
        ((Kind::HttpLocalRateLimitPolicy, "bare"), Some("NoSidecar")),
    ] {
        let found = cell(cluster, ns, object, "Reason").await;
        assert_eq!(found.as_str(), expected, "{object:?}");
    }
    let server = async |name| cell(cluster, ns, (Kind::ServerAuthorization, name), "Server").await;
    assert_eq!(server("labels").await, r#"{"matchLabels":{"role":"none"}}"#);
    assert_eq!(server("named").await, "bare");
}

/// A conflict, a target that goes and a reference that breaks are an Event each, on the object.
async fn events_say_what_changed(cluster: &Cluster, ns: &str) {
    let told = |expected: &'static [&'static str]| async move {
        let what = format!("the Warnings {expected:?}");
        wait_within(&what, PATIENCE, async || warnings(cluster, ns).await == expected).await;
    };
    told(&["b-web Conflicted"]).await;
    let authentication = api(cluster, Kind::MeshTlsAuthentication, ns);
    authentication.delete("of-bare", &Default::default()).await.unwrap();
    told(&["b-web Conflicted", "bare RefNotFound"]).await;
    api(cluster, Kind::Server, ns).delete("mixed", &Default::default()).await.unwrap();
    api(cluster, Kind::Server, ns).delete("bare", &Default::default()).await.unwrap();
    // The policy, the rate limit, the route and the ServerAuthorization have lost their Server.
    told(&[
        "b-web Conflicted",
        "bare NoMatchingParent",
        "bare NoMatchingTarget",
        "bare NoMatchingTarget",
        "bare RefNotFound",
        "named NoMatchingTarget",
    ])
    .await;
}

#[test]
fn the_table_of_the_documentation_and_the_rows_have_the_same_reasons() {
    let walked = |condition: &str| -> BTreeSet<String> {
        let lines = ROWS.iter().flat_map(|(_, _, lines)| *lines);
        let own = lines.filter_map(|line| line.strip_prefix(condition)?.strip_prefix('='));
        own.filter_map(|line| Some(line.split([' ', ':']).nth(1)?.to_owned())).collect()
    };
    // Each of these is walked by a test of its own, named beside it.
    let elsewhere: BTreeSet<String> = [
        "Refused",            // discovery: counts of proxies that refuse
        "ReplicasUnknown",    // discovery: counts where nobody says who the others are
        "ReplicaUnreachable", // counts_in_status_are_those_of_all_replicas_whoever_leads
        "StoppedMatching",    // a_policy_that_stops_matching_is_told_so
        "NotUsed",            // engine: counts_become_status_reason_and_words
    ]
    .map(str::to_owned)
    .into();
    let mut expected = walked("Programmed");
    assert!(expected.is_disjoint(&elsewhere), "{expected:?}");
    expected.extend(elsewhere);
    assert_eq!(documented("Programmed"), expected);
}
