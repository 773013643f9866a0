//! The kinds of SMI: their forms in each version, and the errors that they get.

use crate::support::{check, claims, errors, object, resource, value};
use policy_core::{PathPattern, RequestMatch};
use policy_crds::resource::{
    AllowedTraffic, SmiRouteGroup, SmiSpecs, SmiTcpRoute, TargetDestination, TrafficTarget,
};
use policy_crds::{Claims, Resource, parse};
use std::collections::BTreeMap;

const ACCESS: &str = "access.smi-spec.io/v1alpha3";
const SPECS: &str = "specs.smi-spec.io/v1alpha4";

const TARGET: &str = "destination: {kind: ServiceAccount, name: web, namespace: here}\n\
                      rules: [{kind: HTTPRouteGroup, name: web}]\n\
                      sources: [{kind: ServiceAccount, name: cart, namespace: shop}]";

#[test]
#[rustfmt::skip]
fn every_rule_of_a_traffictarget() {
    let with = |from: &str, to: &str| TARGET.replace(from, to);
    let cases: Vec<(String, &[&str])> = vec![
        (TARGET.to_owned(), &[]),
        (with("namespace: here", "port: 8080"), &[]),
        (with("ServiceAccount, name: web", "IdentityBinding, name: web"), &[]),
        (with("HTTPRouteGroup", "UDPRoute"), &[]),
        (with("kind: ServiceAccount, name: cart", "kind: Group, name: cart"), &[]),
        (with("namespace: here", "namespace: there"), &["spec.destination: is in another namespace: a target decides in its own, `here`"]),
        (with("namespace: here", "port: 0"), &["spec.destination.port: expected a whole number from 1 to 65535, found the number `0`"]),
        (with("ServiceAccount, name: web", "Pod, name: web"), &["spec.destination.kind: unknown value `Pod`, expected one of `ServiceAccount`, `IdentityBinding`"]),
        (with("name: web, namespace", "nam: web, namespace"), &["spec.destination.nam: unknown field, did you mean `name`?", "spec.destination.name: is required"]),
        (with("[{kind: HTTPRouteGroup, name: web}]", "[]"), &["spec.rules: must not be empty: without an element nothing is allowed"]),
        (with("rules: [{kind: HTTPRouteGroup, name: web}]", ""), &["spec.rules: is required"]),
        (with("[{kind: ServiceAccount, name: cart, namespace: shop}]", "[]"), &["spec.sources: must not be empty: without an element nothing is allowed"]),
        (with("kind: HTTPRouteGroup", "kind: TCPRoute, matches: [a]"), &["spec.rules[0].matches: a rule of the kind `TCPRoute` has none"]),
        (with("name: cart", "name: cart, uid: a"), &["spec.sources[0].uid: unknown field, expected one of `kind`, `name`, `namespace`"]),
        (format!("{TARGET}\npolicy: allow"), &["spec.policy: unknown field, expected one of `destination`, `sources`, `rules`, `specs`"]),
        ("7".to_owned(), &["spec: expected a mapping, found the number `7`"]),
    ];
    let cases: Vec<(&str, &[&str])> = cases.iter().map(|(spec, errors)| (&**spec, *errors)).collect();
    check(ACCESS, "TrafficTarget", &cases);
}

/// What it closes does not depend on whether the rest can be read.
#[test]
fn an_invalid_traffictarget_keeps_its_destination() {
    let of = |spec: &str| claims(object(ACCESS, "TrafficTarget", spec));
    let web = Some(TargetDestination::Account("web".into()));
    let broken = TARGET.replace("name: cart", "name: 7");
    assert_eq!(of(&broken), Claims::TrafficTarget { destination: web });
    let unread = TARGET.replace("name: web, namespace", "name: 7, namespace");
    assert_eq!(of(&unread), Claims::TrafficTarget { destination: None });
    assert_eq!(of("7"), Claims::TrafficTarget { destination: None });
    // Of another namespace it closes nothing, whatever else it says.
    let elsewhere = broken.replace("namespace: here", "namespace: there");
    assert_eq!(of(&elsewhere), Claims::Nothing);
}

#[test]
fn the_oldest_versions_have_their_fields_at_the_top() {
    let at_top = |text: &str| parse(&value(text)).unwrap();
    let meta = "metadata: {name: it, namespace: here}";
    let target = format!(
        "apiVersion: access.smi-spec.io/v1alpha1\nkind: TrafficTarget\n{meta}\n{}",
        TARGET.replace("rules:", "specs:")
    );
    let new = resource(object(ACCESS, "TrafficTarget", TARGET));
    assert_eq!(resource(at_top(&target)), new);
    // No version says where they are, because an API server converts nothing.
    assert_eq!(resource(at_top(&target.replace("v1alpha1", "v1alpha3"))), new);
    let unknown = errors(&at_top(&format!("{target}\npolicy: allow")));
    assert_eq!(
        unknown,
        ["policy: unknown field, expected one of `destination`, `sources`, `rules`, `specs`"
            .to_owned()]
    );
    let both = errors(&at_top(&format!("{target}\nspec: {{}}")));
    assert!(both.iter().any(|error| error.starts_with("destination: unknown field")), "{both:?}");
    let group = format!(
        "apiVersion: specs.smi-spec.io/v1alpha2\nkind: HTTPRouteGroup\n{meta}\nmatches: [{{name: a}}]"
    );
    let spec = "matches: [{name: a}]";
    assert_eq!(resource(at_top(&group)), resource(object(SPECS, "HTTPRouteGroup", spec)));
    let tcp = format!("apiVersion: specs.smi-spec.io/v1alpha1\nkind: TCPRoute\n{meta}");
    assert_eq!(resource(at_top(&tcp)), Resource::SmiTcpRoute(SmiTcpRoute { ports: None }));
}

#[test]
#[rustfmt::skip]
fn every_rule_of_an_httproutegroup() {
    check(SPECS, "HTTPRouteGroup", &[
        ("matches: [{name: a, pathRegex: '/a/.*', methods: [GET, '*'], headers: {x: a}}]", &[]),
        ("matches: [{name: a, headers: [{x: a, y: b}, {z: c}]}]", &[]),
        ("matches: []", &[]),
        ("{}", &["spec.matches: is required"]),
        ("matches: [{name: a}, {name: a}]", &["spec.matches[1]: the name `a` is taken"]),
        ("matches: [{name: a, path: /a}]", &["spec.matches[0].path: unknown field, expected one of `name`, `methods`, `pathRegex`, `headers`"]),
        ("matches: [{name: a, methods: [get]}]", &["spec.matches[0].methods[0]: unknown value `get`, expected one of `GET`, `HEAD`, `POST`, `PUT`, `DELETE`, `CONNECT`, `OPTIONS`, `TRACE`, `PATCH`, `*`"]),
        ("matches: [{name: a, headers: [{x: a}, {X: b}]}]", &["spec.matches[0].headers[1].X: the header `x` has two conditions"]),
        ("matches: [{name: a, headers: {x: 7}}]", &["spec.matches[0].headers.x: expected text, found the number `7`"]),
        ("matches: {name: a}", &["spec.matches: expected a list, found a mapping"]),
    ]);
    let broken = errors(&object(SPECS, "HTTPRouteGroup", "matches: [{name: a, pathRegex: '('}]"));
    assert!(broken[0].starts_with("spec.matches[0].pathRegex: `(`: "), "{broken:?}");
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_tcproute_and_an_identitybinding() {
    check(SPECS, "TCPRoute", &[
        ("matches: {ports: [80, 81]}", &[]),
        ("matches: [{name: a, ports: [80]}]", &[]),
        ("{}", &[]),
        ("matches: {ports: [70000]}", &["spec.matches.ports[0]: expected a whole number from 1 to 65535, found the number `70000`"]),
        ("matches: {ports: 80}", &["spec.matches.ports: expected a list, found the number `80`"]),
        ("ports: [80]", &["spec.ports: unknown field, expected `matches`"]),
    ]);
    check("access.smi-spec.io/v1alpha4", "IdentityBinding", &[
        ("schemes: {serviceAccount: a}", &[]),
        ("schemes: {podLabelSelectors: [{matchLabels: {a: b}}]}", &[]),
        ("schemes: {spiffeIdentities: ['spiffe://a/b']}", &[]),
        ("schemes: {serviceAccount: a, podLabelSelector: {matchLabels: {a: b}}}", &["spec.schemes: `serviceAccount` and labels of pods: one of both is allowed"]),
        ("schemes: {spiffeIdentities: ['*']}", &["spec.schemes.spiffeIdentities[0]: a SPIFFE id is expected, such as `spiffe://domain/path`"]),
        ("schemes: {users: [a]}", &["spec.schemes.users: unknown field, expected one of `serviceAccount`, `podLabelSelector`, `podLabelSelectors`, `spiffeIdentities`"]),
        ("{}", &["spec.schemes: is required"]),
    ]);
}

fn target(rules: &str, more: &str) -> TrafficTarget {
    let spec = format!(
        "destination: {{kind: ServiceAccount, name: web{more}}}\nrules: {rules}\n\
         sources: [{{kind: ServiceAccount, name: cart}}]"
    );
    match resource(object(ACCESS, "TrafficTarget", &spec)) {
        Resource::TrafficTarget(target) => target,
        other => panic!("{other:?}"),
    }
}

/// A table of rules, and what they allow: ports and paths, or why nothing.
#[test]
#[rustfmt::skip]
fn rules_allow_what_both_kinds_of_them_say() {
    let group = match resource(object(SPECS, "HTTPRouteGroup", "matches: [{name: a, pathRegex: /a}, {name: b, pathRegex: /b}]")) {
        Resource::SmiRouteGroup(group) => group,
        other => panic!("{other:?}"),
    };
    let empty = SmiRouteGroup { matches: Vec::new() };
    let one = SmiTcpRoute { ports: Some([80.try_into().unwrap()].into()) };
    let every = SmiTcpRoute { ports: None };
    let specs = SmiSpecs {
        groups: BTreeMap::from([("g".into(), &group), ("empty".into(), &empty)]),
        tcp: BTreeMap::from([("one".into(), &one), ("every".into(), &every)]),
    };
    let http = |name: &str| format!("{{kind: HTTPRouteGroup, name: {name}}}");
    let tcp = |name: &str| format!("{{kind: TCPRoute, name: {name}}}");
    let cases = [
        (http("g"), "", Ok((None, Some(vec!["/a", "/b"])))),
        (http("g, matches: [b]"), "", Ok((None, Some(vec!["/b"])))),
        (http("g, matches: []"), "", Ok((None, Some(vec!["/a", "/b"])))),
        (http("g, matches: [c]"), "", Err("none of its HTTP rules allows anything")),
        (http("empty"), "", Err("none of its HTTP rules allows anything")),
        (http("missing"), "", Err("none of its HTTP rules allows anything")),
        (tcp("one"), "", Ok((Some(80), None))),
        (tcp("every"), "", Ok((None, None))),
        (format!("{}, {}", tcp("one"), tcp("every")), "", Ok((None, None))),
        (format!("{}, {}", tcp("one"), tcp("missing")), "", Ok((Some(80), None))),
        (tcp("missing"), "", Err("no TCPRoute of it has a port")),
        (format!("{}, {}", http("g"), tcp("one")), "", Ok((Some(80), Some(vec!["/a", "/b"])))),
        (format!("{}, {}", http("g"), tcp("missing")), "", Err("no TCPRoute of it has a port")),
        (format!("{}, {}", http("missing"), tcp("one")), "", Err("none of its HTTP rules allows anything")),
        (http("g"), ", port: 81", Ok((Some(81), Some(vec!["/a", "/b"])))),
        (tcp("every"), ", port: 81", Ok((Some(81), None))),
        (tcp("one"), ", port: 81", Err("no TCPRoute of it has the port of the destination")),
        ("{kind: UDPRoute, name: g}".to_owned(), "", Err("no rule of it allows anything")),
        (format!("{{kind: UDPRoute, name: g}}, {}", tcp("one")), "", Ok((Some(80), None))),
        // It may be a misspelt TCPRoute, which says on which ports the requests are allowed.
        (format!("{{kind: TcpRoute, name: one}}, {}", http("g")), "", Err("it has a rule of the kind `TcpRoute`, which may narrow the others")),
        (format!("{0}, {0}, {0}", http("g")), "", Ok((None, Some(vec!["/a", "/b"])))),
    ];
    for (rules, more, expected) in cases {
        let expected = expected.map_err(str::to_owned).map(|(port, paths)| AllowedTraffic {
            ports: port.map(|port: u16| [port.try_into().unwrap()].into()),
            requests: paths.map(|paths| {
                let request = |path| RequestMatch::path(PathPattern::exact(path)).into();
                paths.into_iter().map(request).collect()
            }),
        });
        let found = target(&format!("[{rules}]"), more).allowed(&specs, &mut Vec::new());
        assert_eq!(found, expected, "{rules}{more}");
    }
}
