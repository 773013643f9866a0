//! Finds objects and their fields in files.

use policy_controller::source::directory::{Diagnostic, Place, Severity};
use policy_crds::ObjectKey;
use policy_crds::document::{self, Document, Location};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where objects are declared, and the files as far as they were needed.
pub(super) struct Places {
    places: BTreeMap<ObjectKey, Place>,
    files: BTreeMap<Arc<str>, File>,
}

struct File {
    text: String,
    documents: Vec<Document>,
}

impl Places {
    pub(super) fn new(places: BTreeMap<ObjectKey, Place>) -> Self {
        Self { places, files: BTreeMap::new() }
    }

    /// What was written for an object; none if it stands in no file, or in a list.
    pub(super) fn value(&mut self, object: &ObjectKey) -> Option<&Value> {
        self.document(object)?.value.as_ref().ok()
    }

    /// A warning about a field of an object; about its beginning, if there is no such field.
    pub(super) fn diagnostic(
        &mut self,
        object: &ObjectKey,
        field: &str,
        message: String,
    ) -> Diagnostic {
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
        Diagnostic { severity: Severity::Warning, ..diagnostic }
    }

    fn document(&mut self, object: &ObjectKey) -> Option<&Document> {
        let place = self.places.get(object)?;
        let file = self.files.entry(Arc::clone(&place.file)).or_insert_with(|| {
            // It was readable a moment ago; if it is not any more, places are lines without text.
            let bytes = std::fs::read(&*place.file).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
            File { documents: document::read_bytes(&bytes), text }
        });
        file.documents.iter().find(|document| match &document.value {
            Ok(value) => {
                policy_crds::parse(value).is_ok_and(|parsed| parsed.meta.key == place.declared)
            }
            Err(_) => false,
        })
    }
}
