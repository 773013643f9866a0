//! A ReferenceGrant, or another object without which a policy grants nothing, is deleted while a client
//! sends requests on one HTTP/2 connection.

use crate::client::Kind;
use crate::world::{BASE, EDIT, GRANT, HERE, HTTP, World, clients};
use policy_core::{ServerPolicy, WorkloadKey};
use policy_testkit::wait_within;
use std::num::NonZeroU16;

/// The policy of namespace shop asks for an authentication of namespace auth.
fn authentication_elsewhere() -> (String, String) {
    let policy = GRANT.replace("name: clients}\n", "name: clients, namespace: auth}\n");
    assert_ne!(policy, GRANT);
    let authentication = clients(&[HERE]).replace("namespace: shop", "namespace: auth");
    let grant =
        grant("auth", "AuthorizationPolicy", "shop", "NetworkAuthentication, name: clients");
    (format!("{policy}---\n{authentication}"), grant)
}

/// A route of namespace team is attached to Server http of namespace shop.
fn route_elsewhere() -> (String, String) {
    let route = "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
                 metadata: {name: api, namespace: team}\nspec:\n\
                 \x20 parentRefs: [{group: policy.linkerd.io, kind: Server, name: http, namespace: shop}]\n\
                 \x20 rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]\n";
    let policy = GRANT
        .replace(
            "{kind: Namespace, name: shop}",
            "{group: policy.linkerd.io, kind: HTTPRoute, name: api}",
        )
        .replace("namespace: shop", "namespace: team");
    let authentication = clients(&[HERE]).replace("namespace: shop", "namespace: team");
    let grant = grant("shop", "HTTPRoute", "team", "Server, name: http");
    (format!("{route}---\n{policy}---\n{authentication}"), grant)
}

/// A binding on Server http brings the routes of this group of a namespace. One policy is on the object that
/// `target` names.
fn bound(namespace: &str, target: &str) -> String {
    let policy = GRANT.replace(
        "{kind: Namespace, name: shop}",
        &format!("{{group: portcullis.dev, kind: {target}, name: web}}"),
    );
    let authentication = clients(&[HERE]);
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteBinding\n\
         metadata: {{name: web, namespace: shop}}\nspec:\n\
         \x20 targetRef: {{group: policy.linkerd.io, kind: Server, name: http}}\n\
         \x20 routeRefs: [{{name: web, namespace: {namespace}}}]\n---\n{policy}---\n{authentication}"
    )
}

fn group(namespace: &str, name: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteGroup\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{routes: [{routes}]}}\n"
    )
}

/// A binding names a group of namespace team.
fn group_elsewhere() -> (String, String) {
    let manifests = bound("team", "HttpRouteBinding");
    let group = group("team", "web", "{path: '/api/:id'}");
    let grant = grant("team", "HttpRouteBinding", "shop", "HttpRouteGroup")
        .replace("policy.linkerd.io", "portcullis.dev");
    (format!("{manifests}---\n{group}"), grant)
}

/// A class selects the requests that a policy is about.
fn class_of_routes() -> (String, String) {
    let manifests = bound("shop", "HttpRouteClass");
    let group = group("shop", "web", "{path: '/api/:id'}");
    let class = "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteClass\n\
                 metadata: {name: web, namespace: shop}\nspec:\n\
                 \x20 targetRef: {group: policy.linkerd.io, kind: Server, name: http}\n\
                 \x20 routeSelector: {matchLabels: {path.http.linkerd.io/id: '42'}}\n";
    (format!("{manifests}---\n{group}"), class.to_owned())
}

/// A group includes another one, which closes all of its routes while it is missing.
fn included_group() -> (String, String) {
    let manifests = bound("shop", "HttpRouteBinding");
    let outer = group("shop", "web", "{path: '/api/:id'}, {routeGroupRef: {name: more}}");
    (format!("{manifests}---\n{outer}"), group("shop", "more", "{path: /more}"))
}

fn grant(namespace: &str, from: &str, from_namespace: &str, to: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
         metadata: {{name: g, namespace: {namespace}}}\nspec:\n\
         \x20 from: [{{group: policy.linkerd.io, kind: {from}, namespace: {from_namespace}}}]\n\
         \x20 to: [{{group: policy.linkerd.io, kind: {to}}}]\n"
    )
}

/// True if the sidecar has acknowledged a policy for which this holds, and none newer is on its way.
pub(crate) fn acknowledged(world: &World, port: u16, holds: fn(&ServerPolicy) -> bool) -> bool {
    let port = NonZeroU16::new(port).unwrap();
    let clients = world.controller().applied.port(&WorkloadKey::pod("shop", "web"), port);
    let holds = |policy: &ServerPolicy| holds(policy);
    !clients.is_empty()
        && clients.iter().all(|client| {
            client.is_current() && client.in_force.as_ref().is_some_and(|(policy, _)| holds(policy))
        })
}

/// Deletes the grant and gives it back, on one connection that stays open.
async fn revoked_by_the_acknowledgement(
    (manifests, grant): (String, String),
    path: &str,
    is_revoked: fn(&ServerPolicy) -> bool,
) {
    let files = [("base.yaml", BASE), ("elsewhere.yaml", &*manifests), ("grant.yaml", &*grant)];
    let world = World::with(&files).await;
    let mut client = world.client(Kind::Http2).await;
    assert_eq!(client.ask(path).await, 200);
    assert!(!acknowledged(&world, HTTP, is_revoked), "the policy tells both states apart");
    for _ in 0..3 {
        world.delete("grant.yaml");
        let refused = async || {
            // A request that begins after the acknowledgement is decided without the grant.
            let told = acknowledged(&world, HTTP, is_revoked);
            let code = client.ask(path).await;
            assert!(code == 403 || (code == 200 && !told), "{code}, acknowledged: {told}");
            told
        };
        wait_within("the acknowledgement of the revocation", EDIT, refused).await;
        for _ in 0..50 {
            assert_eq!(client.ask(path).await, 403, "the permission came back");
        }
        world.write("grant.yaml", &grant);
        client.turns(path, 403, 200).await;
    }
}

#[tokio::test]
async fn a_grant_for_an_authentication_is_revoked_by_the_acknowledgement_on_an_open_connection() {
    let is_revoked = |policy: &ServerPolicy| policy.authorizations.is_empty();
    revoked_by_the_acknowledgement(authentication_elsewhere(), "/", is_revoked).await;
}

#[tokio::test]
async fn a_grant_for_a_route_is_revoked_by_the_acknowledgement_on_an_open_connection() {
    revoked_by_the_acknowledgement(route_elsewhere(), "/api", grants_no_route).await;
}

fn grants_no_route(policy: &ServerPolicy) -> bool {
    policy.routes.routes.iter().all(|route| route.authorizations.is_empty())
}

#[tokio::test]
async fn a_grant_for_a_group_is_revoked_by_the_acknowledgement_on_an_open_connection() {
    revoked_by_the_acknowledgement(group_elsewhere(), "/api/42", grants_no_route).await;
}

#[tokio::test]
async fn a_class_that_is_gone_grants_nothing_by_the_acknowledgement_on_an_open_connection() {
    revoked_by_the_acknowledgement(class_of_routes(), "/api/42", grants_no_route).await;
}

#[tokio::test]
async fn a_missing_include_closes_a_binding_by_the_acknowledgement_and_heals_without_it() {
    revoked_by_the_acknowledgement(included_group(), "/api/42", grants_no_route).await;
}
