//! What the status of delegations says: rules that nobody can answer, hosts that a child does not list,
//! and the reasons of a refused child.

use super::common::{self, POD};
use policy_crds::resource::{PathPrefix, Recorded, RecordedConnection, RecordedOrphan};
use policy_crds::{Kind, ObjectKey};
use policy_engine::conditions::ConditionKind;
use policy_engine::delegation::DelegationEntry;
use policy_engine::view::PolicyView;
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use std::fmt::Write as _;
use std::sync::Arc;

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: Kind::InboundRoute, namespace: namespace.into(), name: name.into() }
}

/// An InboundRoute.
fn inbound(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: {name}, namespace: {namespace}, \
         creationTimestamp: '2026-01-01T00:00:00Z'}}\nspec: {{{spec}}}"
    )
}

/// A root of namespace `shop`.
fn root(virtual_host: &str, routes: &str) -> String {
    inbound("shop", "www", &format!("virtualhost: {{{virtual_host}}}, routes: [{routes}]"))
}

/// A ReferenceGrant of namespace `team` for the roots of `shop`.
fn grant(group: &str, kind: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
         metadata: {{name: grant, namespace: team}}\n\
         spec: {{from: [{{group: portcullis.dev, kind: InboundRoute, namespace: shop}}], \
         to: [{{group: {group}, kind: {kind}}}]}}"
    )
}

fn server(name: &str, protocol: &str) -> String {
    common::server(protocol, "deny")
        .replace("name: web, namespace", &format!("name: {name}, namespace"))
}

fn compiled(documents: &[&str]) -> Compiled {
    common::compiled(&[&[POD], documents].concat())
}

/// The rules of an object with their states and reasons.
fn rules(compiled: &Compiled, namespace: &str, name: &str) -> Vec<String> {
    let state = compiled.delegation_state(&key(namespace, name));
    let rule = |rule: &policy_engine::delegation::RouteEntry| {
        let reason = rule.reason.map_or("-", |reason| reason.as_str());
        format!("{} {} {reason}", rule.path, rule.state.as_str())
    };
    state.routes.iter().map(rule).collect()
}

/// The conditions of one type of an object, as `status reason: message`.
fn told(compiled: &Compiled, kind: ConditionKind, name: &str) -> Vec<String> {
    let all = compiled.conditions.iter().filter(|(key, _)| *key.name == *name);
    let all = all.flat_map(|(_, conditions)| conditions.iter()).filter(|c| c.kind == kind);
    all.map(|c| format!("{} {}: {}", c.status, c.reason.as_str(), c.message)).collect()
}

/// `Programmed` was said of rules whose Server does not exist or carries no requests.
#[test]
fn a_rule_that_no_server_can_answer_is_denied_and_says_why() {
    let www = root(
        "fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, name: bytes}",
        "{match: /, servers: [{name: web}]}, {match: /gone, servers: [{name: gone}]}, \
         {match: /bytes, servers: [{name: bytes}]}, {match: /target, serve: {}}, \
         {match: /a/b/c, servers: [{name: calls}]}, {match: /a/b, servers: [{name: calls}]}, \
         {match: /some, servers: [{name: web}, {name: gone}]}, \
         {match: /invalid, servers: [{name: invalid}]}",
    );
    let invalid = server("invalid", "HTTP/9");
    let [web, bytes, calls] = [("web", "HTTP/1"), ("bytes", "opaque"), ("calls", "gRPC")]
        .map(|(name, protocol)| server(name, protocol));
    let all = compiled(&[&web, &bytes, &calls, &invalid, &www]);
    assert_eq!(
        rules(&all, "shop", "www"),
        [
            "/ Programmed -",
            "/gone Blackholed RefNotFound",
            "/bytes Blackholed ProtocolMismatch",
            "/target Blackholed ProtocolMismatch",
            "/a/b/c Blackholed NotProgrammable",
            "/a/b Programmed -",
            "/some Programmed -",
            "/invalid Blackholed RefInvalid",
        ]
    );
    let resolved = told(&all, ConditionKind::ResolvedRefs, "www");
    for words in [
        "`/gone` is denied: Server shop/gone does not exist",
        "`/bytes` is denied: Server shop/bytes carries no requests",
        "`/target` is denied: Server shop/bytes carries no requests",
        "`/a/b/c` is denied: Server shop/calls answers gRPC",
        "`/some` is answered by fewer Servers: Server shop/gone does not exist",
        "`/invalid` is denied: Server shop/invalid is invalid",
    ] {
        assert!(resolved[0].contains(words), "{words}: {resolved:?}");
    }
    assert!(resolved[0].starts_with("false RefNotFound: "), "{resolved:?}");
    // A vertex of another namespace does not learn the name of the root's Server.
    let www = root(
        "fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, name: secret}",
        "{match: /, delegate: {name: v, namespace: team}}",
    );
    let v = inbound("team", "v", "delegatedFrom: [{fqdn: a.io}], routes: [{match: /, serve: {}}]");
    let all = compiled(&[&www, &v, &grant("portcullis.dev", "InboundRoute")]);
    assert_eq!(rules(&all, "team", "v"), ["/ Blackholed RefNotFound"]);
    let resolved = told(&all, ConditionKind::ResolvedRefs, "v");
    assert_eq!(
        resolved,
        ["false RefNotFound: `/` is denied: the Server of the root does not exist"]
    );
}

/// A Server that no tree has asked for is missing nonetheless.
#[test]
fn an_object_without_a_tree_learns_of_its_missing_server() {
    let servers = "routes: [{match: /, servers: [{name: gone}]}]";
    let v = inbound("team", "v", &format!("delegatedFrom: [{{fqdn: a.io}}], {servers}"));
    let resolved = told(&compiled(&[&v]), ConditionKind::ResolvedRefs, "v");
    assert_eq!(resolved, ["false RefNotFound: Server team/gone does not exist"]);
}

/// The alias was denied, and nothing said so.
#[test]
fn a_host_that_no_child_lists_is_told_to_whoever_delegates() {
    let of = |child: &str, more: &[&str]| {
        let www = root("fqdn: a.io, aliases: [b.io]", &format!("{{match: /, delegate: {child}}}"));
        let web = server("web", "HTTP/1");
        let all = [&[&*www, &*web][..], more].concat();
        let all = compiled(&all);
        let mut told = told(&all, ConditionKind::ResolvedRefs, "www");
        (rules(&all, "shop", "www").remove(0), told.remove(0))
    };
    let v = |namespace: &str, name: &str, host: &str| {
        let spec =
            format!("delegatedFrom: [{{fqdn: {host}}}], routes: [{{match: /, serve: {{}}}}]");
        inbound(namespace, name, &spec)
    };
    let near = v("shop", "v", "a.io");
    let (rule, resolved) = of("{name: v}", &[&near]);
    assert_eq!(rule, "/ Delegated NotPermitted");
    assert_eq!(
        resolved,
        "false NotPermitted: `/` is denied on b.io: InboundRoute shop/v does not consent there"
    );
    let far = v("team", "v", "a.io");
    let grant = grant("portcullis.dev", "InboundRoute");
    let (rule, resolved) = of("{name: v, namespace: team}", &[&far, &grant]);
    assert_eq!(rule, "/ Delegated RefNotPermitted");
    assert_eq!(
        resolved,
        "false RefNotPermitted: `/` is denied on b.io: InboundRoute team/v cannot be used from this \
         namespace: the object, a ReferenceGrant for it or its consent is missing"
    );
    // The other host is that of another selected object.
    let labelled = |text: String| text.replace("metadata: {", "metadata: {labels: {l: x}, ");
    let (one, two) = (labelled(v("shop", "v", "a.io")), labelled(v("shop", "w", "b.io")));
    let selected = "{selector: {matchLabels: {l: x}}}";
    let (rule, resolved) = of(selected, &[&one, &two]);
    assert_eq!((&*rule, &*resolved), ("/ Delegated -", "true ResolvedRefs: "));
    let (rule, _) = of(selected, &[&one]);
    assert_eq!(rule, "/ Delegated NotPermitted");
    // The child learns which hosts reach it, and is not refused.
    let www = root("fqdn: a.io, aliases: [b.io]", "{match: /, delegate: {name: v}}");
    let state = compiled(&[&www, &near]).delegation_state(&key("shop", "v"));
    let [DelegationEntry::Connected { hosts, .. }] = &*state.delegations else {
        panic!("{state:?}")
    };
    assert_eq!(hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.io"]);
}

/// It read that its parent does not delegate to it.
#[test]
fn a_child_route_that_consents_learns_why_it_is_refused() {
    let www =
        root("fqdn: a.io", "{match: /h, delegate: {kind: HTTPRoute, name: h, namespace: team}}");
    let route = |host: &str, path: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: h, namespace: team}}\n\
             spec:\n  hostnames: [{host}]\n  parentRefs:\n\
             \x20 - {{group: portcullis.dev, kind: InboundRoute, name: www, namespace: shop}}\n\
             \x20 - {{group: policy.linkerd.io, kind: Server, name: web}}\n\
             \x20 rules: [{{matches: [{{path: {{value: {path}}}}}]}}]"
        )
    };
    let web = server("web", "HTTP/1").replace("namespace: shop", "namespace: team");
    let grant = grant("gateway.networking.k8s.io", "HTTPRoute");
    let accepted = |documents: &[&str]| {
        let all = compiled(&[&[&*www, &*web], documents].concat());
        told(&all, ConditionKind::Accepted, "h")
    };
    let outside = accepted(&[&route("a.io", "/other"), &grant]);
    assert!(outside[0].starts_with("false PrefixNotContained: "), "{outside:?}");
    assert!(outside[0].contains("InboundRoute shop/www delegates to it, which is refused"));
    assert!(outside[1].contains("its conditions about them say why"), "{outside:?}");
    let without_grant = accepted(&[&route("a.io", "/h")]);
    assert!(without_grant[0].starts_with("false RefNotPermitted: "), "{without_grant:?}");
    assert!(!without_grant[0].contains("no ReferenceGrant there"), "{without_grant:?}");
    // One that did not consent learns nothing of the delegator.
    let unwilling = accepted(&[&route("b.io", "/h"), &grant]);
    assert_eq!(
        unwilling[0],
        "false NotAllowedByListeners: InboundRoute shop/www does not delegate to it: it takes no \
         effect there"
    );
    let willing = accepted(&[&route("a.io", "/h"), &grant]);
    assert_eq!(willing, ["true Accepted: ", "true Accepted: "]);
}

/// It said that there is no ReferenceGrant, although there was one.
#[test]
fn who_delegates_across_namespaces_is_told_all_that_may_be_missing() {
    let www = root("fqdn: a.io", "{match: /, delegate: {name: v, namespace: team}}");
    let invalid = inbound("team", "v", "delegatedFrom: [{fqdn: a.io}], routes: [{match: //}]");
    let unwilling =
        inbound("team", "v", "delegatedFrom: [{fqdn: b.io}], routes: [{match: /, serve: {}}]");
    let grant = grant("portcullis.dev", "InboundRoute");
    let words = |documents: &[&str]| {
        let all = compiled(&[&[&*www], documents].concat());
        told(&all, ConditionKind::ResolvedRefs, "www").remove(0)
    };
    let missing = words(&[&grant]);
    assert_eq!(
        missing,
        "false RefNotPermitted: `/` is denied: InboundRoute team/v cannot be used from this namespace: \
         the object, a ReferenceGrant for it or its consent is missing"
    );
    for documents in [&[&*invalid, &*grant][..], &[&*unwilling, &*grant], &[&*unwilling]] {
        assert_eq!(words(documents), missing);
    }
}

/// Its Server said that the route is invalid.
#[test]
fn a_server_whose_routes_lost_their_hosts_does_not_call_them_invalid() {
    let owner = inbound(
        "owner",
        "www",
        "virtualhost: {fqdn: a.io}, routes: [{match: /, servers: [{name: web}]}]",
    );
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: h, namespace: shop}\n\
                 spec:\n  hostnames: [a.io]\n\
                 \x20 parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                 \x20 rules: [{matches: [{path: {value: PATH}}]}]";
    let of = |path: &str| {
        let all = compiled(&[&server("web", "HTTP/1"), &owner, &route.replace("PATH", path)]);
        let mut accepted = all.conditions.iter().filter(|(key, _)| key.kind == Kind::Server);
        let (_, conditions) = accepted.next().unwrap();
        (conditions[0].message.to_string(), PolicyView::from(&*common::web(&all, 8080)).text())
    };
    let (valid, closed) = of("/");
    assert_eq!(valid, "routes are attached and others hold every hostname of them");
    assert!(closed.contains("unmatched  not found\n"), "{closed}");
    let (invalid, closed) = of("x");
    assert_eq!(invalid, "routes are attached but none of them is valid: its ports are denied");
    assert!(closed.contains("unmatched  denied, routes_invalid\n"), "{closed}");
}

/// A closed Server was printed as an open one.
#[test]
fn what_is_not_matched_is_told_unless_the_grants_of_the_port_decide() {
    let text =
        |documents: &[&str]| PolicyView::from(&*common::web(&compiled(documents), 8080)).text();
    let open = server("web", "HTTP/1");
    assert!(!text(&[&open]).contains("unmatched"));
    let www = root(
        "fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, name: web}",
        "{match: /, delegate: {name: gone}}",
    );
    let closed = text(&[&open, &www]);
    assert!(closed.contains("unmatched  denied, not_delegated on a.io\n"), "{closed}");
    assert!(closed.contains("unmatched  denied, not_delegated\n"), "{closed}");
}

/// Objects that others have the paths of did not count, and made a tree of any size.
#[test]
fn rules_that_others_have_count_for_the_bound_of_a_tree() {
    let hosts: Vec<String> = (0..16).map(|n| format!("h{n}.io")).collect();
    let www = root(
        &format!("fqdn: {}, aliases: [{}]", hosts[0], hosts[1..].join(", ")),
        "{match: /d0, delegate: {selector: {matchLabels: {l: g0}}}}, \
         {match: /d1, delegate: {selector: {matchLabels: {l: g1}}}}, \
         {match: /d2, delegate: {selector: {matchLabels: {l: g2}}}}",
    );
    let consents: Vec<String> = hosts.iter().map(|host| format!("{{fqdn: {host}}}")).collect();
    let mut text = www;
    for group in 0..3 {
        let rules: Vec<String> =
            (0..64).map(|n| format!("{{match: /d{group}/x{n}, serve: {{}}}}")).collect();
        for number in 0..30 {
            let name = format!("v{group}-{number}");
            let spec =
                format!("delegatedFrom: [{}], routes: [{}]", consents.join(", "), rules.join(", "));
            let vertex = inbound("shop", &name, &spec);
            let labels = format!("metadata: {{labels: {{l: g{group}}}, ");
            write!(text, "\n---\n{}", vertex.replace("metadata: {", &labels)).unwrap();
        }
    }
    let rules = rules(&common::compiled(&[&text]), "shop", "www");
    assert_eq!(
        rules,
        ["/d0 Delegated TooLarge", "/d1 Delegated TooLarge", "/d2 Delegated TooLarge"]
    );
}

/// The newest was the one that was left out, and refusals came before connections.
#[test]
fn the_status_shows_connections_then_the_last_parents_that_are_lost_then_refusals() {
    let v = inbound("shop", "v", "delegatedFrom: [{fqdn: a.io}], routes: [{match: /s, serve: {}}]");
    let rules = "routes: [{match: /s, delegate: {name: v}}]";
    let connecting = inbound("shop", "z", &format!("virtualhost: {{fqdn: a.io}}, {rules}"));
    // Its path does not contain those of the vertex.
    let refused = inbound(
        "shop",
        "a",
        "virtualhost: {fqdn: a.io}, routes: [{match: /s/t, delegate: {name: v}}]",
    );
    let mut objects = common::objects(&[&v, &connecting, &refused]);
    let orphan = |number: i64| RecordedOrphan {
        last_parent: key("shop", &format!("old{number:02}")),
        since: Some(1_000 + number),
    };
    let recorded = Recorded {
        orphaned: (0..20).map(orphan).collect(),
        connected: vec![RecordedConnection {
            parent: key("shop", "new"),
            prefix: PathPrefix::parse("/s").unwrap(),
            since: 900,
        }],
        ..Recorded::default()
    };
    for object in objects.iter_mut().filter(|object| *object.meta.key.name == *"v") {
        object.meta.recorded = Some(Arc::new(recorded.clone()));
    }
    let all = compile_objects(objects, &ControllerConfig::default());
    let state = all.delegation_state(&key("shop", "v"));
    let entry = |entry: &DelegationEntry| match entry {
        DelegationEntry::Connected { parent, fqdn, .. } => {
            format!("connected {} {fqdn}", parent.name)
        }
        DelegationEntry::Orphaned { last_parent, .. } => {
            format!("orphaned {}", last_parent.as_ref().unwrap().name)
        }
        DelegationEntry::Rejected { parent, .. } => format!("rejected {}", parent.name),
    };
    let told: Vec<String> = state.delegations.iter().map(entry).collect();
    let mut expected = vec!["connected z a.io".to_owned(), "orphaned new".to_owned()];
    expected.extend((5..20).rev().map(|number| format!("orphaned old{number:02}")));
    expected.push("rejected a".to_owned());
    assert_eq!(told, expected);
}

/// The owner was told that the object, its grant or its consent is missing, of which none was.
#[test]
fn a_child_that_consents_to_a_name_below_a_wildcard_alone_is_told_so_and_its_delegator_too() {
    let owner = root(
        "fqdn: '*.q.io', targetRef: {group: policy.linkerd.io, kind: Server, name: web}",
        "{match: /, serve: {}}, {match: /m, delegate: {name: m, namespace: team}}",
    );
    let child =
        inbound("team", "m", "delegatedFrom: [{fqdn: foo.q.io}], routes: [{match: /m, serve: {}}]");
    let (server, grant) = (server("web", "HTTP/1"), grant("portcullis.dev", "InboundRoute"));
    let admission = super::hosts::admission("Strict");
    let compiled = compiled(&[&server, &owner, &child, &grant, &admission]);
    let words = "InboundRoute team/m consents to foo.q.io alone, and *.q.io is handed down as a whole: \
                 list *.q.io in its delegatedFrom, or claim foo.q.io by a root of its own";
    for (namespace, name) in [("shop", "www"), ("team", "m")] {
        let told = &compiled.conditions[&key(namespace, name)];
        assert!(told.iter().any(|one| one.message.contains(words)), "{told:?}");
    }
    let state = compiled.delegation_state(&key("team", "m"));
    let rejected = state.delegations.iter().find_map(|entry| match entry {
        DelegationEntry::Rejected { reason, .. } => Some(reason.as_str()),
        DelegationEntry::Connected { .. } | DelegationEntry::Orphaned { .. } => None,
    });
    assert_eq!(rejected, Some("NotPermitted"));
}
