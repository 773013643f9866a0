//! Locates objects and their fields in files, or among the objects of a cluster.

use super::finding::Finding;
use policy_crds::ObjectKey;
use policy_crds::document::{self, Document, Location};
use policy_engine::source::Diagnostic;
use policy_engine::source::directory::DeclaredAt;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Locations of objects in files. Files are read when first needed.
pub(super) struct Locations {
    places: BTreeMap<ObjectKey, DeclaredAt>,
    files: BTreeMap<Arc<str>, ManifestFile>,
    values: BTreeMap<ObjectKey, Value>,
}

/// A manifest file, as far as it could be read.
pub(super) struct ManifestFile {
    /// Content.
    pub(super) text: String,
    /// Its documents.
    pub(super) documents: Vec<Document>,
    /// The first document that declares each object, so that a file is parsed once and not once a
    /// finding.
    declared: HashMap<ObjectKey, usize>,
}

impl Locations {
    /// Creates the table of locations. Objects in `values` come from a cluster and have none.
    pub(super) fn new(
        places: BTreeMap<ObjectKey, DeclaredAt>,
        values: BTreeMap<ObjectKey, Value>,
    ) -> Self {
        Self { places, files: BTreeMap::new(), values }
    }

    /// Returns an object as it was written; `None` if it is in no file, or is an item of a List.
    pub(super) fn value(&mut self, object: &ObjectKey) -> Option<&Value> {
        if self.values.contains_key(object) {
            return self.values.get(object);
        }
        self.document(object)?.value.as_ref().ok()
    }

    /// Resolves the location of a finding: that of its field, or else the beginning of the object.
    /// An object of a cluster has a name and no location.
    pub(super) fn diagnostic(&mut self, finding: Finding) -> Diagnostic {
        let Finding { object, field, message, severity, explains: _ } = finding;
        let (object, field) = (&object, &*field);
        if self.values.contains_key(object) {
            let diagnostic = Diagnostic::about_file(&"".into(), message);
            return Diagnostic { severity, ..diagnostic.of(Some(object), field) };
        }
        let declared = self.places.get(object).map(|place| place.declared.clone());
        let declared = declared.unwrap_or_else(|| object.clone());
        let located = self.document(object).and_then(|document| document.locate(field));
        let diagnostic = match self.places.get(object) {
            None => Diagnostic::about_file(&"manifests".into(), message),
            Some(place) => {
                let location: Location = located.unwrap_or_else(|| place.location.clone());
                let text = self.files.get(&place.file).map(|file| file.text.as_str());
                Diagnostic::at(&place.file, text.unwrap_or_default(), &location, message)
            }
        };
        let diagnostic = diagnostic.of(Some(&declared), field);
        Diagnostic { severity, ..diagnostic }
    }

    /// Files that declare objects.
    pub(super) fn files(&mut self) -> impl Iterator<Item = (&Arc<str>, &ManifestFile)> {
        for place in self.places.values() {
            self.files.entry(Arc::clone(&place.file)).or_insert_with(|| read(&place.file));
        }
        self.files.iter()
    }

    fn document(&mut self, object: &ObjectKey) -> Option<&Document> {
        let place = self.places.get(object)?;
        let file = self.files.entry(Arc::clone(&place.file)).or_insert_with(|| read(&place.file));
        file.documents.get(*file.declared.get(&place.declared)?)
    }
}

/// Reads a file. If it has become unreadable, locations are lines without text.
fn read(file: &str) -> ManifestFile {
    let bytes = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
    let documents = document::read_bytes(&bytes);
    let mut declared = HashMap::new();
    for (at, document) in documents.iter().enumerate() {
        let Ok(value) = &document.value else { continue };
        if let Ok(object) = policy_crds::parse(value) {
            declared.entry(object.meta.key).or_insert(at);
        }
    }
    ManifestFile { documents, text, declared }
}
