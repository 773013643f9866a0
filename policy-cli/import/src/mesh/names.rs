//! Names of the objects that are written, no two of one kind and namespace alike.

use crate::manifest::Manifest;
use policy_crds::{FieldError, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The objects that are written.
#[derive(Debug, Default)]
pub(super) struct MeshObjects {
    /// The objects, in the order in which they are applied.
    pub(super) manifests: Vec<Manifest>,
    taken: BTreeSet<(Kind, String, String)>,
    /// Names of authentications by their content, which is written once.
    shared: BTreeMap<(Kind, String, String), String>,
}

impl MeshObjects {
    /// A name after `wanted` that no other object has.
    pub(super) fn name(&mut self, kind: Kind, namespace: &str, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2_usize;
        while !self.taken.insert((kind, namespace.to_owned(), name.clone())) {
            name = format!("{wanted}-{number}");
            number = number.saturating_add(1);
        }
        name
    }

    /// Adds an object.
    ///
    /// # Errors
    /// The reader of its kind does not take it.
    pub(super) fn add(
        &mut self,
        kind: Kind,
        (namespace, name): (&str, &str),
        spec: Value,
    ) -> Result<(), Vec<FieldError>> {
        self.manifests.push(Manifest::new(kind, Some(namespace), name, spec)?);
        Ok(())
    }

    /// The reference to an authentication of this content, which is added if it is not there.
    ///
    /// # Errors
    /// The reader of its kind does not take it.
    pub(super) fn authentication(
        &mut self,
        kind: Kind,
        (namespace, wanted): (&str, &str),
        spec: &Value,
    ) -> Result<Value, Vec<FieldError>> {
        let key = (kind, namespace.to_owned(), spec.to_string());
        let name = match self.shared.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name = self.name(kind, namespace, wanted);
                self.add(kind, (namespace, &name), spec.clone())?;
                self.shared.insert(key, name.clone());
                name
            }
        };
        Ok(json!({"group": kind.group(), "kind": kind.as_str(), "name": name}))
    }
}
