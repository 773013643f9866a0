//! The effect of delegations that a grant permits. The trees are the engine's answers.

use crate::inventory::Inventory;
use policy_core::ObjectRef;
use policy_crds::{Body, Field, Kind, ObjectKey, Resource};
use policy_engine::conditions::Reason;
use policy_engine::references::ForeignReference;
use policy_engine::trees::{EdgeFault, NodeEffect};
use std::collections::{BTreeMap, BTreeSet};

/// Delegations between objects, as the trees of all roots have them.
pub(super) struct Delegations {
    effective: BTreeSet<(ObjectKey, ObjectRef)>,
    refused: BTreeMap<(ObjectKey, ObjectRef), String>,
    /// True if every root was read.
    complete: bool,
}

impl Delegations {
    /// Walks the trees of all roots.
    pub(super) fn of(inventory: &Inventory) -> Self {
        let mut found = Self {
            effective: BTreeSet::new(),
            refused: BTreeMap::new(),
            complete: inventory.permissions.can_list_everywhere(Kind::InboundRoute),
        };
        for object in &inventory.compiled.objects {
            let Body::Valid(Resource::InboundRoute(route)) = &object.body else { continue };
            if route.virtual_host.is_some() {
                found.add(inventory, &object.meta.key);
            }
        }
        found
    }

    fn add(&mut self, inventory: &Inventory, root: &ObjectKey) {
        for node in &inventory.compiled.tree_of(root).nodes {
            let Some(parent) = node.object() else { continue };
            let (children, faults) = match &node.effect {
                NodeEffect::Delegates { children, refused } => (children.as_slice(), refused),
                NodeEffect::Denied(faults) => (&[] as &[ObjectKey], faults),
                NodeEffect::Serves { .. }
                | NodeEffect::Route { .. }
                | NodeEffect::Shadowed
                | NodeEffect::Inactive => continue,
            };
            let edge = |child: &ObjectKey| (parent.clone(), child.to_ref());
            self.effective.extend(children.iter().map(edge));
            for fault in faults {
                if let Some(child) = &fault.child {
                    self.refused.insert(edge(child), words(fault));
                }
            }
        }
    }

    /// The reason why a delegation that is permitted has no effect in any tree; `None` if it has one,
    /// or if the reference is no delegation.
    pub(super) fn problem(&self, reference: &ForeignReference) -> Option<String> {
        let ForeignReference { from, field, to, .. } = reference;
        let kind = Kind::find(to.group(), to.kind())?;
        let delegates = from.kind.reference(Field::Delegate, kind).map(|known| known.path);
        if delegates != Some(*field) {
            return None;
        }
        let edge = (from.clone(), to.clone());
        if self.effective.contains(&edge) {
            return None;
        }
        let unreached = || format!("takes no effect: no tree of a root has the rule of {from}");
        match self.refused.get(&edge) {
            Some(reason) => Some(reason.clone()),
            None => self.complete.then(unreached),
        }
    }
}

/// The refusal of an object that a grant offers.
fn words(fault: &EdgeFault) -> String {
    // The grant is there, and the object is read and valid.
    if matches!(fault.reason, Reason::RefNotPermitted | Reason::NotPermitted) {
        return "does not consent".to_owned();
    }
    format!("takes no effect: {}", fault.message)
}
