//! Properties of any input: no panic, and every broken rule is reported.

use policy_crds::{Body, document, parse, parse_all, pods_of};
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

/// Valid manifests of every kind, to be broken.
const GOOD: &str = include_str!("good.yaml");

fn good() -> Vec<Value> {
    document::read(GOOD).into_iter().map(|d| d.value.unwrap()).collect()
}

#[test]
fn the_good_manifests_are_good() {
    let mut kinds = std::collections::BTreeSet::new();
    for value in good() {
        let object = parse(&value).unwrap();
        assert_eq!(crate::support::errors(&object), [""; 0], "{}", object.meta.key);
        kinds.insert(object.meta.key.kind);
    }
    assert_eq!(kinds.len(), policy_crds::Kind::ALL.len(), "{kinds:?}");
}

fn text() -> impl Strategy<Value = String> {
    let words = vec![
        "",
        "a",
        "*",
        "/",
        "name",
        "spec",
        "port",
        "10.0.0.0/8",
        "::/0",
        "Server",
        "HTTPRoute",
        "policy.linkerd.io",
        "policy.linkerd.io/v1beta3",
        "gateway.networking.k8s.io/v1",
        "v1",
        "kind",
        "apiVersion",
        "metadata",
        "In",
        "Exact",
        "spiffe://",
        "GET",
        "1s",
        "(",
        "List",
        "items",
    ];
    prop_oneof![
        4 => prop::sample::select(words).prop_map(str::to_owned),
        1 => ".{0,12}",
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| Value::Number(n.into())),
        (-10_i64..70_000).prop_map(|n| Value::Number(n.into())),
        any::<f64>().prop_map(|n| Number::from_f64(n).map_or(Value::Null, Value::Number)),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

/// Every place inside a value, as steps.
fn places(value: &Value, at: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    found.push(at.clone());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        at.push(key);
        places(child, at, found);
        at.pop();
    }
}

fn at<'v>(mut value: &'v mut Value, place: &[String]) -> &'v mut Value {
    for step in place {
        value = match value {
            Value::Object(map) => map.get_mut(step).unwrap(),
            Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
            other => panic!("{other}"),
        };
    }
    value
}

/// A mutation of one place of a manifest.
#[derive(Clone, Debug)]
enum Damage {
    Replace(Value),
    Remove,
    Rename(String),
    Insert(String, Value),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        json().prop_map(Damage::Replace),
        Just(Damage::Remove),
        text().prop_map(Damage::Rename),
        (text(), json()).prop_map(|(key, value)| Damage::Insert(key, value)),
    ]
}

fn apply(value: &mut Value, place: &[String], damage: Damage) {
    let (last, parent) = match place.split_last() {
        Some((last, parent)) => (last.clone(), parent),
        None => (String::new(), place),
    };
    match damage {
        Damage::Replace(new) => *at(value, place) = new,
        Damage::Insert(key, new) => match at(value, place) {
            Value::Object(map) => drop(map.insert(key, new)),
            Value::Array(items) => items.push(new),
            other => *other = new,
        },
        Damage::Remove | Damage::Rename(_) if place.is_empty() => {}
        Damage::Remove => match at(value, parent) {
            Value::Object(map) => drop(map.remove(&last)),
            Value::Array(items) => drop(items.remove(last.parse().unwrap())),
            _ => {}
        },
        Damage::Rename(name) => {
            if let Value::Object(map) = at(value, parent)
                && let Some(old) = map.remove(&last)
            {
                map.insert(name, old);
            }
        }
    }
}

/// An object that is invalid says why, and each reason can be shown in the text.
fn check_errors(value: &Value) {
    let text = serde_json::to_string_pretty(value).unwrap();
    let documents = document::read(&text);
    for part in policy_crds::parts(value) {
        let Ok(object) = parse(&part.value) else { continue };
        let pods = pods_of(&object);
        let Body::Invalid(invalid) = object.body else { continue };
        assert!(pods.is_empty());
        assert!(!invalid.errors.is_empty());
        for error in invalid.errors {
            assert!(!error.field.is_empty() && !error.message.is_empty());
            assert!(!error.message.contains('\n'), "{error}");
            assert!(error.message.len() < 2_000, "{error}");
            if let Some(document) = documents.first().filter(|d| d.value.is_ok()) {
                let place = document.locate(&part.field(&error.field)).unwrap();
                assert!(text.get(place.bytes.clone()).is_some(), "{error} {place:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_json_is_parsed_without_panic(value in json()) {
        let _ = parse(&value);
        let _ = parse_all(&value);
        check_errors(&value);
    }

    #[test]
    fn any_json_inside_every_kind_is_parsed_without_panic(
        index in any::<prop::sample::Index>(),
        spec in json(),
    ) {
        let manifests = good();
        let mut value = index.get(&manifests).clone();
        value["spec"] = spec;
        check_errors(&value);
    }

    #[test]
    fn a_damaged_manifest_is_valid_or_says_why(
        which in any::<prop::sample::Index>(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..4),
    ) {
        let manifests = good();
        let mut value = which.get(&manifests).clone();
        for (index, damage) in hits {
            let mut found = Vec::new();
            places(&value, &mut Vec::new(), &mut found);
            let place = index.get(&found).clone();
            apply(&mut value, &place, damage);
        }
        check_errors(&value);
    }

    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        for document in document::read(&text) {
            if let Some(place) = document.locate("a.b[0].c") {
                prop_assert!(text.get(place.bytes).is_some());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(document::read_bytes(&bytes).len() <= 200);
    }

    #[test]
    fn damaged_yaml_is_read_without_panic(
        cut in any::<prop::sample::Index>(),
        junk in "[\\[\\]{}:,&*!|>'\"%@`#\\-? \\n\\ta-c]{0,6}",
        length in 0_usize..40,
    ) {
        let chars: Vec<char> = GOOD.chars().collect();
        let start = cut.index(chars.len());
        let text: String = chars[..start]
            .iter()
            .copied()
            .chain(junk.chars())
            .chain(chars.iter().skip(start + length).copied())
            .collect();
        for document in document::read(&text) {
            match &document.value {
                Ok(value) => {
                    for object in parse_all(value).into_iter().flatten() {
                        drop(pods_of(&object));
                    }
                }
                Err(error) => {
                    prop_assert!(error.location.line >= 1 && error.location.column >= 1);
                    prop_assert!(!error.message.is_empty());
                }
            }
        }
    }

    #[test]
    fn json_means_the_same_as_yaml(value in json()) {
        // Numbers that JSON writes with an exponent may be texts to YAML 1.1; names of booleans and
        // keys are always quoted in JSON.
        let text = serde_json::to_string(&value).unwrap();
        let read = document::read(&text).remove(0).value;
        if let Ok(read) = read {
            prop_assert_eq!(normal(&read), normal(&value));
        } else {
            // YAML refuses characters that cannot be printed, and keys of more than 1,024.
            let printable = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{feff}');
            prop_assert!(!text.chars().all(printable), "{text}: {read:?}");
        }
    }
}

/// Whole floats as integers, as the cluster stores them.
fn normal(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), normal(v))).collect())
        }
        Value::Number(number) => {
            number.as_f64().map_or(Value::Null, |n| Value::String(format!("{:e}", n + 0.0)))
        }
        other => other.clone(),
    }
}
