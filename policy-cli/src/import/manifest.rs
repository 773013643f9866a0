//! Manifests that an import makes. Each is read by the reader of its kind before it is printed.

use clap::ValueEnum;
use policy_crds::render::yaml;
use policy_crds::{Body, FieldError, Kind, parse};
use serde_json::{Value, json};

/// Form in which manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// One YAML document for each manifest.
    #[default]
    Yaml,
    /// One JSON document: a List of the manifests.
    Json,
}

/// An object that the reader of its kind takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest(Value);

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
        let object = json!({
            "apiVersion": format!("{}/{version}", kind.group()),
            "kind": kind.as_str(),
            "metadata": metadata,
            "spec": spec,
        });
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

/// What an import makes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Imported {
    /// The manifests, in the order of the file.
    pub(crate) manifests: Vec<Manifest>,
    /// Notes: what is left out, and why.
    pub(crate) notes: Vec<String>,
}

impl Imported {
    /// The manifests, as `kubectl apply` takes them.
    pub(crate) fn text(&self, format: ManifestFormat) -> String {
        let objects = self.manifests.iter().map(|manifest| &manifest.0);
        match format {
            ManifestFormat::Yaml => objects.map(yaml).collect::<Vec<_>>().join("---\n"),
            ManifestFormat::Json => {
                let items: Vec<&Value> = objects.collect();
                format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": items}))
            }
        }
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
