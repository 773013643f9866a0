//! The JSON Patch turns the received pod into the injected one.

use crate::injector::diff::diff;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Applies a patch according to RFC 6902.
pub(super) fn apply(mut value: Value, patch: &[Value]) -> Value {
    for operation in patch {
        let path = operation["path"].as_str().unwrap();
        let (op, new) = (operation["op"].as_str().unwrap(), operation.get("value").cloned());
        let Some((parent, last)) = path.rsplit_once('/') else {
            assert_eq!(op, "replace");
            value = new.unwrap();
            continue;
        };
        let last = last.replace("~1", "/").replace("~0", "~");
        match (value.pointer_mut(parent).unwrap(), op) {
            (Value::Object(map), "add") => assert!(map.insert(last, new.unwrap()).is_none()),
            (Value::Object(map), "remove") => assert!(map.remove(&last).is_some()),
            (Value::Object(map), "replace") => assert!(map.insert(last, new.unwrap()).is_some()),
            (Value::Array(list), "add") => list.insert(last.parse().unwrap(), new.unwrap()),
            (Value::Array(list), "replace") => {
                list[last.parse::<usize>().unwrap()] = new.unwrap();
            }
            (parent, op) => panic!("{op} in {parent}"),
        }
    }
    value
}

pub(super) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5u8).prop_map(Value::from),
        "[a-c~/]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let fields = prop::collection::btree_map("[a-c~/]{0,2}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

#[test]
fn lists_grow_by_elements() {
    let from = json!({"a": [{"n": 1}, {"n": 2}], "b/c": {"x": 1}});
    let to = json!({"a": [{"n": 0}, {"n": 1}, {"n": 2}], "b/c": {"x": 2, "y": []}});
    assert_eq!(
        Value::from(diff(&from, &to)),
        json!([
            {"op": "add", "path": "/a/0", "value": {"n": 0}},
            {"op": "replace", "path": "/b~1c/x", "value": 2},
            {"op": "add", "path": "/b~1c/y", "value": []},
        ])
    );
}

proptest! {
    #[test]
    fn a_patch_makes_the_one_value_of_the_other(from in json_value(), to in json_value()) {
        prop_assert_eq!(apply(from.clone(), &diff(&from, &to)), to);
        prop_assert_eq!(diff(&from, &from), Vec::<Value>::new());
    }
}
