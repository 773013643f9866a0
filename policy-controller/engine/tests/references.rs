//! References into other namespaces: what permits them, what does not, and what outsiders learn.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::*;
use policy_engine::compatibility::{DIFFERENCES, Whose};
use policy_engine::config::ReferenceGrants;
use policy_engine::references::{ForeignReference, ReferencePermission};
use policy_engine::{Compiled, ControllerConfig};
use proptest::prelude::*;
use std::collections::BTreeSet;

const POLICY: &str = "policy.linkerd.io";
const GATEWAY: &str = "gateway.networking.k8s.io";

/// A ReferenceGrant of this namespace, with these lists of `from` and `to`.
fn grant(namespace: &str, name: &str, from: &str, to: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{from: [{from}], to: [{to}]}}"
    )
}

fn from(group: &str, kind: &str, namespace: &str) -> String {
    format!("{{group: '{group}', kind: {kind}, namespace: {namespace}}}")
}

fn to(group: &str, kind: &str) -> String {
    format!("{{group: '{group}', kind: {kind}}}")
}

/// Policy `p` of `shop`, which asks for MeshTLSAuthentication `all` of `auth`.
fn asking() -> String {
    let all =
        format!("{{group: {POLICY}, kind: MeshTLSAuthentication, name: all, namespace: auth}}");
    policy("p", ON_SERVER, &all)
}

/// A route of `team` for `GET /cart` on Server shop/web: of the Gateway API, or else of Linkerd.
fn routed(gateway: bool) -> String {
    let version =
        if gateway { "gateway.networking.k8s.io/v1" } else { "policy.linkerd.io/v1beta3" };
    route("team", "r").replace("policy.linkerd.io/v1beta3", version)
}

/// The verdicts on a meshed client's request under R5, and on `GET /cart` under R1.
fn verdicts(grants: &[&str]) -> (String, String) {
    let (server, policy, all) =
        (server("HTTP/1", "deny"), asking(), mesh_tls("auth", "all", "'*'"));
    let r5 = compiled(&[&[POD, &server, &policy, &all], grants].concat());
    let open = self::server("HTTP/1", "all-unauthenticated");
    let r1 = compiled(&[&[POD, &open, &routed(true)], grants].concat());
    // The route attaches if other paths have no route.
    let attached = ask(&r1, 8080, NEIGHBOUR, "GET /other");
    (ask(&r5, 8080, Who::Meshed("x.y"), "GET /"), attached)
}

const FOLLOWED: (&str, &str) = ("allow", "no_route");
const REFUSED: (&str, &str) = ("unauthorized", "allow");

#[track_caller]
fn are(grants: &[&str], expected: (&str, &str), what: &str) {
    let (r5, r1) = verdicts(grants);
    assert_eq!((&*r5, &*r1), expected, "{what}");
}

#[test]
fn a_grant_with_one_wrong_field_permits_nothing() {
    let both = |policies: &str, routes: &str| {
        are(&[policies, routes], REFUSED, &format!("{policies}\n{routes}"));
    };
    let (policies, routes) =
        (from(POLICY, "AuthorizationPolicy", "shop"), from(GATEWAY, "HTTPRoute", "team"));
    let (meshed, servers) = (to(POLICY, "MeshTLSAuthentication"), to(POLICY, "Server"));
    are(
        &[&grant("auth", "g", &policies, &meshed), &grant("shop", "g", &routes, &servers)],
        FOLLOWED,
        "nothing wrong",
    );
    are(&[], REFUSED, "no grant");
    // The group, kind or namespace of those who refer.
    for (policy, route) in [
        (from(GATEWAY, "AuthorizationPolicy", "shop"), from(POLICY, "HTTPRoute", "team")),
        (
            from("", "AuthorizationPolicy", "shop"),
            from("networking.gateway.k8s.io", "HTTPRoute", "team"),
        ),
        (from(POLICY, "ServerAuthorization", "shop"), from(GATEWAY, "GRPCRoute", "team")),
        (from(POLICY, "'*'", "shop"), from(GATEWAY, "'*'", "team")),
        (from(POLICY, "AuthorizationPolicy", "auth"), from(GATEWAY, "HTTPRoute", "shop")),
        (from(POLICY, "AuthorizationPolicy", "sho"), from(GATEWAY, "HTTPRoute", "teams")),
        (from(POLICY, "AuthorizationPolicy", "'*'"), from(GATEWAY, "HTTPRoute", "'*'")),
        (from(POLICY, "AuthorizationPolicy", "''"), from(GATEWAY, "HTTPRoute", "''")),
    ] {
        both(&grant("auth", "g", &policy, &meshed), &grant("shop", "g", &route, &servers));
    }
    // The group, kind or name of what is named.
    let named = |entry: &str, name: &str| entry.replace('}', &format!(", name: {name}}}"));
    for (authentication, server) in [
        (to(GATEWAY, "MeshTLSAuthentication"), to(GATEWAY, "Server")),
        (to("", "MeshTLSAuthentication"), to("", "Server")),
        (to(POLICY, "NetworkAuthentication"), to(POLICY, "ServerAuthorization")),
        (named(&meshed, "al"), named(&servers, "webs")),
        (named(&meshed, "'*'"), named(&servers, "'*'")),
    ] {
        both(
            &grant("auth", "g", &policies, &authentication),
            &grant("shop", "g", &routes, &server),
        );
    }
    // In the namespace that refers.
    both(&grant("shop", "g", &policies, &meshed), &grant("team", "g", &routes, &servers));
}

#[test]
fn a_grant_that_cannot_be_read_permits_nothing_and_what_it_let_in_still_denies() {
    let routes = from(GATEWAY, "HTTPRoute", "team");
    let servers = to(POLICY, "Server");
    let unnamed = servers.replace('}', ", name: ''}");
    let policies = grant("auth", "g", &from(POLICY, "''", "shop"), &to(POLICY, "''"));
    let closed = ("unauthorized", "routes_invalid");
    for (from, to) in [
        (from(GATEWAY, "''", "team"), servers.clone()),
        (from("7", "HTTPRoute", "team"), servers.clone()),
        (routes.clone(), unnamed),
        (format!("{routes}, 5"), servers.clone()),
        (routes.clone(), format!("{servers}, 5")),
        (routes.replace('}', ", unless: x}"), servers.clone()),
        (from(GATEWAY, "httproute", "team"), servers.clone()),
        (routes.clone(), to(POLICY, "server")),
        (routes.clone(), to(POLICY, "'*'")),
    ] {
        let from = from.replace("'7'", "7");
        are(&[&policies, &grant("shop", "g", &from, &to)], closed, &format!("{from} {to}"));
    }
    // A namespace that cannot be read is nobody's.
    for namespace in ["'*'", "7"] {
        let from = from(GATEWAY, "HTTPRoute", namespace);
        are(&[&policies, &grant("shop", "g", &from, &servers)], REFUSED, &from);
    }
    let other = to(POLICY, "ServerAuthorization");
    let elsewhere = grant("shop", "g", &format!("{routes}, 5"), &other);
    are(&[&policies, &elsewhere], REFUSED, "no Server is offered");
    // Beside a route of the Server's own, the one of the other namespace denies what it matches.
    let own = route("shop", "own").replace("/cart", "/");
    let invalid = grant("shop", "g", &format!("{routes}, 5"), &servers);
    let open = server("HTTP/1", "all-unauthenticated");
    let found = compiled(&[POD, &open, &own, &routed(true), &invalid]);
    assert_eq!(ask(&found, 8080, NEIGHBOUR, "GET /cart"), "unauthorized");
    assert_eq!(ask(&found, 8080, NEIGHBOUR, "GET /other"), "allow");
    let told = conditions(&found, "r");
    assert_eq!(told[0], "Accepted=false RefNotPermitted");
}

#[test]
fn groups_are_compared_without_case_and_core_is_the_empty_one() {
    let route = routed(true)
        .replace("rules: [{", "rules: [{backendRefs: [{name: web, namespace: bank, port: 80}], ");
    let resolved = |to: &str| {
        let grants = [
            grant("bank", "g", &from(GATEWAY, "HTTPRoute", "team"), to),
            grant(
                "shop",
                "g",
                &from("GATEWAY.networking.k8s.io", "HTTPRoute", "team"),
                &self::to("Policy.Linkerd.io", "Server"),
            ),
        ];
        let compiled = compiled(&[POD, &server("HTTP/1", "deny"), &route, &grants[0], &grants[1]]);
        conditions(&compiled, "r")
    };
    let known = ["Accepted=true Accepted", "ResolvedRefs=true ResolvedRefs"];
    assert_eq!(resolved(&to("core", "Service")), known);
    assert_eq!(resolved(&to("", "Service")), known);
    // A backend that may not be named is reported, and decides nothing.
    let refused = ["Accepted=true Accepted", "ResolvedRefs=false RefNotPermitted"];
    for wrong in [to("apps", "Service"), to("core", "Secret"), to("", "service")] {
        assert_eq!(resolved(&wrong), refused, "{wrong}");
    }
}

#[test]
fn references_of_one_namespace_need_no_grant() {
    let own = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: all}";
    let policies = [
        policy("a", ON_SERVER, own),
        policy("b", "kind: Namespace, name: shop", own),
        policy("c", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: r", own),
        "apiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\n\
         metadata: {name: s, namespace: shop}\n\
         spec: {server: {name: web}, client: {unauthenticated: true}}"
            .to_owned(),
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n\
         metadata: {name: l, namespace: shop}\nspec: {targetRef: {group: policy.linkerd.io, \
         kind: Server, name: web}, total: {requestsPerSecond: 5}}"
            .to_owned(),
    ];
    let all = mesh_tls("shop", "all", "'*'");
    let route = routed(true)
        .replace("namespace: team", "namespace: shop")
        .replace("rules: [{", "rules: [{backendRefs: [{name: web, namespace: shop, port: 80}], ");
    let (server, policies) = (server("HTTP/1", "deny"), policies.join("\n---\n"));
    let compiled = compiled(&[POD, &server, &policies, &all, &route]);
    for (key, conditions) in &compiled.conditions {
        assert!(conditions.iter().all(|condition| condition.status), "{key}: {conditions:?}");
    }
    assert_eq!(compiled.foreign_references(), []);
}

#[test]
fn each_entry_of_from_permits_with_each_of_to_and_grants_add_up() {
    let all = [
        from(POLICY, "AuthorizationPolicy", "shop"),
        from(GATEWAY, "HTTPRoute", "team"),
        from(POLICY, "HTTPRoute", "team"),
    ];
    let named = [to(POLICY, "MeshTLSAuthentication"), to(POLICY, "Server")];
    let one = |namespace: &str| grant(namespace, "g", &all.join(", "), &named.join(", "));
    are(&[&one("auth"), &one("shop")], FOLLOWED, "one grant in each namespace");
    // Linkerd's route by the same two entries.
    let (open, route) = (server("HTTP/1", "all-unauthenticated"), routed(false));
    let compiled = compiled(&[POD, &open, &route, &one("shop")]);
    assert_eq!(ask(&compiled, 8080, NEIGHBOUR, "GET /other"), "no_route");

    let useless = grant("auth", "z", &from(POLICY, "AuthorizationPolicy", "x"), &named[0]);
    let (first, second) = (
        grant("auth", "a", &all[0], &named[0]),
        grant("auth", "b", &all[0], &named[0].replace('}', ", name: all}")),
    );
    let r5 = |grants: &[&str]| verdicts(grants).0;
    for grants in [&[&*first, &second, &useless][..], &[&first], &[&useless, &second]] {
        assert_eq!(r5(grants), "allow", "{grants:?}");
    }
    assert_eq!(r5(&[&useless]), "unauthorized");
}

#[test]
fn an_invalid_grant_permits_nothing_of_what_it_says() {
    let policies = from(POLICY, "AuthorizationPolicy", "shop");
    let mixed = format!("{policies}, {}", from(POLICY, "AuthorizationPolicy", "'*'"));
    let meshed = to(POLICY, "MeshTLSAuthentication");
    assert_eq!(verdicts(&[&grant("auth", "g", &mixed, &meshed)]).0, "unauthorized");
    let unknown = grant("auth", "g", &policies, &meshed).replace("spec: {", "spec: {only: [x], ");
    assert_eq!(verdicts(&[&unknown]).0, "unauthorized", "a field that may narrow it");
}

#[test]
fn both_versions_of_a_grant_are_one_object() {
    let policies = from(POLICY, "AuthorizationPolicy", "shop");
    let new = grant("auth", "g", &policies, &to(POLICY, "MeshTLSAuthentication"));
    let old = new.replace("k8s.io/v1\n", "k8s.io/v1beta1\n");
    assert_ne!(new, old);
    let entries = |grants: &[&str]| {
        let (policy, all) = (asking(), mesh_tls("auth", "all", "'*'"));
        let found = compiled(&[&[&*policy, &all], grants].concat()).foreign_references();
        match found.as_slice() {
            [ForeignReference { permission: ReferencePermission::Granted(by), .. }] => by.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((entries(&[&new]), entries(&[&old]), entries(&[&new, &old])), (1, 1, 1));
}

/// Everything that an outsider can learn of a reference: the conditions of the objects that refer, and why
/// nothing is granted.
fn disclosed(compiled: &Compiled) -> Vec<String> {
    let told = compiled.conditions.iter().filter(|(key, _)| ["p", "r"].contains(&&*key.name));
    let told = told.flat_map(|(_, conditions)| conditions.iter().map(ToString::to_string));
    let policy = web(compiled, 8080);
    told.chain(policy.withheld.iter().map(|withheld| withheld.reason.to_string())).collect()
}

#[test]
fn outsiders_learn_nothing_of_what_they_name() {
    let (policy, route) = (asking(), routed(true).replace("name: web", "name: admin"));
    let base = [POD, &server("HTTP/1", "deny"), &policy, &route].join("\n---\n");
    let there = [
        mesh_tls("auth", "all", "'*'"),
        server("HTTP/1", "deny")
            .replace("name: web", "name: admin")
            .replace("port: http", "port: 9"),
    ]
    .join("\n---\n");
    let broken =
        there.replace("identities", "identity").replace("proxyProtocol: ", "proxyProtocol: x");
    let granted = [
        grant(
            "auth",
            "g",
            &from(POLICY, "AuthorizationPolicy", "shop"),
            &to(POLICY, "MeshTLSAuthentication"),
        ),
        grant("shop", "g", &from(GATEWAY, "HTTPRoute", "team"), &to(POLICY, "Server")),
    ]
    .join("\n---\n");
    let followed = disclosed(&compiled(&[&base, &there, &granted]));
    let missing = disclosed(&compiled(&[&base]));
    assert_ne!(followed, missing);
    assert_eq!(missing.len(), 5, "{missing:?}");
    for (what, world) in [
        ("not permitted", vec![&*base, &there]),
        ("invalid, not permitted", vec![&*base, &broken]),
        ("missing, permitted", vec![&*base, &granted]),
        ("invalid, permitted", vec![&*base, &broken, &granted]),
    ] {
        assert_eq!(disclosed(&compiled(&world)), missing, "{what}");
    }
}

#[test]
fn outsiders_learn_nothing_of_the_routes_that_displace_theirs_as_in_linkerd() {
    let conflicts = DIFFERENCES.iter().find(|difference| difference.name == "route-conflicts");
    let mut config = ControllerConfig::default();
    conflicts.unwrap().set(&mut config, Whose::Linkerd);
    let calls = route("shop", "secret")
        .replace("policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1")
        .replace("kind: HTTPRoute", "kind: GRPCRoute");
    let base = [POD, &server("HTTP/2", "deny"), &routed(true)];
    let without = compiled_with(&base, &config);
    let with = compiled_with(&[&base[..], &[&calls]].concat(), &config);
    assert_eq!(conditions(&with, "r"), conditions(&without, "r"));
    let grant = grant("shop", "g", &from(GATEWAY, "HTTPRoute", "team"), &to(POLICY, "Server"));
    let permitted = compiled_with(&[&base[..], &[&calls, &grant]].concat(), &config);
    assert_ne!(conditions(&permitted, "r"), conditions(&with, "r"));
}

#[test]
fn shared_namespaces_and_warnings_are_for_authentications_alone() {
    let (policy, all) = (asking(), mesh_tls("auth", "all", "'*'"));
    let open = server("HTTP/1", "all-unauthenticated");
    let route = routed(true);
    let under = |config: &ControllerConfig| {
        let r5 = compiled_with(&[POD, &server("HTTP/1", "deny"), &policy, &all], config);
        let r1 = compiled_with(&[POD, &open, &route], config);
        (
            ask(&r5, 8080, Who::Meshed("x.y"), "GET /"),
            conditions(&r5, "p")[1].clone(),
            ask(&r1, 8080, NEIGHBOUR, "GET /other"),
            r1.foreign_references().remove(0).permission,
        )
    };
    let is = |r5: (&str, &str)| {
        let (verdict, condition) = (r5.0.to_owned(), r5.1.to_owned());
        (verdict, condition, "allow".to_owned(), ReferencePermission::Refused)
    };
    let (enforce, refused) = (ControllerConfig::default(), "ResolvedRefs=false RefNotPermitted");
    assert_eq!(under(&enforce), is(("unauthorized", refused)));
    let shared = ["auth", "shop", "team"].map(Into::into).into();
    let shared = ControllerConfig { shared_namespaces: shared, ..enforce.clone() };
    assert_eq!(under(&shared), is(("allow", "ResolvedRefs=true ResolvedRefs")));
    let warn = ControllerConfig { reference_grants: ReferenceGrants::Warn, ..enforce };
    assert_eq!(under(&warn), is(("allow", refused)));
}

/// Clients are named, not read: naming one grants it something.
#[test]
fn clients_of_other_namespaces_need_no_grant() {
    let account = "{kind: ServiceAccount, name: client, namespace: apps}";
    let server = server("HTTP/1", "deny");
    let meshed =
        |documents: &[&str]| ask(&compiled(documents), 8080, Who::Meshed("client.apps"), "GET /");
    assert_eq!(meshed(&[POD, &server, &policy("p", ON_SERVER, account)]), "allow");
    let own = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}";
    let members =
        mesh_tls("shop", "m", "").replace("identities: []", &format!("identityRefs: [{account}]"));
    assert_eq!(meshed(&[POD, &server, &policy("p", ON_SERVER, own), &members]), "allow");
}

const GROUPS: [&str; 4] = [POLICY, GATEWAY, "core", "networking.gateway.k8s.io"];
const FROM_KINDS: [&str; 4] = ["AuthorizationPolicy", "HTTPRoute", "GRPCRoute", "Gateway"];
const TO_KINDS: [&str; 4] = ["MeshTLSAuthentication", "Server", "Service", "NetworkAuthentication"];
const NAMESPACES: [&str; 3] = ["shop", "team", "auth"];

/// A grant as numbers: namespace, group, kind and namespace of `from`, group, kind and name of `to`.
type Drawn = (usize, usize, usize, usize, usize, usize, Option<usize>);

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        0..3_usize,
        0..4_usize,
        0..4_usize,
        0..3_usize,
        0..4_usize,
        0..4_usize,
        prop::option::of(0..2_usize),
    )
}

const NAMES: [&str; 2] = ["one", "two"];

/// The reference rule of GEP-709, written down once more: the entries equal the two objects.
fn permits(grant: Drawn, reference: &ForeignReference) -> bool {
    let (namespace, from_group, from_kind, from_namespace, to_group, to_kind, name) = grant;
    let core = |group: &'static str| if group == "core" { "" } else { group };
    let ForeignReference { from, to, .. } = reference;
    NAMESPACES[namespace] == to.namespace()
        && core(GROUPS[from_group]) == from.kind.group()
        && FROM_KINDS[from_kind] == from.kind.as_str()
        && *NAMESPACES[from_namespace] == *from.namespace
        && core(GROUPS[to_group]) == to.group()
        && TO_KINDS[to_kind] == to.kind()
        && name.is_none_or(|name| NAMES[name] == to.name())
}

/// References of every kind from every namespace into every other.
fn references() -> String {
    let mut documents = Vec::new();
    for namespace in NAMESPACES {
        let others = || NAMESPACES.into_iter().filter(|other| *other != namespace);
        for (other, name) in others().flat_map(|other| NAMES.map(|name| (other, name))) {
            let both = ["MeshTLSAuthentication", "NetworkAuthentication"].map(|kind| {
                format!("{{group: {POLICY}, kind: {kind}, name: {name}, namespace: {other}}}")
            });
            let asking = policy(&format!("p-{other}-{name}"), ON_SERVER, &both.join(", "));
            documents.push(asking.replacen(
                "namespace: shop",
                &format!("namespace: {namespace}"),
                1,
            ));
            for (version, kind) in [
                ("policy.linkerd.io/v1beta3", "HTTPRoute"),
                ("gateway.networking.k8s.io/v1", "HTTPRoute"),
                ("gateway.networking.k8s.io/v1", "GRPCRoute"),
            ] {
                documents.push(format!(
                    "apiVersion: {version}\nkind: {kind}\n\
                     metadata: {{name: r-{other}-{name}, namespace: {namespace}}}\nspec:\n\
                     \x20 parentRefs: [{{group: {POLICY}, kind: Server, name: {name}, namespace: {other}}}]\n\
                     \x20 rules: [{{backendRefs: [{{name: {name}, namespace: {other}, port: 80}}]}}]"
                ));
            }
        }
    }
    documents.join("\n---\n")
}

/// The references that are followed under these grants, by object, field and target.
fn followed(grants: &[Drawn]) -> (BTreeSet<String>, Vec<ForeignReference>) {
    let manifests: Vec<String> = grants
        .iter()
        .enumerate()
        .map(|(i, (namespace, from_group, from_kind, from_namespace, to_group, to_kind, name))| {
            let named = to(GROUPS[*to_group], TO_KINDS[*to_kind]);
            let named = match name {
                Some(name) => named.replace('}', &format!(", name: {}}}", NAMES[*name])),
                None => named,
            };
            let from =
                from(GROUPS[*from_group], FROM_KINDS[*from_kind], NAMESPACES[*from_namespace]);
            grant(NAMESPACES[*namespace], &format!("g{i}"), &from, &named)
        })
        .collect();
    let all = references();
    let documents: Vec<&str> =
        std::iter::once(&*all).chain(manifests.iter().map(String::as_str)).collect();
    let references = compiled(&documents).foreign_references();
    let granted = references
        .iter()
        .filter(|reference| matches!(reference.permission, ReferencePermission::Granted(_)))
        .map(|reference| format!("{} {} {}", reference.from, reference.field, reference.to));
    (granted.collect(), references)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A reference is followed if, and only if, some grant has an entry for each end of it; so grants
    /// add up, and removing any of them widens nothing.
    #[test]
    fn grants_only_add(grants in prop::collection::vec(drawn(), 0..6), gone in any::<prop::sample::Index>()) {
        let (with, references) = followed(&grants);
        prop_assert_eq!(references.len(), 3 * 4 * (2 + 3 * 2), "every reference is reported");
        for reference in &references {
            let expected = grants.iter().any(|grant| permits(*grant, reference));
            let is = matches!(reference.permission, ReferencePermission::Granted(_));
            prop_assert_eq!(is, expected, "{:?}", reference);
        }
        if !grants.is_empty() {
            let mut fewer = grants.clone();
            let removed = fewer.remove(gone.index(grants.len()));
            let (without, _) = followed(&fewer);
            let (alone, _) = followed(&[removed]);
            prop_assert!(without.is_subset(&with));
            prop_assert_eq!(&(&without | &alone), &with);
        }
    }
}
