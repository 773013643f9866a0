//! Finds objects and their fields in files, or among what a cluster gave.

use super::finding::Finding;
use policy_crds::ObjectKey;
use policy_crds::document::{self, Document, Location};
use policy_engine::source::Diagnostic;
use policy_engine::source::directory::DeclaredAt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where objects are declared, and the files as far as they were needed.
pub(super) struct Places {
    places: BTreeMap<ObjectKey, DeclaredAt>,
    files: BTreeMap<Arc<str>, File>,
    values: BTreeMap<ObjectKey, Value>,
}

/// A file, as far as it could be read.
pub(super) struct File {
    /// What is in it.
    pub(super) text: String,
    /// Its documents.
    pub(super) documents: Vec<Document>,
}

impl Places {
    /// Objects stand in files, or are as a cluster gives them.
    pub(super) fn new(
        places: BTreeMap<ObjectKey, DeclaredAt>,
        values: BTreeMap<ObjectKey, Value>,
    ) -> Self {
        Self { places, files: BTreeMap::new(), values }
    }

    /// What was written for an object; none if it stands in no file, or in a list.
    pub(super) fn value(&mut self, object: &ObjectKey) -> Option<&Value> {
        if self.values.contains_key(object) {
            return self.values.get(object);
        }
        self.document(object)?.value.as_ref().ok()
    }

    /// A finding about a field of an object; about its beginning, if there is no such field. What a
    /// cluster gave has a name and no place.
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

    /// Every file that declares an object.
    pub(super) fn files(&mut self) -> impl Iterator<Item = (&Arc<str>, &File)> {
        for place in self.places.values() {
            self.files.entry(Arc::clone(&place.file)).or_insert_with(|| read(&place.file));
        }
        self.files.iter()
    }

    fn document(&mut self, object: &ObjectKey) -> Option<&Document> {
        let place = self.places.get(object)?;
        let file = self.files.entry(Arc::clone(&place.file)).or_insert_with(|| read(&place.file));
        file.documents.iter().find(|document| match &document.value {
            Ok(value) => {
                policy_crds::parse(value).is_ok_and(|parsed| parsed.meta.key == place.declared)
            }
            Err(_) => false,
        })
    }
}

/// It was readable a moment ago; if it is not any more, places are lines without text.
fn read(file: &str) -> File {
    let bytes = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
    File { documents: document::read_bytes(&bytes), text }
}
