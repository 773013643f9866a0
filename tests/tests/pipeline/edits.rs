//! Files are edited, added, deleted and broken while clients ask.

use crate::client::{Client, Kind};
use crate::world::{BASE, EDIT, GRANT, HERE, HTTP, World, clients};
use policy_testkit::wait_within;

/// Turns a client's answers from allowed to denied and back, on its one connection.
async fn flips(kind: Kind, path: &str) {
    let world = World::start().await;
    let mut client = world.client(kind).await;
    assert_eq!(client.ask(path).await, kind.allowed());
    for _ in 0..2 {
        world.write("clients.yaml", &clients(&["203.0.113.0/24"]));
        let took = client.turns(path, kind.allowed(), kind.denied()).await;
        assert!(took < EDIT, "revoked after {took:?}");
        world.write("clients.yaml", &clients(&[HERE]));
        let took = client.turns(path, kind.denied(), kind.allowed()).await;
        assert!(took < EDIT, "granted after {took:?}");
    }
}

#[tokio::test]
async fn an_edit_flips_the_answers_on_a_connection_that_stays_open() {
    flips(Kind::Http1, "/a").await;
}

#[tokio::test]
async fn an_edit_flips_the_answers_of_http2() {
    flips(Kind::Http2, "/a").await;
}

#[tokio::test]
async fn an_edit_flips_the_answers_of_grpc() {
    flips(Kind::Grpc, "/pkg.Service/Call").await;
}

#[tokio::test]
async fn a_file_that_is_written_where_it_is_counts_like_one_that_is_replaced() {
    let world = World::start().await;
    let mut client = world.client(Kind::Http1).await;
    world.overwrite("clients.yaml", &clients(&["203.0.113.0/24"]));
    assert!(client.turns("/", 200, 403).await < EDIT);
    world.overwrite("clients.yaml", &clients(&[HERE]));
    assert!(client.turns("/", 403, 200).await < EDIT);
}

#[tokio::test]
async fn ports_that_the_namespace_lists_ask_for_identities_on_a_connection_that_stays_open() {
    // The pod without its Servers.
    let pod = BASE.split("---\n").nth(1).unwrap();
    let listing = |list: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    \
             config.linkerd.io/proxy-require-identity-inbound-ports: \"{list}\"\n---\n{pod}"
        )
    };
    let world = World::with(&[("base.yaml", &listing("9000,metrics"))]).await;
    let mut client = world.client(Kind::Http1).await;
    assert_eq!(client.ask("/").await, 200);
    for asks in ["9000,http", "9000,8o80"] {
        world.write("base.yaml", &listing(asks));
        assert!(client.turns("/", 200, 403).await < EDIT, "{asks}");
        world.write("base.yaml", &listing("9000,metrics"));
        assert!(client.turns("/", 403, 200).await < EDIT, "{asks}");
    }
}

#[tokio::test]
async fn deleting_an_authentication_revokes_and_adding_it_again_grants() {
    let world = World::start().await;
    let mut client = world.client(Kind::Http1).await;
    // The object goes while its file stays.
    world.write("clients.yaml", "# nobody\n");
    assert!(client.turns("/", 200, 403).await < EDIT);
    world.write("clients.yaml", &clients(&[HERE]));
    assert!(client.turns("/", 403, 200).await < EDIT);
    // The file goes.
    world.delete("clients.yaml");
    assert!(client.turns("/", 200, 403).await < EDIT);
    // It returns as part of another file, in JSON.
    let json = r#"{"apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthentication",
        "metadata": {"name": "clients", "namespace": "shop"},
        "spec": {"networks": [{"cidr": "127.0.0.1/32"}]}}"#;
    world.write("again.json", json);
    assert!(client.turns("/", 403, 200).await < EDIT);
}

#[tokio::test]
async fn adding_a_file_grants_and_deleting_it_revokes() {
    let world = World::with(&[("base.yaml", BASE), ("clients.yaml", &clients(&[HERE]))]).await;
    let mut client = world.client(Kind::Http1).await;
    assert_eq!(client.ask("/").await, 403);
    world.write("grant.yaml", GRANT);
    assert!(client.turns("/", 403, 200).await < EDIT);
    world.delete("grant.yaml");
    assert!(client.turns("/", 200, 403).await < EDIT);
}

#[tokio::test]
async fn a_route_that_is_added_makes_the_rest_not_found() {
    let world = World::start().await;
    let mut client = world.client(Kind::Http1).await;
    world.write(
        "route.yaml",
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {name: api, namespace: shop}\nspec:\n\
         \x20 parentRefs: [{group: policy.linkerd.io, kind: Server, name: http}]\n\
         \x20 rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]\n",
    );
    let not_found = async || match client.ask("/other").await {
        200 => false,
        // In flight when the policy changed.
        403 => {
            world.told(&format!("deny revoked - {HTTP}")).await;
            false
        }
        other => {
            assert_eq!(other, 404);
            true
        }
    };
    wait_within("the route is attached", EDIT, not_found).await;
    assert_eq!(client.ask("/api/x").await, 200);
    world.delete("route.yaml");
    assert!(client.turns("/other", 404, 200).await < EDIT);
}

/// A file that breaks loses its grants and keeps its claims, and no other client notices.
#[tokio::test]
async fn a_file_that_stops_parsing_loses_its_grants_and_keeps_its_claims_until_it_is_repaired() {
    // The port's Server and its grant are in one file; without the Server the default would admit
    // everybody.
    let open =
        BASE.replace("default-inbound-policy: deny", "default-inbound-policy: all-unauthenticated");
    let (base, servers) = open.split_once("---\napiVersion: policy.linkerd.io").unwrap();
    let servers = format!("apiVersion: policy.linkerd.io{servers}---\n{GRANT}");
    let authentication = clients(&[HERE]);
    let files =
        [("base.yaml", base), ("servers.yaml", &*servers), ("clients.yaml", &*authentication)];
    let world = World::with(&files).await;
    let mut client = world.client(Kind::Http1).await;
    assert_eq!(client.ask("/").await, 200);

    world.write("servers.yaml", &servers.replace("port: http,", "port: [http"));
    assert!(client.turns("/", 200, 403).await < EDIT);
    let diagnostics = world.controller().diagnostics.borrow().clone();
    let broken = diagnostics.iter().find(|d| d.file.ends_with("servers.yaml"));
    let broken = broken.unwrap_or_else(|| panic!("no diagnostic: {diagnostics:?}"));
    assert!(broken.line.is_some() && broken.column.is_some(), "{broken}");

    // Another object changes meanwhile: the broken file's claims survive that too.
    world.write("clients.yaml", &clients(&[HERE, "127.0.0.2/32"]));
    world.write(
        "other.yaml",
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: shop}\n",
    );
    for _ in 0..20 {
        assert_eq!(client.ask("/").await, 403);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }

    world.write("servers.yaml", &servers);
    assert!(client.turns("/", 403, 200).await < EDIT);
    let clean = async || world.controller().diagnostics.borrow().is_empty();
    wait_within("the diagnostic goes", EDIT, clean).await;
}

/// A new connection and an old one never disagree for longer than one update takes.
#[tokio::test]
async fn connections_old_and_new_are_decided_alike() {
    let world = World::start().await;
    let mut old = world.client(Kind::Http1).await;
    world.write("clients.yaml", &clients(&[]));
    old.turns("/", 200, 403).await;
    let mut new = Client::new(world.connect(HTTP).await, Kind::Http2).await;
    assert_eq!(new.ask("/").await, 403);
}
