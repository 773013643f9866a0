//! Trees of what a user may list, which is not everything.

use super::*;
use crate::cluster::permissions::ListScope;
use crate::cluster::settings::{Settings, SettingsFlags};
use crate::output::Paint;
use policy_engine::source::directory::Manifests;

/// The text of `routes HOST` for a user who may list one namespace.
fn seen_from(namespace: &str, manifests: &str, host: &str) -> String {
    text(manifests, host, |inventory| {
        for kind in DECIDING.into_iter().chain([Kind::AuthorizationPolicy]) {
            let refusal = "forbidden".into();
            let scope = ListScope::Namespace { namespace: namespace.into(), refusal };
            inventory.permissions.record(kind, scope);
        }
    })
}

/// The text of `routes HOST` about these manifests, with rights changed.
fn text(manifests: &str, host: &str, change: impl FnOnce(&mut Inventory)) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), manifests).unwrap();
    let settings = Settings::of_directory(&SettingsFlags::default());
    let mut inventory =
        Inventory::of_manifests(&[Manifests::Path(folder.path().to_owned())], Scope::All, settings)
            .unwrap();
    change(&mut inventory);
    let host = host::parse(host).unwrap();
    report(&inventory, Some(&host)).unwrap().text(Paint::plain())
}

/// The user may list no objects of a kind.
fn hide(inventory: &mut Inventory, kind: Kind) {
    inventory.permissions.record(kind, ListScope::Denied { refusal: "forbidden".into() });
}

const ROOT: &str = r"
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: www, namespace: site, creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  virtualhost: {fqdn: www.example.com, aliases: [example.com]}
  routes:
  - {match: /legal, delegate: {name: legal, namespace: legal}}
  - {match: /own, servers: [{name: own}]}
  - {match: /some, delegate: {selector: {matchLabels: {some: one}}, namespace: legal}}
";

#[test]
fn what_the_user_may_not_list_is_not_told_as_missing() {
    let seen = seen_from("site", ROOT, "www.example.com");
    for told in [
        "/legal  denied, as far as it is visible to you",
        "it is not known if InboundRoute legal/legal takes part",
        "InboundRoute legal/legal, unless it exists, not visible to you: \
         inboundroutes.portcullis.dev of namespace legal may not be listed",
        "/some  denied, as far as it is visible to you",
        "what the selector selects is not visible to you",
    ] {
        assert!(seen.contains(told), "{told}:\n{seen}");
    }
    // What would have been seen is missing.
    assert!(seen.contains("RefNotFound: Server site/own does not exist"), "{seen}");
    let from_elsewhere = seen_from("legal", ROOT, "www.example.com");
    assert!(from_elsewhere.contains("Server site/own is not visible to you"), "{from_elsewhere}");
    assert!(!from_elsewhere.contains("site/own does not exist"), "{from_elsewhere}");
}

#[test]
fn a_child_that_did_not_consent_is_certain_whatever_else_is_hidden() {
    let child = "---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: legal, namespace: legal}
spec:
  delegatedFrom: [{fqdn: other.example.com}]
  routes: [{match: /legal, servers: [{name: desk}]}]
";
    let manifests = format!("{ROOT}{child}");
    let seen = text(&manifests, "www.example.com", |inventory| {
        hide(inventory, Kind::ReferenceGrant);
    });
    assert!(seen.contains("/legal  denied\n"), "{seen}");
    assert!(
        seen.contains("a ReferenceGrant of namespace legal, unless there is one, not visible"),
        "{seen}"
    );
}

#[test]
fn who_may_call_is_not_told_where_policies_are_hidden() {
    let server = "---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: own, namespace: site}
spec: {podSelector: {}, port: 8080, proxyProtocol: HTTP/1}
";
    let manifests = format!("{ROOT}{server}");
    let all = text(&manifests, "www.example.com", |_| ());
    assert!(all.contains("nobody may call: no policy grants it"), "{all}");
    let seen = text(&manifests, "www.example.com", |inventory| {
        hide(inventory, Kind::AuthorizationPolicy);
    });
    assert!(!seen.contains("nobody may call"), "{seen}");
    let told = "others may call by policies that are not visible to you: \
                authorizationpolicies.policy.linkerd.io of namespace site may not be listed";
    assert!(seen.contains(told), "{seen}");
}

/// Two selected objects have one path. The older has it on the host that it consents to; there the
/// other is shadowed, although it consents to both hosts.
#[test]
fn a_child_that_another_shadows_on_one_host_is_not_said_to_lack_consent() {
    let children = "---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: www, namespace: site, creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  virtualhost: {fqdn: www.example.com, aliases: [example.com]}
  routes:
  - {match: /some, delegate: {selector: {matchLabels: {some: one}}, namespace: site}}
---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: older, namespace: site, labels: {some: one}, creationTimestamp: '2026-01-02T00:00:00Z'}
spec:
  delegatedFrom: [{fqdn: www.example.com}]
  routes: [{match: /some, servers: [{name: own}]}]
---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: younger, namespace: site, labels: {some: one}, creationTimestamp: '2026-01-03T00:00:00Z'}
spec:
  delegatedFrom: [{fqdn: www.example.com}, {fqdn: example.com}]
  routes: [{match: /some, servers: [{name: own}]}]
";
    let www = text(children, "www.example.com", |_| ());
    assert!(!www.contains("consent"), "{www}");
    assert!(www.contains("/some  shadowed: InboundRoute site/older has /some"), "{www}");
    let alias = text(children, "example.com", |_| ());
    // The younger one has the path there.
    assert!(alias.contains("InboundRoute site/younger"), "{alias}");
    assert!(!alias.contains("shadowed") && !alias.contains("consent"), "{alias}");
}

#[test]
fn a_claim_that_lost_by_name_is_not_said_to_be_later() {
    let root = |namespace: &str, second: u8| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {{name: www, namespace: {namespace}, creationTimestamp: '2026-01-01T00:00:0{second}Z'}}
spec:
  virtualhost: {{fqdn: www.example.com}}
  routes: [{{match: /, servers: [{{name: web}}]}}]
"
        )
    };
    let all = [root("first", 1), root("second", 1), root("third", 2)].join("---\n");
    let seen = text(&all, "www.example.com", |_| ());
    let words = |root: &str| {
        let of_root = |line: &&str| line.contains(root) && line.contains("  inactive  ");
        seen.lines().find(of_root).unwrap_or_else(|| panic!("{seen}"))
    };
    let tie = "first/www claimed it at the same time, and comes first by namespace and name";
    assert!(words("second").ends_with(tie), "{seen}");
    assert!(words("third").ends_with("first/www claimed it earlier"), "{seen}");
}
