//! Fields of manifests that no schema of their kind has: misspelt ones, mostly. An API server drops
//! them, so that what is stored may permit more than its author wrote.
//!
//! The schemas of Kubernetes' own kinds are the types of its client library ([`kubernetes`]); those of
//! all other kinds are with the kinds. The severity is decided here alone: objects are valid or not
//! whatever is found.

mod kubernetes;

use policy_crds::document::{self, Document};
use policy_crds::unknown::{UnknownField, unknown_fields, unused_fields};
use policy_crds::{Body, FieldError, Kind, Resource, UnreadAnnotation, unread_annotations};
use policy_engine::source::directory::Remark;
use policy_engine::source::{Diagnostic, Severity};
use serde_json::Value;
use std::sync::Arc;

/// Findings of `check` in a manifest: an unknown field is an error where a known one is near, and so is an
/// annotation. A known field that nothing here acts on is a note.
pub(crate) fn findings(object: &Value, errors: &[FieldError]) -> Vec<Remark> {
    let kind = kind_of(object);
    let found = of_object(kind, object).into_iter();
    let unknown = found.map(|unknown| {
        let near = if unknown.near.is_some() { Severity::Error } else { Severity::Warning };
        remark(&unknown, errors, near)
    });
    let unused = kind.into_iter().flat_map(|(kind, _)| unused(kind, object));
    unknown.chain(annotations(kind, object)).chain(unused).collect()
}

/// Findings of `up` in a manifest: warnings, unless the object is invalid because of the field.
pub(crate) fn warnings(object: &Value, errors: &[FieldError]) -> Vec<Remark> {
    let kind = kind_of(object);
    let found = of_object(kind, object).into_iter();
    let unknown = found.map(|unknown| remark(&unknown, errors, Severity::Warning));
    let annotations = annotations(kind, object);
    unknown.chain(annotations.map(|it| Remark { severity: Severity::Warning, ..it })).collect()
}

/// Annotations of policy that nothing reads, as an error where their name is nearly one that is read.
fn annotations(kind: Option<(Kind, &str)>, object: &Value) -> impl Iterator<Item = Remark> + use<> {
    let found = unread_annotations(kind.map(|(kind, _)| kind), object).into_iter();
    found.map(|UnreadAnnotation { about, is_misspelt }| {
        let severity = if is_misspelt { Severity::Error } else { Severity::Warning };
        Remark { about, severity }
    })
}

/// Findings in an object of a cluster. Its unknown fields have been pruned, unless its schema keeps
/// them; the cluster itself says what is known of Kubernetes' kinds, of metadata and of a status.
pub(crate) fn findings_in_cluster(object: &Value) -> Vec<Remark> {
    let Some((kind, version)) = kind_of(object) else { return Vec::new() };
    let mut found = unknown_fields(kind, version, object).unwrap_or_default();
    found.retain(|unknown| !unknown.field.starts_with("status"));
    let unknown = found.iter().map(|unknown| {
        let about = FieldError { field: unknown.field.clone(), message: unknown.of_stored() };
        let near = if unknown.near.is_some() { Severity::Error } else { Severity::Warning };
        Remark { about, severity: near }
    });
    unknown.chain(unused(kind, object)).collect()
}

/// The lines that `inject` prints about the documents of a file.
pub(crate) fn lines(file: &str, bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let file: Arc<str> = file.into();
    document::read_bytes(bytes)
        .iter()
        .flat_map(|document| in_document(&file, text, document))
        .collect()
}

fn in_document(file: &Arc<str>, text: &str, document: &Document) -> Vec<String> {
    let Ok(value) = &document.value else { return Vec::new() };
    let parts = policy_crds::parts(value);
    let of_part = |part: &policy_crds::Part<'_>| -> Vec<String> {
        let found = of_object(kind_of(&part.value), &part.value);
        let errors = errors_of(&part.value);
        let remarks = found.iter().map(|unknown| remark(unknown, &errors, Severity::Warning));
        let line = |Remark { about, .. }: Remark| {
            let located = document.locate(&part.field(&about.field));
            let location = located.unwrap_or_else(|| document.location.clone());
            let diagnostic = Diagnostic::at(file, text, &location, about.message);
            let severity = Severity::Warning;
            Diagnostic { severity, ..diagnostic.of(None, &about.field) }.to_string()
        };
        remarks.map(line).collect()
    };
    parts.iter().flat_map(of_part).collect()
}

/// The errors of an object that is invalid.
fn errors_of(object: &Value) -> Vec<FieldError> {
    match policy_crds::parse(object).map(|object| object.body) {
        Ok(Body::Invalid(invalid)) => invalid.errors,
        Ok(Body::Valid(_)) | Err(_) => Vec::new(),
    }
}

/// The kind and version of an object.
fn kind_of(object: &Value) -> Option<(Kind, &str)> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let exact = Kind::ALL.into_iter().find(|own| own.group() == group && own.as_str() == kind);
    Some((exact?, version))
}

/// True for a route that other controllers read, which may know more fields.
fn is_of_others(kind: Kind, object: &Value) -> bool {
    kind.is_route()
        && policy_crds::parse(object).is_ok_and(|object| match object.body {
            Body::Valid(Resource::Route(route)) => route.is_of_others(),
            Body::Valid(_) | Body::Invalid(_) => false,
        })
}

fn of_object(kind: Option<(Kind, &str)>, object: &Value) -> Vec<UnknownField> {
    let of_schema = kind.and_then(|(kind, version)| unknown_fields(kind, version, object));
    let own = kind.map(|(kind, _)| kind);
    let Some(found) = of_schema else { return kubernetes::unknown_fields(own, object) };
    let mut found = [found, kubernetes::unknown_in_metadata(own, object)].concat();
    if kind.is_some_and(|(kind, _)| is_of_others(kind, object)) {
        // A misspelt field of a parent may be what makes it look like another's.
        found.retain(|unknown| !unknown.field.starts_with("spec.rules"));
    }
    found
}

/// A field that makes its object invalid is an error whatever the command.
fn remark(unknown: &UnknownField, errors: &[FieldError], severity: Severity) -> Remark {
    let refusal = errors.iter().find(|error| error.field == unknown.field);
    let refusal = refusal.map(|error| error.message.as_str());
    let message = unknown.of_manifest(refusal);
    let severity = if refusal.is_some() { Severity::Error } else { severity };
    Remark { about: FieldError { field: unknown.field.clone(), message }, severity }
}

fn unused(kind: Kind, object: &Value) -> impl Iterator<Item = Remark> {
    let judged = (!is_of_others(kind, object)).then(|| unused_fields(kind, object));
    judged.into_iter().flatten().map(|field| {
        let message = "a field of the Gateway API that nothing here acts on".to_owned();
        Remark { about: FieldError { field, message }, severity: Severity::Note }
    })
}
