//! A host is given up by whoever claimed it first, while a client of the next claimant asks on one
//! connection. The tests of the times of claims are beside the code that records them.

use crate::client::Kind;
use crate::world::{BASE, GRANT, HERE, World, clients};

/// The root that claims the host `web` first: in a namespace without pods, by an alias.
fn first(aliases: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: first, namespace: first, creationTimestamp: '2026-01-01T00:00:00Z'}}\n\
         spec:\n  virtualhost: {{fqdn: first.example, aliases: [{aliases}]}}\n  routes: [{routes}]\n"
    )
}

const ROUTES: &str = "{match: /, servers: [{name: web}]}";

/// The root of the client's pod, which is younger.
const SECOND: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: second, namespace: shop, creationTimestamp: '2026-02-01T00:00:00Z'}
spec:
  virtualhost: {fqdn: web, targetRef: {group: policy.linkerd.io, kind: Server, name: http}}
  routes: [{match: /, serve: {}}]
";

const ROOTS_OF_SHOP: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: RouteAdmissionPolicy
metadata: {name: default}
spec: {rootNamespaces: [shop]}
";

#[tokio::test]
async fn a_host_that_is_given_up_opens_the_next_claimants_server_on_open_connections() {
    let (holds, networks) = (first("web", ROUTES), clients(&[HERE]));
    let files = [
        ("base.yaml", BASE),
        ("policy.yaml", GRANT),
        ("clients.yaml", &networks),
        ("first.yaml", &holds),
        ("second.yaml", SECOND),
    ];
    let world = World::with(&files).await;
    let mut connections = [world.client(Kind::Http1).await, world.client(Kind::Http2).await];
    for client in &mut connections {
        assert_eq!(client.ask("/").await, 403, "another namespace holds the host");
    }
    let ends: [fn(&World); 4] = [
        |world| world.delete("first.yaml"),
        // Its status records no claim that it could keep.
        |world| world.write("first.yaml", &first("web", "")),
        |world| world.write("first.yaml", &first("", ROUTES)),
        |world| world.write("admission.yaml", ROOTS_OF_SHOP),
    ];
    for end in ends {
        end(&world);
        for client in &mut connections {
            client.turns("/", 403, 200).await;
        }
        // Without a recorded time the older object claimed first.
        world.write("first.yaml", &holds);
        world.write("admission.yaml", "");
        for client in &mut connections {
            client.turns("/", 200, 403).await;
        }
    }
}

/// The root `first` with these rules, and with a status that records its claim.
fn recorded(routes: &str) -> String {
    let status = "status:\n  claims:\n\
                  \x20 - {host: web, path: /, state: Active, claimedAt: '2026-01-01T00:00:00Z'}\n";
    first("web", routes).replace("metadata: {", "metadata: {generation: 2, ") + status
}

#[tokio::test]
async fn a_host_that_an_invalid_root_keeps_is_opened_by_its_deletion() {
    let (invalid, networks) = (recorded(""), clients(&[HERE]));
    let files = [
        ("base.yaml", BASE),
        ("policy.yaml", GRANT),
        ("clients.yaml", &networks),
        ("first.yaml", &invalid),
        ("second.yaml", SECOND),
    ];
    let world = World::with(&files).await;
    let mut connections = [world.client(Kind::Http1).await, world.client(Kind::Http2).await];
    for client in &mut connections {
        assert_eq!(client.ask("/").await, 403, "the invalid root keeps the host");
    }
    let ends: [fn(&World); 2] =
        [|world| world.delete("first.yaml"), |world| world.write("first.yaml", &first("web", ""))];
    let holds = [&invalid, &recorded(ROUTES)];
    for (end, again) in ends.into_iter().zip(holds) {
        end(&world);
        for client in &mut connections {
            client.turns("/", 403, 200).await;
        }
        world.write("first.yaml", again);
        for client in &mut connections {
            client.turns("/", 200, 403).await;
        }
    }
}
