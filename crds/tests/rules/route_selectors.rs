//! Selectors over labels of routes.

use http::Method;
use policy_core::{SegmentCondition, SegmentOperator};
use policy_crds::Operator;
use policy_crds::resource::{
    GroupPath, Inexpressible, LabelKey, RouteLabels, RouteSelector, SelectableRoute, Selection,
    SelectorExpression, included,
};
use policy_crds::route_selector::{IDEMPOTENT, METHOD, PARAMETER, PATH, VERSION};
use proptest::prelude::*;
use std::sync::Arc;

fn labels(pairs: &[(&str, &str)]) -> RouteLabels {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn select(expressions: &[(&str, Operator)], path: &str, method: Option<&Method>) -> Selection {
    let expressions = expressions.iter().map(|(key, operator)| SelectorExpression {
        key: LabelKey::of(key),
        operator: operator.clone(),
    });
    let path = GroupPath::parse(path).unwrap();
    let labels = labels(&[("group", "books"), (IDEMPOTENT, "true")]);
    let route = SelectableRoute { path: &path, method, labels: &labels };
    RouteSelector { expressions: expressions.collect() }.select(&route)
}

fn is_in(values: &[&str]) -> Operator {
    Operator::In(values.iter().map(|value| (*value).into()).collect())
}

fn not_in(values: &[&str]) -> Operator {
    Operator::NotIn(values.iter().map(|value| (*value).into()).collect())
}

#[test]
fn every_label_is_selected_by() {
    let (get, id) = (Some(&Method::GET), "path.http.linkerd.io/id");
    let when = |operator, values: &[&str]| {
        Selection::When(vec![SegmentCondition::new("id", 1, operator, values)])
    };
    for (key, operator, expected) in [
        ("group", is_in(&["books", "authors"]), Selection::Always),
        ("group", not_in(&["books"]), Selection::Never),
        (IDEMPOTENT, is_in(&["true"]), Selection::Always),
        ("other", Operator::DoesNotExist, Selection::Always),
        ("other", not_in(&["x"]), Selection::Always),
        (METHOD, is_in(&["GET"]), Selection::Always),
        (METHOD, not_in(&["GET"]), Selection::Never),
        (PATH, is_in(&["/books/:id"]), Selection::Always),
        (PATH, is_in(&["/books/:book"]), Selection::Never),
        (VERSION, Operator::Exists, Selection::Always),
        (VERSION, Operator::DoesNotExist, Selection::Never),
        (id, Operator::Exists, Selection::Always),
        (id, Operator::DoesNotExist, Selection::Never),
        (id, is_in(&["42"]), when(SegmentOperator::In, &["42"])),
        (id, not_in(&["42", "7"]), when(SegmentOperator::NotIn, &["42", "7"])),
        ("path.http.linkerd.io/book", Operator::DoesNotExist, Selection::Always),
        ("path.http.linkerd.io/book", Operator::Exists, Selection::Never),
        ("path.http.linkerd.io/book", is_in(&["42"]), Selection::Never),
        ("path.http.linkerd.io/book", not_in(&["42"]), Selection::Never),
    ] {
        assert_eq!(
            select(&[(key, operator.clone())], "/books/:id", get),
            expected,
            "{key} {operator:?}"
        );
    }
    assert_eq!(select(&[], "/", None), Selection::Always);
}

#[test]
fn what_cannot_be_evaluated_selects_nothing_and_says_so() {
    let any = |operator| select(&[(METHOD, operator)], "/", None);
    let unknown = Selection::Inexpressible(Inexpressible::AnyMethod);
    assert_eq!(any(is_in(&["GET"])), unknown);
    assert_eq!(any(not_in(&["DELETE"])), unknown);
    assert_eq!(any(Operator::Exists), Selection::Always);
    let rest = |operator| select(&[("path.http.linkerd.io/rest", operator)], "/a/*rest", None);
    assert_eq!(rest(not_in(&["b"])), Selection::Inexpressible(Inexpressible::Rest));
    assert_eq!(rest(Operator::Exists), Selection::Always);
    // What fails anyway fails.
    let both = [(METHOD, is_in(&["GET"])), ("group", is_in(&["authors"]))];
    assert_eq!(select(&both, "/", None), Selection::Never);
}

#[test]
fn labels_of_the_includer_win() {
    let own = labels(&[("group", "y"), ("a", "b")]);
    let expected = labels(&[("group", "x"), ("a", "b"), ("c", "d")]);
    assert_eq!(included(&own, &labels(&[("group", "x"), ("c", "d")])), expected);
}

#[test]
fn automatic_labels_are_among_those_that_are_known() {
    let path = GroupPath::parse("/books/:id/").unwrap();
    let own = labels(&[("group", "books")]);
    let route = SelectableRoute { path: &path, method: Some(&Method::GET), labels: &own };
    let expected = labels(&[("group", "books"), (METHOD, "GET"), (PATH, "/books/:id")]);
    assert_eq!(route.known_labels(), expected);
    let any = SelectableRoute { method: None, ..route };
    assert_eq!(any.known_labels().get(METHOD), None);
}

fn key() -> impl Strategy<Value = LabelKey> {
    let names = ["a", METHOD, VERSION, PATH, "path.http.linkerd.io/x", "path.http.linkerd.io/y"];
    prop::sample::select(names.to_vec()).prop_map(LabelKey::of)
}

fn operator() -> impl Strategy<Value = Operator> {
    let value = prop::sample::select(vec!["1", "2", "GET", "PUT", "/b/:x"]);
    let values = prop::collection::vec(value.prop_map(Arc::from), 1..3);
    prop_oneof![
        values.clone().prop_map(Operator::In),
        values.prop_map(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
    ]
}

/// Selectors by their words: all labels of a request are known when it is there, its parameters
/// among them, and each condition is looked up.
fn naive(selector: &RouteSelector, route: &SelectableRoute<'_>, request: &Request) -> bool {
    let mut all = route.known_labels();
    all.insert(METHOD.into(), request.method.as_str().into());
    all.insert(VERSION.into(), "HTTP/2".into());
    let texts: Vec<&str> = request.path.split('/').skip(1).collect();
    for (place, segment) in route.path.segments().iter().enumerate() {
        if let policy_core::matching::Segment::Parameter(name) = segment {
            all.insert(format!("{PARAMETER}{name}").into(), texts[place].into());
        }
    }
    selector.expressions.iter().all(|SelectorExpression { key, operator }| {
        let value = all.get(key.to_string().as_str());
        let (is_parameter, is_version) =
            (matches!(key, LabelKey::Parameter(_)), *key == LabelKey::Version);
        match operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            // Nothing is compared with the version.
            Operator::In(_) | Operator::NotIn(_) if is_version => false,
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(_) if is_parameter && value.is_none() => false,
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
        }
    })
}

struct Request {
    method: Method,
    path: String,
}

proptest! {
    #[test]
    fn a_selection_is_what_all_labels_of_a_request_say(
        expressions in prop::collection::vec((key(), operator()), 0..4),
        pattern in prop::sample::select(vec!["/b", "/b/:x", "/b/:x/c/:y"]),
        own in prop::option::of("[12]"),
        methods in prop::option::of(prop::sample::select(vec![Method::GET, Method::PUT])),
        (x, y) in ("[123]", "[123]"),
    ) {
        let path = GroupPath::parse(pattern).unwrap();
        let own = own.map(|value| (Arc::from("a"), Arc::from(value.as_str())));
        let own: RouteLabels = own.into_iter().collect();
        let route = SelectableRoute { path: &path, method: methods.as_ref(), labels: &own };
        let expressions = expressions.into_iter();
        let expressions =
            expressions.map(|(key, operator)| SelectorExpression { key, operator }).collect();
        let selector = RouteSelector { expressions };
        let text = pattern.replace(":x", &x).replace(":y", &y);
        let request = Request { method: methods.clone().unwrap_or(Method::GET), path: text };
        let expected = naive(&selector, &route, &request);
        match selector.select(&route) {
            Selection::Always => prop_assert!(expected),
            Selection::Never => prop_assert!(!expected),
            Selection::When(conditions) => {
                let holds = conditions.iter().all(|it| met(it, &request.path));
                prop_assert_eq!(holds, expected);
            }
            Selection::Inexpressible(reason) => {
                prop_assert_eq!((reason, methods), (Inexpressible::AnyMethod, None));
            }
        }
    }
}

/// The condition on the path of a request, by its parts.
fn met(condition: &SegmentCondition, path: &str) -> bool {
    let place = usize::try_from(condition.place).unwrap();
    let text = path.split('/').skip(1).nth(place).unwrap();
    let named = condition.values().iter().any(|value| **value == *text);
    named == (condition.operator == SegmentOperator::In)
}
