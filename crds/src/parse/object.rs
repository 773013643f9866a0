//! Reads one object, by its kind.

use super::error::NotAnObject;
use super::input::{Draft, Form, Input, TOP_LEVEL};
use super::metadata;
use super::misindented::straightened;
use super::part::parts;
use super::type_meta::{Named, kind_of};
use crate::kind::Kind;
use crate::object::{Body, FieldError, Invalid, Object, ObjectMeta};
use crate::reader::{AllowedFields, Errors, JsonNode, one_of, quote};
use serde_json::Value;
use std::borrow::Cow;

/// Parses one object as an API server has stored it. A kind that is read but breaks a rule is an [`Object`] whose body is
/// [`Body::Invalid`]; an object without namespace is in `default`, as for `kubectl`.
pub fn parse(value: &Value) -> Result<Object, NotAnObject> {
    parse_in(Form::Stored, value)
}

/// Parses one object of a manifest: as [`parse`], and a route of the Gateway API with a misspelt field is
/// invalid. An API server drops the field, so that a cluster's controller never sees it.
pub fn parse_written(value: &Value) -> Result<Object, NotAnObject> {
    parse_in(Form::Written, value)
}

fn parse_in(form: Form, value: &Value) -> Result<Object, NotAnObject> {
    let errors = Errors::default();
    let (value, misindented) = match form {
        Form::Written => straightened(value),
        Form::Stored => (Cow::Borrowed(value), Vec::new()),
    };
    let value = &*value;
    let root = JsonNode::new(value, "", &errors);
    let Value::Object(_) = value else { return Err(NotAnObject::NotAMapping) };
    let fields = root.fields(AllowedFields::Any).ok_or(NotAnObject::NotAMapping)?;
    let Named { kind, version, mistake } = kind_of(&fields)?;
    let is_mistaken = mistake.is_some();
    if let Some(mistake) = mistake {
        errors.add(mistake.field, mistake.message);
    }
    let meta = metadata::read(&fields, kind, form)?;
    if !is_mistaken && !kind.versions().contains(&version) {
        let (name, known) = (kind.as_str(), one_of(kind.versions()));
        let message = if version.is_empty() {
            format!("{name} needs a version behind its group: {known}")
        } else {
            format!("version {} of {name} is not known, expected {known}", quote(version))
        };
        errors.add("apiVersion", message);
    }
    // Before the object is read, because what is wrong decides what it goes on claiming.
    let kept = misindented.len().saturating_add(1);
    for FieldError { field, message } in misindented {
        errors.add(field, message);
    }
    let input = Input { root: fields, meta: &meta, version, form };
    let draft = read(kind, &input);
    drop(input);
    let mut errors = errors.into_vec();
    if is_mistaken {
        // The others may be about fields of another version.
        errors.truncate(kept);
    }
    Ok(finish(meta, draft, errors))
}

/// Parses every object in a value: itself, or the items of a `List` or of `<Kind>List`.
pub fn parse_all(value: &Value) -> Vec<Result<Object, NotAnObject>> {
    parts(value).iter().map(|part| parse(&part.value)).collect()
}

fn read(kind: Kind, input: &Input<'_>) -> Draft {
    let spec = kind.spec();
    if spec.is_defined_here() {
        input.root.refuse_unknown(TOP_LEVEL);
    }
    (spec.read)(input)
}

fn finish(meta: ObjectMeta, (resource, claims): Draft, mut errors: Vec<FieldError>) -> Object {
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
