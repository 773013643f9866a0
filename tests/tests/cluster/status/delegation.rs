//! Claims, delegations and rules in effect, in the status on a real API server. The times that the
//! status has decide who holds a host, so they outlive the controller, and nobody can predate one.

use super::*;
use policy_core::ServerPolicy;
use policy_engine::desired_conditions::StatusFields;

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

/// `connected namespace/name prefix`, or `orphaned namespace/name reason`, or the same with `rejected`.
fn places(status: &Value) -> Vec<String> {
    let line = |entry: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let state = |name: &str| &entry["state"][name];
        let (connected, orphaned) = (state("connected"), state("orphaned"));
        let rejected = state("rejected");
        let (word, parent, more) = if connected.is_object() {
            ("connected", &connected["parent"], &connected["parent"]["prefix"])
        } else if rejected.is_object() {
            ("rejected", &rejected["parent"], &rejected["reason"])
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

    // Who holds a host as a whole claimed it with its first path.
    sleep(Duration::from_millis(1100)).await;
    let rules_of_root = format!("{}, {{match: /more, serve: {{}}}}", delegation(team));
    apply(cluster, &root(prod, &rules_of_root)).await;
    let all = ["/ Active -", "/more Active -", "/team Active -"];
    let edited = shows(cluster, (prod, "root"), claims, &all).await;
    for path in ["/", "/more", "/team"] {
        assert_eq!(claimed_at(&edited, path), created(&edited), "{edited:#}");
    }

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

    let further = root(prod, &format!("{rules_of_root}, {{match: /further, serve: {{}}}}"));
    predated(cluster, prod, &further, claimed_at(&edited, "/more")).await;
    assert_eq!(second.metric("resource_status_patch_api_errors"), 0);
}

/// A time before the object is none: the claim keeps that of its host, which the next status says.
async fn predated(cluster: &Cluster, namespace: &str, edited: &str, before: &str) {
    let routes = api(cluster, Kind::InboundRoute, "v1alpha1", namespace);
    let mut object = get(cluster, Kind::InboundRoute, namespace, "root").await;
    let list = object["status"]["claims"].as_array_mut().unwrap();
    let claim = list.iter_mut().find(|claim| claim["path"] == "/more").unwrap();
    claim["claimedAt"] = json!(FORGED);
    let patch = json!({"status": {"claims": list.clone()}});
    routes.patch_status("root", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    apply(cluster, edited).await;
    wait_for("the time is replaced", || async {
        let object = get(cluster, Kind::InboundRoute, namespace, "root").await;
        (claimed_at(&object, "/more") != FORGED).then_some(object)
    })
    .await;
    let object = get(cluster, Kind::InboundRoute, namespace, "root").await;
    assert_eq!(claimed_at(&object, "/more"), before, "{object:#}");
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
    let refused = format!("rejected {prod}/root RefNotPermitted");
    let revoked = format!("orphaned {prod}/root GrantRevoked");
    shows(cluster, (team, "vertex"), places, &[&revoked, &refused]).await;
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

/// An answer about both namespaces: the policies of their pods, and the claims of their roots.
type Answer = (Vec<std::sync::Arc<ServerPolicy>>, Vec<(String, bool)>);

async fn answer(replica: &Replica, namespaces: [&str; 2]) -> Option<Answer> {
    let (mut policies, mut claims) = (Vec::new(), Vec::new());
    for namespace in namespaces {
        policies.push(replica.policy(namespace, "web-0").await?);
        let name = "root".into();
        let key = ObjectKey { kind: Kind::InboundRoute, namespace: namespace.into(), name };
        let Some(StatusFields::Delegation(Some(state))) = replica.fields(&key).await else {
            return None;
        };
        let claim = |claim: policy_engine::delegation::ClaimEntry| {
            (format!("{namespace} {} {}", claim.host, claim.path.as_str()), claim.active)
        };
        claims.extend(state.claims.iter().map(claim));
    }
    Some((policies, claims))
}

/// The answer of all replicas, once it is one answer with these claims.
async fn agreed(
    replicas: &[Replica],
    namespaces: [&str; 2],
    expected: &[(String, bool)],
) -> Answer {
    wait_for("they agree", || async {
        let answers = replicas.iter().map(|replica| answer(replica, namespaces));
        let answers = futures_util::future::join_all(answers).await;
        let first = answers.first()?.clone()?;
        let same = answers.iter().all(|other| other.as_ref() == Some(&first));
        (same && first.1 == expected).then_some(first)
    })
    .await
}

/// The two roots as they are stored, made anew until both are of one second.
async fn of_one_second(cluster: &Cluster, namespaces: [&str; 2]) -> [Value; 2] {
    let [one, two] = namespaces;
    let roots = || async {
        let (one, two) = (root(one, ""), root(two, ""));
        let made = futures_util::join!(cluster.apply(&two), cluster.apply(&one));
        made.0.and(made.1).unwrap();
        let get = |namespace| get(cluster, Kind::InboundRoute, namespace, "root");
        [get(namespaces[0]).await, get(namespaces[1]).await]
    };
    for _ in 0..20 {
        let made = roots().await;
        if created(&made[0]) == created(&made[1]) {
            return made;
        }
        cluster.delete(&root(one, "")).await.unwrap();
        cluster.delete(&root(two, "")).await.unwrap();
    }
    panic!("two objects are never made in the same second");
}

#[tokio::test]
async fn replicas_agree_on_claims_of_the_same_second_and_a_new_leader_keeps_their_times() {
    let Some(cluster) = crate::shared().await else { return };
    let one = &*cluster.namespace("agree-a").await.unwrap();
    let two = &*cluster.namespace("agree-b").await.unwrap();
    let namespaces = [one, two];
    let setup = Setup { lease: Duration::from_secs(4), ..Setup::within(one, &namespaces) };
    for namespace in namespaces {
        apply(cluster, &server(namespace, "web", PORT_80)).await;
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-0, namespace: {namespace}}}\n\
             spec: {{containers: [{{name: a, image: a, ports: [{{containerPort: 80}}]}}]}}\n"
        );
        apply(cluster, &pod).await;
    }
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(cluster, &setup).await);
    }
    let made = of_one_second(cluster, namespaces).await;
    let claim = |namespace: &str, path: &str, active| {
        (format!("{namespace} www.example.com {path}"), active)
    };
    let expected = [claim(one, "/", true), claim(two, "/", false)];
    let before = agreed(&replicas, namespaces, &expected).await;
    shows(cluster, (one, "root"), claims, &["/ Active -"]).await;
    let lost = shows(cluster, (two, "root"), claims, &["/ Inactive HostAlreadyClaimed"]).await;
    assert_eq!(claimed_at(&lost, "/"), created(&made[1]));

    // The leader is killed. From an edit on the recorded times decide.
    let leads = |replica: &Replica| replica.leadership.is_leader();
    let leader = wait_for("one leads", || async { replicas.iter().position(leads) }).await;
    drop(replicas.remove(leader));
    assert_eq!(agreed(&replicas, namespaces, &expected).await, before);
    wait_for("another leads", || async { replicas.iter().any(leads).then_some(()) }).await;
    assert_eq!(agreed(&replicas, namespaces, &expected).await, before);
    sleep(Duration::from_millis(1100)).await;
    for namespace in [two, one] {
        apply(cluster, &root(namespace, ", {match: /more, serve: {}}")).await;
    }
    let held = shows(cluster, (one, "root"), claims, &["/ Active -", "/more Active -"]).await;
    let none = ["/ Inactive HostAlreadyClaimed", "/more Inactive HostAlreadyClaimed"];
    let lost = shows(cluster, (two, "root"), claims, &none).await;
    for (object, made) in [(&held, &made[0]), (&lost, &made[1])] {
        assert_eq!(claimed_at(object, "/"), created(made), "{object:#}");
    }
    let expected = [
        claim(one, "/", true),
        claim(one, "/more", true),
        claim(two, "/", false),
        claim(two, "/more", false),
    ];
    assert_ne!(agreed(&replicas, namespaces, &expected).await, before);
}

#[tokio::test]
async fn the_policy_that_counts_shows_the_rules_in_effect_and_they_are() {
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
    paths_have_times_of_their_own(&cluster, ns).await;
    assert_eq!(replica.metric("resource_status_patch_api_errors"), 0);
}

/// Where namespaces share hosts, a path that is added is claimed from the edit on.
async fn paths_have_times_of_their_own(cluster: &Cluster, ns: &str) {
    let shared = "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
                  metadata: {name: default}\nspec: {namespaceOwnership: InterNamespaceAllowed}\n";
    apply(cluster, shared).await;
    apply(cluster, &server(ns, "web", PORT_80)).await;
    apply(cluster, &root(ns, "")).await;
    shows(cluster, (ns, "root"), claims, &["/ Active -"]).await;
    sleep(Duration::from_millis(1100)).await;
    apply(cluster, &root(ns, ", {match: /more, serve: {}}")).await;
    let both = ["/ Active -", "/more Active -"];
    let edited = shows(cluster, (ns, "root"), claims, &both).await;
    assert_eq!(claimed_at(&edited, "/"), created(&edited));
    assert!(claimed_at(&edited, "/more") > created(&edited), "{edited:#}");
}
