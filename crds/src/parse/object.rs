//! Reads one object, by its kind.

use super::error::NotAnObject;
use super::input::{Draft, Input};
use super::metadata::{self, kind_of};
use super::part::parts;
use crate::kind::Kind;
use crate::object::{Body, FieldError, Invalid, Object, ObjectMeta};
use crate::reader::{AllowedFields, Errors, JsonNode, one_of, quote};
use serde_json::Value;

/// Parses one object. A kind that is read but breaks a rule is an [`Object`] whose body is
/// [`Body::Invalid`]; an object without namespace is in `default`, as for `kubectl`.
pub fn parse(value: &Value) -> Result<Object, NotAnObject> {
    let errors = Errors::default();
    let root = JsonNode::new(value, "", &errors);
    let Value::Object(_) = value else { return Err(NotAnObject::NotAMapping) };
    let fields = root.fields(AllowedFields::Any).ok_or(NotAnObject::NotAMapping)?;
    let (kind, version) = kind_of(&fields)?;
    let meta = metadata::read(&fields, kind)?;
    if !kind.versions().contains(&version) {
        errors.add(
            "apiVersion",
            format!("version {} of {} is not known, expected {}", quote(version), kind.as_str(), {
                one_of(kind.versions())
            }),
        );
    }
    let input = Input { root: fields, meta: &meta, version };
    let draft = read(kind, &input);
    drop(input);
    Ok(finish(meta, draft, errors))
}

/// Parses every object in a value: itself, or the items of a `List` or of `<Kind>List`.
pub fn parse_all(value: &Value) -> Vec<Result<Object, NotAnObject>> {
    parts(value).iter().map(|part| parse(&part.value)).collect()
}

fn read(kind: Kind, input: &Input<'_>) -> Draft {
    const STRICT: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
    let spec = kind.spec();
    if spec.is_defined_here() {
        input.root.refuse_unknown(STRICT);
    }
    (spec.read)(input)
}

fn finish(meta: ObjectMeta, (resource, claims): Draft, errors: Errors) -> Object {
    let mut errors = errors.into_vec();
    let body = match resource {
        Some(resource) if errors.is_empty() => Body::Valid(resource),
        Some(_) | None => {
            if errors.is_empty() {
                // A reader that returns `None` must report an error; should one not, the object is
                // still invalid.
                errors.push(FieldError { field: "spec".into(), message: "cannot be read".into() });
            }
            Body::Invalid(Invalid { errors, claims })
        }
    };
    Object { meta, body }
}
