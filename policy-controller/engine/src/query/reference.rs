//! References into other namespaces, and what permits them.

use policy_core::ObjectRef;
use policy_crds::ObjectKey;

/// The references of an object into other namespaces, apart from clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ForeignReferencesOf(pub(crate) ObjectKey);

/// A reference of an object into another namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignReference {
    /// The object that refers.
    pub from: ObjectKey,
    /// The path of the field, for example `spec.parentRefs`.
    pub field: &'static str,
    /// The object that it names.
    pub to: ObjectRef,
    /// The permission.
    pub permission: ReferencePermission,
    /// The reason why it leads nowhere although it is permitted, in words; absent if the object can
    /// be used, or is of a kind that is not read.
    pub fault: Option<&'static str>,
}

/// The permission of a reference into another namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferencePermission {
    /// ReferenceGrants permit it, by each of these entries. Never empty.
    Granted(Vec<GrantEntry>),
    /// The namespace is shared.
    Shared,
    /// Nothing permits it, and it is followed because grants are only warned about.
    Warned,
    /// Nothing permits it, and it is not followed.
    Refused,
}

/// An entry of `from` and one of `to` of a ReferenceGrant, which together permit references.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantEntry {
    /// The ReferenceGrant.
    pub grant: ObjectKey,
    /// Position in `spec.from`.
    pub from: usize,
    /// Position in `spec.to`.
    pub to: usize,
}
