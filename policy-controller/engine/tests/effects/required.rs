//! Changes without which requests must not be forwarded, and requests of which nobody can say whether a
//! policy is about them.

use super::*;

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: {kind}\n\
         metadata: {{name: {name}, namespace: shop}}\nspec: {{{spec}}}"
    )
}

fn group(name: &str, path: &str) -> String {
    object("HttpRouteGroup", name, &format!("routes: [{{path: '{path}'}}]"))
}

fn binding(name: &str, groups: &str) -> String {
    let spec = format!("targetRef: {{{WEB}}}, routeRefs: [{groups}]");
    object("HttpRouteBinding", name, &spec)
}

fn class(key: &str, operator: &str, value: &str) -> String {
    let expression = format!("{{key: {key}, operator: {operator}, values: ['{value}']}}");
    let selector = format!("routeSelector: {{matchExpressions: [{expression}]}}");
    object("HttpRouteClass", "some", &format!("targetRef: {{{WEB}}}, {selector}"))
}

const ON_CLASS: &str = "kind: HttpRouteClass, name: some";

/// A policy that clears a header, and without which requests must not be forwarded.
fn required(target: &str) -> String {
    policy("HeaderRewritePolicy", "must", 1, target, "failure: Deny, rules: [{clear: [x-a]}]")
}

fn refusal(why: &str) -> String {
    format!("500 13 1/1 `{why} and its changes are required`: HeaderRewritePolicy shop/must")
}

const CLEARED: &str = "clear x-a: HeaderRewritePolicy shop/must";

#[test]
fn a_class_whose_condition_cannot_be_evaluated_lets_no_request_by() {
    let unknown =
        refusal("a condition of the target of HeaderRewritePolicy shop/must cannot be evaluated");
    for (path, class, reason) in [
        (
            "/books/:id",
            class("http.linkerd.io/method", "NotIn", "GET"),
            "/books/:id is not selected: the route is for any method: list the `methods` of the route",
        ),
        (
            "/books/*id",
            class("path.http.linkerd.io/id", "NotIn", "5"),
            "/books/*id is not selected: `*rest` stands for several segments: only single ones can be \
             compared",
        ),
    ] {
        let other = object("HttpRouteGroup", "other", "routes: [{path: /other, methods: [GET]}]");
        let own = [group("books", path), other, class];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let bound = binding("all", "{name: books}, {name: other}");
        let required = required(ON_CLASS);
        let all = compiled(&[&own[..], &[&bound, &required]].concat());
        assert_eq!(
            effects(&all, "/books/42", "web", &[]),
            std::slice::from_ref(&unknown),
            "{path}"
        );
        assert_eq!(effects(&all, "/other", "web", &[]), Vec::<String>::new(), "{path}");
        let told = format!(
            "HttpRouteClass shop/some: Accepted=False (NoRoutesSelected): HttpRouteClass shop/some: \
             {reason}; requests of such routes fail, because the changes are required"
        );
        assert_eq!(told_of(&all), [told]);
        // Where the changes are not required, the route is not selected.
        let ignored = rewrite("may", 1, ON_CLASS, "{clear: [x-a]}");
        let all = compiled(&[&own[..], &[&bound, &ignored]].concat());
        assert_eq!(effects(&all, "/books/42", "web", &[]), Vec::<String>::new(), "{path}");
    }
}

/// What the policy `must` is told.
fn told_of(compiled: &Compiled) -> Vec<String> {
    told(compiled, Kind::HeaderRewritePolicy).remove("must").unwrap_or_default()
}

#[test]
fn an_invalid_target_lets_no_request_of_the_namespace_by() {
    let invalid = refusal("the target of HeaderRewritePolicy shop/must is invalid");
    let broken = "targetRef: {kind: Server, name: web}, other: 5";
    for (kind, group, text) in [
        ("HttpRouteClass", "portcullis.dev", object("HttpRouteClass", "some", broken)),
        (
            "HttpRouteBinding",
            "portcullis.dev",
            object("HttpRouteBinding", "some", &format!("{broken}, routeRefs: [{{name: none}}]")),
        ),
        (
            "HTTPRoute",
            "gateway.networking.k8s.io",
            route("HTTPRoute", "some", "matches: [{path: {value: cart}, method: PUT}]"),
        ),
    ] {
        let target = format!("group: {group}, kind: {kind}, name: some");
        let cart = route("HTTPRoute", "cart", CART);
        let all = compiled(&[&cart, &text, &required(&target)]);
        assert_eq!(effects(&all, "/cart", "web", &[]), std::slice::from_ref(&invalid), "{kind}");
        let message = format!(
            "{kind} shop/some: Accepted=False (Invalid): {kind} shop/some is invalid, so that nobody \
             knows its requests: those of every Server of the namespace fail, because the changes are \
             required"
        );
        assert_eq!(told_of(&all), [message]);
        let ignored = rewrite("may", 1, &target, "{clear: [x-a]}");
        let all = compiled(&[&cart, &text, &ignored]);
        assert_eq!(effects(&all, "/cart", "web", &[]), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_target_that_does_not_exist_has_no_requests() {
    let cart = route("HTTPRoute", "cart", CART);
    for kind in ["HttpRouteClass", "HttpRouteBinding"] {
        let all = compiled(&[&cart, &required(&format!("kind: {kind}, name: gone"))]);
        assert_eq!(effects(&all, "/cart", "web", &[]), Vec::<String>::new(), "{kind}");
        let missing = format!(
            "{kind} shop/gone: Accepted=False (NoMatchingTarget): {kind} shop/gone does not exist"
        );
        assert_eq!(told_of(&all), [missing]);
    }
}

/// Routes of two groups are one route, and their parameters have each other's name.
#[test]
fn a_policy_applies_once_to_a_request_that_a_class_selects_twice() {
    let all = |policy: &str| {
        compiled(&[
            &group("one", "/x/:id/:k"),
            &group("two", "/x/:k/:id"),
            &binding("one", "{name: one}"),
            &binding("two", "{name: two}"),
            &class("path.http.linkerd.io/id", "NotIn", "5"),
            policy,
        ])
    };
    let adding = all(&rewrite("may", 1, ON_CLASS, "{add: {x-added: once}}"));
    let added = ["add x-added: once: HeaderRewritePolicy shop/may"];
    for (path, wanted) in [
        ("/x/1/2", &added[..]),
        ("/x/5/2", &added[..]),
        ("/x/1/5", &added[..]),
        ("/x/5/5", &[][..]),
    ] {
        assert_eq!(effects(&adding, path, "web", &[]), wanted, "{path}");
    }
    let clearing = all(&required(ON_CLASS));
    assert_eq!(effects(&clearing, "/x/1/2", "web", &[]), [CLEARED]);
    assert_eq!(effects(&clearing, "/x/5/5", "web", &[]), Vec::<String>::new());
}
