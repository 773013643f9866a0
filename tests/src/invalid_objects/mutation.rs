//! Changes of one node of an object.

use super::random::Random;
use serde_json::{Map, Value, json};
use std::fmt;

/// A change, for people.
#[derive(Debug)]
pub struct Mutation {
    place: String,
    before: Value,
    after: Option<Value>,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, before, after } = self;
        match after {
            Some(after) => write!(f, "{place}: {before} became {after}"),
            None => write!(f, "{place}: {before} was removed"),
        }
    }
}

impl Mutation {
    /// True if the changed part said by itself to what the object applied. The controller keeps no
    /// history of texts, so that it cannot know (docs/spec/decisions.md, *Invalid objects*).
    pub fn says_all_itself(&self, object: &Value) -> bool {
        let kind = object["kind"].as_str().unwrap_or_default();
        let is_at = |place: &str| self.place.starts_with(place);
        match kind {
            _ if self.place == "/spec" => true,
            // Any Server, with a match of every request.
            "HTTPRoute" | "GRPCRoute" if is_at("/spec/parentRefs") => !names_requests(object),
            // The namespaces whose routes it permitted.
            "ReferenceGrant" => is_at("/spec/from"),
            // The Server that answers for a root, and the hosts of a child.
            "InboundRoute" => is_at("/spec/virtualhost") || is_at("/spec/delegatedFrom"),
            _ => false,
        }
    }
}

/// True if each match of a route names requests: none takes every one.
fn names_requests(route: &Value) -> bool {
    let rules = || route["spec"]["rules"].as_array().into_iter().flatten();
    let matches = || rules().flat_map(|rule| rule["matches"].as_array().into_iter().flatten());
    let all = |one: &Value| one["path"].is_null() || one["path"]["value"] == "/";
    rules().all(|rule| !rule["matches"].is_null()) && !matches().any(all)
}

/// Changes a node of the spec, chosen at any depth.
pub fn mutate(object: &Value, random: &mut Random) -> (Value, Mutation) {
    let mut places = Vec::new();
    if let Some(spec) = object.pointer("/spec") {
        collect(spec, "/spec".to_owned(), &mut places);
    }
    let place = random.one_of(&places).clone();
    let before = object.pointer(&place).unwrap().clone();
    let mut changed = object.clone();
    let (parent, key) = place.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    let siblings = changed.pointer_mut(parent).unwrap();
    change(siblings, &key, &before, random);
    let after = match siblings {
        Value::Object(fields) => fields.get(&key).cloned(),
        others => Some(others.clone()),
    };
    (changed, Mutation { place, before, after })
}

/// The places of all nodes, as JSON pointers. Nodes that are the same for all objects of a folder, such
/// as long lists, are as likely as others.
fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{place}/{key}"), places);
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                collect(value, format!("{place}/{number}"), places);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    places.push(place);
}

fn change(siblings: &mut Value, key: &str, before: &Value, random: &mut Random) {
    match siblings {
        Value::Object(fields) => change_field(fields, key, before, random),
        Value::Array(items) => {
            let number: usize = key.parse().unwrap();
            match random.below(8) {
                0 => _ = items.remove(number),
                1 => items.insert(number, before.clone()),
                _ => items[number] = other(before, random),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn change_field(fields: &mut Map<String, Value>, key: &str, before: &Value, random: &mut Random) {
    match random.below(8) {
        0 => _ = fields.remove(key),
        1 => {
            fields.remove(key);
            fields.insert(misspelt(key, random), before.clone());
        }
        2 => _ = fields.insert(misspelt(key, random), before.clone()),
        _ => _ = fields.insert(key.to_owned(), other(before, random)),
    }
}

fn misspelt(key: &str, random: &mut Random) -> String {
    let end = key.len().saturating_sub(1);
    match random.below(4) {
        0 => format!("{key}s"),
        1 if end > 0 && key.is_char_boundary(end) => key[..end].to_owned(),
        2 => key.to_uppercase(),
        _ => format!("x{key}"),
    }
}

/// Another value in its place.
fn other(before: &Value, random: &mut Random) -> Value {
    let others = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(70_000),
        json!(1.5),
        json!(""),
        json!("/"),
        json!("/a//b"),
        json!("a b"),
        json!("Exactly"),
        json!("(["),
        json!("caf\u{e9}"),
        json!("*."),
        json!([]),
        json!([null]),
        json!({}),
        json!({"unknown": 1}),
    ];
    match before {
        Value::String(text) => match random.below(3) {
            0 => json!(format!("{text}x")),
            1 => json!(format!("{text} /")),
            _ => random.one_of(&others).clone(),
        },
        _ => random.one_of(&others).clone(),
    }
}
