//! Changes of headers, and what happens where they cannot be made.

use super::*;

const JSON: &str = "{header: {key: content-type, op: In, values: [application/json]}}";
const EXAMPLE: &str = "{header: {key: host, op: In, values: [example.com]}}";
const TYPED: &[(&str, &str)] = &[("content-type", "application/json"), ("x-foobar", "own")];
const PLAIN: &[(&str, &str)] = &[("x-foobar", "own")];

fn set_foobar() -> String {
    format!("{{match: [{JSON}], set: {{x-foobar: yahoo}}}}")
}

fn clear_foobar() -> String {
    format!("{{match: [{EXAMPLE}], clear: [x-foobar]}}")
}

/// The values of `x-foobar` that are forwarded: with both, only JSON, only the host, and neither.
fn foobar(compiled: &Compiled) -> [Vec<String>; 4] {
    let requests =
        [(TYPED, "example.com"), (TYPED, "other"), (PLAIN, "example.com"), (PLAIN, "other")];
    requests.map(|(headers, host)| {
        let lines = forwarded(compiled, headers, host).into_iter();
        lines.filter(|(name, _)| name == "x-foobar").map(|(_, value)| value).collect()
    })
}

fn values(all: [&[&str]; 4]) -> [Vec<String>; 4] {
    all.map(|values| values.iter().map(|value| (*value).to_owned()).collect())
}

#[test]
fn rules_apply_in_order_to_what_the_request_was() {
    let rules = format!("{}, {}", set_foobar(), clear_foobar());
    let all = compiled(&[&rewrite("example-headers", 1, WEB, &rules)]);
    assert_eq!(foobar(&all), values([&[], &["yahoo"], &[], &["own"]]));
    let told = told(&all, Kind::HeaderRewritePolicy);
    let accepted = "Server shop/web: Accepted=True (Accepted)";
    assert_eq!(told, lines([("example-headers", &[accepted])]));
}

/// The two policies of the proposal: the later one decides, whatever they are named, and says so.
#[test]
fn two_policies_have_one_order_and_the_later_one_says_so() {
    let cleared = values([&[], &["yahoo"], &[], &["own"]]);
    let set = values([&["yahoo"], &["yahoo"], &[], &["own"]]);
    // Name and second of creation of the one that sets, and of the one that clears.
    let table = [
        (("a", 1), ("b", 2), &cleared, ("a", "b")),
        (("b", 1), ("a", 2), &cleared, ("b", "a")),
        (("a", 2), ("b", 1), &set, ("b", "a")),
        (("b", 2), ("a", 1), &set, ("a", "b")),
        (("a", 1), ("b", 1), &cleared, ("a", "b")),
        (("b", 1), ("a", 1), &set, ("a", "b")),
    ];
    for (setting, clearing, wanted, (first, second)) in table {
        let setting = rewrite(setting.0, setting.1, WEB, &set_foobar());
        let clearing = rewrite(clearing.0, clearing.1, WEB, &clear_foobar());
        let accepted = "Server shop/web: Accepted=True (Accepted)";
        let after = format!(
            "Server shop/web: Overlaps=True (Overlaps): the order matters to some requests, and it is \
             applied after HeaderRewritePolicy shop/{first} (`x-foobar`)"
        );
        for documents in [[&*setting, &*clearing], [&*clearing, &*setting]] {
            let all = compiled(&documents);
            assert_eq!(foobar(&all), *wanted, "{documents:?}");
            let told = told(&all, Kind::HeaderRewritePolicy);
            assert_eq!(told, lines([(first, &[accepted]), (second, &[accepted, &after])]));
        }
    }
}

/// The Server has the last word, however old its policy is.
#[test]
fn policies_on_a_route_come_before_those_on_its_server() {
    let modifier = "filters: [{type: RequestHeaderModifier, requestHeaderModifier: \
                    {set: [{name: x-a, value: rule}]}}]";
    let cart = route("HTTPRoute", "cart", &format!("{CART}, {modifier}"));
    let other = route("HTTPRoute", "other", "matches: [{path: {value: /other}}]");
    let server = rewrite("server", 1, WEB, "{set: {x-a: server}}");
    let late = rewrite("late", 3, ON_CART, "{set: {x-a: late}}");
    let early = rewrite("early", 2, ON_CART, "{set: {x-a: early}}");
    let all = compiled(&[&server, &late, &early, &cart, &other]);
    let wanted = [
        "set x-a: rule: HTTPRoute shop/cart",
        "set x-a: early: HeaderRewritePolicy shop/early",
        "set x-a: late: HeaderRewritePolicy shop/late",
        "set x-a: server: HeaderRewritePolicy shop/server",
    ];
    assert_eq!(effects(&all, "/cart", "web", &[]), wanted);
    assert_eq!(effects(&all, "/other", "web", &[]), wanted[3..]);
    let after = "the order matters to some requests, and it is applied after HeaderRewritePolicy shop/early \
                 (`x-a`)";
    let of_late = format!("HTTPRoute shop/cart: Overlaps=True (Overlaps): {after}");
    let of_server = format!(
        "Server shop/web: Overlaps=True (Overlaps): {after}, HeaderRewritePolicy shop/late (`x-a`)"
    );
    let route = "HTTPRoute shop/cart: Accepted=True (Accepted)";
    let server = "Server shop/web: Accepted=True (Accepted)";
    let wanted = lines([
        ("early", &[route]),
        ("late", &[route, &of_late]),
        ("server", &[server, &of_server]),
    ]);
    assert_eq!(told(&all, Kind::HeaderRewritePolicy), wanted);
    let findings: Vec<_> = all
        .findings()
        .into_iter()
        .filter(|found| found.object.kind == Kind::HeaderRewritePolicy)
        .map(|found| (found.object.name.to_string(), found.kind, found.field))
        .collect();
    let overlaps = policy_engine::findings::FindingKind::Overlaps;
    let wanted =
        ["server", "late"].map(|name| (name.to_owned(), overlaps, "spec.rules".to_owned()));
    assert_eq!(findings, wanted);
}

/// Who has the Server is not told what the namespace of a route does with it.
#[test]
fn overlaps_name_no_policy_of_another_namespace() {
    let elsewhere = |yaml: String| yaml.replace("namespace: shop", "namespace: other");
    let on_server = "name: web, namespace: shop}]";
    let hushed = elsewhere(route("HTTPRoute", "cart", CART)).replace("name: web}]", on_server);
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: shop}\n\
                 spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}], \
                 to: [{group: policy.linkerd.io, kind: Server, name: web}]}";
    let own = route("HTTPRoute", "own", "matches: [{path: {value: /own}}]");
    let set = "{set: {x-a: '1', x-b: '1'}}";
    let hush = |name: &str| elsewhere(rewrite(name, 1, ON_CART, set));
    let near = rewrite("near", 1, &ON_CART.replace("cart", "own"), "{set: {x-a: near}}");
    let server = rewrite("server", 2, WEB, "{set: {x-a: '2', x-b: '2'}}");
    let all = compiled(&[&hushed, grant, &own, &hush("hush"), &hush("hush-2"), &near, &server]);
    let set_by = |name: &str, value: &str| format!("set x-a: {value}: HeaderRewritePolicy {name}");
    let applied = effects(&all, "/cart", "web", &[]);
    let of_both =
        [set_by("other/hush", "1"), set_by("other/hush-2", "1"), set_by("shop/server", "2")];
    assert!(of_both.iter().all(|one| applied.contains(one)), "{applied:?}");
    let told = &told(&all, Kind::HeaderRewritePolicy)["server"];
    let wanted = [
        "Server shop/web: Accepted=True (Accepted)",
        "Server shop/web: Overlaps=True (Overlaps): the order matters to some requests, and it is \
         applied after HeaderRewritePolicy shop/near (`x-a`), a policy of another namespace",
    ];
    assert_eq!(*told, wanted);
}

#[test]
fn policies_that_never_meet_do_not_overlap() {
    let cart = route("HTTPRoute", "cart", CART);
    let other = route("HTTPRoute", "other", "matches: [{path: {value: /other}}]");
    let on_cart = rewrite("cart", 1, ON_CART, "{set: {x-a: '1'}}");
    let on_other = rewrite("other", 2, &ON_CART.replace("cart", "other"), "{set: {x-a: '2'}}");
    let all = compiled(&[&cart, &other, &on_cart, &on_other]);
    let wanted = lines([
        ("cart", &["HTTPRoute shop/cart: Accepted=True (Accepted)"]),
        ("other", &["HTTPRoute shop/other: Accepted=True (Accepted)"]),
    ]);
    assert_eq!(told(&all, Kind::HeaderRewritePolicy), wanted);
}

const RESERVED: [&str; 4] =
    ["{set: {l5d-client-id: x}}", "{clear: [content-length]}", "{set: {host: x}}", "{clear: [te]}"];

#[test]
fn a_policy_with_a_reserved_header_changes_nothing_or_fails_requests() {
    let cart = route("HTTPRoute", "cart", CART);
    let rest = route("HTTPRoute", "rest", "matches: [{path: {value: /}}]");
    for rule in RESERVED {
        let ignored = rewrite("bad", 1, ON_CART, rule);
        let all = compiled(&[&cart, &rest, &ignored]);
        assert_eq!(effects(&all, "/cart", "web", &[]), Vec::<String>::new(), "{rule}");
        let required = ignored.replace("rules:", "failure: Deny, rules:");
        let all = compiled(&[&cart, &rest, &required]);
        let failure = "500 13 1/1 `HeaderRewritePolicy shop/bad is invalid and its changes are \
                       required`: HeaderRewritePolicy shop/bad";
        assert_eq!(effects(&all, "/cart", "web", &[]), [failure], "{rule}");
        assert_eq!(effects(&all, "/", "web", &[]), Vec::<String>::new(), "{rule}");
        let told = told(&all, Kind::HeaderRewritePolicy);
        let [line] = told["bad"].as_slice() else { panic!("{told:?}") };
        let last = "requests of its target fail, because its changes may be required";
        assert!(line.starts_with("-: Accepted=False (Invalid): spec.rules[0]"), "{line}");
        assert_eq!(line.rsplit("; ").next(), Some(last));
    }
}

#[test]
fn a_required_policy_whose_target_cannot_be_read_may_be_about_any_server() {
    let unread = rewrite("bad", 1, "kind: Server, name: []", "{clear: [x-a]}");
    let ignored = compiled(&[&unread]);
    assert_eq!(effects(&ignored, "/", "web", &[]), Vec::<String>::new());
    let required = unread.replace("rules:", "failure: Deny, rules:");
    let failure = "500 13 1/1 `HeaderRewritePolicy shop/bad is invalid and its changes are required`: \
                   HeaderRewritePolicy shop/bad";
    let all = compiled(&[&required]);
    assert_eq!(effects(&all, "/", "web", &[]), [failure]);
    let told = told(&all, Kind::HeaderRewritePolicy);
    let last =
        "requests of every Server of the namespace fail, because its changes may be required";
    assert_eq!(told["bad"].len(), 1);
    assert_eq!(told["bad"][0].rsplit("; ").next(), Some(last));
    let elsewhere = required.replace("namespace: shop", "namespace: strange");
    assert_eq!(effects(&compiled(&[&elsewhere]), "/", "web", &[]), Vec::<String>::new());
}
