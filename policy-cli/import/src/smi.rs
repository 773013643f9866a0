//! The Service Mesh Interface: TrafficTarget (v1alpha1 to v1alpha4), HTTPRouteGroup, TCPRoute and
//! IdentityBinding (smi-spec.io, archived).

mod binding;
mod export;
mod naming;
mod specs;
mod target;

pub use export::{AccountOfIdentity, ExportedAccount, export_smi};

use crate::file::{ImportFile, SourceNode};
use crate::manifest::Imported;
use crate::mesh::{MeshPolicies, WorkloadUnits, note_unread, write_servers};
use specs::SmiSpecs;

/// The groups of its kinds.
const GROUPS: &[&str] = &["access.smi-spec.io", "specs.smi-spec.io"];

/// The policies of SMI in files that have the workloads, too. `namespace` is that of objects without one.
///
/// # Errors
/// There is no TrafficTarget, or an object has another form than its version says.
pub fn smi(files: &[ImportFile], namespace: Option<&str>) -> Result<Imported, Vec<String>> {
    let mut policies = MeshPolicies { denies_by_default: true, ..MeshPolicies::default() };
    let workloads = WorkloadUnits::read(files, namespace, &mut policies.rows);
    let objects: Vec<SourceNode<'_>> = files.iter().flat_map(ImportFile::objects).collect();
    let mut errors = Vec::new();
    let mut specs = SmiSpecs { namespace, ..SmiSpecs::default() };
    let mut targets = Vec::new();
    for object in &objects {
        let Some((kind, version)) = smi_kind(object) else { continue };
        let outcome = match kind {
            "TrafficTarget" => {
                targets.push((object, version));
                Ok(())
            }
            "HTTPRouteGroup" | "TCPRoute" | "IdentityBinding" => specs.read(kind, object),
            kind => {
                let note = "traffic of this kind passes no sidecar, or is no matter of access";
                policies.omit(object.place(), kind, note);
                Ok(())
            }
        };
        errors.extend(outcome.err());
    }
    if targets.is_empty() && errors.is_empty() {
        let allowed = "`kind: TrafficTarget` of access.smi-spec.io is imported";
        let message = format!("has no TrafficTarget: {allowed}");
        return Err(files.first().map(|file| file.error(&message)).into_iter().collect());
    }
    note_unread(files, |object| smi_kind(object).is_some(), &mut policies);
    for (object, version) in targets {
        errors.extend(target::read(object, version, &specs, &mut policies).err());
    }
    if errors.is_empty() { write_servers(policies, &workloads) } else { Err(errors) }
}

/// The kind and the version of an object of SMI.
fn smi_kind<'a>(object: &SourceNode<'a>) -> Option<(&'a str, &'a str)> {
    let (group, version) = object.get("apiVersion")?.text().ok()?.split_once('/')?;
    let kind = object.get("kind")?.text().ok()?;
    GROUPS.contains(&group).then_some((kind, version))
}
