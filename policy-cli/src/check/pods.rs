//! Warnings and errors of the injector for pods and pod templates.

use super::locations::Locations;
use crate::cluster::Scope;
use crate::cluster::settings::CONTROL_PLANE;
use crate::unread_templates::{remark, unread_templates};
use policy_crds::annotation::OPAQUE_PORTS;
use policy_crds::document::Document;
use policy_crds::{FieldError, Part};
use policy_engine::source::directory::ManifestFile;
use policy_engine::source::{Diagnostic, Severity};
use policy_webhooks::injector::{
    NamespaceBounds, NamespaceContext, Template, dry_run, left_alone, misplaced,
    namespace_without_effect, pod_security_error, templates, without_pods,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Namespaces among the manifests.
type Namespaces = BTreeMap<String, NamespaceContext>;

/// LimitRanges and ResourceQuotas among the manifests, by namespace.
type BoundsByNamespace = BTreeMap<String, NamespaceBounds>;

/// Returns the injector's diagnostics for the pods and templates of the selected namespaces, without
/// fields that are already reported.
pub(super) fn diagnostics(
    locations: &mut Locations,
    scope: &Scope,
    reported: &[Diagnostic],
) -> Vec<Diagnostic> {
    let namespaces = namespaces(locations);
    let bounds = bounds(locations);
    let mut found = Vec::new();
    for (name, file) in locations.files() {
        for document in &file.documents {
            let Ok(value) = &document.value else { continue };
            for part in policy_crds::parts(value) {
                found.extend(of_part(
                    &PodLocation { name, file, document, part: &part },
                    (&namespaces, &bounds),
                    scope,
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

fn bounds(locations: &mut Locations) -> BoundsByNamespace {
    let mut found = BoundsByNamespace::new();
    for (_, file) in locations.files() {
        let values = file.documents.iter().filter_map(|document| document.value.as_ref().ok());
        for part in values.flat_map(policy_crds::parts) {
            let text = |pointer: &str| part.value.pointer(pointer).and_then(Value::as_str);
            if let Some("LimitRange" | "ResourceQuota") = text("/kind") {
                let namespace = text("/metadata/namespace").filter(|it| !it.is_empty());
                let namespace = namespace.unwrap_or("default").to_owned();
                found.entry(namespace).or_default().add(&part.value);
            }
        }
    }
    found
}

/// Diagnostics for one object: a Namespace, a pod, or an object with a pod template.
fn of_part(
    at: &PodLocation<'_>,
    (namespaces, bounds): (&Namespaces, &BoundsByNamespace),
    scope: &Scope,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let own = NamespaceContext::of(&at.part.value);
    if let Some(namespace) = own.filter(|own| scope.contains(&own.namespace)) {
        let remarks = namespace_without_effect(&namespace).into_iter();
        found.extend(remarks.map(|error| diagnostic(at, "", error, Severity::Warning)));
        let asks = namespace.is_enabled() && left_alone(&namespace, CONTROL_PLANE).is_none();
        let refusal = pod_security_error(&namespace).filter(|_| asks);
        found.extend(refusal.map(|error| diagnostic(at, "", error, Severity::Error)));
    }
    let is_service = at.part.value.get("kind").and_then(Value::as_str) == Some("Service");
    let of_namespace = at.part.value.pointer("/metadata/namespace").and_then(Value::as_str);
    if scope.contains(of_namespace.unwrap_or("default")) {
        found.extend(without_pods(&at.part.value).into_iter().map(|(name, error)| {
            // Linkerd's proxies read it there, at the client.
            let is_read = name == OPAQUE_PORTS && is_service;
            diagnostic(at, "", error, if is_read { Severity::Note } else { Severity::Warning })
        }));
    }
    if scope.contains(of_namespace.unwrap_or("default")) {
        found.extend(overlooked(at));
    }
    for template in templates(&at.part.value) {
        let Template { pointer, namespace, .. } = &template;
        let Some(pod) = at.part.value.pointer(pointer) else { continue };
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        if !scope.contains(namespace) {
            continue;
        }
        let around = namespaces.get(namespace).cloned();
        let around = around.unwrap_or_else(|| NamespaceContext::unknown(namespace));
        // The API server sends its pods to no injector.
        if left_alone(&around, CONTROL_PLANE).is_some() {
            continue;
        }
        let messages = dry_run(pod, &around);
        let misplaced = misplaced(&at.part.value, pointer).into_iter();
        found.extend(misplaced.map(|error| diagnostic(at, "", error, Severity::Warning)));
        let place = pointer.trim_start_matches('/').replace('/', ".");
        let reported = |error, severity| diagnostic(at, &place, error, severity);
        found.extend(messages.refused.into_iter().map(|error| reported(error, Severity::Error)));
        found.extend(messages.warned.into_iter().map(|error| reported(error, Severity::Warning)));
        if let Some(bounds) = bounds.get(namespace) {
            let messages = bounds.errors(pod, &around);
            let refused = messages.refused.into_iter();
            found.extend(refused.map(|error| reported(error, Severity::Error)));
            let warned = messages.warned.into_iter();
            found.extend(warned.map(|error| reported(error, Severity::Warning)));
        }
    }
    found
}

/// Diagnostics about what is not read here: annotations of a prefix that is nearly that of this mesh, and pod
/// templates of other kinds.
fn overlooked(at: &PodLocation<'_>) -> Vec<Diagnostic> {
    let strange = strange_prefixes(&at.part.value).into_iter().map(|(place, name)| {
        let message = "has no effect: annotations of this mesh begin with `portcullis.dev/`, and those that it \
                       shares with Linkerd with `config.linkerd.io/`";
        let field = format!("{place}[\"{name}\"]");
        let error = FieldError { field, message: message.to_owned() };
        diagnostic(at, "", error, Severity::Warning)
    });
    let mut found: Vec<Diagnostic> = strange.collect();
    let unread = unread_templates(&at.part.value);
    if let Some(first) = unread.first() {
        let error = FieldError { field: first.clone(), message: remark(&unread) };
        found.push(diagnostic(at, "", error, Severity::Note));
    }
    found
}

/// The annotations of a Namespace and of pods whose prefix looks like that of this mesh and is another, each with
/// the path of its mapping.
fn strange_prefixes(object: &Value) -> Vec<(String, String)> {
    let is_namespace = object.get("kind").and_then(Value::as_str) == Some("Namespace");
    let pointers = templates(object).into_iter().map(|template| template.pointer);
    let pointers = pointers.chain(is_namespace.then(String::new));
    let is_strange = |name: &&String| {
        let prefix = name.split_once('/').map_or(name.as_str(), |(prefix, _)| prefix);
        prefix.to_ascii_lowercase().contains("portcullis") && prefix != "portcullis.dev"
    };
    let mut found = Vec::new();
    for pointer in pointers {
        let pointer = format!("{pointer}/metadata/annotations");
        let Some(Value::Object(annotations)) = object.pointer(&pointer) else { continue };
        let place = pointer.trim_start_matches('/').replace('/', ".");
        let strange = annotations.keys().filter(is_strange).cloned();
        found.extend(strange.map(|name| (place.clone(), name)));
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
