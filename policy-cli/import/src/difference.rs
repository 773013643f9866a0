//! The difference between a new import and the manifests of a former one.

use crate::file::{ImportFile, SourceNode};
use crate::manifest::Imported;
use serde_json::Value;
use std::collections::BTreeSet;

/// The entries of an object: its fields, and of lists each element.
type ObjectEntries = BTreeSet<(String, String)>;

/// The lines of a difference: `+` and `-`, the object, and the entry that is added or removed. ObjectEntries of
/// objects are fields of `spec`, and of lists each element; of a Namespace the annotation that closes it.
pub fn difference(former: &[ImportFile], imported: &Imported) -> Vec<String> {
    let objects = former.iter().flat_map(ImportFile::objects);
    let before: ObjectEntries =
        objects.flat_map(|object| entries(SourceNode::value(&object))).collect();
    let after: ObjectEntries = imported.values().flat_map(entries).collect();
    let mut lines: Vec<(&(String, String), char)> =
        before.difference(&after).map(|entry| (entry, '-')).collect();
    lines.extend(after.difference(&before).map(|entry| (entry, '+')));
    lines.sort();
    lines.into_iter().map(|((object, entry), sign)| format!("{sign} {object}{entry}")).collect()
}

fn entries(object: &Value) -> Vec<(String, String)> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata");
    let name = text(metadata.and_then(|it| it.get("name")));
    let name = match text(metadata.and_then(|it| it.get("namespace"))) {
        namespace if namespace.is_empty() => name,
        namespace => format!("{namespace}/{name}"),
    };
    let object_name = format!("{} {name}", text(object.get("kind")));
    // A Namespace is never to be deleted because an import no longer has it: its annotation is compared alone.
    if object.get("kind").is_some_and(|kind| kind == "Namespace") {
        let key = policy_crds::annotation::DEFAULT_INBOUND_POLICY;
        let value = metadata.and_then(|it| it.get("annotations")?.get(key));
        let entry = value.map(|value| (object_name, format!(" annotation {key}: {value}")));
        return entry.into_iter().collect();
    }
    let mut found = vec![(object_name.clone(), String::new())];
    let fields = object.get("spec").and_then(Value::as_object);
    for (field, value) in fields.into_iter().flatten() {
        match value {
            Value::Array(items) => {
                let entry = |item: &Value| (object_name.clone(), format!(" {field}: {item}"));
                found.extend(items.iter().map(entry));
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => {
                found.push((object_name.clone(), format!(" {field}: {value}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use policy_crds::Kind;
    use serde_json::json;

    #[test]
    fn of_a_namespace_the_annotation_is_removed_and_never_the_object() {
        let object = json!({"metadata": {"name": "shop", "labels": {"team": "a"}}});
        let manifest = Manifest::denying_namespace("shop", &object).unwrap();
        let found = Imported { manifests: vec![manifest], rows: Vec::new() };
        let labels = found.values().next().unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels, json!({"team": "a"}));
        let former = [ImportFile::read("former.yaml", found.yaml().as_bytes()).unwrap()];
        let removed =
            "- Namespace shop annotation config.linkerd.io/default-inbound-policy: \"deny\"";
        assert_eq!(difference(&former, &Imported::default()), [removed]);
    }

    #[test]
    fn what_is_added_and_what_is_removed_is_named() {
        let group = |paths: &[&str]| {
            let routes: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
            let spec = json!({"routes": routes});
            let manifest = Manifest::new(Kind::HttpRouteGroup, Some("shop"), "books", spec);
            Imported { manifests: vec![manifest.unwrap()], rows: Vec::new() }
        };
        let former = group(&["/a", "/b"]).yaml();
        let former = [ImportFile::read("former.yaml", former.as_bytes()).unwrap()];
        let object = "HttpRouteGroup shop/books routes:";
        let expected =
            [format!("- {object} {{\"path\":\"/a\"}}"), format!("+ {object} {{\"path\":\"/c\"}}")];
        assert_eq!(difference(&former, &group(&["/b", "/c"])), expected);
        assert_eq!(difference(&former, &group(&["/b", "/a"])), Vec::<String>::new());
        let all = difference(&[], &group(&["/a"]));
        let expected =
            ["+ HttpRouteGroup shop/books".to_owned(), format!("+ {object} {{\"path\":\"/a\"}}")];
        assert_eq!(all, expected);
    }
}
