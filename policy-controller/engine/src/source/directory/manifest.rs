//! From the bytes of one file to objects and diagnostics.

use super::manifest_file::ManifestFile;
use super::misspelt::without_misspelt;
use crate::annotations::annotation_errors;
use crate::source::diagnostic::{Diagnostic, Severity};
use policy_crds::document::{Document, Location};
use policy_crds::{Body, FieldError, Kind, Object, ObjectKey, OtherWorkload, Part};
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
    /// The file.
    pub(super) file: Arc<str>,
    /// Its location in the file.
    pub(super) location: Location,
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
                self.report_error(&error.location, error.message.clone(), None, "");
            }
        }
    }

    fn part(&mut self, document: &Document, part: &Part<'_>) {
        match policy_crds::parse(&part.value) {
            Ok(object) => {
                let object = without_misspelt(object, &part.value);
                self.object(document, part, object);
            }
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
        let remarks = self.lint.map(|lint| lint(&part.value, &errors)).unwrap_or_default();
        let is_repeated = |error: &FieldError| remarks.iter().any(|r| r.about.field == error.field);
        let errors = errors.into_iter().filter(|error| !is_repeated(error));
        let errors = errors.map(|about| Remark { about, severity: Severity::Error });
        for Remark { about, severity } in errors.chain(remarks.iter().cloned()) {
            let location = locate(document, part, &about.field);
            let diagnostic = Diagnostic::at(self.file, self.text, &location, about.message);
            let diagnostic = diagnostic.of(Some(&key), &about.field);
            self.manifest.diagnostics.push(Diagnostic { severity, ..diagnostic });
        }
        if object.meta.key.name.is_empty() {
            return;
        }
        let location = locate(document, part, "");
        self.place(object, &key, &location);
    }

    /// Reads a workload of a kind that has no key: its pods are declared as if each were written.
    fn other_workload(&mut self, document: &Document, part: &Part<'_>, workload: OtherWorkload) {
        for error in &workload.errors {
            let location = locate(document, part, &error.field);
            let message = format!("{workload}: {}", error.message);
            self.manifest.complete = false;
            self.report_error(&location, message, None, &error.field);
        }
        let location = locate(document, part, "");
        for pod in workload.pods {
            let key = pod.meta.key.clone();
            self.place(pod, &key, &location);
        }
    }

    fn place(&mut self, object: Object, declared: &ObjectKey, location: &Location) {
        let stands_for_pods = is_workload(declared.kind);
        let unreadable = stands_for_pods || declared.kind == Kind::Pod;
        if unreadable && matches!(object.body, Body::Invalid(_)) {
            self.manifest.unreadable.push(declared.clone());
        }
        let objects = if stands_for_pods { policy_crds::pods_of(&object) } else { vec![object] };
        self.manifest.objects.extend(objects.into_iter().map(|object| DeclaredObject {
            object: Arc::new(object),
            declared: declared.clone(),
            file: self.file.clone(),
            location: location.clone(),
        }));
    }

    fn report_error(
        &mut self,
        location: &Location,
        message: String,
        object: Option<&ObjectKey>,
        field: &str,
    ) {
        let diagnostic = Diagnostic::at(self.file, self.text, location, message);
        self.manifest.diagnostics.push(diagnostic.of(object, field));
    }
}

/// True if objects of a kind stand for pods.
pub(super) fn is_workload(kind: Kind) -> bool {
    const WORKLOADS: [Kind; 6] = [
        Kind::Deployment,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::ReplicaSet,
        Kind::Job,
        Kind::CronJob,
    ];
    WORKLOADS.contains(&kind)
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
