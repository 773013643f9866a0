//! Hosts that namespaces hold beside each other: what others learn of them, and what they leave.

use super::children::{answer, child, compiled, open, root};
use super::common;
use policy_core::HostPattern;
use policy_crds::resource::{PathPrefix, Recorded, RecordedConnection};
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::delegation::{DelegationEntry, OrphanReason};
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use std::sync::Arc;

/// A RouteAdmissionPolicy that allows wildcards.
pub(super) fn admission(ownership: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
         metadata: {{name: default}}\n\
         spec: {{namespaceOwnership: {ownership}, wildcardPolicy: WildcardsAllowed}}"
    )
}

fn vertex(name: &str, of: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: {name}, namespace: shop, labels: {{team: f}}}}\n\
         spec: {{delegatedFrom: [{of}], routes: [{routes}]}}"
    )
}

/// A root of another namespace.
fn stranger(host: &str) -> String {
    root("hidden", &format!("fqdn: {host}"), "{match: /, serve: {}}")
        .replace("namespace: shop", "namespace: strange")
}

/// An object that named a wildcard of others was told every name that they claim below it.
#[test]
fn a_server_learns_no_host_that_others_claim_below_a_wildcard() {
    let asks = vertex("asks", "{fqdn: '*.io'}", "{match: /, servers: [{name: web}]}");
    let route = child("HTTPRoute", "h", "'*.io'", "{path: {value: /}}")
        .replace("name: www}", "name: www}, {group: policy.linkerd.io, kind: Server, name: web}");
    let www = root("www", "fqdn: b.com", "{match: /, delegate: {kind: HTTPRoute, name: h}}");
    for namespaces in ["Strict", "InterNamespaceAllowed"] {
        for asks in [&asks, &route] {
            let (server, admission) = (open("HTTP/1"), admission(namespaces));
            let pieces = [&server, asks, &www, &admission].map(String::as_str);
            let alone = compiled(&pieces);
            let beside = compiled(&[&pieces[..], &[&stranger("x.secret.io")]].concat());
            let held = beside.claims_on(&HostPattern::parse("x.secret.io"));
            assert!(held.in_order().iter().any(|claim| claim.is_active()));
            assert_eq!(common::web(&alone, 8080), common::web(&beside, 8080), "{asks}");
            assert_eq!(answer(&beside, "x.secret.io", "GET /"), "not_delegated");
        }
    }
}

/// A route's wildcard consented to names alone, not to a wildcard that it covers.
#[test]
fn a_wildcard_hostname_consents_to_every_host_that_it_covers() {
    let route = child("HTTPRoute", "h", "'*.io'", "{path: {value: /}}");
    let own = route
        .replace("name: www}", "name: www}, {group: policy.linkerd.io, kind: Server, name: web}");
    for host in ["'*.a.io'", "x.a.io"] {
        let www = root(
            "www",
            &format!("fqdn: {host}"),
            "{match: /, delegate: {kind: HTTPRoute, name: h}}",
        );
        // The Server of the root, or its own.
        let elsewhere = www.replace("name: web", "name: other");
        for (www, route) in [(&www, &route), (&elsewhere, &own)] {
            let compiled = compiled(&[&open("HTTP/1"), www, route, &admission("Strict")]);
            assert_eq!(answer(&compiled, "x.a.io", "GET /p"), "h", "{host}");
            assert_eq!(answer(&compiled, "x.b.io", "GET /p"), "not_delegated", "{host}");
        }
    }
}

/// The route's exact name was refused, and its wildcard took the same host; then one name took the wildcard.
#[test]
fn a_route_loses_the_names_below_its_wildcard_that_others_claimed_and_its_status_names_none() {
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: h, namespace: shop}\nspec:\n  hostnames: ['*.secret.io']\n\
                 \x20 parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                 \x20 rules: [{matches: [{path: {value: /}}]}]";
    let server = open("HTTP/1");
    let alone = compiled(&[&server, route]);
    assert_eq!(answer(&alone, "x.secret.io", "GET /"), "h");
    let beside = compiled(&[&server, route, &stranger("x.secret.io")]);
    assert_eq!(answer(&beside, "x.secret.io", "GET /"), "not_delegated");
    assert_eq!(answer(&beside, "y.secret.io", "GET /"), "h");
    let told = beside.conditions.iter().filter(|(key, _)| &*key.name == "h");
    let told: Vec<_> = told.flat_map(|(_, own)| own.iter().map(ToString::to_string)).collect();
    assert!(told.iter().any(|one| one.contains("claimed hosts below a wildcard")), "{told:?}");
    assert!(told.iter().all(|one| !one.contains("x.secret")), "{told:?}");
    // A route of the same namespace, or where hosts are shared, has it.
    let own = stranger("x.secret.io").replace("namespace: strange", "namespace: shop");
    let own = own.replace("name: web", "name: other");
    assert_eq!(answer(&compiled(&[&server, route, &own]), "x.secret.io", "GET /"), "h");
    let shared = admission("InterNamespaceAllowed");
    let shared = compiled(&[&server, route, &stranger("x.secret.io"), &shared]);
    assert_eq!(answer(&shared, "x.secret.io", "GET /"), "h");
}

/// A path that one of several selected objects has on one host shadowed the rule of another on a host
/// where nobody had it, and a shorter path answered.
#[test]
fn a_selected_object_keeps_its_paths_on_its_hosts_alone() {
    let selector = "{match: /, delegate: {selector: {matchLabels: {team: f}}}}";
    let www = root("www", "fqdn: a.io, aliases: [b.io]", selector);
    let both = "{fqdn: a.io}, {fqdn: b.io}";
    let hands = vertex("hands", both, "{match: /f, delegate: {name: inner}}");
    let keeps = vertex("keeps", "{fqdn: a.io}", "{match: /f/admin, serve: {}}");
    let inner = vertex(
        "inner",
        both,
        "{match: /f, serve: {}}, {match: /f/admin, serve: {}}, \
                                       {match: /f/admin/keys, serve: {}}",
    );
    let inner = inner.replace("labels: {team: f}", "labels: {}");
    for first in ["hands", "keeps"] {
        let aged = |text: &String| {
            let age = if text.contains(&format!("name: {first},")) { 1 } else { 2 };
            let created = format!("creationTimestamp: '2026-01-0{age}T00:00:00Z', namespace: shop");
            text.replace("namespace: shop", &created)
        };
        let (hands, keeps) = (aged(&hands), aged(&keeps));
        let compiled = compiled(&[&open("HTTP/1"), &www, &hands, &keeps, &inner]);
        for (path, of_a, of_b) in [
            ("/f", "inner", "inner"),
            ("/f/admin", "keeps", "inner"),
            ("/f/admin/keys", "keeps", "inner"),
        ] {
            let answers =
                ["a.io", "b.io"].map(|host| answer(&compiled, host, &format!("GET {path}")));
            assert_eq!(answers, [of_a, of_b], "{first} {path}");
        }
        let state = compiled.delegation_state(&key("inner"));
        let rules: Vec<_> = state.routes.iter().map(|rule| rule.state.as_str()).collect();
        assert_eq!(rules, ["Programmed"; 3]);
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { kind: Kind::InboundRoute, namespace: "shop".into(), name: name.into() }
}

/// Objects, one of which has a status that says that `www` delegates to it.
fn with_a_parent(child: &str, documents: &[&str]) -> Compiled {
    let mut objects: Vec<Object> = common::objects(documents);
    let child = objects.iter_mut().find(|object| object.meta.key == key(child)).unwrap();
    let prefix = PathPrefix::parse("/").unwrap();
    let connected = vec![RecordedConnection { parent: key("www"), prefix, since: 1_770_000_000 }];
    child.meta.recorded = Some(Arc::new(Recorded { connected, ..Recorded::default() }));
    compile_objects(objects, &ControllerConfig::default())
}

/// The vertex was told that its root had lost its claims.
#[test]
fn a_vertex_that_consents_to_another_host_of_its_parent_is_told_so() {
    let www = root("www", "fqdn: a.io", "{match: /, delegate: {name: c}}");
    let reason = |consent: &str| {
        let c = vertex("c", consent, "{match: /, serve: {}}");
        let state = with_a_parent("c", &[&open("HTTP/1"), &www, &c]).delegation_state(&key("c"));
        state.delegations.iter().find_map(|entry| match entry {
            DelegationEntry::Orphaned { reason, .. } => Some(*reason),
            DelegationEntry::Connected { .. } | DelegationEntry::Rejected { .. } => None,
        })
    };
    assert_eq!(reason("{fqdn: a.io}"), None);
    let other = "{fqdn: b.io, parent: {namespace: shop, name: www}}";
    assert_eq!(reason(other), Some(OrphanReason::NotPermitted));
}

/// A claim without a time says which are before it.
#[test]
fn a_claim_without_a_time_is_after_those_that_are_in_force() {
    let seconds = |day: i64| 1_767_225_600 + (day - 1) * 86_400;
    let old = stranger("x.a.io");
    let edited = |host: &str| {
        root("www", &format!("fqdn: {host}"), "{match: /, serve: {}}")
            .replace("namespace: shop,", "namespace: shop, generation: 2,")
    };
    let after = |host: &str, wildcards: &str| {
        let compiled = compiled(&[&old, &edited(host), wildcards]);
        let state = compiled.delegation_state(&key("www"));
        let first = state.claims.iter().next().unwrap();
        assert_eq!(first.claimed_at, None);
        first.after
    };
    let admission = admission("Strict");
    for (host, expected) in
        [("x.a.io", Some(seconds(1))), ("'*.a.io'", Some(seconds(1))), ("y.a.io", None)]
    {
        assert_eq!(after(host, &admission), expected, "{host}");
    }
    let compiled = compiled(&[&old]);
    let known = ObjectKey { namespace: "strange".into(), ..key("hidden") };
    let first = compiled.delegation_state(&known).claims.iter().next();
    assert_eq!(first.unwrap().after, None);
}

/// A root took the names by which another namespace's Services are called: its alias was inactive, and
/// calls by the Service's own name were denied.
#[test]
fn names_of_services_of_another_namespace_cannot_be_claimed() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
                   spec: {ports: [{port: 80}]}";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}";
    let state = |host: &str, more: &[&str]| {
        let stranger = stranger(&format!("'{host}'"));
        let admission = admission("Strict");
        let compiled = compiled(&[&[&*stranger, &*admission], more].concat());
        let claims = compiled.claims_on(&HostPattern::parse(host));
        claims.in_order().first().map(|claim| claim.is_active())
    };
    for host in [
        "web.shop.svc",
        "web.shop.svc.cluster.local",
        "pod.web.shop.svc.cluster.local",
        "*.shop.svc",
        "*.web.shop.svc.cluster.local",
        "*.svc.cluster.local",
        "*.cluster.local",
        "*.local",
        "*.svc",
    ] {
        assert_eq!(state(host, &[]), Some(false), "{host}");
    }
    for host in ["web.strange.svc", "web.strange.svc.cluster.local", "*.strange.svc", "a.shop.io"] {
        assert_eq!(state(host, &[]), Some(true), "{host}");
    }
    assert_eq!(state("web.shop", &[]), Some(true), "it may be a name of the outside");
    assert_eq!(state("web.shop", &[service]), Some(false));
    assert_eq!(state("other.shop", &[service]), Some(true));
    assert_eq!(state("*.shop", &[]), Some(true));
    assert_eq!(state("*.shop", &[namespace]), Some(false));
    // Who claimed a name before there was such a Service keeps it.
    let dated = |value: &str, time: &str| {
        value.replace("metadata: {", &format!("metadata: {{creationTimestamp: '{time}', "))
    };
    for (time, active) in [("2025-01-01T00:00:00Z", false), ("2027-01-01T00:00:00Z", true)] {
        assert_eq!(state("web.shop", &[&dated(service, time)]), Some(active), "{time}");
    }
    let own = root("own", "fqdn: web.shop.svc", "{match: /, serve: {}}");
    let answered = compiled(&[&open("HTTP/1"), &own, &stranger("web.shop.svc")]);
    assert_eq!(answer(&answered, "web.shop.svc", "GET /"), "own");
    let told = answered.conditions.iter().filter(|(key, _)| &*key.name == "hidden");
    let told: Vec<_> = told.flat_map(|(_, own)| own.iter().map(ToString::to_string)).collect();
    assert!(told[0].starts_with("Accepted=False (ServiceOfAnotherNamespace)"), "{told:?}");
}

/// The message said that somebody holds the wildcard, which nobody did.
#[test]
fn a_wildcard_root_is_told_which_name_below_keeps_it_from_its_claim() {
    let wide =
        root("wide", "fqdn: '*.io'", "{match: /, serve: {}}").replace("2026-01-01", "2026-05-01");
    let compiled = compiled(&[&open("HTTP/1"), &wide, &stranger("x.io"), &admission("Strict")]);
    let told = compiled.conditions.iter().filter(|(key, _)| &*key.name == "wide");
    let told: Vec<_> = told.flat_map(|(_, own)| own.iter().map(ToString::to_string)).collect();
    assert_eq!(
        told[0],
        "Accepted=False (HostAlreadyClaimed): a root in another namespace holds x.io, which overlaps \
         with *.io, and claimed it earlier"
    );
}

/// A later claim on a path inside of an earlier one closed it on the pods of the earlier owner.
#[test]
fn a_claim_takes_no_path_from_the_pods_of_an_earlier_owner() {
    let pods = [common::POD, &open("HTTP/1")].map(str::to_owned);
    let strange = pods.clone().map(|text| text.replace("namespace: shop", "namespace: strange"));
    let own = |routes: &str| root("own", "fqdn: a.io", routes);
    let dated = |object: String, day: &str| object.replace("2026-01-01", day);
    let later = |day: &str, routes: &str| {
        let root =
            root("later", "fqdn: a.io", routes).replace("namespace: shop", "namespace: strange");
        dated(root, day)
    };
    let answers = |own: &str, other: &str| {
        let admission = admission("InterNamespaceAllowed");
        let all =
            [&pods[..], &strange[..], &[own.to_owned(), other.to_owned(), admission]].concat();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let compiled = common::compiled(&all);
        let requests = ["GET /", "GET /login", "GET /login/x", "GET /login/mine"];
        let shop = requests.map(|request| answer(&compiled, "a.io", request));
        let strange = requests
            .map(|request| super::children::answer_at(&compiled, "strange", "a.io", request));
        (shop, strange, compiled)
    };
    let closed = "not_delegated".to_owned();
    let (first, login) = ("{match: /, serve: {}}", "{match: /login, serve: {}}");
    let (shop, strange, compiled) = answers(&own(first), &later("2026-02-01", login));
    assert_eq!(shop, ["own"; 4].map(str::to_owned));
    assert_eq!(strange[0], closed);
    assert_eq!(&strange[1..], ["later"; 3].map(str::to_owned));
    for name in ["own", "later"] {
        let told = compiled.conditions.iter().filter(|(key, _)| &*key.name == name);
        let told: Vec<_> = told.flat_map(|(_, own)| own.iter().map(ToString::to_string)).collect();
        assert!(
            told[0].starts_with("Accepted=True (Accepted): a.io /")
                && told[0].contains("is shared"),
            "{told:?}"
        );
    }
    // Of an earlier claim the path is closed, as it always was; so is one inside of a later one that the
    // namespace itself handed to others.
    let (shop, strange, _) = answers(&own(first), &later("2025-02-01", login));
    assert_eq!(shop, ["own", &closed, &closed, &closed].map(str::to_owned));
    assert_eq!(&strange[1..], ["later"; 3].map(str::to_owned));
    let mine = format!("{first}, {{match: /login/mine, delegate: {{name: nobody}}}}");
    let (shop, ..) = answers(&own(&mine), &later("2026-02-01", login));
    assert_eq!(shop, ["own", "own", "own", &closed].map(str::to_owned));
    // An HTTPRoute of the earlier owner goes on matching inside of the later claim.
    let route = super::children::child("HTTPRoute", "h", "a.io", "{path: {value: /login}}")
        .replace("name: www}", "name: own}");
    let hands = own("{match: /, delegate: {kind: HTTPRoute, name: h}}");
    let both = format!("{route}\n---\n{hands}");
    let (shop, ..) = answers(&both, &later("2026-02-01", login));
    assert_eq!(shop, [&closed, "h", "h", "h"].map(str::to_owned));
    let (shop, ..) = answers(&both, &later("2025-02-01", login));
    assert_eq!(shop, [&closed; 4].map(|word| word.to_owned()));
}

/// A longer claim of the owner, made after another namespace's claim on a name below the wildcard, fell to the
/// owner's shorter rule, because no table had a rule by which to deny it.
#[test]
fn a_path_that_nobody_answers_is_denied_where_another_namespace_has_the_name() {
    let dated = |object: String, day: &str| object.replace("2026-01-01", day);
    let wide = root("wide", "fqdn: '*.a.io'", "{match: /, serve: {}}");
    let longer = root("longer", "fqdn: '*.a.io'", "{match: /keys, delegate: {name: nobody}}");
    let longer = dated(longer, "2026-03-01");
    let admission = admission("InterNamespaceAllowed");
    let answers = |more: &[&str]| {
        let pieces = [open("HTTP/1"), wide.clone(), longer.clone(), admission.clone()];
        let pieces: Vec<&str> =
            pieces.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let compiled = compiled(&pieces);
        ["GET /", "GET /keys", "GET /keys/x"].map(|request| answer(&compiled, "x.a.io", request))
    };
    let expected = ["wide", "not_delegated", "not_delegated"].map(str::to_owned);
    assert_eq!(answers(&[]), expected);
    assert_eq!(answers(&[&dated(stranger("x.a.io"), "2026-02-01")]), expected);
}
