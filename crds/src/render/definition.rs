//! A kind's definition, and the manifest that is made of it.

use super::conditions::conditions_status;
use super::profile::Profile;
use super::schema::{object, text};
use super::yaml;
use crate::kind::Kind;
use serde_json::{Value, json};

/// A CustomResourceDefinition.
pub(crate) struct Definition {
    pub(crate) kind: Kind,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) versions: Vec<Version>,
}

/// A version of a kind.
pub(crate) struct Version {
    pub(crate) name: &'static str,
    pub(crate) storage: bool,
    /// The warning of a deprecated version.
    pub(crate) deprecated: Option<&'static str>,
    /// Heading, type and JSON path.
    pub(crate) columns: &'static [Column],
    pub(crate) spec: Value,
    pub(crate) status: Status,
}

/// The status of a version.
pub(crate) enum Status {
    /// In both profiles.
    Always(Value),
    /// Conditions, in our profile only.
    Ours,
    /// Linkerd shows this schema without a subresource; ours is a subresource.
    Inline(Value),
}

impl Definition {
    /// The definition of a kind of this project that has had one version.
    pub(crate) fn own(
        kind: Kind,
        columns: &'static [Column],
        spec: Value,
        status: Option<Value>,
    ) -> Self {
        let status = status.map_or(Status::Ours, Status::Always);
        let (name, short_names) = ("v1alpha1", kind.spec().names.short);
        let version = Version { name, storage: true, deprecated: None, columns, spec, status };
        Self { kind, short_names, categories: &[], versions: vec![version] }
    }

    pub(crate) fn file(&self, profile: Profile) -> (String, String) {
        let name = format!("{}_{}.yaml", self.kind.group(), self.kind.plural());
        let head =
            "# Written by `cargo run -p xtask -- gen`; changes are made in crds/src/kinds.\n";
        (name, format!("{head}{}", yaml::write(&self.manifest(profile))))
    }

    /// The schema of a version, as clusters with this project alone have it.
    pub(crate) fn schema(&self, version: &str) -> Option<Value> {
        let version = self.versions.iter().find(|own| own.name == version)?;
        let manifest = version.manifest(self, Profile::Portcullis);
        manifest.pointer("/schema/openAPIV3Schema").cloned()
    }

    fn manifest(&self, profile: Profile) -> Value {
        let (group, kind, plural) = (self.kind.group(), self.kind.as_str(), self.kind.plural());
        let mut names = json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "plural": plural,
            "singular": kind.to_ascii_lowercase(),
        });
        for (field, words) in [("shortNames", self.short_names), ("categories", self.categories)] {
            if let (Some(names), false) = (names.as_object_mut(), words.is_empty()) {
                names.insert(field.to_owned(), json!(words));
            }
        }
        let scope = if self.kind.is_namespaced() { "Namespaced" } else { "Cluster" };
        let versions: Vec<Value> =
            self.versions.iter().map(|v| v.manifest(self, profile)).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{group}"),
                "labels": {"app.kubernetes.io/part-of": "portcullis"},
            },
            "spec": {
                "group": group,
                "names": names,
                "scope": scope,
                "versions": versions,
            },
        })
    }
}

impl Version {
    /// The one version of a kind that has had no other.
    pub(crate) fn only(spec: Value) -> Vec<Self> {
        let (name, deprecated, columns) = ("v1alpha1", None, &[]);
        vec![Self { name, storage: true, deprecated, columns, spec, status: Status::Ours }]
    }

    fn manifest(&self, definition: &Definition, profile: Profile) -> Value {
        let (status, subresource) = match (&self.status, profile) {
            (Status::Always(status), _) | (Status::Inline(status), Profile::Portcullis) => {
                (Some(status.clone()), true)
            }
            (Status::Inline(status), Profile::Linkerd) => (Some(status.clone()), false),
            (Status::Ours, Profile::Portcullis) => (Some(conditions_status()), true),
            (Status::Ours, Profile::Linkerd) => (None, false),
        };
        let mut fields = vec![
            ("apiVersion", text("Group and version.")),
            ("kind", text("Kind.")),
            ("metadata", json!({"type": "object"})),
            ("spec", self.spec.clone()),
        ];
        fields.extend(status.map(|status| ("status", status)));
        let schema = object(&format!("{}.", definition.kind.as_str()), &fields, &["spec"]);
        let mut manifest = json!({
            "name": self.name,
            "served": true,
            "storage": self.storage,
            "schema": {"openAPIV3Schema": schema},
        });
        let Some(map) = manifest.as_object_mut() else { return manifest };
        if let Some(warning) = self.deprecated {
            map.insert("deprecated".to_owned(), json!(true));
            map.insert("deprecationWarning".to_owned(), json!(warning));
        }
        if subresource {
            map.insert("subresources".to_owned(), json!({"status": {}}));
        }
        let all = self.columns_of(definition, profile);
        if !all.is_empty() {
            let column = |(name, kind, path): &Column| {
                let mut column = json!({"name": name, "type": kind, "jsonPath": path});
                if *kind == "int32"
                    && let Some(map) = column.as_object_mut()
                {
                    map.insert("type".to_owned(), json!("integer"));
                    map.insert("format".to_owned(), json!("int32"));
                }
                column
            };
            let columns: Vec<Value> = all.iter().map(column).collect();
            map.insert("additionalPrinterColumns".to_owned(), json!(columns));
        }
        manifest
    }

    /// The printer columns of a version. Ours show the status of an object as far as one line can:
    /// a route has a status for each of its parents, and the first condition that is not `True`
    /// gives the reason.
    fn columns_of(&self, definition: &Definition, profile: Profile) -> Vec<Column> {
        let mut columns = self.columns.to_vec();
        let spec = definition.kind.spec();
        if profile != Profile::Portcullis || spec.status.is_none() {
            return columns;
        }
        let age = columns.iter().position(|(name, _, _)| *name == AGE.0);
        let age = age.map_or(AGE, |index| columns.remove(index));
        if spec.has_object_conditions() {
            columns.push(ACCEPTED);
            // An ExternalWorkload is itself one of the workloads that are counted.
            columns.extend(spec.contributes.then_some(PROGRAMMED));
            columns.push(REASON);
        } else {
            columns.push(PARENTS_REASON);
        }
        columns.push(age);
        columns
    }
}

/// Heading, type and JSON path of a printer column.
pub(crate) type Column = (&'static str, &'static str, &'static str);

const ACCEPTED: Column =
    ("Accepted", "string", ".status.conditions[?(@.type==\"Accepted\")].status");
const PROGRAMMED: Column =
    ("Programmed", "string", ".status.conditions[?(@.type==\"Programmed\")].status");
/// The reason of the first condition that is not `True`; empty if there is none.
const REASON: Column = ("Reason", "string", ".status.conditions[?(@.status!=\"True\")].reason");
const PARENTS_REASON: Column =
    ("Reason", "string", ".status.parents[*].conditions[?(@.status!=\"True\")].reason");
const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
