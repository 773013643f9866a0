//! The one way from an object to another that it names.

use crate::config::ReferenceGrants;
use crate::incremental::Context;
use policy_crds::spec::GrantRule;
use policy_crds::{Body, Field, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a reference leads.
pub(crate) struct Followed<'a> {
    /// The object named; valid.
    pub(crate) object: &'a Arc<Object>,
    /// It is followed although a grant is missing.
    pub(crate) warned: bool,
}

/// Why a reference is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such object in the namespace.
    Missing,
    /// The object breaks a rule of its kind.
    Invalid,
    /// Another namespace's object is missing, invalid or not offered: outsiders are not told which.
    NotPermitted,
    /// The field cannot name such an object.
    Unsupported,
}

impl Fault {
    /// In words, as part of a sentence that names the object.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "does not exist",
            Self::Invalid => "is invalid",
            Self::NotPermitted => {
                "cannot be used from this namespace: no ReferenceGrant there permits it"
            }
            Self::Unsupported => "cannot be named here",
        }
    }
}

/// Follows the reference that `from` holds in `field` to `to`.
///
/// # Errors
/// [`Fault`]; for an object of another namespace always `NotPermitted`.
pub(crate) fn follow<'a>(
    cx: &mut Context<'a>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectKey,
) -> Result<Followed<'a>, Fault> {
    let Some(reference) = from.kind.reference(field, to.kind) else {
        return Err(Fault::Unsupported);
    };
    let foreign = to.kind.is_namespaced() && from.namespace != to.namespace;
    let mut warned = false;
    if foreign {
        match reference.grant {
            GrantRule::Local => return Err(Fault::NotPermitted),
            GrantRule::Exempt => {}
            GrantRule::Grant => permitted(cx, from, to)?,
            GrantRule::GrantUnlessShared => {
                if !cx.config.shared_namespaces.contains(&to.namespace) {
                    warned = match (permitted(cx, from, to), cx.config.reference_grants) {
                        (Ok(()), _) => false,
                        (Err(fault), ReferenceGrants::Enforce) => return Err(fault),
                        (Err(_), ReferenceGrants::Warn) => true,
                    };
                }
            }
        }
    }
    let fault = |local| if foreign { Fault::NotPermitted } else { local };
    let object = cx.object(to).ok_or_else(|| fault(Fault::Missing))?;
    match object.body {
        Body::Valid(_) => Ok(Followed { object, warned }),
        Body::Invalid(_) => Err(fault(Fault::Invalid)),
    }
}

/// Whether a ReferenceGrant permits a reference, whatever is at its end.
pub(crate) fn permitted(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    to: &ObjectKey,
) -> Result<(), Fault> {
    if from.namespace == to.namespace {
        return Ok(());
    }
    let offered = cx.list(Kind::ReferenceGrant, &to.namespace).any(|object| {
        let Body::Valid(Resource::ReferenceGrant(grant)) = &object.body else { return false };
        let from_matches = grant.from.iter().any(|entry| {
            entry.group.eq_ignore_ascii_case(from.kind.group())
                && *entry.kind == *from.kind.as_str()
                && entry.namespace == from.namespace
        });
        let to_matches = grant.to.iter().any(|entry| {
            entry.group.eq_ignore_ascii_case(to.kind.group())
                && *entry.kind == *to.kind.as_str()
                && entry.name.as_ref().is_none_or(|name| *name == to.name)
        });
        from_matches && to_matches
    });
    if offered { Ok(()) } else { Err(Fault::NotPermitted) }
}

/// The other namespaces from which some object may name `to`, by the ReferenceGrants beside it. Each
/// reference is [followed](follow) on its own nonetheless.
pub(crate) fn permitted_namespaces(cx: &mut Context<'_>, to: &ObjectKey) -> BTreeSet<Arc<str>> {
    let grants = cx.list(Kind::ReferenceGrant, &to.namespace);
    let valid = grants.filter_map(|object| match &object.body {
        Body::Valid(Resource::ReferenceGrant(grant)) => Some(grant),
        Body::Valid(_) | Body::Invalid(_) => None,
    });
    let namespaces = valid.flat_map(|grant| grant.from.iter().map(|from| from.namespace.clone()));
    namespaces.filter(|namespace| *namespace != to.namespace).collect()
}
