//! The objects of SMI in files, as the reader of kinds reads them.

use crate::file::SourceNode;
use crate::mesh::{MeshPolicies, is_generated};
use crate::report::SourceLine;
use policy_crds::resource::{IdentityBinding, SmiRouteGroup, SmiTcpRoute};
use policy_crds::{Body, FieldError, Kind, LabelSelector, Object, Resource, parse};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The namespace and the name of an object.
pub(super) type SmiName = (Arc<str>, Arc<str>);

/// A TrafficTarget, valid or not, and where it is.
pub(super) struct ReadTarget<'a> {
    /// Its place.
    pub(super) node: SourceNode<'a>,
    /// It.
    pub(super) object: Object,
}

/// The objects of SMI in the files.
#[derive(Default)]
pub(super) struct SmiObjects<'a> {
    /// The TrafficTargets.
    pub(super) targets: Vec<ReadTarget<'a>>,
    /// The valid HTTPRouteGroups.
    pub(super) groups: BTreeMap<SmiName, SmiRouteGroup>,
    /// The valid TCPRoutes.
    pub(super) tcp: BTreeMap<SmiName, SmiTcpRoute>,
    /// The valid IdentityBindings.
    pub(super) bindings: BTreeMap<SmiName, IdentityBinding>,
}

impl<'a> SmiObjects<'a> {
    /// Adds an object. One that is no TrafficTarget and breaks a rule has a row, and allows nothing.
    ///
    /// # Errors
    /// It has no name or no namespace.
    pub(super) fn add(
        &mut self,
        node: &SourceNode<'a>,
        namespace: Option<&str>,
        policies: &mut MeshPolicies,
    ) -> Result<(), String> {
        let value = in_namespace(node, namespace)?;
        let object =
            parse(&value).map_err(|error| node.error_below(error.field(), &error.message()))?;
        let key = &object.meta.key;
        let name = (key.namespace.clone(), key.name.clone());
        if key.kind == Kind::TrafficTarget {
            self.targets.push(ReadTarget { node: node.clone(), object });
            return Ok(());
        }
        match object.body {
            Body::Valid(Resource::SmiRouteGroup(group)) => _ = self.groups.insert(name, group),
            Body::Valid(Resource::SmiTcpRoute(route)) => _ = self.tcp.insert(name, route),
            Body::Valid(Resource::IdentityBinding(binding)) if can_be_said(&binding) => {
                self.bindings.insert(name, binding);
            }
            Body::Valid(_) => {
                let note = "it selects by a label that controllers give pods";
                policies.omit(node.place(), &subject(key.kind, &key.name), note);
            }
            Body::Invalid(invalid) => {
                let note = format!("{}: it allows nothing", faults(&invalid.errors));
                let place = first_place(node, &invalid.errors);
                policies.omit(place, &subject(key.kind, &key.name), &note);
            }
        }
        Ok(())
    }
}

/// The subject of a row.
pub(super) fn subject(kind: Kind, name: &str) -> String {
    format!("{} {name}", kind.as_str())
}

/// Broken rules, in words.
pub(super) fn faults(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The place of the first broken rule.
pub(super) fn first_place(node: &SourceNode<'_>, errors: &[FieldError]) -> SourceLine {
    errors.first().map_or_else(|| node.place(), |error| node.place_below(&error.field))
}

/// An object with the namespace that it is in. A target without one is in that of its destination.
fn in_namespace(node: &SourceNode<'_>, namespace: Option<&str>) -> Result<Value, String> {
    let metadata = node.require("metadata")?;
    let mut value = node.value().clone();
    if metadata.get("namespace").is_some() {
        return Ok(value);
    }
    let holder = node.get("spec").unwrap_or_else(|| node.clone());
    let stated = holder.get("destination").and_then(|it| it.get("namespace"));
    let stated = stated.and_then(|it| it.text().ok());
    let message = "names no namespace: give one with --namespace";
    let own = namespace.or(stated).ok_or_else(|| node.error(message))?;
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.insert("namespace".to_owned(), own.into());
    }
    Ok(value)
}

/// True unless labels select that no pod template has.
fn can_be_said(binding: &IdentityBinding) -> bool {
    let keys = |selector: &LabelSelector| {
        let expressions = selector.match_expressions.iter().map(|one| one.key.clone());
        selector.match_labels.keys().cloned().chain(expressions).any(|key| is_generated(&key))
    };
    !binding.selectors.iter().any(keys)
}
