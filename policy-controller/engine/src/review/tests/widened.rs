//! Reviews of edits that make routes wider.

use super::*;

const GRANTED: &str = "
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: wide, namespace: shop}, \
spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], \
rules: [{matches: [{path: {value: /books}}]}]}}
---
{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, metadata: {name: p, namespace: shop}, \
spec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: wide}, \
requiredAuthenticationRefs: []}}";

/// A route of which nobody is granted anything.
fn tight(spec: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, \
          metadata: {{name: tight, namespace: shop}}, \
          spec: {{parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}], {spec}}}}}"
    )
}

fn matches(all: &str) -> String {
    format!("rules: [{{matches: [{all}]}}]")
}

/// The warnings about `rules` of an edit.
fn told_of_edit(before: &str, after: &str) -> Vec<String> {
    let mut engine = engine(true);
    let all = [GRANTED, before].into_iter().flat_map(testing::objects);
    let changes = all.map(|object| Change::Apply(Arc::new(object))).collect();
    engine.apply(&Batch { changes, ..Batch::default() });
    let object = testing::objects(after).remove(0);
    let found = engine.snapshot().unwrap().review(object);
    let found = found.iter().map(ToString::to_string);
    found.filter(|one| one.contains("was refused before")).collect()
}

#[test]
fn an_edit_by_which_a_match_no_longer_refuses_is_told_with_what_it_permits() {
    let none: [&str; 0] = [];
    let before = tight(&matches("{path: {value: /books/admin}}, {path: {value: /x}}"));
    let gone = tight(&matches("{path: {value: /x}}"));
    assert_eq!(
        told_of_edit(&before, &gone),
        ["spec.rules: permits what was refused before, because a match is gone or broader: \
          `DELETE /books/admin/x` from inside the cluster, without an identity, `DELETE \
          /books/admin/x` with any identity, `DELETE /books/admin/x` without an identity, and 15 \
          more like these"]
    );
    // One method less is refused.
    let narrower =
        tight(&matches("{path: {value: /books/admin}, method: GET}, {path: {value: /x}}"));
    let [told] = &told_of_edit(&before, &narrower)[..] else { panic!("not told once") };
    assert!(told.contains("`DELETE /books/admin/x`") && !told.contains("`GET"), "{told}");
    // It still refuses everything that it did.
    let wider =
        tight(&matches("{path: {value: /books}, method: GET}, {path: {value: /books/admin}}"));
    assert_eq!(told_of_edit(&before, &wider), none);
    assert_eq!(told_of_edit(&before, &before), none);
    // Nobody was permitted below `/x` otherwise.
    assert_eq!(told_of_edit(&before, &tight(&matches("{path: {value: /books/admin}}"))), none);
    // What it refuses on one host alone was permitted on the others.
    let host =
        tight(&format!("hostnames: [a.example], {}", matches("{path: {value: /books/admin}}")));
    let [told] = &told_of_edit(&host, &gone)[..] else { panic!("not told once") };
    assert!(told.contains("`DELETE a.example/books/admin/x`"), "{told}");
}

#[test]
fn an_edit_by_which_a_match_of_a_route_that_grants_is_broader_is_told() {
    let none: [&str; 0] = [];
    let wide = |one: &str| {
        let [route, _] = GRANTED.split("---").collect::<Vec<_>>()[..] else {
            panic!("two objects")
        };
        route.replace("{path: {value: /books}}", one)
    };
    let edit = |one: &str| {
        told_of_edit("{apiVersion: v1, kind: Namespace, metadata: {name: x}}", &wide(one))
    };
    assert_eq!(edit("{path: {value: /books}}"), none);
    let [told] = &edit("{path: {value: /}}")[..] else { panic!("not told once") };
    assert!(told.contains("`DELETE /` "), "{told}");
    // Another path is meant to be permitted.
    assert_eq!(edit("{path: {value: /books}}, {path: {value: /news}}"), none);
    assert_eq!(edit("{path: {value: /books/new}}"), none);
}
