//! Unknown fields of one mapping, and the messages about them.

use super::loss;
use crate::field::join_key;
use crate::kind::Kind;
use policy_core::suggest::nearest;
use serde_json::{Map, Value};

/// A field that the schema of its kind does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path of the field.
    pub field: String,
    /// The field of the schema that it is a misspelling of, if one is near.
    pub near: Option<String>,
    /// The effect on an object that is stored without it, where policy depends on it.
    pub loss: Option<&'static str>,
}

/// A mapping of an object, and where it is.
#[derive(Clone, Debug)]
pub struct StatedFields<'a> {
    /// The kind of the object; absent if it is none of the table.
    pub kind: Option<Kind>,
    /// The path of the mapping.
    pub path: &'a str,
    /// The fields that it states.
    pub stated: &'a Map<String, Value>,
}

impl StatedFields<'_> {
    /// The fields that are none of `known`.
    pub fn unknown(&self, known: &[&str]) -> Vec<UnknownField> {
        let unknown = self.stated.keys().filter(|key| !known.contains(&key.as_str()));
        let unknown = unknown.map(|key| {
            let near = nearest(key, known);
            let loss = near.and_then(|near| self.loss(near));
            UnknownField { field: self.field(key), near: near.map(str::to_owned), loss }
        });
        unknown.collect()
    }

    /// The effect of the lack of a field, unless it is stated beside the unknown one.
    fn loss(&self, near: &str) -> Option<&'static str> {
        let lacks = !self.stated.contains_key(near);
        lacks.then(|| loss::of(self.kind, self.path, self.stated.len(), near)).flatten()
    }

    /// The path of a field.
    pub fn field(&self, name: &str) -> String {
        join_key(self.path, name)
    }
}

impl UnknownField {
    /// The message about the field of a manifest. `refusal` is the error about the field if its object
    /// is invalid because of it.
    pub fn of_manifest(&self, refusal: Option<&str>) -> String {
        let loss = self.loss.map(|loss| format!(": {loss}")).unwrap_or_default();
        format!("{}n API server drops it{loss}", self.beginning(refusal, ["A", "a"]))
    }

    /// The message about the field of an object that a cluster has stored with it.
    pub fn of_stored(&self) -> String {
        format!("{}t takes no effect here", self.beginning(None, ["I", "i"]))
    }

    /// The beginning of a message, up to the first letter of what follows: a question ends a sentence.
    fn beginning(&self, refusal: Option<&str>, [capital, small]: [&str; 2]) -> String {
        let about = match (refusal, &self.near) {
            (Some(refusal), _) => refusal.to_owned(),
            (None, Some(near)) => format!("unknown field, did you mean `{near}`?"),
            (None, None) => "unknown field".to_owned(),
        };
        if about.ends_with('?') {
            format!("{about} {capital}")
        } else {
            format!("{about}; {small}")
        }
    }
}
