//! The Service Mesh Interface: TrafficTarget (v1alpha1 to v1alpha4), HTTPRouteGroup, TCPRoute and
//! IdentityBinding (smi-spec.io, archived). `policy_crds` reads these objects and says what a target allows, as
//! it does for the controller.

mod export;
mod objects;
mod target;

pub use export::{AccountOfIdentity, ExportedAccount, export_smi};

use crate::file::{ImportFile, SourceNode};
use crate::manifest::Imported;
use crate::mesh::{MeshPolicies, WorkloadUnits, note_unread, write_servers};
use objects::SmiObjects;
use policy_crds::Kind;

/// The groups of its kinds.
const GROUPS: &[&str] = &["access.smi-spec.io", "specs.smi-spec.io"];

/// The policies of SMI in files that have the workloads, too. `namespace` is that of objects without one.
///
/// # Errors
/// There is no TrafficTarget, or an object has no name or namespace, or nobody can say whose pods it closes.
pub fn smi(files: &[ImportFile], namespace: Option<&str>) -> Result<Imported, Vec<String>> {
    let mut policies = MeshPolicies { denies_by_default: true, ..MeshPolicies::default() };
    let workloads = WorkloadUnits::read(files, namespace, &mut policies.rows);
    let objects: Vec<SourceNode<'_>> = files.iter().flat_map(ImportFile::objects).collect();
    let mut errors = Vec::new();
    let mut read = SmiObjects::default();
    for object in &objects {
        let Some((group, kind)) = smi_kind(object) else { continue };
        if Kind::find(group, kind).is_some() {
            errors.extend(read.add(object, namespace, &mut policies).err());
        } else {
            let note = "traffic of this kind passes no sidecar, or is no matter of access";
            policies.omit(object.place(), kind, note);
        }
    }
    if read.targets.is_empty() && errors.is_empty() {
        let allowed = "`kind: TrafficTarget` of access.smi-spec.io is imported";
        let message = format!("no TrafficTarget: {allowed}");
        return Err(vec![ImportFile::nothing_read(files, &message)]);
    }
    note_unread(files, |object| smi_kind(object).is_some(), &mut policies);
    for target in &read.targets {
        errors.extend(target::translate(target, &read, &mut policies).err());
    }
    if errors.is_empty() { write_servers(policies, &workloads) } else { Err(errors) }
}

/// The group and the kind of an object of SMI.
fn smi_kind<'a>(object: &SourceNode<'a>) -> Option<(&'a str, &'a str)> {
    let (group, _) = object.get("apiVersion")?.text().ok()?.split_once('/')?;
    let kind = object.get("kind")?.text().ok()?;
    GROUPS.contains(&group).then_some((group, kind))
}
