//! Status of objects on a real API server: its content, its writers, and the times when none may write.

mod delegation;
mod link;
mod replica;
mod too_large;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use link::Link;
use policy_crds::{Kind, ObjectKey};
use policy_engine::programmed::{Programmed, ProgrammedAt, ProgrammedTable};
use policy_engine::unsent::Unsent;
use policy_kube::rbac;
use policy_kube::status::{EventRecorder, StatusSettings};
use policy_testkit::wait_for;
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip, skip};
use replica::{Replica, Setup};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Most that anything may take that is waited for here.
const PATIENCE: Duration = Duration::from_secs(90);

async fn replica(cluster: &Cluster, setup: &Setup) -> Replica {
    Replica::start(cluster.client(), cluster.client(), setup).await
}

fn api(cluster: &Cluster, kind: Kind, version: &str, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(kind.group(), version, kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    Api::namespaced_with(cluster.client(), namespace, &resource)
}

async fn get(cluster: &Cluster, kind: Kind, namespace: &str, name: &str) -> Value {
    let api = api(cluster, kind, kind.versions()[0], namespace);
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

/// `Type=Status Reason generation`, in order of type.
fn lines(conditions: &Value) -> Vec<String> {
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or("-").to_owned();
    let line = |c: &Value| {
        let generation = c["observedGeneration"].as_i64().unwrap_or_default();
        format!("{}={} {} {generation}", text(c, "type"), text(c, "status"), text(c, "reason"))
    };
    let mut lines: Vec<String> = conditions.as_array().into_iter().flatten().map(line).collect();
    lines.sort();
    lines
}

/// Waits until the object's own conditions are these, and returns it.
async fn told(cluster: &Cluster, key: (Kind, &str, &str), expected: &[&str]) -> Value {
    let (kind, namespace, name) = key;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let object = get(cluster, kind, namespace, name).await;
        let found = lines(&object["status"]["conditions"]);
        if found == expected {
            return object;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "{kind:?} {name}: {found:?} instead of {expected:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until what our controller tells a route about its only Server is this.
async fn told_route(cluster: &Cluster, key: (Kind, &str, &str), expected: &[&str]) -> Value {
    let (kind, namespace, name) = key;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let object = get(cluster, kind, namespace, name).await;
        let entries = object["status"]["parents"].as_array().cloned().unwrap_or_default();
        let ours: Vec<&Value> = entries.iter().filter(|e| e["controllerName"] == OURS).collect();
        let found = ours.first().map(|entry| lines(&entry["conditions"])).unwrap_or_default();
        if found == expected && ours.len() <= 1 {
            return object;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "{kind:?} {name}: {found:?} instead of {expected:?} in {entries:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

const OURS: &str = "portcullis.dev/policy-controller";

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

fn server(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"
    )
}

const PORT_80: &str = "{podSelector: {}, port: 80, proxyProtocol: HTTP/1}";

fn policy(namespace: &str, name: &str, target: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: {target}}}, \
         requiredAuthenticationRefs: [{{group: policy.linkerd.io, kind: MeshTLSAuthentication, \
         name: clients}}]}}\n"
    )
}

fn others(namespace: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\n\
         metadata: {{name: one, namespace: {namespace}}}\n\
         spec: {{server: {{name: web}}, client: {{unauthenticated: true}}}}\n---\n\
         apiVersion: policy.linkerd.io/v1alpha1\nkind: MeshTLSAuthentication\n\
         metadata: {{name: clients, namespace: {namespace}}}\nspec: {{identities: ['*']}}\n---\n\
         apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
         metadata: {{name: one, namespace: {namespace}}}\n\
         spec: {{networks: [{{cidr: 10.0.0.0/99}}]}}\n---\n\
         apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n\
         metadata: {{name: one, namespace: {namespace}}}\n\
         spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}, \
         total: {{requestsPerSecond: 10}}}}\n---\n\
         apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload\n\
         metadata: {{name: one, namespace: {namespace}}}\n\
         spec: {{meshTLS: {{identity: 'spiffe://a/b', serverName: a.b}}, \
         workloadIPs: [{{ip: 192.0.2.1}}]}}\n"
    )
}

fn route(kind: Kind, namespace: &str, parents: &str) -> String {
    let rules = if kind == Kind::GrpcRoute {
        "[{matches: [{method: {service: s}}]}]"
    } else {
        "[{matches: [{path: {type: PathPrefix, value: /}}]}]"
    };
    format!(
        "apiVersion: {}/{}\nkind: {}\nmetadata: {{name: one, namespace: {namespace}}}\n\
         spec: {{parentRefs: [{parents}], rules: {rules}}}\n",
        kind.group(),
        kind.versions()[0],
        kind.as_str()
    )
}

const TO_WEB: &str = "{group: policy.linkerd.io, kind: Server, name: web}";

const ROUTES: [Kind; 3] = [Kind::PolicyHttpRoute, Kind::GatewayHttpRoute, Kind::GrpcRoute];

#[tokio::test]
async fn a_displaced_server_is_told_who_owns_what_it_selects() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("displaced").await.unwrap();
    let _replica = replica(cluster, &Setup::of(ns)).await;
    let pod = format!(
        "apiVersion: v1\nkind: Pod\n\
         metadata: {{name: web-0, namespace: {ns}, labels: {{app: web}}}}\n\
         spec: {{containers: [{{name: a, image: a, ports: [{{name: http, containerPort: 80}}]}}]}}\n"
    );
    cluster.apply(&pod).await.unwrap();
    cluster.apply(&server(ns, "first", PORT_80)).await.unwrap();
    let yes = ["Accepted=True Accepted 1"];
    told(cluster, (Kind::Server, ns, "first"), &yes).await;
    let spec = "{podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1}";
    cluster.apply(&server(ns, "second", spec)).await.unwrap();
    let no = ["Accepted=False Conflicted 1"];
    let second = told(cluster, (Kind::Server, ns, "second"), &no).await;
    let message = condition(&second, "Accepted")["message"].as_str().unwrap();
    let owner = format!("what it selects is owned by Server {ns}/first (");
    assert!(message.contains(&owner), "{message}");
    told(cluster, (Kind::Server, ns, "first"), &yes).await;
    let servers = api(cluster, Kind::Server, Kind::Server.versions()[0], ns);
    servers.delete("first", &Default::default()).await.unwrap();
    told(cluster, (Kind::Server, ns, "second"), &yes).await;
}

#[tokio::test]
async fn every_kind_is_told_what_became_of_it_and_again_when_it_changes() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("told").await.unwrap();
    let replica = replica(cluster, &Setup::of(ns)).await;
    for kind in ROUTES {
        cluster.apply(&route(kind, ns, TO_WEB)).await.unwrap();
    }
    cluster.apply(&policy(ns, "one", "web")).await.unwrap();
    cluster.apply(&others(ns)).await.unwrap();
    // Nothing that is referred to is there yet.
    let refused = ["Accepted=False NoMatchingTarget 1", "ResolvedRefs=True ResolvedRefs 1"];
    let of_policy = (Kind::AuthorizationPolicy, ns, "one");
    let before = told(cluster, of_policy, &refused).await;
    assert!(condition(&before, "Accepted")["message"].as_str().unwrap().contains("Server"));
    let no = ["Accepted=False NoMatchingTarget 1"];
    told(cluster, (Kind::ServerAuthorization, ns, "one"), &no).await;
    let limit = told(cluster, (Kind::HttpLocalRateLimitPolicy, ns, "one"), &no).await;
    let target = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web"});
    assert_eq!(limit["status"]["targetRef"], target);
    let yes = ["Accepted=True Accepted 1"];
    told(cluster, (Kind::MeshTlsAuthentication, ns, "clients"), &yes).await;
    told(cluster, (Kind::ExternalWorkload, ns, "one"), &yes).await;
    let invalid = ["Accepted=False Invalid 1"];
    told(cluster, (Kind::NetworkAuthentication, ns, "one"), &invalid).await;
    for kind in ROUTES {
        let no = ["Accepted=False NoMatchingParent 1", "ResolvedRefs=True ResolvedRefs 1"];
        let told = told_route(cluster, (kind, ns, "one"), &no).await;
        let reference = &told["status"]["parents"][0]["parentRef"];
        assert_eq!(reference, &told["spec"]["parentRefs"][0], "as the route spells it");
    }

    // The Server comes: what referred to it is told, what did not is left alone.
    let clients = get(cluster, Kind::MeshTlsAuthentication, ns, "clients").await;
    let spec = "{podSelector: {}, port: 80, proxyProtocol: HTTP/2}";
    cluster.apply(&server(ns, "web", spec)).await.unwrap();
    told(cluster, (Kind::Server, ns, "web"), &yes).await;
    let accepted = ["Accepted=True Accepted 1", "ResolvedRefs=True ResolvedRefs 1"];
    let after = told(cluster, of_policy, &accepted).await;
    let resolved = condition(&before, "ResolvedRefs");
    assert_eq!(resolved, condition(&after, "ResolvedRefs"), "it did not change");
    told(cluster, (Kind::ServerAuthorization, ns, "one"), &yes).await;
    told(cluster, (Kind::HttpLocalRateLimitPolicy, ns, "one"), &yes).await;
    for kind in ROUTES {
        told_route(cluster, (kind, ns, "one"), &accepted).await;
    }
    assert_eq!(clients, get(cluster, Kind::MeshTlsAuthentication, ns, "clients").await);

    // It changes without any condition becoming otherwise: the generation moves, the time does not.
    let first = get(cluster, Kind::Server, ns, "web").await;
    sleep(Duration::from_millis(1100)).await;
    let spec = "{podSelector: {}, port: 81, proxyProtocol: HTTP/2}";
    cluster.apply(&server(ns, "web", spec)).await.unwrap();
    let second = told(cluster, (Kind::Server, ns, "web"), &["Accepted=True Accepted 2"]).await;
    let time = |object: &Value| condition(object, "Accepted")["lastTransitionTime"].clone();
    assert_eq!(time(&first), time(&second));
    // It becomes invalid: now it does.
    cluster.apply(&server(ns, "web", "{podSelector: {}, port: 0}")).await.unwrap();
    let third = told(cluster, (Kind::Server, ns, "web"), &["Accepted=False Invalid 3"]).await;
    assert_ne!(time(&second), time(&third));

    // A reference that goes takes its entry along.
    cluster.apply(&route(Kind::GrpcRoute, ns, "")).await.unwrap();
    let bare = told_route(cluster, (Kind::GrpcRoute, ns, "one"), &[]).await;
    assert_eq!(bare["status"]["parents"], json!([]));
    assert_eq!(replica.metric("resource_status_patch_api_errors"), 0);
    assert_eq!(replica.metric("resource_status_patch_timeouts"), 0);
}

#[tokio::test]
async fn a_route_with_a_filter_that_is_not_supported_is_not_accepted_while_it_has_it() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("filters").await.unwrap();
    let _replica = replica(cluster, &Setup::of(ns)).await;
    cluster.apply(&server(ns, "web", "{podSelector: {}, port: 80}")).await.unwrap();
    let filter = "{type: ExtensionRef, extensionRef: {group: a.example, kind: Cache, name: a}}";
    for kind in [Kind::GatewayHttpRoute, Kind::GrpcRoute] {
        let sound = route(kind, ns, TO_WEB);
        let filtered = sound.replace("rules: [{", &format!("rules: [{{filters: [{filter}], "));
        assert_ne!(sound, filtered);
        cluster.apply(&filtered).await.unwrap();
        let resolved = "ResolvedRefs=True ResolvedRefs";
        let no = ["Accepted=False UnsupportedValue 1", &format!("{resolved} 1")];
        let object = told_route(cluster, (kind, ns, "one"), &no).await;
        let conditions = &object["status"]["parents"][0]["conditions"];
        let mut all = conditions.as_array().unwrap().iter();
        let accepted = all.find(|condition| condition["type"] == "Accepted").unwrap();
        assert_eq!(
            accepted["message"],
            "spec.rules[0].filters[0].type: `ExtensionRef` is not supported here: the rule permits \
             nothing",
            "{kind:?}"
        );
        cluster.apply(&sound).await.unwrap();
        let yes = ["Accepted=True Accepted 2", &format!("{resolved} 2")];
        told_route(cluster, (kind, ns, "one"), &yes).await;
    }
}

#[tokio::test]
async fn how_far_an_object_is_in_force_is_told_for_the_version_that_was_counted() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("programmed").await.unwrap();
    let replica = replica(cluster, &Setup::of(ns)).await;
    cluster.apply(&server(ns, "web", PORT_80)).await.unwrap();
    let key = (Kind::Server, ns, "web");
    let object = told(cluster, key, &["Accepted=True Accepted 1"]).await;
    let uid: Arc<str> = object["metadata"]["uid"].as_str().unwrap().into();
    let tell = |generation, in_force| {
        let programmed = Programmed::counted(in_force, 3, 0);
        let uid = Some(uid.clone());
        let at = ProgrammedAt {
            uid,
            generation: Some(generation),
            programmed,
            unsent: Unsent::default(),
        };
        let (namespace, name) = (ns.into(), "web".into());
        let key = ObjectKey { kind: Kind::Server, namespace, name };
        replica.programmed.send_replace(Arc::new(ProgrammedTable::from([(key, at)])));
    };
    tell(1, 1);
    let pending = told(cluster, key, &["Accepted=True Accepted 1", "Programmed=False Pending 1"]);
    let message = condition(&pending.await, "Programmed")["message"].clone();
    assert_eq!(message, "in force on 1 of 3 proxies");
    tell(1, 3);
    let all = ["Accepted=True Accepted 1", "Programmed=True Programmed 1"];
    told(cluster, key, &all).await;
    let spec = "{podSelector: {}, port: 81, proxyProtocol: HTTP/1}";
    cluster.apply(&server(ns, "web", spec)).await.unwrap();
    // The new version has not been counted: what is known is about the old one, and says so.
    told(cluster, key, &["Accepted=True Accepted 2", "Programmed=True Programmed 1"]).await;
    tell(2, 0);
    told(cluster, key, &["Accepted=True Accepted 2", "Programmed=False Pending 2"]).await;
}

/// Another controller, which writes its own entry of a route over and over, guarded by versions.
async fn other_controller(routes: Api<DynamicObject>, times: usize) {
    for time in 0..times {
        loop {
            let route = serde_json::to_value(routes.get("one").await.unwrap()).unwrap();
            let mut parents = route["status"]["parents"].as_array().cloned().unwrap_or_default();
            parents.retain(|entry| entry["controllerName"] != "other.example/gateway");
            parents.push(json!({
                "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"},
                "controllerName": "other.example/gateway",
                "conditions": [{
                    "type": "Accepted", "status": "True", "reason": "Accepted",
                    "message": format!("{time}"), "lastTransitionTime": "2020-01-01T00:00:00Z",
                }],
            }));
            let version = &route["metadata"]["resourceVersion"];
            let patch = json!({
                "metadata": {"resourceVersion": version},
                "status": {"parents": parents},
            });
            let params = PatchParams::default();
            match routes.patch_status("one", &params, &Patch::Merge(patch)).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{error}"),
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn entries_of_another_controller_survive_concurrent_writes() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("parents").await.unwrap();
    let _replica = replica(cluster, &Setup::of(ns)).await;
    let parents = "{name: g}, {group: policy.linkerd.io, kind: Server, name: web}";
    cluster.apply(&route(Kind::GatewayHttpRoute, ns, parents)).await.unwrap();
    let key = (Kind::GatewayHttpRoute, ns, "one");
    let routes = api(cluster, Kind::GatewayHttpRoute, "v1", ns);
    let other = tokio::spawn(other_controller(routes, 60));
    let web = server(ns, "web", PORT_80);
    let resolved = "ResolvedRefs=True ResolvedRefs 1";
    for _ in 0..6 {
        cluster.apply(&web).await.unwrap();
        told_route(cluster, key, &["Accepted=True Accepted 1", resolved]).await;
        cluster.delete(&web).await.unwrap();
        told_route(cluster, key, &["Accepted=False NoMatchingParent 1", resolved]).await;
    }
    other.await.unwrap();
    let route = told_route(cluster, key, &["Accepted=False NoMatchingParent 1", resolved]).await;
    let entries = route["status"]["parents"].as_array().unwrap();
    let theirs: Vec<_> =
        entries.iter().filter(|e| e["controllerName"] == "other.example/gateway").collect();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(theirs[0]["conditions"][0]["message"], "59");
}

#[tokio::test]
async fn a_thousand_objects_are_told_once_each_and_a_restart_writes_nothing() {
    const OBJECTS: usize = 1000;
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("burst").await.unwrap();
    let mut setup = Setup::of(ns);
    setup.settings.writes_per_second = 500;
    let first = replica(cluster, &setup).await;
    let objects = cluster.objects();
    let create = (0..20).map(|worker| {
        let objects = objects.clone();
        async move {
            for number in 0..OBJECTS / 20 {
                let name = format!("s{worker}-{number}");
                objects.apply(&server(ns, &name, PORT_80)).await.unwrap();
            }
        }
    });
    futures_util::future::join_all(create).await;
    let servers = api(cluster, Kind::Server, "v1beta3", ns);
    let versions = || async {
        let all = servers.list(&ListParams::default()).await.unwrap();
        let told = |object: &DynamicObject| {
            lines(&object.data["status"]["conditions"]) == ["Accepted=True Accepted 1"]
        };
        let version = |object: DynamicObject| {
            (object.metadata.name.unwrap(), object.metadata.resource_version.unwrap())
        };
        let right = all.items.iter().filter(|object| told(object)).count();
        (right, all.items.into_iter().map(version).collect::<BTreeMap<_, _>>())
    };
    let before = wait_for("all are told", || async {
        let (right, versions) = versions().await;
        (right == OBJECTS).then_some(versions)
    })
    .await;
    assert_eq!(first.metrics.written(), OBJECTS as u64, "each is written once");
    first.shut_down().await;

    let second = replica(cluster, &setup).await;
    second.leads().await;
    // Something new is written, after everything has been looked at.
    cluster.apply(&policy(ns, "new", "s0-0")).await.unwrap();
    let key = (Kind::AuthorizationPolicy, ns, "new");
    told(cluster, key, &["Accepted=True Accepted 1", "ResolvedRefs=False RefNotFound 1"]).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(second.metrics.written(), 1);
    assert_eq!(versions().await.1, before);
}

#[tokio::test]
async fn a_status_that_was_taken_away_is_written_again() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("healed").await.unwrap();
    let mut setup = Setup::of(ns);
    setup.settings.resync = Duration::from_secs(2);
    let _replica = replica(cluster, &setup).await;
    cluster.apply(&server(ns, "web", PORT_80)).await.unwrap();
    let key = (Kind::Server, ns, "web");
    told(cluster, key, &["Accepted=True Accepted 1"]).await;
    let servers = api(cluster, Kind::Server, "v1beta3", ns);
    let nothing = json!({"status": {"conditions": []}});
    servers.patch_status("web", &PatchParams::default(), &Patch::Merge(nothing)).await.unwrap();
    told(cluster, key, &["Accepted=True Accepted 1"]).await;
}

/// The Warnings about an object, and how many there are in the namespace.
async fn warnings(cluster: &Cluster, namespace: &str, name: &str) -> (Vec<String>, usize) {
    let api: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(cluster.client(), namespace);
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let about = all.iter().filter(|event| {
        event.type_.as_deref() == Some("Warning")
            && event.regarding.as_ref().unwrap().name.as_deref() == Some(name)
    });
    let mut found: Vec<String> =
        about.map(|event| event.reason.clone().unwrap_or_default()).collect();
    found.sort();
    (found, all.len())
}

#[tokio::test]
async fn schemas_without_a_status_get_events_and_no_error_loop_and_a_status_once_they_have_one() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_linkerd_crds().await.unwrap();
    let ns = &*cluster.namespace("linkerd").await.unwrap();
    let mut setup = Setup::of(ns);
    setup.settings.resync = Duration::from_secs(2);
    let first = replica(&cluster, &setup).await;
    cluster.apply(&server(ns, "web", PORT_80)).await.unwrap();
    cluster.apply(&policy(ns, "one", "gone")).await.unwrap();
    cluster.apply(&route(Kind::PolicyHttpRoute, ns, TO_WEB)).await.unwrap();
    // Routes have a status in Linkerd's schemas too.
    let accepted = ["Accepted=True Accepted 1", "ResolvedRefs=True ResolvedRefs 1"];
    told_route(&cluster, (Kind::PolicyHttpRoute, ns, "one"), &accepted).await;
    let told_of = wait_for("both are told", || async {
        let (found, _) = warnings(&cluster, ns, "one").await;
        (found.len() == 2).then_some(found)
    })
    .await;
    assert_eq!(told_of, ["NoMatchingTarget", "RefNotFound"]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(warnings(&cluster, ns, "one").await.1, 2, "nothing is told twice");
    assert_eq!(first.metrics.written(), 1, "of the route");
    assert_eq!(first.metric("resource_status_patch_api_errors"), 0);
    assert_eq!(first.metric("resource_events_dropped"), 0);
    drop(first);

    // Another leader tells nothing anew. What becomes right is told, too.
    let second = replica(&cluster, &setup).await;
    wait_for("the successor leads", || async { second.leadership.is_leader().then_some(()) }).await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!(warnings(&cluster, ns, "one").await.1, 2);
    assert_eq!(second.metrics.written(), 0);

    cluster.install_crds().await.unwrap();
    let no = ["Accepted=False NoMatchingTarget 1", "ResolvedRefs=False RefNotFound 1"];
    told(&cluster, (Kind::AuthorizationPolicy, ns, "one"), &no).await;
    told(&cluster, (Kind::Server, ns, "web"), &["Accepted=True Accepted 1"]).await;
}

#[tokio::test]
async fn a_warning_is_one_event_where_whoever_is_concerned_sees_it() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("events").await.unwrap();
    let (events, writer) = EventRecorder::new(cluster.client(), OURS.into(), "one".into());
    let stop = CancellationToken::new();
    let task = tokio::spawn(writer.run(stop.clone()));
    let about = |version: &str, kind: &str, namespace: Option<&str>, name: &str| ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    let lease = about("coordination.k8s.io/v1", "Lease", Some(ns), "lease");
    let (namespace, node) = (about("v1", "Namespace", None, ns), about("v1", "Node", None, ns));
    for _ in 0..3 {
        events.warn(lease.clone(), "WatchStale", "servers have not been heard of");
    }
    events.warn(namespace, "AnnotationsInvalid", &"long ".repeat(1000));
    events.warn(node, "Odd", "a node");
    for (place, name, reason) in
        [(ns, "lease", "WatchStale"), (ns, ns, "AnnotationsInvalid"), ("default", ns, "Odd")]
    {
        wait_for(reason, || async {
            (warnings(cluster, place, name).await.0 == [reason]).then_some(())
        })
        .await;
    }
    stop.cancel();
    task.await.unwrap();
    assert_eq!(warnings(cluster, ns, "lease").await.0, ["WatchStale"]);
}

#[tokio::test]
async fn beside_linkerd_only_routes_are_written_and_under_our_name() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("beside").await.unwrap();
    let mut setup = Setup::of(ns);
    setup.settings = StatusSettings { beside_linkerd: true, ..setup.settings };
    let replica = replica(cluster, &setup).await;
    // The authentication before the policy that names it: it is never missing.
    cluster.apply(&others(ns)).await.unwrap();
    cluster.apply(&policy(ns, "one", "web")).await.unwrap();
    cluster.apply(&route(Kind::PolicyHttpRoute, ns, TO_WEB)).await.unwrap();
    let no = ["Accepted=False NoMatchingParent 1", "ResolvedRefs=True ResolvedRefs 1"];
    told_route(cluster, (Kind::PolicyHttpRoute, ns, "one"), &no).await;
    let expected = ["Invalid", "NoMatchingTarget", "NoMatchingTarget", "NoMatchingTarget"];
    wait_for("events", || async {
        let (found, _) = warnings(cluster, ns, "one").await;
        (found == expected).then_some(())
    })
    .await;
    for (kind, name) in [
        (Kind::AuthorizationPolicy, "one"),
        (Kind::HttpLocalRateLimitPolicy, "one"),
        (Kind::MeshTlsAuthentication, "clients"),
    ] {
        assert_eq!(get(cluster, kind, ns, name).await["status"], Value::Null, "{kind:?}");
    }
    assert_eq!(replica.metrics.written(), 1);
}

#[tokio::test]
async fn of_three_replicas_one_writes_and_another_when_it_is_gone() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("replicas").await.unwrap();
    let setup = Setup { lease: Duration::from_secs(4), ..Setup::of(ns) };
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(cluster, &setup).await);
    }
    for round in 0..2 {
        let leader = wait_for("one leads", || async {
            replicas.iter().position(|replica| replica.leadership.is_leader())
        })
        .await;
        let name = format!("s{round}");
        cluster.apply(&server(ns, &name, PORT_80)).await.unwrap();
        told(cluster, (Kind::Server, ns, &name), &["Accepted=True Accepted 1"]).await;
        let leaders = replicas.iter().filter(|replica| replica.leadership.is_leader()).count();
        assert_eq!(leaders, 1);
        let written: Vec<u64> = replicas.iter().map(|replica| replica.metrics.written()).collect();
        assert_eq!(written.iter().sum::<u64>(), 1, "{written:?}, of which {leader} leads");
        assert_eq!(written[leader], 1);
        // Killed: nothing is given back.
        drop(replicas.remove(leader));
    }
    wait_for("the last one leads", || async { replicas[0].leadership.is_leader().then_some(()) })
        .await;
    assert_eq!(replicas[0].metrics.written(), 0, "everything is as it should be");
}

#[tokio::test]
async fn a_leader_that_shuts_down_hands_over_at_once() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("handover").await.unwrap();
    // Whoever had to wait for the Lease to run out would wait for five minutes.
    let mut setup = Setup { lease: Duration::from_secs(300), ..Setup::of(ns) };
    let first = replica(cluster, &setup).await;
    first.leads().await;
    setup.lease = Duration::from_secs(15);
    let second = replica(cluster, &setup).await;
    sleep(Duration::from_secs(3)).await;
    assert!(first.leadership.is_leader() && !second.leadership.is_leader());
    first.shut_down().await;
    let asked = Instant::now();
    second.leads().await;
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(cluster.client(), ns);
    let spec = leases.get("the-leader").await.unwrap().spec.unwrap();
    assert_eq!(spec.lease_transitions, Some(2));
}

#[tokio::test]
async fn a_leader_without_an_api_server_stops_before_another_begins() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("cut").await.unwrap();
    let setup = Setup { lease: Duration::from_secs(6), ..Setup::of(ns) };
    let link = Link::to(cluster.kubeconfig()).await;
    let first = Replica::start(link.client(), cluster.client(), &setup).await;
    first.leads().await;
    let second = replica(cluster, &setup).await;
    link.cut();
    let deadline = Instant::now() + PATIENCE;
    let mut nobody = false;
    while !second.leadership.is_leader() {
        nobody |= !first.leadership.is_leader();
        assert!(Instant::now() < deadline, "nobody leads");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(nobody && !first.leadership.is_leader(), "both lead, or did for a while");
    cluster.apply(&server(ns, "web", PORT_80)).await.unwrap();
    told(cluster, (Kind::Server, ns, "web"), &["Accepted=True Accepted 1"]).await;
    assert_eq!((first.metrics.written(), second.metrics.written()), (0, 1));
}

#[tokio::test]
async fn a_slow_api_server_makes_status_late_and_nothing_else() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("slow").await.unwrap();
    let mut setup = Setup::of(ns);
    setup.settings.timeout = Duration::from_secs(2);
    let link = Link::to(cluster.kubeconfig()).await;
    let replica = Replica::start(link.client(), cluster.client(), &setup).await;
    replica.leads().await;
    cluster.apply(&server(ns, "first", PORT_80)).await.unwrap();
    told(cluster, (Kind::Server, ns, "first"), &["Accepted=True Accepted 1"]).await;
    // Slower than what is waited for: nothing gets through, and it is asked ever less often.
    link.slow(Duration::from_secs(3));
    for number in 0..50 {
        cluster.apply(&server(ns, &format!("s{number}"), PORT_80)).await.unwrap();
    }
    for generation in 2..10 {
        let spec = format!("{{podSelector: {{}}, port: {generation}, proxyProtocol: HTTP/1}}");
        cluster.apply(&server(ns, "first", &spec)).await.unwrap();
        sleep(Duration::from_millis(500)).await;
    }
    wait_for("it gives up waiting", || async {
        (replica.metric("resource_status_patch_timeouts_total") > 0).then_some(())
    })
    .await;
    assert!(replica.metric("resource_status_queue_depth") <= 51, "each is in it once");
    // Slow, but in time: it works through what there is.
    link.slow(Duration::from_millis(100));
    told(cluster, (Kind::Server, ns, "first"), &["Accepted=True Accepted 9"]).await;
    for number in 0..50 {
        let name = format!("s{number}");
        told(cluster, (Kind::Server, ns, &name), &["Accepted=True Accepted 1"]).await;
    }
    let written = replica.metrics.written();
    assert!(written <= 60, "{written} writes for 51 objects");
}

/// A client of a user who may do what the controller has to, and what allows it.
async fn restricted(cluster: &Cluster, namespace: &str) -> (kube::Client, String) {
    let user = format!("user-{namespace}");
    let role = |name: &str, rules| {
        let role = rbac::yaml(&rbac::role(namespace, name, rules)).unwrap();
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        format!("{role}---\n{binding}\n---\n")
    };
    let lease = role("control-plane", rbac::control_plane_rules());
    let watched = role("watched", rbac::namespace_rules());
    cluster.apply(&lease).await.unwrap();
    cluster.apply(&watched).await.unwrap();
    let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    (kube::Client::try_from(config).unwrap(), watched)
}

#[tokio::test]
async fn its_rules_suffice_and_without_them_it_asks_ever_less_often_until_it_may() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("rights").await.unwrap();
    let (client, rules) = restricted(cluster, ns).await;
    let replica = Replica::start(client, cluster.client(), &Setup::of(ns)).await;
    cluster.apply(&others(ns)).await.unwrap();
    for kind in ROUTES {
        cluster.apply(&route(kind, ns, TO_WEB)).await.unwrap();
        let no = ["Accepted=False NoMatchingParent 1", "ResolvedRefs=True ResolvedRefs 1"];
        told_route(cluster, (kind, ns, "one"), &no).await;
    }
    cluster.apply(&server(ns, "web", PORT_80)).await.unwrap();
    told(cluster, (Kind::Server, ns, "web"), &["Accepted=True Accepted 1"]).await;
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: one, annotations: \
               {config.linkerd.io/default-inbound-policy: denny}}\n\
               spec: {containers: [{name: c, image: i}]}\n";
    cluster
        .apply(&bad.replace("{name: one,", &format!("{{name: one, namespace: {ns},")))
        .await
        .unwrap();
    wait_for("an event about the pod", || async {
        (warnings(cluster, ns, "one").await.0 == ["AnnotationsInvalid"]).then_some(())
    })
    .await;
    assert_eq!(replica.metric("resource_status_patch_api_errors"), 0);
    assert_eq!(replica.metric("resource_events_dropped"), 0);

    cluster.delete(&rules).await.unwrap();
    let spec = "{podSelector: {}, port: 81, proxyProtocol: HTTP/1}";
    cluster.apply(&server(ns, "web", spec)).await.unwrap();
    sleep(Duration::from_secs(6)).await;
    let refused = replica.metric("resource_status_patch_api_errors_total{code=\"403\"}");
    assert!((1..=5).contains(&refused), "{refused} refusals in six seconds");
    assert!(replica.leadership.is_leader(), "the Lease is in another Role");
    cluster.apply(&rules).await.unwrap();
    told(cluster, (Kind::Server, ns, "web"), &["Accepted=True Accepted 2"]).await;
}

/// Index of the leading replica, as each reports itself. Never more than one.
async fn leader(replicas: &[ControllerProcess]) -> Option<usize> {
    let mut leader = None;
    for (number, replica) in replicas.iter().enumerate() {
        let metrics = replica.metrics().await;
        if metrics.lines().any(|line| line == "lease_leader 1") {
            assert_eq!(leader, None, "{number} leads as well");
            leader = Some(number);
        }
    }
    leader
}

/// Library that `faketime` preloads; none if it is not installed.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let within = folders.map(|folder| folder.path().join("faketime"));
    let places = within.chain(["/usr/local/lib/faketime".into(), "/usr/lib/faketime".into()]);
    places.map(|folder| folder.join("libfaketimeMT.so.1")).find(|library| library.is_file())
}

#[tokio::test]
async fn replicas_whose_clocks_are_hours_apart_have_one_leader_at_all_times() {
    let Some(cluster) = crate::shared().await else { return };
    let Some(library) = faketime() else {
        return skip("faketime");
    };
    let ns = &*cluster.namespace("clocks").await.unwrap();
    let mut replicas = Vec::new();
    for clock in ["-3h", "+0", "+5h"] {
        let flags = ["--watch-namespace", ns, "--control-plane-namespace", ns];
        let started = ControllerProcess::builder(cluster.kubeconfig())
            .flags(flags)
            .flags(["--lease-duration=4", "--admission-controller-disabled"])
            .env("LD_PRELOAD", &library)
            .env("FAKETIME", clock)
            // Clocks of machines are set; the time since a machine's start runs on.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start();
        replicas.push(started.await.unwrap());
    }
    for left in (1..=3).rev() {
        let first = wait_for("one leads", || leader(&replicas)).await;
        // Three times as long as a silent leader is waited for.
        let end = Instant::now() + Duration::from_secs(12);
        while Instant::now() < end {
            assert_eq!(leader(&replicas).await, Some(first), "{left} replicas are left");
            sleep(Duration::from_millis(100)).await;
        }
        let name = format!("s{left}");
        cluster.apply(&server(ns, &name, PORT_80)).await.unwrap();
        let expected = ["Accepted=True Accepted 1", "Programmed=False NoTarget 1"];
        let object = told(cluster, (Kind::Server, ns, &name), &expected);
        let since = condition(&object.await, "Accepted")["lastTransitionTime"].clone();
        println!("{left}: replica {first} leads, and says {since}");
        replicas.remove(first).kill();
    }
}
