//! Hostnames of routes that roots of other namespaces claim: what each side is told, and what counts.

use super::children::{answer, compiled, open, root};
use super::hosts::admission;
use policy_crds::{Kind, ObjectKey};
use policy_engine::Compiled;

/// An HTTPRoute of namespace `shop` on its Server `web`, created on this day of January 2026.
fn route(day: u8, hosts: &str, more: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: h, namespace: shop, creationTimestamp: '2026-01-{day:02}T00:00:00Z'{more}}}\n\
         spec:\n  hostnames: [{hosts}]\n\
         \x20 parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
         \x20 rules: [{{matches: [{{path: {{value: /}}}}]}}]"
    )
}

/// The status of the route about its Server, with one condition.
fn status(condition: &str) -> String {
    format!(
        "\nstatus:\n  parents:\n  - controllerName: portcullis.dev/policy-controller\n\
         \x20   parentRef: {{group: policy.linkerd.io, kind: Server, name: web}}\n\
         \x20   conditions: [{{{condition}}}]"
    )
}

/// A root of another namespace, claimed on this day of January 2026.
fn stranger(day: u8, host: &str) -> String {
    root("hidden", &format!("fqdn: {host}"), "{match: /, serve: {}}")
        .replace("namespace: shop", "namespace: strange")
        .replace("2026-01-01", &format!("2026-01-{day:02}"))
}

fn conditions(compiled: &Compiled, kind: Kind, namespace: &str, name: &str) -> Vec<String> {
    let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
    compiled.conditions[&key].iter().map(ToString::to_string).collect()
}

fn of_route(compiled: &Compiled) -> String {
    conditions(compiled, Kind::GatewayHttpRoute, "shop", "h")[0].clone()
}

fn of_root(compiled: &Compiled) -> String {
    conditions(compiled, Kind::InboundRoute, "strange", "hidden")[0].clone()
}

/// A new root for a name closed the pods that had answered it all the time.
#[test]
fn both_sides_are_told_of_a_hostname_that_is_claimed_after_a_route_had_it() {
    let later = compiled(&[&open("HTTP/1"), &route(2, "a.io", ""), &stranger(3, "a.io")]);
    assert_eq!(answer(&later, "a.io", "GET /"), "h");
    assert_eq!(
        of_route(&later),
        "Accepted=True (Accepted): InboundRoutes of another namespace claimed a.io, or a host below, \
         after the route was attached: the Server goes on answering it"
    );
    assert_eq!(
        of_root(&later),
        "Accepted=True (Accepted): routes of another namespace were attached with a.io, or a name that \
         overlaps with it, earlier: the Servers of that namespace go on answering it"
    );
    let key =
        ObjectKey { kind: Kind::InboundRoute, namespace: "strange".into(), name: "hidden".into() };
    let claims: Vec<_> = later.delegation_state(&key).claims.iter().collect();
    let reason = claims[0].reason.map(|reason| reason.as_str());
    assert_eq!((claims[0].active, reason), (true, Some("HostnameAttachedEarlier")));
    // Both are findings.
    let found = later.findings();
    let of = |name: &str| found.iter().any(|one| *one.object.name == *name);
    assert!(of("h") && of("hidden"), "{found:?}");

    for day in [1, 2] {
        let earlier = compiled(&[&open("HTTP/1"), &route(2, "a.io", ""), &stranger(day, "a.io")]);
        assert_eq!(answer(&earlier, "a.io", "GET /"), "not_delegated", "{day}");
        assert!(of_route(&earlier).contains("HostAlreadyClaimed"), "{}", of_route(&earlier));
        assert_eq!(of_root(&earlier), "Accepted=True (Accepted)");
    }
}

#[test]
fn a_wildcard_of_a_route_loses_the_names_that_were_claimed_before_and_no_others() {
    let wide = route(2, "'*.a.io'", "");
    let later = compiled(&[&open("HTTP/1"), &wide, &stranger(3, "z.a.io")]);
    assert_eq!(["z.a.io", "y.a.io"].map(|host| answer(&later, host, "GET /")), ["h", "h"]);
    assert!(of_route(&later).contains("goes on answering"), "{}", of_route(&later));
    let earlier = compiled(&[&open("HTTP/1"), &wide, &stranger(1, "z.a.io")]);
    let answers = ["z.a.io", "y.a.io"].map(|host| answer(&earlier, host, "GET /"));
    assert_eq!(answers, ["not_delegated", "h"]);
    assert_eq!(
        of_route(&earlier),
        "Accepted=True (Accepted): InboundRoutes of another namespace claimed hosts below a wildcard of \
         the route before it was attached: these are denied"
    );
}

/// A route that was edited may have its hostnames since any time.
#[test]
fn an_edited_route_has_a_hostname_since_its_status_says_so_and_not_since_before_it_was_created() {
    let edited = ", generation: 2";
    let status = |time: &str| {
        let record =
            format!("type: HostnamesAttached, status: 'True', message: 'a.io since {time}'");
        status(&record)
    };
    let claim = stranger(10, "a.io");
    let answered =
        |route: &str| answer(&compiled(&[&open("HTTP/1"), route, &claim]), "a.io", "GET /");
    let route = route(2, "a.io", edited);
    assert_eq!(answered(&route), "not_delegated");
    for (time, expected) in [
        ("2026-01-09T00:00:00Z", "h"),
        ("2026-01-11T00:00:00Z", "not_delegated"),
        ("2026-01-01T00:00:00Z", "not_delegated"),
        ("soon", "not_delegated"),
    ] {
        assert_eq!(answered(&format!("{route}{}", status(time))), expected, "{time}");
    }
    let elsewhere = status("2026-01-09T00:00:00Z").replace("name: web", "name: other");
    assert_eq!(answered(&format!("{route}{elsewhere}")), "not_delegated");
    let by_another = status("2026-01-09T00:00:00Z").replace("portcullis.dev", "another.dev");
    assert_eq!(answered(&format!("{route}{by_another}")), "not_delegated");
}

/// A root that is deleted and created again claims anew. The route had no part in its host before.
#[test]
fn a_route_whose_status_says_that_it_lost_a_hostname_never_counts_as_attached_before() {
    let lost = status("type: Accepted, status: 'False', reason: HostAlreadyClaimed");
    let route = route(2, "a.io", "");
    let answered = |status: &str| {
        let (route, claim) = (format!("{route}{status}"), stranger(10, "a.io"));
        let compiled = compiled(&[&open("HTTP/1"), &route, &claim]);
        (answer(&compiled, "a.io", "GET /"), of_root(&compiled).contains("earlier"))
    };
    assert_eq!(answered(""), ("h".to_owned(), true));
    assert_eq!(answered(&lost), ("not_delegated".to_owned(), false));
}

/// A younger route, or one of another namespace, took from an older route what that had kept.
#[test]
fn a_route_closes_nothing_that_an_older_route_of_the_server_keeps() {
    let older = route(2, "'*.a.io'", "");
    let claim = stranger(3, "z.a.io");
    let younger = |host: &str| route(4, host, "").replace("name: h", "name: younger");
    let invalid = younger("'*.a.io'").replace("rules: [{", "rules: [{timeouts: {request: x}, ");
    for other in [younger("'*.a.io'"), younger("z.a.io"), invalid] {
        let both = compiled(&[&open("HTTP/1"), &older, &other, &claim]);
        assert_eq!(answer(&both, "z.a.io", "GET /"), "h", "{other}");
        // What no route keeps stays closed.
        let alone = compiled(&[&open("HTTP/1"), &route(2, "b.io", ""), &other, &claim]);
        assert_eq!(answer(&alone, "z.a.io", "GET /"), "not_delegated", "{other}");
    }
}

/// Roots of another namespace, each with seventeen hosts below a name that they claimed first.
fn names(below: &str, count: usize) -> Vec<String> {
    let root = |n: usize| {
        let aliases: Vec<String> = (0..16).map(|a| format!("a{a}.r{n}.{below}")).collect();
        let host = format!("r{n}.{below}, aliases: [{}]", aliases.join(", "));
        let name = format!("name: {}{n}", below.replace('.', "-"));
        stranger(1, &host).replace("name: hidden", &name)
    };
    (0..count).map(root).collect()
}

/// Names below a wildcard that are more than are closed one by one take the wildcard.
#[test]
fn of_too_many_names_below_a_wildcard_the_whole_wildcard_is_closed() {
    for (roots, expected) in [(10, "h"), (61, "not_delegated")] {
        let (server, route) = (open("HTTP/1"), route(2, "'*.a.io'", ""));
        let mut documents = names("a.io", roots);
        documents.extend([server, route]);
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        assert_eq!(answer(&compiled(&documents), "free.a.io", "GET /"), expected, "{roots}");
    }
    // The wildcards of a route have one bound together.
    let mut documents = names("a.io", 40);
    documents.extend(names("b.io", 40));
    documents.extend([open("HTTP/1"), route(2, "'*.a.io', '*.b.io'", "")]);
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let compiled = compiled(&documents);
    let answers = ["free.a.io", "free.b.io"].map(|host| answer(&compiled, host, "GET /"));
    assert_eq!(answers, ["h", "not_delegated"]);
}

/// Each route had a bound of its own, so that a Server with many routes had any number of closed names.
#[test]
fn routes_of_a_server_have_one_bound_of_closed_names_and_the_largest_wildcard_goes_first() {
    let world = |larger: usize| {
        let mut documents = [names("a.io", 20), names("b.io", larger)].concat();
        let wide = |host: &str, name: &str| {
            route(2, &format!("'*.{host}'"), "").replace("name: h,", &format!("name: {name},"))
        };
        documents.extend([open("HTTP/1"), wide("a.io", "h"), wide("b.io", "other")]);
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        compiled(&documents)
    };
    let answers = |compiled: &Compiled| {
        ["free.a.io", "r1.a.io", "free.b.io", "r1.b.io"].map(|host| answer(compiled, host, "GET /"))
    };
    let closed = |compiled: &Compiled| crate::common::web(compiled, 8080).routes.hosts.len();
    let of_other = |compiled: &Compiled| {
        conditions(compiled, Kind::GatewayHttpRoute, "shop", "other")[0].clone()
    };

    let within = world(40);
    assert_eq!(answers(&within), ["h", "not_delegated", "other", "not_delegated"]);
    assert_eq!(closed(&within), 60 * 17);
    let beyond = world(41);
    assert_eq!(answers(&beyond), ["h", "not_delegated", "not_delegated", "not_delegated"]);
    assert_eq!(closed(&beyond), 20 * 17 + 1);
    assert_eq!(
        of_other(&beyond),
        "Accepted=False (HostAlreadyClaimed): the Server denies *.b.io as a whole: InboundRoutes of another \
         namespace claimed hosts below before the route was attached, and a Server has at most 1024 such \
         hosts of all its routes"
    );
}

/// Every Server of a wildcard root had each name that other namespaces claimed below, however many.
#[test]
fn of_too_many_names_below_the_wildcard_of_a_root_none_costs_a_server_anything() {
    let world = |roots: usize, of_names: &str| {
        let names = names("a.io", roots);
        let names = names.iter().map(|root| root.replace("2026-01-01", of_names));
        let wide = root("wide", "fqdn: '*.a.io'", "{match: /, serve: {}}");
        let wide = wide.replace("2026-01-01", "2026-01-02");
        let own = [open("HTTP/1"), wide, admission("InterNamespaceAllowed")];
        let documents: Vec<String> = names.chain(own).collect();
        compiled(&documents.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let answers = |compiled: &Compiled| {
        ["free.a.io", "r1.a.io", "a3.r59.a.io"].map(|host| answer(compiled, host, "GET /"))
    };
    let hosts = |compiled: &Compiled| crate::common::web(compiled, 8080).routes.hosts.len();
    let told =
        |compiled: &Compiled| conditions(compiled, Kind::InboundRoute, "shop", "wide").join(" ");

    // Claimed before the wildcard, they have their paths.
    let earlier = world(60, "2026-01-01");
    assert_eq!(answers(&earlier), ["wide", "not_delegated", "not_delegated"]);
    assert_eq!(hosts(&earlier), 60 * 17 + 1);
    let crowded = world(61, "2026-01-01");
    assert_eq!(answers(&crowded), ["not_delegated"; 3]);
    assert_eq!(hosts(&crowded), 1);
    let why = "*.a.io is denied as a whole: InboundRoutes of other namespaces claimed more than 1024 names below it";
    assert!(told(&crowded).contains(why), "{}", told(&crowded));
    assert!(!told(&earlier).contains("as a whole"));
    // Claimed after it, they take nothing from it, whether a Server has them or not.
    for roots in [60, 70] {
        let later = world(roots, "2026-01-03");
        assert_eq!(answers(&later), ["wide"; 3], "{roots}");
        assert!(hosts(&later) <= 1025, "{}", hosts(&later));
    }
}
