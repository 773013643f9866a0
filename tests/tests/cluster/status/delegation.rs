//! Claims, delegations and rules in effect, in the status on a real API server. The times that the
//! status has decide who holds a host, so they outlive the controller, and nobody can predate one.

use super::*;

const FORGED: &str = "2001-01-01T00:00:00Z";

/// A root of `www.example.com` that answers `/` itself, with these further rules.
fn root(namespace: &str, rules: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: root, namespace: {namespace}}}\n\
         spec: {{virtualhost: {{fqdn: www.example.com, \
         targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}}}, \
         routes: [{{match: /, serve: {{}}}}{rules}]}}\n"
    )
}

fn delegation(namespace: &str) -> String {
    format!(", {{match: /team, delegate: {{name: vertex, namespace: {namespace}}}}}")
}

/// An object that answers `/team`, where the root of a namespace delegates it.
fn vertex(namespace: &str, parent: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: vertex, namespace: {namespace}}}\n\
         spec: {{delegatedFrom: [{{fqdn: www.example.com, \
         parent: {{namespace: {parent}, name: root}}}}], \
         routes: [{{match: /team, servers: [{{name: web}}]}}]}}\n"
    )
}

fn grant(namespace: &str, from: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
         metadata: {{name: routes, namespace: {namespace}}}\n\
         spec: {{from: [{{group: portcullis.dev, kind: InboundRoute, namespace: {from}}}], \
         to: [{{group: portcullis.dev, kind: InboundRoute}}]}}\n"
    )
}

/// Waits until a list of an InboundRoute's status is as expected, and returns the object.
async fn shows(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    line: fn(&Value) -> Vec<String>,
    expected: &[&str],
) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let object = get(cluster, Kind::InboundRoute, namespace, name).await;
        let found = line(&object["status"]);
        if found == expected {
            return object;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "{name}: {found:?} instead of {expected:?} in {:#}", object["status"]);
        sleep(Duration::from_millis(50)).await;
    }
}

fn texts(list: &Value, names: &[&str]) -> Vec<String> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    let line = |entry| names.iter().map(|name| text(entry, name)).collect::<Vec<_>>().join(" ");
    list.as_array().into_iter().flatten().map(line).collect()
}

fn claims(status: &Value) -> Vec<String> {
    texts(&status["claims"], &["path", "state", "reason"])
}

fn rules(status: &Value) -> Vec<String> {
    texts(&status["routes"], &["match", "state", "reason"])
}

/// `connected namespace/name prefix`, or `orphaned namespace/name reason`.
fn places(status: &Value) -> Vec<String> {
    let line = |entry: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let (connected, orphaned) = (&entry["state"]["connected"], &entry["state"]["orphaned"]);
        let (word, parent, more) = if connected.is_object() {
            ("connected", &connected["parent"], &connected["parent"]["prefix"])
        } else {
            ("orphaned", &orphaned["lastParent"], &orphaned["reason"])
        };
        format!("{word} {}/{} {}", text(&parent["namespace"]), text(&parent["name"]), text(more))
    };
    status["delegationStatuses"].as_array().into_iter().flatten().map(line).collect()
}

/// The recorded time of the claim on a path.
fn claimed_at<'a>(object: &'a Value, path: &str) -> &'a str {
    let claims = object["status"]["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["path"] == path).unwrap();
    claim["claimedAt"].as_str().unwrap()
}

fn created(object: &Value) -> &str {
    object["metadata"]["creationTimestamp"].as_str().unwrap()
}

async fn apply(cluster: &Cluster, manifest: &str) {
    cluster.apply(manifest).await.unwrap();
}

#[tokio::test]
async fn claims_and_connections_have_the_time_of_their_beginning_and_keep_it() {
    let Some(cluster) = crate::shared().await else { return };
    let prod = &*cluster.namespace("prod").await.unwrap();
    let team = &*cluster.namespace("team").await.unwrap();
    let setup = Setup::within(prod, &[prod, team]);
    let first = replica(cluster, &setup).await;
    for namespace in [prod, team] {
        apply(cluster, &server(namespace, "web", PORT_80)).await;
    }
    apply(cluster, &grant(team, prod)).await;
    apply(cluster, &vertex(team, prod)).await;
    let never = shows(cluster, (team, "vertex"), places, &["orphaned -/- NeverDelegated"]).await;
    assert!(never["status"]["delegationStatuses"][0]["state"]["orphaned"]["since"].is_string());

    apply(cluster, &root(prod, &delegation(team))).await;
    let both = ["/ Active -", "/team Active -"];
    let before = shows(cluster, (prod, "root"), claims, &both).await;
    for path in ["/", "/team"] {
        assert_eq!(claimed_at(&before, path), created(&before), "it has claimed it from the start");
    }
    shows(cluster, (prod, "root"), rules, &["/ Programmed -", "/team Delegated -"]).await;
    shows(cluster, (team, "vertex"), rules, &["/team Programmed -"]).await;
    let connected = [&*format!("connected {prod}/root /team")];
    let reached = shows(cluster, (team, "vertex"), places, &connected).await;
    let connection = reached["status"]["delegationStatuses"][0]["state"]["connected"].clone();
    assert_eq!(connection["hosts"], json!(["www.example.com"]));
    assert!(connection["connectedAt"].is_string(), "{connection}");

    // A claim of an edited object begins with the edit. Those that were there before stay.
    sleep(Duration::from_millis(1100)).await;
    let rules_of_root = format!("{}, {{match: /more, serve: {{}}}}", delegation(team));
    apply(cluster, &root(prod, &rules_of_root)).await;
    let all = ["/ Active -", "/more Active -", "/team Active -"];
    let edited = shows(cluster, (prod, "root"), claims, &all).await;
    assert!(claimed_at(&edited, "/more") > created(&edited), "{edited:#}");
    assert_eq!(claimed_at(&edited, "/team"), created(&edited));

    // Another controller finds everything as it should be.
    first.shut_down().await;
    sleep(Duration::from_millis(1100)).await;
    let edited = get(cluster, Kind::InboundRoute, prod, "root").await;
    let second = replica(cluster, &setup).await;
    second.leads().await;
    apply(cluster, &server(team, "new", "{podSelector: {}, port: 81}")).await;
    told(cluster, (Kind::Server, team, "new"), &["Accepted=True Accepted 1"]).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(second.metrics.written(), 1, "of the new object");
    assert_eq!(get(cluster, Kind::InboundRoute, prod, "root").await, edited);
    let still = shows(cluster, (team, "vertex"), places, &connected).await;
    assert_eq!(still["status"]["delegationStatuses"][0]["state"]["connected"], connection);

    predated(cluster, prod, claimed_at(&edited, "/more")).await;
    assert_eq!(second.metric("resource_status_patch_api_errors"), 0);
}

/// A time before the object is no claim: the claim begins anew, later than it did.
async fn predated(cluster: &Cluster, namespace: &str, before: &str) {
    let routes = api(cluster, Kind::InboundRoute, "v1alpha1", namespace);
    let mut object = get(cluster, Kind::InboundRoute, namespace, "root").await;
    let list = object["status"]["claims"].as_array_mut().unwrap();
    let claim = list.iter_mut().find(|claim| claim["path"] == "/more").unwrap();
    claim["claimedAt"] = json!(FORGED);
    let patch = json!({"status": {"claims": list.clone()}});
    routes.patch_status("root", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    wait_for("the time is replaced", || async {
        let object = get(cluster, Kind::InboundRoute, namespace, "root").await;
        (claimed_at(&object, "/more") != FORGED).then_some(object)
    })
    .await;
    let object = get(cluster, Kind::InboundRoute, namespace, "root").await;
    assert!(claimed_at(&object, "/more") > before, "{object:#}");
    assert_eq!(claimed_at(&object, "/"), created(&object));
}

#[tokio::test]
async fn who_loses_a_grant_or_a_host_is_told_and_the_earlier_claim_wins() {
    let Some(cluster) = crate::shared().await else { return };
    let prod = &*cluster.namespace("prod").await.unwrap();
    let team = &*cluster.namespace("team").await.unwrap();
    let _replica = replica(cluster, &Setup::within(prod, &[prod, team])).await;
    for namespace in [prod, team] {
        apply(cluster, &server(namespace, "web", PORT_80)).await;
    }
    apply(cluster, &grant(team, prod)).await;
    apply(cluster, &vertex(team, prod)).await;
    let manifest = root(prod, &delegation(team));
    apply(cluster, &manifest).await;
    let connected = [&*format!("connected {prod}/root /team")];
    shows(cluster, (team, "vertex"), places, &connected).await;

    cluster.delete(&grant(team, prod)).await.unwrap();
    let orphaned = [&*format!("orphaned {prod}/root GrantRevoked")];
    shows(cluster, (team, "vertex"), places, &orphaned).await;
    let denied = ["/ Programmed -", "/team Blackholed RefNotPermitted"];
    shows(cluster, (prod, "root"), rules, &denied).await;
    wait_for("an event", || async {
        (warnings(cluster, team, "vertex").await.0 == ["GrantRevoked"]).then_some(())
    })
    .await;

    // A root of another namespace comes too late, until the first is gone.
    sleep(Duration::from_millis(1100)).await;
    apply(cluster, &root(team, "")).await;
    let held = shows(cluster, (team, "root"), claims, &["/ Inactive HostAlreadyClaimed"]).await;
    assert!(!held["status"]["claims"].to_string().contains(prod), "nobody's name is told");
    wait_for("an event", || async {
        (warnings(cluster, team, "root").await.0 == ["HostAlreadyClaimed"]).then_some(())
    })
    .await;
    cluster.delete(&manifest).await.unwrap();
    shows(cluster, (team, "root"), claims, &["/ Active -"]).await;
    let removed = [&*format!("orphaned {prod}/root ParentRemoved")];
    shows(cluster, (team, "vertex"), places, &removed).await;
    sleep(Duration::from_millis(1100)).await;
    apply(cluster, &manifest).await;
    let lost = ["/ Inactive HostAlreadyClaimed", "/team Inactive HostAlreadyClaimed"];
    shows(cluster, (prod, "root"), claims, &lost).await;
    shows(cluster, (team, "root"), claims, &["/ Active -"]).await;
}

#[tokio::test]
async fn the_policy_that_counts_shows_the_rules_in_effect() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let ns = &*cluster.namespace("admission").await.unwrap();
    let mut setup = Setup::of(ns);
    setup.settings.namespaces = None;
    let replica = replica(&cluster, &setup).await;
    let kind = Kind::RouteAdmissionPolicy;
    let gvk = GroupVersionKind::gvk(kind.group(), "v1alpha1", kind.as_str());
    let policies: Api<DynamicObject> =
        Api::all_with(cluster.client(), &ApiResource::from_gvk_with_plural(&gvk, kind.plural()));
    for (spec, ownership, wildcards) in [
        ("{}", "Strict", "WildcardsDisallowed"),
        (
            "{namespaceOwnership: InterNamespaceAllowed, wildcardPolicy: WildcardsAllowed}",
            "InterNamespaceAllowed",
            "WildcardsAllowed",
        ),
        ("{namespaceOwnership: Later, wildcardPolicy: Later}", "Strict", "WildcardsDisallowed"),
    ] {
        let manifest = format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
             metadata: {{name: default}}\nspec: {spec}\n"
        );
        apply(&cluster, &manifest).await;
        let expected = json!({"namespaceOwnership": ownership, "wildcardPolicy": wildcards});
        wait_for(spec, || async {
            let object = policies.get("default").await.unwrap();
            let status = &object.data["status"];
            let current = status["conditions"][0]["observedGeneration"].as_i64();
            let told = status["routeAdmission"] == expected;
            (told && current == object.metadata.generation).then_some(())
        })
        .await;
    }
    assert_eq!(replica.metric("resource_status_patch_api_errors"), 0);
}
