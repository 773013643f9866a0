//! `metadata`: lenient, only the parts that policy depends on are typed.

use super::error::{NotAnObject, fail, not_text};
use super::generated;
use super::input::{Form, TOP_LEVEL};
use super::name::{is_dns_label, is_dns_name};
use super::recorded;
use crate::field::join_key;
use crate::kind::Kind;
use crate::object::{FieldError, ObjectKey, ObjectMeta};
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use policy_core::suggest::nearest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The namespace of objects that name none, as for `kubectl`.
const DEFAULT_NAMESPACE: &str = "default";

/// The fields of metadata that authors write.
const NAMES: &[&str] = &["name", "generateName", "namespace", "labels", "annotations"];

/// The fields of metadata that others write.
const OTHER_NAMES: [&str; 11] = [
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Reads the metadata. Without a name there is no object; all other errors are errors of the
/// object. In a manifest an object of policy whose name or namespace cannot be used is invalid if it is
/// known which namespace was meant.
pub(crate) fn read(root: &Fields<'_>, kind: Kind, form: Form) -> Result<ObjectMeta, NotAnObject> {
    let is_policy = kind.is_custom() && kind != Kind::ExternalWorkload;
    let is_kept = form == Form::Written && (is_policy || kind == Kind::Namespace);
    let found = root.meant("metadata", TOP_LEVEL).filter(|(_, error)| error.is_none() || is_kept);
    let (metadata, misspelt) = found.ok_or_else(|| fail("metadata", "is required"))?;
    if !metadata.value().is_object() {
        return Err(fail("metadata", "expected a mapping"));
    }
    let fields = metadata
        .fields(AllowedFields::Any)
        .ok_or_else(|| fail("metadata", "expected a mapping"))?;
    report(root, misspelt.filter(|_| !kind.spec().is_defined_here()));
    if form == Form::Written {
        refuse_near(&fields);
    }
    let named = name(&fields, root).or_else(|error| match is_kept {
        true => {
            let meant = fields.meant("name", NAMES).and_then(|(node, _)| node.value().as_str());
            let meant = meant.filter(|name| is_dns_name(name)).map(shared);
            if meant.is_none() && !is_policy {
                return Err(error);
            }
            root.errors().add(error.field(), error.message());
            meant.map_or_else(|| generated::name(&Value::from(UNNAMED), root), Ok)
        }
        false => Err(error),
    });
    let namespace = namespace(&fields, kind).or_else(|error| match meant_namespace(&fields) {
        Some(meant) if is_kept => {
            root.errors().add(error.field(), error.message());
            Ok(shared(&meant))
        }
        Some(_) | None => Err(error),
    });
    let key = ObjectKey { kind, namespace: namespace?, name: named? };
    let mut labels = texts(fields.get("labels"));
    if kind == Kind::Namespace {
        // An API server adds it to every Namespace, whatever its author writes.
        labels.insert(shared("kubernetes.io/metadata.name"), Arc::clone(&key.name));
    }
    Ok(ObjectMeta {
        recorded: root.get("status").and_then(|status| recorded::read(&key, status.value())),
        key,
        labels,
        annotations: texts(fields.get("annotations")),
        created: created(&fields),
        uid: fields.get("uid").and_then(|n| n.text()).map(shared),
        generation: fields.get("generation").and_then(|n| n.integer(0, i64::MAX)),
        is_ending: fields.get("deletionTimestamp").is_some_and(|node| !node.value().is_null()),
    })
}

/// Reports each field of metadata that is nearly one that authors write, also beside that one. A name or
/// namespace that is absent is an error of its own.
pub(crate) fn refuse_near(fields: &Fields<'_>) {
    let known = [NAMES, &OTHER_NAMES].concat();
    for (key, node) in fields.entries().filter(|(key, _)| !known.contains(key)) {
        let Some(meant) = nearest(key, &known).filter(|meant| NAMES.contains(meant)) else {
            continue;
        };
        if ["labels", "annotations"].contains(&meant) || fields.get(meant).is_some() {
            node.error(format!("unknown field, did you mean `{meant}`?"));
        }
    }
}

/// The beginning of the name of an object whose name cannot be used.
const UNNAMED: &str = "unnamed-";

fn report(root: &Fields<'_>, error: Option<FieldError>) {
    if let Some(FieldError { field, message }) = error {
        root.errors().add(field, message);
    }
}

/// The namespace that is meant by a misspelt field, or by capitals.
fn meant_namespace(fields: &Fields<'_>) -> Option<String> {
    let (node, _) = fields.meant("namespace", NAMES)?;
    let meant = node.value().as_str()?.trim().to_lowercase();
    is_dns_label(&meant).then_some(meant)
}

fn name(fields: &Fields<'_>, root: &Fields<'_>) -> Result<Arc<str>, NotAnObject> {
    const FIELD: &str = "metadata.name";
    let Some(node) = fields.get("name") else {
        let prefix = fields.get("generateName").filter(|node| node.value().as_str() != Some(""));
        let prefix = prefix.ok_or_else(|| fail(FIELD, "is required"))?;
        return generated::name(prefix.value(), root);
    };
    let Value::String(text) = node.value() else {
        return Err(fail(FIELD, &not_text(node.value())));
    };
    if !is_dns_name(text) {
        let rule = "lower-case letters, digits, `-` and `.` are allowed";
        return Err(fail(FIELD, &format!("{} is not a name: {rule}", quote(text))));
    }
    Ok(shared(text))
}

fn namespace(fields: &Fields<'_>, kind: Kind) -> Result<Arc<str>, NotAnObject> {
    const FIELD: &str = "metadata.namespace";
    if !kind.is_namespaced() {
        return Ok(shared(""));
    }
    let Some(node) = fields.get("namespace") else {
        return match fields.misspelt("namespace", NAMES) {
            None => Ok(shared(DEFAULT_NAMESPACE)),
            Some(key) => {
                let field = join_key("metadata", key);
                Err(fail(&field, "unknown field, did you mean `namespace`?"))
            }
        };
    };
    let Value::String(text) = node.value() else {
        return Err(fail(FIELD, &not_text(node.value())));
    };
    if text.is_empty() {
        return Ok(shared(DEFAULT_NAMESPACE));
    }
    if !is_dns_label(text) {
        let rule = "up to 63 lower-case letters, digits and `-` are allowed";
        return Err(fail(FIELD, &format!("{} is not a namespace: {rule}", quote(text))));
    }
    Ok(shared(text))
}

/// A mapping of text to text (labels, annotations). Values that are not text are errors, the others
/// are kept.
pub(crate) fn texts(node: Option<JsonNode<'_>>) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(fields) = node.and_then(|n| n.fields(AllowedFields::Any)) else {
        return BTreeMap::new();
    };
    let text = |(key, node): (&str, JsonNode<'_>)| Some((shared(key), shared(node.text()?)));
    fields.entries().filter_map(text).collect()
}

fn created(fields: &Fields<'_>) -> Option<i64> {
    let node = fields.get("creationTimestamp")?;
    let text = node.text()?;
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Some(time.as_second()),
        Err(_) => {
            node.error(format!("{} is not a time such as `2026-01-31T12:00:00Z`", quote(text)));
            None
        }
    }
}
