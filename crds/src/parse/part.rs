//! The objects in a document: itself, or the items of lists.

use serde_json::Value;
use std::borrow::Cow;

/// Lists inside lists that are followed.
pub(super) const MAX_LIST_DEPTH: usize = 4;

/// One object inside a document, which may be a list.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Path of the object in the document, for example `items[2]`; empty for the document itself.
    pub path: String,
    /// The object.
    pub value: Cow<'a, Value>,
}

impl Part<'_> {
    /// The path in the document of `field` of this object.
    pub fn field(&self, field: &str) -> String {
        match (self.path.is_empty(), field.is_empty() || field.starts_with('[')) {
            (true, _) => field.to_owned(),
            (false, true) => format!("{}{field}", self.path),
            (false, false) => format!("{}.{field}", self.path),
        }
    }
}

/// The objects in a value, with their places: itself, or the items of a list.
pub fn parts(value: &Value) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    collect(Part { path: String::new(), value: Cow::Borrowed(value) }, 0, &mut found);
    found
}

fn collect<'a>(part: Part<'a>, depth: usize, found: &mut Vec<Part<'a>>) {
    let item_type = list_of(&part.value);
    let items = match (&part.value, item_type, depth < MAX_LIST_DEPTH) {
        (Cow::Borrowed(Value::Object(map)), Some(_), true) => map.get("items"),
        _ => None,
    };
    let Some(Value::Array(items)) = items else {
        found.push(part);
        return;
    };
    let item_type = list_of(&part.value).flatten();
    for (i, item) in items.iter().enumerate() {
        let path = part.field(&format!("items[{i}]"));
        collect(
            Part { path, value: with_type(item, item_type.as_ref()) },
            depth.saturating_add(1),
            found,
        );
    }
}

/// The item type of a list; `None` if the value is no list. For `<Kind>List` it is the `apiVersion`
/// and kind of items that do not state their own.
fn list_of(value: &Value) -> Option<Option<(String, String)>> {
    let kind = value.get("kind")?.as_str()?;
    let version = value.get("apiVersion")?.as_str()?;
    value.get("items")?.as_array()?;
    let item = kind.strip_suffix("List")?;
    Some((!item.is_empty()).then(|| (version.to_owned(), item.to_owned())))
}

fn with_type<'a>(item: &'a Value, item_type: Option<&(String, String)>) -> Cow<'a, Value> {
    match (item, item_type) {
        (Value::Object(map), Some((version, kind)))
            if !map.contains_key("kind") && !map.contains_key("apiVersion") =>
        {
            let mut map = map.clone();
            map.insert("apiVersion".into(), version.as_str().into());
            map.insert("kind".into(), kind.as_str().into());
            Cow::Owned(Value::Object(map))
        }
        _ => Cow::Borrowed(item),
    }
}
