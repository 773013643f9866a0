//! Rows of the table of kinds that others extend.

use crate::kind::{Kind, OWN_GROUP};
use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::resource::Resource;
use crate::spec::{
    Admission, Conditions, Field, GrantRule, KindSpec, Names, Projection, ReferenceField, Scope,
    StatusStyle, Watched,
};

/// Reads an object of a kind.
pub(super) type Read = fn(&Input<'_>) -> Draft;

pub(super) const fn names(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> Names {
    Names { group, kind, plural, short }
}

pub(super) const fn linkerd(
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> Names {
    names("policy.linkerd.io", kind, plural, short)
}

pub(super) const fn ours(
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> Names {
    names(OWN_GROUP, kind, plural, short)
}

pub(super) const fn gateway(
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> Names {
    names("gateway.networking.k8s.io", kind, plural, short)
}

/// A field that names objects of its own namespace.
pub(super) const fn reference(
    field: Field,
    path: &'static str,
    to: &'static [Kind],
) -> ReferenceField {
    ReferenceField { field, path, to, grant: GrantRule::Local }
}

/// A field that names clients.
pub(super) const fn client(path: &'static str, to: &'static [Kind]) -> ReferenceField {
    ReferenceField { grant: GrantRule::Exempt, ..reference(Field::Client, path, to) }
}

/// A kind that is parsed and not used.
pub(super) const fn unused(
    names: Names,
    versions: &'static [&'static str],
    read: Read,
) -> KindSpec {
    KindSpec {
        names,
        versions,
        scope: Scope::Namespaced,
        watched: Watched::Never,
        projection: Projection::Policy,
        references: &[],
        contributes: false,
        of_ports: false,
        only_grants: false,
        conditions: Conditions::None,
        status: None,
        admission: Admission::Foreign,
        annotations: &[],
        linkerd_metric: None,
        read,
        claims: |_| Claims::Nothing,
        references_of: |_| Vec::new(),
        clients: |_| Vec::new(),
        remarks: |_| Vec::new(),
        idle: |_, _| None,
        definition: None,
    }
}

/// A kind of policy: validated at admission, with conditions in its status.
pub(super) const fn policy(
    names: Names,
    versions: &'static [&'static str],
    read: Read,
) -> KindSpec {
    KindSpec {
        watched: Watched::Required,
        contributes: true,
        of_ports: true,
        conditions: Conditions::Always,
        status: Some(StatusStyle::Apply),
        admission: Admission::Policy,
        ..unused(names, versions, read)
    }
}

/// A kind of the core group.
pub(super) const fn core(
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    read: Read,
) -> KindSpec {
    KindSpec {
        watched: Watched::Required,
        projection: Projection::Metadata,
        ..unused(names("", kind, plural, short), &["v1"], read)
    }
}

/// The draft of a kind that claims nothing.
pub(super) fn unclaimed(resource: Option<Resource>) -> Draft {
    (resource, Claims::Nothing)
}
