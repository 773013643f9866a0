//! Output of `portcullis grants`.

use super::manifest::GrantManifest;
use crate::cluster::QuerySource;
use crate::cluster::permissions::ListFailure;
use crate::cluster::settings::Settings;
use policy_core::ObjectRef;
use policy_crds::resource::{GrantFrom, GrantTo};
use policy_crds::{Kind, ObjectKey};
use serde::Serialize;
use std::fmt;

/// Result of `portcullis grants`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantsReport {
    /// Source of the objects.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// Settings that references are followed with.
    pub(crate) settings: Settings,
    /// Kinds that could not be listed.
    #[serde(rename = "gaps")]
    pub(crate) list_failures: Vec<ListFailure>,
    /// The ReferenceGrants of the selected namespaces.
    pub(crate) grants: Vec<ReferenceGrantItem>,
    /// References from or into the selected namespaces that no ReferenceGrant permits.
    pub(crate) without_grant: Vec<ReferenceWithout>,
}

/// A ReferenceGrant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReferenceGrantItem {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// Rules that it breaks; if there are any, it permits nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<String>,
    /// Each entry of `from` with each of `to`.
    pub(crate) entries: Vec<ReferencePair>,
}

/// An entry of `from` and one of `to`, with the references that they permit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReferencePair {
    /// Objects that may refer.
    pub(crate) from: FromEntry,
    /// Objects that may be named.
    pub(crate) to: ToEntry,
    /// True if a reference uses it.
    pub(crate) usage: Usage,
    /// Reason why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The references.
    pub(crate) references: Vec<ReferenceUse>,
}

/// An entry of `from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FromEntry {
    /// API group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// Namespace.
    pub(crate) namespace: String,
}

/// An entry of `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToEntry {
    /// API group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// Name; absent: every object of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

/// The use of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Usage {
    /// There are references that it permits.
    Used,
    /// There are none.
    Unused,
    /// Those that are read here do not use it, and there may be others.
    NotKnown,
}

/// A reference that is permitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReferenceUse {
    /// The object that refers.
    pub(crate) object: NamedObject,
    /// Its field.
    pub(crate) field: &'static str,
    /// The object that it names.
    pub(crate) names: NamedObject,
    /// Reason why it leads nowhere nonetheless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// A reference that no ReferenceGrant permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReferenceWithout {
    /// The object that refers.
    pub(crate) object: NamedObject,
    /// Its field.
    pub(crate) field: &'static str,
    /// The object that it names.
    pub(crate) names: NamedObject,
    /// True if it is followed.
    pub(crate) followed: Followed,
    /// Reason why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The ReferenceGrant that would permit it; absent if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<GrantManifest>,
}

/// The fate of a reference without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Followed {
    /// It is followed, because the namespace is shared.
    Shared,
    /// It is followed, because grants are only warned about.
    Warned,
    /// It is not followed.
    Refused,
    /// There may be a grant, which could not be read.
    NotKnown,
}

/// An object by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NamedObject {
    /// API group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

impl fmt::Display for NamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace, name } = self;
        write!(f, "{} {namespace}/{name}", kind_name(group, kind))
    }
}

impl fmt::Display for FromEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", kind_name(&self.group, &self.kind), self.namespace)
    }
}

impl fmt::Display for ToEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = kind_name(&self.group, &self.kind);
        match &self.name {
            Some(name) => write!(f, "{kind} {name}"),
            None => write!(f, "every {kind}"),
        }
    }
}

/// A kind in messages: with its group where it is ambiguous or not read here.
fn kind_name(group: &str, kind: &str) -> String {
    match Kind::find(group, kind).filter(|known| known.as_str() == kind) {
        Some(known) => known.in_full(),
        None if group.is_empty() => kind.to_owned(),
        None => format!("{kind}.{group}"),
    }
}

impl From<&GrantFrom> for FromEntry {
    fn from(entry: &GrantFrom) -> Self {
        let GrantFrom { group, kind, namespace } = entry;
        Self { group: group.to_string(), kind: kind.to_string(), namespace: namespace.to_string() }
    }
}

impl From<&GrantTo> for ToEntry {
    fn from(entry: &GrantTo) -> Self {
        let GrantTo { group, kind, name } = entry;
        let name = name.as_ref().map(ToString::to_string);
        Self { group: group.to_string(), kind: kind.to_string(), name }
    }
}

impl From<&ObjectRef> for NamedObject {
    fn from(object: &ObjectRef) -> Self {
        Self {
            group: object.group().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
        }
    }
}

impl From<&ObjectKey> for NamedObject {
    fn from(key: &ObjectKey) -> Self {
        Self {
            group: key.kind.group().to_owned(),
            kind: key.kind.as_str().to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }
    }
}
