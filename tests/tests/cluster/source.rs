//! The source of objects that a cluster's API server is: what is created, changed and deleted there
//! is what the index is told, whatever the API server allows or forgets.

pub(crate) mod followed;
mod manifests;

use followed::{Followed, client_of, config, text_of};
use k8s_openapi::api::rbac::v1::PolicyRule;
use policy_crds::resource::Resource;
use policy_crds::{Body, Kind, Object};
use policy_engine::source::{WatchKey, WatchState};
use policy_kube::rbac;
use policy_kube::source::{Freshness, KubernetesConfig, Scope};
use policy_testkit::long_or;
use policy_tests::cluster::{Cluster, cluster_or_skip, documents};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Object that a directory makes of the same manifest, without the fields that only an API server sets.
fn as_written(yaml: &str) -> Object {
    let values = documents(yaml).unwrap();
    without_history(&policy_crds::parse(&values[0]).unwrap())
}

fn without_history(object: &Object) -> Object {
    let mut object = object.clone();
    object.meta.uid = None;
    object.meta.created = None;
    object.meta.generation = None;
    // Of a pod that no kubelet has started, the time at which it was made.
    if let Body::Valid(Resource::Pod(pod)) = &mut object.body {
        pod.started = None;
    }
    // The version of its state.
    if let Body::Valid(Resource::EndpointSlice(slice)) = &mut object.body {
        slice.version = None;
    }
    // In a cluster EndpointSlices say where a Service leads.
    if let Body::Valid(Resource::Service(service)) = &mut object.body {
        service.selector.clear();
        service.ports.iter_mut().for_each(|port| port.target = None);
    }
    object
}

#[tokio::test]
async fn every_kind_is_told_as_created_made_invalid_and_deleted() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("kinds").await.unwrap();
    let mut followed = Followed::start(cluster.client(), config(&namespace)).await;
    followed.synced(1).await;
    let mut kinds = BTreeSet::new();
    for manifest in manifests::all(&namespace) {
        let created = as_written(&manifest.valid);
        let key = created.meta.key.clone();
        kinds.insert(key.kind);
        cluster.apply(&manifest.valid).await.unwrap();
        followed
            .until(&manifest.valid, |seen| seen.is(&key, |o| without_history(o) == created))
            .await;
        assert!(matches!(created.body, Body::Valid(_)), "{:?}", created.body);
        if let Some(yaml) = &manifest.invalid {
            let invalid = as_written(yaml);
            assert!(matches!(invalid.body, Body::Invalid(_)), "{key} is valid: {yaml}");
            cluster.apply(yaml).await.unwrap();
            followed.until(yaml, |seen| seen.is(&key, |o| without_history(o) == invalid)).await;
        }
        let object = followed.seen.objects[&key].clone();
        let is_known = object.meta.uid.is_some() && object.meta.created.is_some();
        assert!(is_known || key.kind.is_for_discovery(), "{key}");
        cluster.delete(&manifest.valid).await.unwrap();
        followed.until("deletion", |seen| !seen.objects.contains_key(&key)).await;
    }
    assert_eq!(kinds, Kind::watched().chain(Kind::watched_for_discovery()).collect());
    assert!(followed.seen.versions.len() >= kinds.len(), "{:?}", followed.seen.versions);
}

#[tokio::test]
async fn a_refresh_lists_everything_again_and_ends_with_synced() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("refresh").await.unwrap();
    let mut followed = Followed::start(cluster.client(), config(&namespace)).await;
    followed.synced(1).await;
    let lists = followed.metric("kube_watch_lists_total");
    for round in 2..4 {
        let server = manifests::server(&namespace, &format!("s{round}"));
        cluster.apply(&server).await.unwrap();
        followed.refresh();
        followed.synced(round).await;
        // The list began after the notice, and so after the object.
        let key = as_written(&server).meta.key;
        assert!(followed.seen.objects.contains_key(&key));
    }
    let watches = followed.health().watches.len();
    assert!(followed.metric("kube_watch_lists_total") >= lists + 2 * watches as u64);
}

#[tokio::test]
async fn a_burst_of_objects_is_told_completely_and_in_few_batches() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("burst").await.unwrap();
    let mut followed = Followed::start(cluster.client(), config(&namespace)).await;
    followed.synced(1).await;
    let batches = followed.seen.batches;
    let objects = cluster.objects();
    let created = (0..10).map(|worker| {
        let (objects, namespace) = (objects.clone(), namespace.clone());
        async move {
            for number in 0..100 {
                let server = manifests::server(&namespace, &format!("s{worker}-{number}"));
                objects.apply(&server).await.unwrap();
            }
        }
    });
    futures_util::future::join_all(created).await;
    let servers = |seen: &followed::Seen| {
        let of_kind = seen.objects.keys().filter(|key| key.kind == Kind::Server);
        of_kind.filter(|key| *key.namespace == namespace).count()
    };
    followed.until("1,000 Servers", |seen| servers(seen) == 1_000).await;
    assert!(followed.seen.batches - batches < 1_000, "{} batches", followed.seen.batches - batches);
    // A list in pages is the same as what was told one by one.
    let paged = KubernetesConfig { page_size: 37, ..config(&namespace) };
    let mut fresh = Followed::start(cluster.client(), paged).await;
    fresh.synced(1).await;
    assert_eq!(servers(&fresh.seen), 1_000);
    let of_namespace = |seen: &followed::Seen| -> BTreeMap<_, _> {
        let own = seen.objects.iter().filter(|(key, _)| *key.namespace == namespace);
        own.map(|(key, object)| (key.clone(), object.clone())).collect()
    };
    assert_eq!(of_namespace(&fresh.seen), of_namespace(&followed.seen));
}

#[tokio::test]
async fn bookmarks_keep_a_watch_fresh_in_which_nothing_happens() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("quiet").await.unwrap();
    cluster.apply(&manifests::server(&namespace, "quiet")).await.unwrap();
    let freshness = Freshness { bound: Duration::from_secs(100) };
    let config = KubernetesConfig { freshness, ..config(&namespace) };
    let mut followed = Followed::start(cluster.client(), config).await;
    followed.synced(1).await;
    let began = Instant::now();
    let (quiet, end) = (long_or("QUIET", 0) as u64, began + Duration::from_secs(90));
    let bookmarked = "kube_watch_events_total{op=\"bookmark\"";
    while (Instant::now() < end && followed.metric(bookmarked) == 0)
        || began.elapsed() < Duration::from_secs(quiet)
    {
        followed.drain(Duration::from_secs(1)).await;
        let health = followed.health();
        let late = freshness.stale(&health, Instant::now());
        assert_eq!((Freshness::unlisted(&health), late), (vec![], vec![]));
    }
    assert!(followed.metric(bookmarked) > 0, "no bookmark in 90 s");
    assert_eq!(followed.metric("kube_watch_errors_total"), 0, "{}", followed.metrics());
}

/// Roles that let `user` do what the controller has to in these namespaces, and bindings.
fn roles(user: &str, namespaces: &[&str], control_plane: &str) -> String {
    let role = |namespace: &str, name: &str, rules: Vec<PolicyRule>| {
        let role = rbac::yaml(&rbac::role(namespace, name, rules)).unwrap();
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        format!("{role}---\n{binding}\n---\n")
    };
    let mut yaml = role(control_plane, "control-plane", rbac::control_plane_rules());
    for namespace in namespaces {
        yaml += &role(namespace, "watched", rbac::namespace_rules());
    }
    yaml
}

#[tokio::test]
async fn with_roles_alone_nothing_outside_the_namespaces_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
        rules: [{level: Metadata, users: [controller]}, {level: Metadata}]\n";
    std::fs::write(&policy, rules).unwrap();
    let builder = Cluster::builder()
        .api_server_flag(&format!("--audit-policy-file={}", policy.display()))
        .api_server_flag(&format!("--audit-log-path={}", log.display()));
    let Some(cluster) = cluster_or_skip(builder).await else { return };
    cluster.install_crds().await.unwrap();
    let mut names = Vec::new();
    for prefix in ["a", "b", "outside", "control"] {
        names.push(cluster.namespace(prefix).await.unwrap());
    }
    let [a, b, outside, control] = [&names[0], &names[1], &names[2], &names[3]];
    cluster.apply(&roles("controller", &[a, b], control)).await.unwrap();
    for namespace in [a, b, outside] {
        cluster.apply(&manifests::server(namespace, "s")).await.unwrap();
    }
    let kubeconfig = cluster.kubeconfig_for("controller", &["system:authenticated"]).unwrap();
    let scope = Scope::Namespaces([a.as_str().into(), b.as_str().into()].into());
    let node: BTreeMap<Arc<str>, _> = [("n".into(), vec!["10.0.0.1".parse().unwrap()])].into();
    let config = KubernetesConfig { scope, nodes: node, ..config(control) };
    let mut followed = Followed::start(client_of(&kubeconfig).await, config).await;
    followed.synced(1).await;
    let found: Vec<String> = followed.seen.objects.keys().map(ToString::to_string).collect();
    let mut expected = vec![format!("Server {a}/s"), format!("Server {b}/s")];
    expected.sort();
    expected.extend([format!("Namespace {a}"), format!("Namespace {b}"), "Node n".to_owned()]);
    assert_eq!(found, expected);
    // What happens inside is told, of the namespace itself too.
    cluster.delete(&manifests::server(b, "s")).await.unwrap();
    let annotated = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {a}, annotations: \
         {{config.linkerd.io/default-inbound-policy: deny}}}}\n"
    );
    cluster.apply(&annotated).await.unwrap();
    let key = as_written(&annotated).meta.key;
    followed
        .until("the deletion and the annotation", |seen| {
            !seen.has(&format!("Server {b}/s"))
                && seen.is(&key, |o| {
                    o.meta.annotations.get("config.linkerd.io/default-inbound-policy")
                        == Some(&"deny".into())
                })
        })
        .await;
    followed.refresh();
    followed.synced(2).await;
    assert_eq!(followed.metric("kube_watch_errors_total"), 0, "{}", followed.metrics());
    followed.end().await;
    check_audit(&std::fs::read_to_string(&log).unwrap(), &[a, b, control]);
}

/// Every request of the controller was allowed, and none was about anything outside.
fn check_audit(log: &str, inside: &[&str]) {
    let mut requests = 0;
    // The API server goes on writing: its last line may be there in part only.
    let (whole, _) = log.rsplit_once('\n').unwrap_or_default();
    for line in whole.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["impersonatedUser"]["username"] != "controller" {
            continue;
        }
        requests += 1;
        assert_ne!(event["responseStatus"]["code"], 403, "{line}");
        let Some(object) = event.get("objectRef") else {
            // Discovery.
            let uri = event["requestURI"].as_str().unwrap();
            assert!(uri.starts_with("/apis/") && uri.matches('/').count() == 3, "{uri}");
            continue;
        };
        let namespace = object["namespace"].as_str().unwrap_or_default();
        assert!(inside.contains(&namespace), "{line}");
    }
    assert!(requests > 30, "{requests} requests were logged");
}

#[tokio::test]
async fn what_may_not_be_listed_is_named_and_heals_when_it_is_granted() {
    let Some(cluster) = crate::shared().await else { return };
    let a = cluster.namespace("rbac").await.unwrap();
    let user = format!("user-{a}");
    let mut rules = rbac::namespace_rules();
    rules.retain(|rule| rule.api_groups != Some(vec!["policy.linkerd.io".to_owned()]));
    let all = roles(&user, &[&a], &a);
    let fewer = rbac::yaml(&rbac::role(&a, "watched", rules)).unwrap();
    cluster.apply(&all).await.unwrap();
    cluster.apply(&fewer).await.unwrap();
    cluster.apply(&manifests::server(&a, "s")).await.unwrap();
    let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
    let scope = Scope::Namespaces([a.as_str().into()].into());
    let config = KubernetesConfig { scope, ..config(&a) };
    let freshness = config.freshness;
    let mut followed = Followed::start(client_of(&kubeconfig).await, config).await;
    let servers = WatchKey { kind: Kind::Server, namespace: Some(a.as_str().into()) };
    let wanted = format!(
        "servers.policy.linkerd.io of namespace {a} cannot be listed: may not list and watch servers \
         of API group policy.linkerd.io in namespace {a}: grant both verbs; "
    );
    let reason = followed
        .health_until(|health| {
            let late = freshness.stale(health, Instant::now());
            let reasons = [Freshness::unlisted(health), late].concat();
            reasons.into_iter().find(|reason| reason.starts_with(&wanted))
        })
        .await;
    assert!(reason.contains("is forbidden: User"), "{reason}");
    assert_eq!(followed.seen.synced, 0);
    cluster.apply(&all).await.unwrap();
    followed.synced(1).await;
    assert!(followed.seen.has(&format!("Server {a}/s")));
    // Taken away again: what is held stays, and the next list fails.
    cluster.apply(&fewer).await.unwrap();
    let client = client_of(&kubeconfig).await;
    let collection = format!("/apis/policy.linkerd.io/v1beta3/namespaces/{a}/servers");
    let refused = async || {
        let request = http::Request::get(&collection).body(Vec::new()).unwrap();
        matches!(client.request::<Value>(request).await,
            Err(kube::Error::Api(status)) if status.code == 403)
    };
    while !refused().await {
        // The API server takes a moment to learn of a Role.
        followed.drain(Duration::from_millis(100)).await;
    }
    followed.refresh();
    let state = |health: &policy_engine::source::Health| health.watches[&servers].state.clone();
    followed
        .health_until(|health| matches!(state(health), WatchState::Failing { .. }).then_some(()))
        .await;
    assert!(followed.seen.has(&format!("Server {a}/s")));
    assert_eq!(followed.seen.synced, 1);
    cluster.apply(&all).await.unwrap();
    followed.synced(2).await;
    // Reports are renewed a few times a second.
    let follows = |health: &_| (state(health) == WatchState::Following).then_some(());
    followed.health_until(follows).await;
}

#[tokio::test]
async fn definitions_appear_and_vanish_and_lax_ones_hide_nothing() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    let mut followed = Followed::start(cluster.client(), config("kube-system")).await;
    let key = |kind| WatchKey { kind, namespace: None };
    // Nothing is installed yet.
    let missing = followed
        .health_until(|health| match &health.watches[&key(Kind::Server)].state {
            WatchState::Failing { error } => Some(error.clone()),
            _ => None,
        })
        .await;
    assert!(missing.contains("CustomResourceDefinition has to be installed"), "{missing}");
    followed
        .health_until(|health| {
            (health.watches[&key(Kind::GrpcRoute)].state == WatchState::Absent).then_some(())
        })
        .await;
    cluster.install_linkerd_crds().await.unwrap();
    followed.synced(1).await;
    followed
        .health_until(|health| {
            (health.watches[&key(Kind::GrpcRoute)].state == WatchState::Following).then_some(())
        })
        .await;
    let namespace = cluster.namespace("lax").await.unwrap();
    let route = manifests::grpc_route(&namespace);
    cluster.apply(&route).await.unwrap();
    let route_key = as_written(&route).meta.key;
    followed.until("the route", |seen| seen.is(&route_key, |_| true)).await;

    lax_definitions_hide_nothing(&cluster, &namespace, &mut followed).await;
    an_optional_kind_vanishes_and_comes_back(&cluster, &route, &mut followed).await;

    let objects = cluster.objects();
    // A required kind that vanishes is an error; the others go on.
    objects.delete(&text_of(&definition("servers.policy.linkerd.io"))).await.unwrap();
    let error = followed
        .health_until(|health| match &health.watches[&key(Kind::Server)].state {
            WatchState::Failing { error } if error.contains("has to be installed") => {
                Some(error.clone())
            }
            _ => None,
        })
        .await;
    assert!(error.contains("servers of policy.linkerd.io"), "{error}");
    objects.delete(&route).await.unwrap();
    followed.until("the end of the route", |seen| !seen.objects.contains_key(&route_key)).await;
}

fn definition(name: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": name}})
}

async fn lax_definitions_hide_nothing(cluster: &Cluster, namespace: &str, followed: &mut Followed) {
    // A definition without a schema lets everything through.
    let objects = cluster.objects();
    let mut lax = objects.get(&definition("referencegrants.gateway.networking.k8s.io")).await;
    let mut lax = lax.as_mut().unwrap().take().unwrap();
    for version in lax["spec"]["versions"].as_array_mut().unwrap() {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        version["schema"] = json!({"openAPIV3Schema": open});
    }
    lax["metadata"] = json!({
        "name": lax["metadata"]["name"], "annotations": lax["metadata"]["annotations"],
    });
    lax.as_object_mut().unwrap().remove("status");
    objects.install_one(&lax).await.unwrap();
    for (name, spec) in
        [("list", "[]"), ("text", "none"), ("nothing", "null"), ("odd", "{from: 7}")]
    {
        let grant = format!(
            "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
             metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"
        );
        let expected = as_written(&grant);
        let key = expected.meta.key.clone();
        let mut applied = Err(anyhow::anyhow!("not applied"));
        for _ in 0..50 {
            applied = objects.apply(&grant).await;
            if applied.is_ok() {
                break;
            }
            // The API server takes a moment to forget the schema that it had.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        applied.unwrap();
        followed.until(name, |seen| seen.is(&key, |o| without_history(o) == expected)).await;
        let object = followed.seen.objects[&key].clone();
        assert!(matches!(object.body, Body::Invalid(_)), "{name}: {object:?}");
        objects.delete(&grant).await.unwrap();
        followed.until("deletion", |seen| !seen.objects.contains_key(&key)).await;
    }
}

async fn an_optional_kind_vanishes_and_comes_back(
    cluster: &Cluster,
    route: &str,
    followed: &mut Followed,
) {
    let objects = cluster.objects();
    let route_key = as_written(route).meta.key;
    let key = |kind| WatchKey { kind, namespace: None };
    // An optional kind vanishes, its objects stay in force, and it comes back.
    let grpc = definition("grpcroutes.gateway.networking.k8s.io");
    let installed = objects.get(&grpc).await.unwrap().unwrap();
    objects.delete(&text_of(&grpc)).await.unwrap();
    followed.until("the kept route", |seen| seen.kept.contains(&route_key)).await;
    followed
        .health_until(|health| {
            (health.watches[&key(Kind::GrpcRoute)].state == WatchState::Absent).then_some(())
        })
        .await;
    assert!(followed.seen.objects.contains_key(&route_key));
    let mut again = installed.clone();
    again["metadata"] = json!({
        "name": grpc["metadata"]["name"], "annotations": installed["metadata"]["annotations"],
    });
    again.as_object_mut().unwrap().remove("status");
    objects.install_one(&again).await.unwrap();
    objects.apply(route).await.unwrap();
    followed.until("the route again", |seen| !seen.kept.contains(&route_key)).await;
}

#[tokio::test]
async fn a_replica_that_starts_without_a_definition_in_use_is_never_synced() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_linkerd_crds().await.unwrap();
    let namespace = cluster.namespace("in-use").await.unwrap();
    let lease = |kinds: &str| {
        format!(
            "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  \
             name: portcullis-policy-controller\n  namespace: {namespace}\n  annotations: \
             {{portcullis.dev/kinds-in-use: '{kinds}'}}\n"
        )
    };
    let objects = cluster.objects();
    let grpc = definition("grpcroutes.gateway.networking.k8s.io");
    let key = |kind| WatchKey { kind, namespace: None };
    let installed = objects.get(&grpc).await.unwrap().unwrap();
    objects
        .apply(&lease("servers.policy.linkerd.io, grpcroutes.gateway.networking.k8s.io"))
        .await
        .unwrap();
    objects.delete(&text_of(&grpc)).await.unwrap();
    while objects.get(&grpc).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut followed = Followed::start(cluster.client(), config(&namespace)).await;
    let error = followed
        .health_until(|health| match &health.watches[&key(Kind::GrpcRoute)].state {
            WatchState::Failing { error } => Some(error.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        &*error,
        "the definition of grpcroutes.gateway.networking.k8s.io is gone, whose objects were in use \
         when this replica started: restore it; or, if they are to end, remove the annotation \
         portcullis.dev/kinds-in-use from the Lease and restart the controller"
    );
    followed.drain(Duration::from_secs(2)).await;
    assert_eq!(followed.seen.synced, 0);
    // One that starts where the record says nothing of the kind takes it for empty.
    objects.apply(&lease("servers.policy.linkerd.io")).await.unwrap();
    Followed::start(cluster.client(), config(&namespace)).await.synced(1).await;
    // The definition is restored.
    let mut again = installed.clone();
    again["metadata"] = json!({
        "name": grpc["metadata"]["name"], "annotations": installed["metadata"]["annotations"],
    });
    again.as_object_mut().unwrap().remove("status");
    objects.install_one(&again).await.unwrap();
    followed.synced(1).await;
}
