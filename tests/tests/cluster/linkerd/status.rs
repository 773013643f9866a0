//! The status of routes whose parents are Servers. The routes are those of Linkerd's tests: with an
//! empty list of rules, which is legal and matches nothing. The first status that is written is
//! right, for each kind of route.

use super::world::{World, world};
use futures_util::StreamExt as _;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use policy_crds::Kind;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// Most that a status may take.
const PATIENCE: Duration = Duration::from_secs(60);

const ROUTES: [Kind; 3] = [Kind::PolicyHttpRoute, Kind::GatewayHttpRoute, Kind::GrpcRoute];

const CONTROLLER: &str = "linkerd.io/policy-controller";

fn api(world: &World, kind: Kind, ns: &str) -> Api<DynamicObject> {
    let version = kind.versions()[0];
    let gvk = GroupVersionKind::gvk(kind.group(), version, kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    Api::namespaced_with(world.cluster.client(), ns, &resource)
}

/// An object of Linkerd's group.
pub(super) async fn get(world: &World, kind: &str, ns: &str, name: &str) -> Value {
    let kind = Kind::find("policy.linkerd.io", kind).unwrap();
    serde_json::to_value(api(world, kind, ns).get(name).await.unwrap()).unwrap()
}

fn server(kind: Kind, ns: &str, name: &str) -> String {
    let protocol = if kind == Kind::GrpcRoute { "gRPC" } else { "HTTP/1" };
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {name}, namespace: {ns}}}\nspec: {{podSelector: {{matchLabels: \
         {{app: {name}}}}}, port: http, proxyProtocol: {protocol}}}\n"
    )
}

fn parent(ns: &str, name: &str) -> Value {
    json!({"group": "policy.linkerd.io", "kind": "Server", "namespace": ns, "name": name})
}

fn route(kind: Kind, ns: &str, parents: &[Value]) -> String {
    let route = json!({
        "apiVersion": format!("{}/{}", kind.group(), kind.versions()[0]),
        "kind": kind.as_str(),
        "metadata": {"name": "route", "namespace": ns},
        "spec": {"parentRefs": parents, "rules": []},
    });
    route.to_string()
}

/// Creates the route, and returns the version of its kind before.
async fn create(world: &World, kind: Kind, ns: &str, parents: &[Value]) -> String {
    let before = api(world, kind, ns).list(&ListParams::default()).await.unwrap();
    world.cluster.apply(&route(kind, ns, parents)).await.unwrap();
    before.metadata.resource_version.unwrap()
}

/// Waits for the first state since a version that `found` accepts.
async fn until<T>(
    world: &World,
    (kind, ns, since): (Kind, &str, &str),
    what: &str,
    found: impl Fn(&[Value]) -> Option<T>,
) -> T {
    let states = api(world, kind, ns).watch(&WatchParams::default(), since).await.unwrap();
    let mut states = states.boxed();
    let first = async {
        loop {
            let route = match states.next().await.expect("the watch ends").unwrap() {
                WatchEvent::Added(route) | WatchEvent::Modified(route) => route,
                WatchEvent::Bookmark(_) => continue,
                other => panic!("{other:?}"),
            };
            let parents = route.data["status"]["parents"].as_array();
            if let Some(found) = parents.and_then(|parents| found(parents)) {
                return found;
            }
        }
    };
    timeout(PATIENCE, first).await.unwrap_or_else(|_| panic!("{kind:?}: never {what}"))
}

/// Creates the route, and returns the first status that is written.
async fn first_status(world: &World, kind: Kind, ns: &str, parents: &[Value]) -> Vec<Value> {
    let since = create(world, kind, ns, parents).await;
    let any = |parents: &[Value]| Some(parents.to_vec());
    until(world, (kind, ns, &since), "a status", any).await
}

/// `Status Reason` of the condition `Accepted` about a parent.
fn accepted(parents: &[Value], name: &str) -> Option<String> {
    let about = parents.iter().find(|parent| parent["parentRef"]["name"] == name)?;
    assert_eq!(about["controllerName"], CONTROLLER);
    let conditions = about["conditions"].as_array()?;
    let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted")?;
    Some(format!("{} {}", accepted["status"].as_str()?, accepted["reason"].as_str()?))
}

async fn until_accepted(world: &World, kind: Kind, ns: &str, name: &str, expected: &str) {
    let found =
        |parents: &[Value]| (accepted(parents, name).as_deref() == Some(expected)).then_some(());
    until(world, (kind, ns, "0"), expected, found).await;
}

const YES: &str = "True Accepted";
const NO: &str = "False NoMatchingParent";

#[tokio::test]
async fn inbound_accepted_parent() {
    let Some(world) = world().await else { return };
    for kind in ROUTES {
        let ns = &*world.cluster.namespace("accepted").await.unwrap();
        world.cluster.apply(&server(kind, ns, "there")).await.unwrap();
        let parents = first_status(&world, kind, ns, &[parent(ns, "there")]).await;
        let [only] = &parents[..] else { panic!("{kind:?}: {parents:?}") };
        assert_eq!(only["parentRef"], parent(ns, "there"), "{kind:?}");
        assert_eq!(accepted(&parents, "there").as_deref(), Some(YES), "{kind:?}");
    }
}

#[tokio::test]
async fn inbound_multiple_parents() {
    let Some(world) = world().await else { return };
    for kind in ROUTES {
        let ns = &*world.cluster.namespace("several").await.unwrap();
        world.cluster.apply(&server(kind, ns, "there")).await.unwrap();
        let both = [parent(ns, "there"), parent(ns, "missing")];
        let parents = first_status(&world, kind, ns, &both).await;
        assert_eq!(parents.len(), 2, "{kind:?}: {parents:?}");
        assert_eq!(accepted(&parents, "there").as_deref(), Some(YES), "{kind:?}");
        assert_eq!(accepted(&parents, "missing").as_deref(), Some(NO), "{kind:?}");
    }
}

#[tokio::test]
async fn inbound_no_parent_ref_patch() {
    let Some(world) = world().await else { return };
    for kind in ROUTES {
        let ns = &*world.cluster.namespace("patched").await.unwrap();
        world.cluster.apply(&server(kind, ns, "there")).await.unwrap();
        let parents = first_status(&world, kind, ns, &[parent(ns, "there")]).await;
        assert_eq!(parents.len(), 1, "{kind:?}: {parents:?}");
        world.cluster.apply(&route(kind, ns, &[])).await.unwrap();
        let empty = |parents: &[Value]| parents.is_empty().then_some(());
        until(&world, (kind, ns, "0"), "a status without parents", empty).await;
    }
}

#[tokio::test]
async fn inbound_accepted_reconcile_no_parent() {
    let Some(world) = world().await else { return };
    for kind in ROUTES {
        let ns = &*world.cluster.namespace("late").await.unwrap();
        let parents = first_status(&world, kind, ns, &[parent(ns, "later")]).await;
        assert_eq!(accepted(&parents, "later").as_deref(), Some(NO), "{kind:?}");
        world.cluster.apply(&server(kind, ns, "later")).await.unwrap();
        until_accepted(&world, kind, ns, "later", YES).await;
    }
}

#[tokio::test]
async fn inbound_accepted_reconcile_parent_delete() {
    let Some(world) = world().await else { return };
    for kind in ROUTES {
        let ns = &*world.cluster.namespace("deleted").await.unwrap();
        let parent_server = server(kind, ns, "there");
        world.cluster.apply(&parent_server).await.unwrap();
        let parents = first_status(&world, kind, ns, &[parent(ns, "there")]).await;
        assert_eq!(accepted(&parents, "there").as_deref(), Some(YES), "{kind:?}");
        world.cluster.delete(&parent_server).await.unwrap();
        until_accepted(&world, kind, ns, "there", NO).await;
        // It comes back.
        world.cluster.apply(&parent_server).await.unwrap();
        until_accepted(&world, kind, ns, "there", YES).await;
    }
}
