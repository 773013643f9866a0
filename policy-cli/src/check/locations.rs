//! Locates objects and their fields in files, or among the objects of a cluster.

use super::finding::Finding;
use policy_crds::ObjectKey;
use policy_crds::document::{Document, Location};
use policy_engine::source::Diagnostic;
use policy_engine::source::directory::{DeclaredAt, ManifestFile};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Locations of objects in files.
pub(super) struct Locations {
    places: BTreeMap<ObjectKey, DeclaredAt>,
    files: BTreeMap<Arc<str>, ManifestFile>,
    /// The first document of each file that declares an object, so that files are searched once and
    /// not once a finding.
    declared: BTreeMap<Arc<str>, HashMap<ObjectKey, usize>>,
    values: BTreeMap<ObjectKey, Value>,
}

impl Locations {
    /// Creates the table of locations. Objects in `values` come from a cluster and have none.
    pub(super) fn new(
        places: BTreeMap<ObjectKey, DeclaredAt>,
        files: BTreeMap<Arc<str>, ManifestFile>,
        values: BTreeMap<ObjectKey, Value>,
    ) -> Self {
        let declared =
            files.iter().map(|(name, file)| (Arc::clone(name), declared(file))).collect();
        Self { places, files, declared, values }
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

    /// Returns the object as it is written, for example the Deployment of a pod.
    pub(super) fn declared<'a>(&'a self, object: &'a ObjectKey) -> &'a ObjectKey {
        self.places.get(object).map_or(object, |place| &place.declared)
    }

    /// The files that were read.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Arc<str>, &ManifestFile)> {
        self.files.iter()
    }

    fn document(&self, object: &ObjectKey) -> Option<&Document> {
        let place = self.places.get(object)?;
        let at = self.declared.get(&place.file)?.get(&place.declared)?;
        self.files.get(&place.file)?.documents.get(*at)
    }
}

/// Returns the first document that declares each object of a file.
fn declared(file: &ManifestFile) -> HashMap<ObjectKey, usize> {
    let mut declared = HashMap::new();
    for (at, document) in file.documents.iter().enumerate() {
        let Ok(value) = &document.value else { continue };
        if let Ok(object) = policy_crds::parse_written(value) {
            declared.entry(object.meta.key).or_insert(at);
        } else if let Some(workload) = policy_crds::other_workload(value) {
            for pod in workload.pods {
                declared.entry(pod.meta.key).or_insert(at);
            }
        }
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Kind;

    #[test]
    fn a_document_is_found_by_the_namespace_that_is_indented_too_little() {
        let file = ManifestFile::read(
            b"apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: a}\n\
              namespace: shop\nspec: {podSelector: {}, port: 1}\n",
        );
        let key = ObjectKey { kind: Kind::Server, namespace: "shop".into(), name: "a".into() };
        assert_eq!(declared(&file), HashMap::from([(key, 0)]));
    }
}
