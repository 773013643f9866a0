//! Linting of manifests and of clusters: validation errors, dangling references, policies without
//! effect, and empty lists, each with its location in the file or the object's name.

mod context;
mod empty;
mod engine_findings;
mod finding;
mod foreign;
mod locations;
mod object_errors;
mod outbound;
mod outbound_policy;
mod pods;
mod port_names;
mod probes;
mod remarks;
mod unguarded;
mod unknown;
mod unstated_namespace;
mod unused;

pub use finding::Undetermined;

use crate::cluster::Scope;
use crate::cluster::settings::Settings;
use crate::inventory::Inventory;
use context::CheckContext;
use finding::Finding;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use locations::Locations;
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::ControllerConfig;
use policy_engine::source::SourceError;
use policy_engine::source::directory::Manifests;
use policy_engine::source::{Diagnostic, Severity};
use std::path::Path;

/// Result of a check.
#[derive(Debug)]
pub struct Findings {
    /// Diagnostics, sorted by file and line, or by object.
    pub diagnostics: Vec<Diagnostic>,
    /// Questions left open because something could not be listed.
    pub undetermined: Vec<Undetermined>,
    /// Number of objects read; a Deployment counts as its pods.
    pub objects: usize,
}

impl Findings {
    /// Number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// Reads manifests and lints them. Errors are objects that lose their grants; warnings are objects
/// that take effect, perhaps not as intended.
///
/// # Errors
/// If `path` itself cannot be read.
pub fn check(path: &Path, config: &ControllerConfig) -> Result<Findings, SourceError> {
    let settings = Settings::from_config(config.clone());
    let inventory =
        Inventory::of_manifests(&[Manifests::Path(path.to_owned())], Scope::All, settings)?;
    Ok(check_inventory(inventory, Questions::default()))
}

/// Additional questions of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Questions {
    /// What the outbound half of sidecars would change, given these NetworkPolicies. Absent: not
    /// asked.
    pub(crate) outbound: Option<Vec<NetworkPolicy>>,
    /// Objects of a cluster that no policy depends on, and that may state outbound policy.
    pub(crate) unwatched: Vec<Object>,
    /// True if workloads come from elsewhere, so that it means nothing where none is selected.
    pub(crate) policy_only: bool,
}

/// Lints the objects that were read.
pub(crate) fn check_inventory(inventory: Inventory, questions: Questions) -> Findings {
    let unguarded = crate::unguarded::workloads(&inventory);
    let refused = crate::probes::refused(&inventory, &unguarded);
    let Inventory { compiled, mut diagnostics, values, locations, files, permissions, .. } =
        inventory;
    let scope = &inventory.scope;
    let whole = inventory.cluster.is_some();
    let mesh_known = inventory.settings.mesh_known;
    let Questions { outbound, unwatched, policy_only } = questions;
    let (compiled, permissions) = (&compiled, &permissions);
    let context = CheckContext { compiled, permissions, whole, mesh_known, policy_only };
    let mut locations = Locations::new(locations, files, values);
    let mut undetermined = Vec::new();
    let mut found = findings(&context, &mut locations, &mut undetermined);
    if context.whole {
        found.extend(object_errors::findings(&context));
        found.extend(unknown::findings(&context, &mut locations));
    }
    let without_effect = unguarded::findings(compiled, &unguarded);
    if !whole {
        found.extend(unguarded::notes(compiled, &unguarded, &locations));
    }
    found.extend(without_effect);
    found.extend(probes::findings(&refused, &mut locations));
    if let Some(network_policies) = outbound {
        found.extend(outbound::findings(compiled, &network_policies, whole));
    }
    if !inventory.settings.outbound_by_linkerd {
        let objects = compiled.objects.iter().map(|object| &**object);
        found.extend(outbound_policy::findings(objects.chain(&unwatched)));
    }
    found.retain(|finding| is_shown(scope, &finding.object));
    undetermined.retain(|undetermined| is_shown(scope, &undetermined.object));
    // A file that cannot be read may hold objects of the namespace.
    diagnostics.retain(|diagnostic| {
        diagnostic.object.as_ref().is_none_or(|object| is_shown(scope, object))
    });
    diagnostics.extend(object_errors::merged(found).into_iter().map(|f| locations.diagnostic(f)));
    if !context.whole {
        let of_pods = pods::diagnostics(&mut locations, scope, &diagnostics);
        diagnostics.extend(of_pods);
        diagnostics.extend(foreign::notes(&locations, scope));
    }
    diagnostics.sort_by(|a, b| {
        let key = |d: &Diagnostic| (d.file.clone(), d.line, d.column, d.object.clone());
        key(a).cmp(&key(b))
    });
    let objects = compiled.objects.iter().filter(|object| is_shown(scope, &object.meta.key));
    Findings { diagnostics, undetermined, objects: objects.count() }
}

/// True if an object is in the selected namespaces, or is one of these Namespaces.
fn is_shown(scope: &Scope, key: &ObjectKey) -> bool {
    scope.contains(if key.kind == Kind::Namespace { &key.name } else { &key.namespace })
}

fn findings(
    context: &CheckContext<'_>,
    locations: &mut Locations,
    undetermined: &mut Vec<Undetermined>,
) -> Vec<Finding> {
    let compiled = context.compiled;
    let mut findings = engine_findings::findings(context, locations, undetermined);
    findings.extend(empty::findings(compiled, locations));
    findings.extend(port_names::findings(context, undetermined));
    findings.extend(unstated_namespace::findings(context, locations));
    if context.whole {
        let unused = unused::findings(context, &findings, undetermined);
        findings.extend(unused);
    }
    let remarks = remarks::findings(compiled, &findings);
    findings.extend(remarks);
    findings
}

#[cfg(test)]
mod tests;
