//! Policy decides about the target that the router reads, wherever the layer is.

use crate::support::*;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::get;
use http::Request;
use http_body_util::BodyExt;
use policy_embed::{Peer, PeerTls, PolicyBody, PolicyLayer};
use policy_testkit::{Answer, soon};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

/// Asks a router by itself; the client has no identity.
async fn alone(router: &Router, path: &str) -> (u16, String) {
    let mut request = Request::get(path).header("host", "web.example").body(Body::empty()).unwrap();
    let peer = Peer::new("10.0.0.1:1".parse().unwrap(), PeerTls::Absent);
    request.extensions_mut().insert(Arc::new(peer));
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn layer(folder: &std::path::Path) -> (policy_embed::Policies, PolicyLayer) {
    let policies = policies(folder).await;
    let layer = policies.layer(8080).unwrap();
    (policies, layer)
}

fn echo() -> axum::routing::MethodRouter {
    get(|Path(parts): Path<Vec<String>>| async move { parts.join(" ") })
}

#[tokio::test]
async fn a_layer_inside_of_a_router_refuses_what_the_router_has_read_otherwise() {
    let folder = manifests();
    let (_policies, layer) = layer(folder.path()).await;
    // Without `whole_service`, and with it: axum says that its router was first.
    for layer in [layer.clone(), layer.whole_service()] {
        let router = Router::new()
            .route("/open/{what}", get(|| async { "open" }))
            .route("/{tenant}/{what}", echo())
            .layer(layer);
        assert_eq!(alone(&router, "/open/x").await, (200, "open".to_owned()));
        // The router takes it for the tenant `open`, of which no policy was asked.
        assert_eq!(alone(&router, "/%6fpen/x").await.0, 400);
        assert_eq!(alone(&router, "/admin/x").await.0, 403);
        assert_eq!(alone(&router, "/%61dmin/x").await.0, 400);
    }
}

#[tokio::test]
async fn a_nested_router_is_decided_on_with_its_prefix() {
    let folder = manifests();
    let (_policies, layer) = layer(folder.path()).await;
    for layer in [layer.clone(), layer.whole_service()] {
        let inner = Router::new().route("/x", get(|| async { "secret" })).layer(layer.clone());
        let deep = Router::new().nest("/inner", inner.clone());
        let router = Router::new()
            .nest("/admin", inner.clone())
            .nest("/open", deep)
            .nest_service("/admin-service", inner);
        // The rest of the path, `/x`, is open to everybody.
        assert_eq!(alone(&router, "/admin/x").await.0, 403);
        assert_eq!(alone(&router, "/%61dmin/x").await.0, 404, "axum knows no such prefix");
        assert_eq!(alone(&router, "/admin/%78").await.0, 404, "nor such a path");
        assert_eq!(alone(&router, "/admin-service/x").await.0, 404, "no route of the policy");
        assert_eq!(alone(&router, "/open/inner/x").await, (200, "secret".to_owned()));
    }
}

/// The policies would stay what they were, and nothing would say so.
#[tokio::test]
async fn a_layer_whose_policies_were_dropped_learns_of_revocations() {
    let folder = manifests();
    let layer = policies(folder.path()).await.layer(8080).unwrap();
    let router = Router::new().route("/open/x", get(|| async { "open" })).layer(layer);
    assert_eq!(alone(&router, "/open/x").await, (200, "open".to_owned()));
    std::fs::remove_file(folder.path().join("open.yaml")).unwrap();
    soon(async {
        while alone(&router, "/open/x").await.0 != 404 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Middleware around the check answers with the default of its body (a timeout, CORS).
#[tokio::test]
async fn the_default_of_the_checks_body_is_empty() {
    let body = PolicyBody::<Body>::default();
    assert!(http_body::Body::is_end_stream(&body));
    assert!(body.collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn the_server_decides_before_any_router_has_read_a_request() {
    let folder = manifests();
    let policies = policies(folder.path()).await;
    let inner = Router::new().route("/x", get(|| async { "secret" }));
    let router = Router::new()
        .nest("/admin", inner)
        .route("/open/{what}", get(|| async { "open" }))
        .route("/{tenant}/{what}", echo());
    let address = serve(&policies, router).await;
    let body = |path| async move { Answer::whole(ask(address, path).await).await.text() };
    // The router reads what was decided on.
    assert_eq!(body("/%6fpen/x").await, "open");
    assert_eq!(status(address, "/admin/x").await, 403);
    assert_eq!(status(address, "/%61dmin/x").await, 403);
    assert_eq!(status(address, "/admin/../open/x").await, 400);
    assert_eq!(status(address, "/nothing/x").await, 404);
}

#[tokio::test]
async fn the_example_of_axum_serves_what_policy_permits() {
    let folder = manifests();
    let (listener, address) = listener().await;
    let path = folder.path().to_str().unwrap().to_owned();
    let serving = tokio::spawn(async move { crate::protected_axum::serve(&path, listener).await });
    assert_eq!(status(address, "/open/you").await, 200);
    assert_eq!(status(address, "/admin/you").await, 403);
    assert!(!serving.is_finished());
}
