//! Manifests that an import makes. Each is read by the reader of its kind before it is printed.

use crate::report::ReportRow;
use policy_crds::render::yaml;
use policy_crds::{Body, FieldError, Kind, parse};
use serde_json::{Value, json};

/// An object that the reader of its kind takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest(Value);

impl Manifest {
    /// The object of this kind and content; without a namespace it goes where it is applied.
    ///
    /// # Errors
    /// Every rule of the kind that it breaks.
    pub(crate) fn new(
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        spec: Value,
    ) -> Result<Self, Vec<FieldError>> {
        let mut metadata = json!({"name": name});
        if let (Some(namespace), Value::Object(fields)) = (namespace, &mut metadata) {
            fields.insert("namespace".to_owned(), namespace.into());
        }
        let version = kind.versions().first().copied().unwrap_or_default();
        Self::read(json!({
            "apiVersion": format!("{}/{version}", kind.group()),
            "kind": kind.as_str(),
            "metadata": metadata,
            "spec": spec,
        }))
    }

    /// A Namespace of the files whose pods refuse what nothing grants, on every port. Its labels and
    /// annotations are kept, because `kubectl apply` may remove what a manifest no longer has.
    ///
    /// # Errors
    /// The name is none of a Namespace.
    pub(crate) fn denying_namespace(name: &str, object: &Value) -> Result<Self, Vec<FieldError>> {
        let part = |key: &str| {
            let part = object.get("metadata").and_then(|it| it.get(key)?.as_object());
            part.cloned().unwrap_or_default()
        };
        let mut annotations = part("annotations");
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        let key = policy_crds::annotation::DEFAULT_INBOUND_POLICY;
        annotations.insert(key.to_owned(), "deny".into());
        let mut metadata = json!({"name": name, "annotations": annotations});
        let labels = part("labels");
        if let (false, Value::Object(fields)) = (labels.is_empty(), &mut metadata) {
            fields.insert("labels".to_owned(), labels.into());
        }
        Self::read(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    }

    fn read(object: Value) -> Result<Self, Vec<FieldError>> {
        match parse(&object).map(|object| object.body) {
            Ok(Body::Valid(_)) => Ok(Self(object)),
            Ok(Body::Invalid(invalid)) => Err(invalid.errors),
            Err(error) => {
                let (field, message) = (error.field().to_owned(), error.message());
                Err(vec![FieldError { field, message }])
            }
        }
    }
}

/// Objects of another format that an export makes, and the report of what became of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The objects.
    pub objects: Vec<Value>,
    /// The parts of the policies, translated or not.
    pub rows: Vec<ReportRow>,
}

impl Exported {
    /// The objects as YAML documents.
    pub fn yaml(&self) -> String {
        documents(self.objects.iter())
    }

    /// The objects as one List in JSON.
    pub fn json(&self) -> String {
        list(self.objects.iter())
    }
}

fn documents<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    objects.map(yaml).collect::<Vec<_>>().join("---\n")
}

fn list<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let items: Vec<&Value> = objects.collect();
    format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// The manifests that an import makes, and the report of what became of each part of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The manifests, in the order of the source.
    pub manifests: Vec<Manifest>,
    /// The parts of the source, translated or not.
    pub rows: Vec<ReportRow>,
}

impl Imported {
    /// The manifests as YAML documents, as `kubectl apply` takes them.
    pub fn yaml(&self) -> String {
        documents(self.values())
    }

    /// The manifests as one List in JSON.
    pub fn json(&self) -> String {
        list(self.values())
    }

    /// The manifests as values.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.manifests.iter().map(|manifest| &manifest.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_reader_takes_is_a_manifest() {
        let make = |namespace, name, spec| Manifest::new(Kind::GrpcService, namespace, name, spec);
        let made = make(Some("shop"), "books", json!({"service": "books.v1.Books"}));
        let expected = json!({
            "apiVersion": "portcullis.dev/v1alpha1",
            "kind": "GrpcService",
            "metadata": {"name": "books", "namespace": "shop"},
            "spec": {"service": "books.v1.Books"},
        });
        assert_eq!(made, Ok(Manifest(expected)));
        let fields = |made: Result<Manifest, Vec<FieldError>>| {
            let errors = made.err().unwrap_or_default();
            errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        let wrong = make(None, "books", json!({"service": "9", "methods": []}));
        assert_eq!(fields(wrong), ["spec.service", "spec.methods"]);
        assert_eq!(fields(make(None, "", json!({"service": "B"}))), ["metadata.name"]);
        let outside = make(Some("A b"), "b", json!({"service": "B"}));
        assert_eq!(fields(outside), ["metadata.namespace"]);
    }
}
