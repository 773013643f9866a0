//! What the user may not list, in words. An object that is not there is told as missing only where it
//! would have been seen.

use crate::cluster::undetermined;
use crate::inventory::Inventory;
use policy_core::{ObjectRef, UnresolvedGrant};
use policy_crds::{Kind, ObjectKey};

/// Kinds that grant something on a Server or on all of its namespace.
const ON_SERVER: [Kind; 2] = [Kind::AuthorizationPolicy, Kind::ServerAuthorization];

/// The reason why an object that was not read may exist; `None`: it would have been read.
pub(super) fn hidden(inventory: &Inventory, kind: Kind, namespace: &str) -> Option<String> {
    let missing = undetermined::of_kinds(&[kind], namespace, &inventory.permissions).pop()?;
    Some(format!("not visible to you: {missing} may not be listed"))
}

/// Resources that may grant something on a rule, and may not be listed.
pub(super) fn hidden_grants(
    inventory: &Inventory,
    holder: &ObjectKey,
    server: &ObjectKey,
) -> Vec<String> {
    let permissions = &inventory.permissions;
    let of = |kinds: &[Kind], namespace| undetermined::of_kinds(kinds, namespace, permissions);
    let mut missing = of(&[Kind::AuthorizationPolicy], &holder.namespace);
    for more in of(&ON_SERVER, &server.namespace) {
        if !missing.contains(&more) {
            missing.push(more);
        }
    }
    missing
}

/// The reason of a grant without effect, which is not known where what it refers to may not be listed.
pub(super) fn withheld_reason(inventory: &Inventory, withheld: &UnresolvedGrant) -> String {
    let object = key(&withheld.source).and_then(|key| inventory.object(&key));
    let missing = object
        .map(|object| undetermined::of_object(object, &inventory.permissions))
        .unwrap_or_default();
    if missing.is_empty() {
        return withheld.reason.to_string();
    }
    let missing: Vec<String> = missing.into_iter().collect();
    format!("not visible to you: {} may not be listed", missing.join(" and "))
}

fn key(object: &ObjectRef) -> Option<ObjectKey> {
    let kind = Kind::find(object.group(), object.kind())?;
    Some(ObjectKey { kind, namespace: object.namespace().into(), name: object.name().into() })
}
