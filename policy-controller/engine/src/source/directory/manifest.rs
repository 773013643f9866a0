//! From the bytes of one file to objects and diagnostics.

use super::manifest_file::ManifestFile;
use crate::annotations::annotation_errors;
use crate::source::diagnostic::{Diagnostic, Severity};
use policy_crds::document::{self, Document, Location};
use policy_crds::{Body, FieldError, Invalid, Kind, Object, ObjectKey, OtherWorkload, Part};
use std::sync::Arc;

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Manifest {
    /// Objects, workloads as their pods.
    pub(super) objects: Vec<DeclaredObject>,
    /// Its errors.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// True if everything in it could be read. If not, its earlier objects are kept as tombstones.
    pub(super) complete: bool,
    /// Workloads whose pods can no longer be read.
    pub(super) unreadable: Vec<ObjectKey>,
}

/// An object and where it was declared.
#[derive(Clone, Debug)]
pub(super) struct DeclaredObject {
    /// The object.
    pub(super) object: Arc<Object>,
    /// The object as written, for example the Deployment of a pod.
    pub(super) declared: ObjectKey,
    /// True if it is a pod that the template of a workload stands for.
    pub(super) is_of_template: bool,
    /// The declaration that it stems from.
    pub(super) standing: Standing,
    /// The file.
    pub(super) file: Arc<str>,
    /// Its location in the file.
    pub(super) location: Location,
}

/// The declaration that an object stems from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The present one.
    Present,
    /// An earlier one, in place of what can no longer be read.
    Earlier,
    /// An earlier one of an object or a workload whose present one is invalid.
    EarlierOfInvalid,
}

/// A further look at an object as it is written. What it finds about a field that is an error already
/// replaces the error, and is one itself.
pub type Lint = fn(&serde_json::Value, &[FieldError]) -> Vec<Remark>;

/// A remark of a [`Lint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The field and the message.
    pub about: FieldError,
    /// The severity.
    pub severity: Severity,
}

/// Reads the objects of a file.
pub(super) fn parse(file: &Arc<str>, content: &ManifestFile, lint: Option<Lint>) -> Manifest {
    let mut reader = Reader {
        file,
        lint,
        text: &content.text,
        manifest: Manifest { complete: true, ..Manifest::default() },
    };
    for document in &content.documents {
        reader.document(document);
    }
    reader.manifest
}

struct Reader<'a> {
    file: &'a Arc<str>,
    lint: Option<Lint>,
    text: &'a str,
    manifest: Manifest,
}

impl Reader<'_> {
    fn document(&mut self, document: &Document) {
        match &document.value {
            Ok(serde_json::Value::Null) => {}
            Ok(value) => {
                for part in policy_crds::parts(value) {
                    self.part(document, &part);
                }
            }
            Err(error) => {
                self.manifest.complete = false;
                let found =
                    Diagnostic::at(self.file, self.text, &error.location, error.message.clone());
                self.manifest.diagnostics.push(found);
                for part in document.salvaged.iter().flat_map(policy_crds::parts) {
                    self.salvaged(document, &part, &error.message);
                }
            }
        }
    }

    /// Reads an object of a document in which a key appears twice. An object that has such a key is
    /// invalid.
    fn salvaged(&mut self, document: &Document, part: &Part<'_>, message: &str) {
        if !document::is_ambiguous(&part.value) {
            return self.part(document, part);
        }
        let Ok(Object { meta, body }) = policy_crds::parse_written(&part.value) else { return };
        let claims = match body {
            Body::Invalid(invalid) => invalid.claims,
            Body::Valid(resource) => meta.key.kind.spec().claims(Some(&resource)),
        };
        let error = FieldError { field: "spec".to_owned(), message: message.to_owned() };
        let key = meta.key.clone();
        let body = Body::Invalid(Invalid { errors: vec![error], claims });
        self.place(Object { meta, body }, (&key, key.kind.makes_pods()), &document.location);
    }

    fn part(&mut self, document: &Document, part: &Part<'_>) {
        match policy_crds::parse_written(&part.value) {
            Ok(object) => self.object(document, part, object),
            Err(error) if error.is_foreign() => {
                if let Some(workload) = policy_crds::other_workload(&part.value) {
                    self.other_workload(document, part, workload);
                }
            }
            Err(error) => {
                self.manifest.complete = false;
                let location = locate(document, part, error.field());
                let found = Diagnostic::at(self.file, self.text, &location, error.message());
                let found = found.of(None, error.field());
                let states_no_kind = error.states_no_kind();
                self.manifest.diagnostics.push(Diagnostic { states_no_kind, ..found });
            }
        }
    }

    fn object(&mut self, document: &Document, part: &Part<'_>, object: Object) {
        let key = object.meta.key.clone();
        let errors = match &object.body {
            Body::Valid(_) => annotation_errors(&object),
            Body::Invalid(invalid) => invalid.errors.clone(),
        };
        for Remark { about, severity } in self.remarks(part, &errors) {
            let location = locate(document, part, &about.field);
            let diagnostic = Diagnostic::at(self.file, self.text, &location, about.message);
            let diagnostic = diagnostic.of(Some(&key), &about.field);
            self.manifest.diagnostics.push(Diagnostic { severity, ..diagnostic });
        }
        if object.meta.key.name.is_empty() {
            return;
        }
        let location = locate(document, part, "");
        let is_of_template = key.kind.makes_pods();
        self.place(object, (&key, is_of_template), &location);
    }

    /// The errors of an object, and what else is said of its text. What both say is said once.
    fn remarks(&self, part: &Part<'_>, errors: &[FieldError]) -> Vec<Remark> {
        let remarks = self.lint.map(|lint| lint(&part.value, errors)).unwrap_or_default();
        let is_repeated =
            |error: &&FieldError| remarks.iter().any(|r| r.about.field == error.field);
        let errors = errors.iter().filter(|error| !is_repeated(error));
        let errors = errors.map(|about| Remark { about: about.clone(), severity: Severity::Error });
        errors.chain(remarks.iter().cloned()).collect()
    }

    /// Reads a workload of a kind that has no key: its pods are declared as if each were written.
    fn other_workload(&mut self, document: &Document, part: &Part<'_>, workload: OtherWorkload) {
        self.manifest.complete &= workload.errors.is_empty();
        for Remark { about, severity } in self.remarks(part, &workload.errors) {
            let location = locate(document, part, &about.field);
            let message = format!("{workload}: {}", about.message);
            let diagnostic = Diagnostic::at(self.file, self.text, &location, message);
            let diagnostic = diagnostic.of(None, &about.field);
            self.manifest.diagnostics.push(Diagnostic { severity, ..diagnostic });
        }
        let location = locate(document, part, "");
        for pod in workload.pods {
            let key = pod.meta.key.clone();
            self.place(pod, (&key, true), &location);
        }
    }

    fn place(
        &mut self,
        object: Object,
        (declared, is_of_template): (&ObjectKey, bool),
        location: &Location,
    ) {
        let stands_for_pods = declared.kind.makes_pods();
        let unreadable = stands_for_pods || declared.kind == Kind::Pod;
        if unreadable && matches!(object.body, Body::Invalid(_)) {
            self.manifest.unreadable.push(declared.clone());
        }
        let objects = if stands_for_pods { policy_crds::pods_of(&object) } else { vec![object] };
        self.manifest.objects.extend(objects.into_iter().map(|object| DeclaredObject {
            object: Arc::new(object),
            declared: declared.clone(),
            is_of_template,
            standing: Standing::Present,
            file: self.file.clone(),
            location: location.clone(),
        }));
    }
}

fn locate(document: &Document, part: &Part<'_>, field: &str) -> Location {
    let field = part.field(field);
    let located = if field.is_empty() { None } else { document.locate(&field) };
    located.unwrap_or_else(|| document.location.clone())
}

/// A warning instead of an error.
pub(super) fn as_warning(diagnostic: Diagnostic) -> Diagnostic {
    Diagnostic { severity: Severity::Warning, ..diagnostic }
}
