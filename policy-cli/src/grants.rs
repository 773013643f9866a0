//! ReferenceGrants with the references that use them, and references that have none. What permits a
//! reference is the engine's answer.

mod delegations;
pub(crate) mod manifest;
mod report;
mod text;

pub(crate) use report::{
    GrantsReport, NamedObject, ReferenceGrantItem, ReferencePair, ReferenceUse, ReferenceWithout,
};

use crate::cluster::undetermined;
use crate::inventory::Inventory;
use delegations::Delegations;
use manifest::GrantManifests;
use policy_core::ObjectRef;
use policy_crds::resource::{GrantFrom, GrantTo};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use policy_engine::references::{ForeignReference, GrantEntry, ReferencePermission};
use report::{Followed, Usage};
use std::collections::BTreeMap;

/// Uses by the entries that permit them.
type UsesByEntry<'a> = BTreeMap<&'a GrantEntry, Vec<&'a ForeignReference>>;

/// Reports the ReferenceGrants of the inventory's namespaces, and the references from or into them
/// that have no grant.
pub(crate) fn report(inventory: &Inventory) -> GrantsReport {
    let references = inventory.compiled.foreign_references();
    let mut uses = UsesByEntry::new();
    for reference in &references {
        if let ReferencePermission::Granted(entries) = &reference.permission {
            for entry in entries {
                uses.entry(entry).or_default().push(reference);
            }
        }
    }
    let delegations = Delegations::of(inventory);
    let shown = |namespace: &str| inventory.scope.contains(namespace);
    let existing = || inventory.compiled.objects.iter().filter(|object| is_grant(object));
    let mut grants: Vec<ReferenceGrantItem> = existing()
        .filter(|object| shown(&object.meta.key.namespace))
        .map(|object| item(inventory, object, &uses, &delegations))
        .collect();
    grants.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut manifests = GrantManifests::new(existing().map(|object| object.meta.key.clone()));
    let about = |reference: &&ForeignReference| {
        shown(&reference.from.namespace) || shown(reference.to.namespace())
    };
    let mut without_grant: Vec<ReferenceWithout> = references
        .iter()
        .filter(about)
        .filter_map(|reference| without(inventory, reference, &mut manifests))
        .collect();
    without_grant.sort_by(|a, b| (&a.object, &a.names).cmp(&(&b.object, &b.names)));
    GrantsReport {
        source: inventory.source.clone(),
        settings: inventory.settings.clone(),
        list_failures: inventory.list_failures(),
        grants,
        without_grant,
    }
}

fn is_grant(object: &Object) -> bool {
    object.meta.key.kind == Kind::ReferenceGrant
}

fn item(
    inventory: &Inventory,
    object: &Object,
    uses: &UsesByEntry<'_>,
    delegations: &Delegations,
) -> ReferenceGrantItem {
    let ObjectKey { namespace, name, .. } = &object.meta.key;
    let (errors, entries) = match &object.body {
        Body::Invalid(invalid) => {
            (invalid.errors.iter().map(ToString::to_string).collect(), Vec::new())
        }
        Body::Valid(Resource::ReferenceGrant(grant)) => {
            let mut pairs = Vec::new();
            for (i, from) in grant.from.iter().enumerate() {
                for (j, to) in grant.to.iter().enumerate() {
                    let entry = GrantEntry { grant: object.meta.key.clone(), from: i, to: j };
                    let users = uses.get(&entry).map(Vec::as_slice).unwrap_or_default();
                    pairs.push(pair(inventory, (from, to), users, delegations));
                }
            }
            (Vec::new(), pairs)
        }
        Body::Valid(_) => (Vec::new(), Vec::new()),
    };
    ReferenceGrantItem { namespace: namespace.to_string(), name: name.to_string(), errors, entries }
}

fn pair(
    inventory: &Inventory,
    (from, to): (&GrantFrom, &GrantTo),
    users: &[&ForeignReference],
    delegations: &Delegations,
) -> ReferencePair {
    let used = |reference: &&ForeignReference| reference_use(inventory, reference, delegations);
    let (usage, reason) = match users {
        [] => match hidden_users(inventory, from, to) {
            Some(reason) => (Usage::NotKnown, Some(reason)),
            None => (Usage::Unused, None),
        },
        _ => (Usage::Used, None),
    };
    ReferencePair {
        from: from.into(),
        to: to.into(),
        usage,
        reason,
        references: users.iter().map(used).collect(),
    }
}

/// Reason why an entry without a known use may have one.
fn hidden_users(inventory: &Inventory, from: &GrantFrom, to: &GrantTo) -> Option<String> {
    let fields = from.fields(to);
    let Some(kind) = from.known_kind().filter(|_| !fields.is_empty()) else {
        return Some("no reference of this form is read here".to_owned());
    };
    if fields.iter().any(|field| field.to.is_empty()) {
        return Some("other controllers may follow such references".to_owned());
    }
    let missing = undetermined::of_kinds(&[kind], &from.namespace, &inventory.permissions).pop()?;
    Some(format!("{missing} may not be listed"))
}

fn reference_use(
    inventory: &Inventory,
    reference: &ForeignReference,
    delegations: &Delegations,
) -> ReferenceUse {
    let ForeignReference { from, field, to, permission: _, fault } = reference;
    let problem = fault.map(|fault| match target_not_listed(inventory, to) {
        Some(missing) => format!("is not known, because {missing} may not be listed"),
        None => fault.to_owned(),
    });
    let problem = problem.or_else(|| delegations.problem(reference));
    ReferenceUse { object: from.into(), field, names: to.into(), problem }
}

/// The kind of a target in its namespace, if it could not be listed.
fn target_not_listed(inventory: &Inventory, to: &ObjectRef) -> Option<String> {
    let kind = Kind::find(to.group(), to.kind())?;
    undetermined::of_kinds(&[kind], to.namespace(), &inventory.permissions).pop()
}

/// A reference without a grant; `None` if it has one.
fn without(
    inventory: &Inventory,
    reference: &ForeignReference,
    manifests: &mut GrantManifests,
) -> Option<ReferenceWithout> {
    let ForeignReference { from, field, to, permission, fault: _ } = reference;
    let kinds = [Kind::ReferenceGrant];
    let missing = undetermined::of_kinds(&kinds, to.namespace(), &inventory.permissions).pop();
    let (followed, reason) = match (permission, missing) {
        (ReferencePermission::Granted(_), _) => return None,
        (ReferencePermission::Shared, _) => (Followed::Shared, None),
        (_, Some(missing)) => (Followed::NotKnown, Some(format!("{missing} may not be listed"))),
        (ReferencePermission::Warned, None) => (Followed::Warned, None),
        (ReferencePermission::Refused, None) => (Followed::Refused, None),
    };
    let grant = (followed != Followed::Shared).then(|| manifests.permitting(from, to));
    let (object, names) = (from.into(), to.into());
    Some(ReferenceWithout { object, field, names, followed, reason, grant })
}
