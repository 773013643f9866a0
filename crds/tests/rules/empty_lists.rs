//! An empty list is not an absent one (bypass rule 28): what each list of each kind means when it is empty,
//! absent or null, the same in JSON and in YAML.

use policy_crds::{Body, document, parse};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Places of the lists below a value; below a list, those of its first element.
fn lists(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                lists(field, &format!("{place}/{name}"), found);
            }
        }
        Value::Array(items) => {
            found.push(place.to_owned());
            if let Some(first) = items.first() {
                lists(first, &format!("{place}/0"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The object with this list replaced; `None`: without it.
fn with(object: &Value, place: &str, value: Option<Value>) -> Value {
    let mut object = object.clone();
    let (parent, name) = place.rsplit_once('/').unwrap();
    let fields = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => *fields.get_mut(name).unwrap() = value,
        None => _ = fields.remove(name).unwrap(),
    }
    object
}

/// YAML in blocks; null is written as nothing.
fn yaml(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                write!(text, "\n{pad}{}:", Value::from(name.as_str())).unwrap();
                yaml(field, indent + 2, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write!(text, "\n{pad}-").unwrap();
                yaml(item, indent + 2, text);
            }
        }
        Value::Null => {}
        scalar => write!(text, " {scalar}").unwrap(),
    }
}

/// The meaning of a text: the same as JSON and as YAML.
fn body(object: &Value) -> Body {
    let mut text = String::new();
    yaml(object, 0, &mut text);
    let read = |text: &str| {
        let mut documents = document::read(text);
        assert_eq!(documents.len(), 1, "{text}");
        let value = documents.remove(0).value.unwrap_or_else(|error| panic!("{error}: {text}"));
        parse(&value).unwrap().body
    };
    let json = read(&object.to_string());
    assert_eq!(read(&text), json, "{text}");
    json
}

#[test]
fn what_each_list_means_when_it_is_empty_absent_or_null_is_known() {
    let mut table = String::new();
    let mut seen = BTreeSet::new();
    for document in document::read(include_str!("good.yaml")) {
        let object = document.value.unwrap();
        let mut places = Vec::new();
        lists(&object["spec"], "/spec", &mut places);
        let given = body(&object);
        assert!(matches!(given, Body::Valid(_)), "{object}");
        for place in places {
            let kind = format!("{} {}", object["apiVersion"], object["kind"]).replace('"', "");
            let field = format!("{kind} {}", place.trim_start_matches('/').replace('/', "."));
            if !seen.insert(field.clone()) {
                continue;
            }
            let absent = body(&with(&object, &place, None));
            let told = |body: &Body| match body {
                Body::Invalid(invalid) => format!("refused: {}", invalid.errors[0]),
                Body::Valid(_) if *body == given => "as given".to_owned(),
                Body::Valid(_) if *body == absent => "as absent".to_owned(),
                Body::Valid(_) => "empty".to_owned(),
            };
            let empty = body(&with(&object, &place, Some(Value::Array(Vec::new()))));
            let null = body(&with(&object, &place, Some(Value::Null)));
            let (empty, null) = (told(&empty), told(&null));
            writeln!(table, "{field}\n  []: {empty}\n  absent: {}\n  null: {null}", told(&absent))
                .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
