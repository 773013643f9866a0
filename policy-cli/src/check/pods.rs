//! Warnings and errors of the injector for pods and pod templates.

use super::locations::Locations;
use policy_crds::document::Document;
use policy_crds::{FieldError, Part};
use policy_engine::source::directory::ManifestFile;
use policy_engine::source::{Diagnostic, Severity};
use policy_webhooks::injector::{
    NamespaceContext, Template, dry_run, misplaced, namespace_without_effect, templates,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Namespaces among the manifests.
type Namespaces = BTreeMap<String, NamespaceContext>;

/// Returns the injector's diagnostics for all pods and templates, without fields that are already
/// reported.
pub(super) fn diagnostics(locations: &mut Locations, reported: &[Diagnostic]) -> Vec<Diagnostic> {
    let namespaces = namespaces(locations);
    let mut found = Vec::new();
    for (name, file) in locations.files() {
        for document in &file.documents {
            let Ok(value) = &document.value else { continue };
            for part in policy_crds::parts(value) {
                found.extend(of_part(
                    &PodLocation { name, file, document, part: &part },
                    &namespaces,
                ));
            }
        }
    }
    let place = |it: &Diagnostic| (it.file.clone(), it.object.clone(), it.field.clone());
    let known: BTreeSet<_> = reported.iter().map(place).collect();
    found.retain(|new| !known.contains(&place(new)));
    found
}

/// Location of a pod or pod template.
struct PodLocation<'a> {
    name: &'a Arc<str>,
    file: &'a ManifestFile,
    document: &'a Document,
    part: &'a Part<'a>,
}

fn namespaces(locations: &mut Locations) -> Namespaces {
    let mut namespaces = Namespaces::new();
    for (_, file) in locations.files() {
        for document in &file.documents {
            let Ok(value) = &document.value else { continue };
            let parts = policy_crds::parts(value);
            let found = parts.iter().filter_map(|part| NamespaceContext::of(&part.value));
            namespaces.extend(found.map(|around| (around.namespace.clone(), around)));
        }
    }
    namespaces
}

/// Diagnostics for one object: a Namespace, a pod, or an object with a pod template.
fn of_part(at: &PodLocation<'_>, namespaces: &Namespaces) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(namespace) = NamespaceContext::of(&at.part.value) {
        let remarks = namespace_without_effect(&namespace).into_iter();
        found.extend(remarks.map(|error| diagnostic(at, "", error, Severity::Warning)));
    }
    for template in templates(&at.part.value) {
        let Template { pointer, namespace, .. } = &template;
        let Some(pod) = at.part.value.pointer(pointer) else { continue };
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let around = namespaces.get(namespace).cloned();
        let around = around.unwrap_or_else(|| NamespaceContext::unknown(namespace));
        let messages = dry_run(pod, &around);
        let misplaced = misplaced(&at.part.value, pointer).into_iter();
        found.extend(misplaced.map(|error| diagnostic(at, "", error, Severity::Warning)));
        let place = pointer.trim_start_matches('/').replace('/', ".");
        let reported = |error, severity| diagnostic(at, &place, error, severity);
        found.extend(messages.refused.into_iter().map(|error| reported(error, Severity::Error)));
        found.extend(messages.warned.into_iter().map(|error| reported(error, Severity::Warning)));
    }
    found
}

fn diagnostic(
    at: &PodLocation<'_>,
    place: &str,
    error: FieldError,
    severity: Severity,
) -> Diagnostic {
    let FieldError { field, message } = error;
    let field = match (place.is_empty(), field.is_empty()) {
        (true, _) => field,
        (false, true) => place.to_owned(),
        (false, false) => format!("{place}.{field}"),
    };
    let located = at.part.field(&field);
    let located = if located.is_empty() { None } else { at.document.locate(&located) };
    let location = located.unwrap_or_else(|| at.document.location.clone());
    let object = policy_crds::parse(&at.part.value).ok().map(|object| object.meta.key);
    // A key names the kinds that are read themselves.
    let message = match templates(&at.part.value).first().filter(|_| object.is_none()) {
        Some(template) => format!("{template}: {message}"),
        None => message,
    };
    let diagnostic = Diagnostic::at(at.name, &at.file.text, &location, message);
    Diagnostic { severity, ..diagnostic.of(object.as_ref(), &field) }
}
