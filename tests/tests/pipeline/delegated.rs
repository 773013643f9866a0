//! A path that was handed to another namespace is taken back while clients use it on connections that
//! stay open: by the team's consent, by the owner's delegation, by the ReferenceGrant.

use crate::client::{Client, Kind};
use crate::grants::acknowledged;
use crate::world::{BASE, EDIT, GRANT, HERE, REVOKED, World, clients};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy_core::{Origin, ServerPolicy};
use policy_testkit::{soon, wait_within};
use std::time::Instant;

/// The team's path of requests, and its service of calls.
const PATH: &str = "/team/x";
const CALL: &str = "/grpc.health.v1.Health/Check";

/// Roots for both Servers of namespace shop, with these further rules.
fn roots(requests: &str, calls: &str) -> String {
    let root = |name: &str, server: &str, rules: &str| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
             metadata: {{name: {name}, namespace: shop}}\nspec:\n\
             \x20 virtualhost:\n    fqdn: web\n\
             \x20   targetRef: {{group: policy.linkerd.io, kind: Server, name: {server}}}\n\
             \x20 routes:\n\
             \x20 - {{match: /kept.{server}, serve: {{}}}}\n{rules}---\n"
        )
    };
    root("www", "http", requests) + &root("calls", "grpc", calls)
}

fn delegating() -> String {
    let to = |path: &str, name: &str| {
        format!("\x20 - {{match: {path}, delegate: {{name: {name}, namespace: team}}}}\n")
    };
    roots(&to("/team", "requests"), &to("/grpc.health.v1.Health", "calls"))
}

/// The team's objects, which consent to be served on a host.
fn children(host: &str) -> String {
    let child = |name: &str, path: &str| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
             metadata: {{name: {name}, namespace: team}}\nspec:\n\
             \x20 delegatedFrom: [{{fqdn: {host}}}]\n\
             \x20 routes: [{{match: {path}, serve: {{}}}}]\n---\n"
        )
    };
    child("requests", "/team") + &child("calls", "/grpc.health.v1.Health")
}

const TO_TEAM: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: g, namespace: team}
spec:
  from: [{group: portcullis.dev, kind: InboundRoute, namespace: shop}]
  to: [{group: portcullis.dev, kind: InboundRoute}]
";

/// True for a policy that gives the team nothing.
fn is_revoked(policy: &ServerPolicy) -> bool {
    !policy.routes.routes.iter().any(|route| match &route.origin {
        Origin::Delegated(path) => path.chain.iter().any(|object| object.namespace() == "team"),
        _ => false,
    })
}

async fn open(client: &mut Client, path: &str) -> Incoming {
    let wish = [("echo-stream", "100000"), ("echo-interval-ms", "20")];
    let answer = client.send(client.request(path, &wish)).await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    soon(body.frame()).await.unwrap().unwrap();
    body
}

/// Reads to the end. The trailers, if there are any.
async fn ends(mut body: Incoming) -> Option<http::HeaderMap> {
    while let Some(Ok(frame)) = body.frame().await {
        if frame.is_trailers() {
            return frame.into_trailers().ok();
        }
    }
    None
}

/// Asks on an open connection until the proxy has acknowledged that the path is taken back: a request
/// that begins afterwards is refused.
async fn refused_by_the_acknowledgement(
    world: &World,
    client: &mut Client,
    kind: Kind,
    path: &str,
) {
    wait_within("the acknowledgement", EDIT, async || {
        let told = acknowledged(world, kind.port(), is_revoked);
        let code = client.ask(path).await;
        let served = code == kind.allowed() && !told;
        assert!(code == kind.denied() || served, "{kind:?}: {code}, acknowledged: {told}");
        told
    })
    .await;
    for _ in 0..20 {
        assert_eq!(client.ask(path).await, kind.denied(), "{kind:?}: the permission came back");
    }
}

/// Takes the path back by an edit, and undoes it by another.
async fn taken_back(edit: fn(&World), undo: fn(&World)) {
    let (roots, children, networks) = (delegating(), children("web"), clients(&[HERE]));
    let files = [
        ("base.yaml", BASE),
        ("policy.yaml", GRANT),
        ("clients.yaml", &networks),
        ("roots.yaml", &roots),
        ("children.yaml", &children),
        ("grant.yaml", TO_TEAM),
    ];
    let world = World::with(&files).await;
    let kinds = [Kind::Http1, Kind::Http2, Kind::Grpc];
    let mut open_connections = Vec::new();
    for kind in kinds {
        let mut client = world.client(kind).await;
        let path = if kind == Kind::Grpc { CALL } else { PATH };
        assert_eq!(client.ask(path).await, kind.allowed(), "{kind:?}");
        assert!(!acknowledged(&world, kind.port(), is_revoked), "the policy tells states apart");
        open_connections.push((kind, client, path));
    }
    let http2 = &mut open_connections[1].1;
    let goes = open(http2, "/team/feed").await;
    let mut stays = open(http2, "/kept.http/feed").await;
    let watch = open_connections[2].1.request("/grpc.health.v1.Health/Watch", &[]);
    let mut call = open_connections[2].1.send(watch).await.into_body();
    soon(call.frame()).await.unwrap().unwrap();

    edit(&world);
    for (kind, client, path) in &mut open_connections {
        refused_by_the_acknowledgement(&world, client, *kind, path).await;
    }
    let in_force = Instant::now();
    let ended = async { tokio::join!(ends(goes), ends(call)).1 };
    let ended = tokio::time::timeout(REVOKED, ended).await.expect("both end within a second");
    let trailers = ended.expect("the call learns why");
    assert_eq!(trailers["grpc-status"], "7");
    assert!(in_force.elapsed() < REVOKED);
    // The owner's own path is served on, on the connection of the stream that ended.
    for _ in 0..3 {
        soon(stays.frame()).await.unwrap().unwrap();
    }
    assert_eq!(open_connections[1].1.ask("/kept.http/x").await, 200);
    for port in [Kind::Http1.port(), Kind::Grpc.port()] {
        world.told(&format!("deny not_delegated - {port}")).await;
    }

    undo(&world);
    for (kind, client, path) in &mut open_connections {
        client.turns(path, kind.denied(), kind.allowed()).await;
    }
}

#[tokio::test]
async fn a_consent_is_withdrawn_by_the_acknowledgement_on_open_connections() {
    let edit = |world: &World| world.write("children.yaml", &children("other.example"));
    taken_back(edit, |world| world.write("children.yaml", &children("web"))).await;
}

#[tokio::test]
async fn a_delegation_is_taken_back_by_the_acknowledgement_on_open_connections() {
    let edit = |world: &World| world.write("roots.yaml", &roots("", ""));
    taken_back(edit, |world| world.write("roots.yaml", &delegating())).await;
}

#[tokio::test]
async fn a_grant_for_a_child_is_revoked_by_the_acknowledgement_on_open_connections() {
    let edit = |world: &World| world.delete("grant.yaml");
    taken_back(edit, |world| world.write("grant.yaml", TO_TEAM)).await;
}
