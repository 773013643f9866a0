//! The one way from an object to another that it names.

use crate::config::ReferenceGrants;
use crate::incremental::Context;
use policy_crds::spec::GrantRule;
use policy_crds::{Body, Field, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The target of a reference.
pub(crate) struct ResolvedReference<'a> {
    /// The object named; valid.
    pub(crate) object: &'a Arc<Object>,
    /// It is followed although a grant is missing.
    pub(crate) warned: bool,
}

/// Error of a reference that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceError {
    /// There is no such object in the namespace.
    Missing,
    /// The object breaks a rule of its kind.
    Invalid,
    /// An object of another namespace is missing, invalid or not offered. The error does not say
    /// which, so that nothing is disclosed to other namespaces.
    NotPermitted,
    /// The field cannot name such an object.
    Unsupported,
}

impl ReferenceError {
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

/// Resolves the reference from `from` to `to` in `field`.
///
/// # Errors
/// [`ReferenceError`]; for an object of another namespace always `NotPermitted`.
pub(crate) fn resolve_reference<'a>(
    cx: &mut Context<'a>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectKey,
) -> Result<ResolvedReference<'a>, ReferenceError> {
    let Some(reference) = from.kind.reference(field, to.kind) else {
        return Err(ReferenceError::Unsupported);
    };
    let foreign = to.kind.is_namespaced() && from.namespace != to.namespace;
    let mut warned = false;
    if foreign {
        match reference.grant {
            GrantRule::Local => return Err(ReferenceError::NotPermitted),
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
    let fault = |local| if foreign { ReferenceError::NotPermitted } else { local };
    let object = cx.object(to).ok_or_else(|| fault(ReferenceError::Missing))?;
    match object.body {
        Body::Valid(_) => Ok(ResolvedReference { object, warned }),
        Body::Invalid(_) => Err(fault(ReferenceError::Invalid)),
    }
}

/// Checks that a ReferenceGrant permits a reference, whether or not its target exists.
pub(crate) fn permitted(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    to: &ObjectKey,
) -> Result<(), ReferenceError> {
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
    if offered { Ok(()) } else { Err(ReferenceError::NotPermitted) }
}

/// The other namespaces from which some object may name `to`, according to ReferenceGrants in its
/// namespace. Each reference is nonetheless [resolved](resolve_reference) on its own.
pub(crate) fn permitted_namespaces(cx: &mut Context<'_>, to: &ObjectKey) -> BTreeSet<Arc<str>> {
    let grants = cx.list(Kind::ReferenceGrant, &to.namespace);
    let valid = grants.filter_map(|object| match &object.body {
        Body::Valid(Resource::ReferenceGrant(grant)) => Some(grant),
        Body::Valid(_) | Body::Invalid(_) => None,
    });
    let namespaces = valid.flat_map(|grant| grant.from.iter().map(|from| from.namespace.clone()));
    namespaces.filter(|namespace| *namespace != to.namespace).collect()
}
