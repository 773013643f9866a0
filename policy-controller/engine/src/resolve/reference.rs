//! The one way from an object to another that it names.
//!
//! A field, the kinds that it may name and the rule across namespaces are a row of the table of kinds
//! (`policy_crds::spec::ReferenceField`); a further kind of reference is a further row. Each hop of a
//! chain is a reference of its own. Nothing else in this crate decides by a ReferenceGrant.

use crate::config::ReferenceGrants;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::delegation::Labelled;
use crate::query::reference::{
    ForeignReference, ForeignReferencesOf, GrantEntry, ReferencePermission,
};
use policy_core::ObjectRef;
use policy_crds::resource::{Delegate, GrantClaims, InboundAction, ReferenceGrant};
use policy_crds::spec::{GrantRule, ReferenceField, ReferenceTarget};
use policy_crds::{Body, Claims, Field, Invalid, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(ForeignReferencesOf, Arc<[ForeignReference]>, foreign_references);

/// The target of a reference.
pub(crate) struct FollowedReference<'a> {
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

/// Follows the reference from `from` to `to` in `field`.
///
/// # Errors
/// [`ReferenceError`]; for an object of another namespace always `NotPermitted`.
pub(crate) fn follow<'a>(
    cx: &mut Context<'a>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectKey,
) -> Result<FollowedReference<'a>, ReferenceError> {
    let Some(reference) = from.kind.reference(field, to.kind) else {
        return Err(ReferenceError::Unsupported);
    };
    let permission = permission(cx, from, reference, &Named::of(to));
    if permission == Permission::Refused {
        return Err(ReferenceError::NotPermitted);
    }
    // Outsiders learn nothing of what they name.
    let outside = permission != Permission::Own;
    let object = usable(cx, to);
    let object =
        object.map_err(|fault| if outside { ReferenceError::NotPermitted } else { fault })?;
    Ok(FollowedReference { object, warned: permission == Permission::Warned })
}

/// Follows a reference to an object of a kind that is not read, as far as that goes: to the
/// permission.
///
/// # Errors
/// [`ReferenceError::NotPermitted`], or `Unsupported` if the field names objects that are read.
pub(crate) fn follow_unread(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectRef,
) -> Result<(), ReferenceError> {
    let Some(reference) = unread(from.kind, field) else {
        return Err(ReferenceError::Unsupported);
    };
    match permission(cx, from, reference, &Named::unread(to, &to.namespace().into())) {
        Permission::Refused => Err(ReferenceError::NotPermitted),
        Permission::Own
        | Permission::Exempt
        | Permission::Shared
        | Permission::Granted
        | Permission::Warned => Ok(()),
    }
}

/// True if a reference may be followed, wherever it leads.
pub(crate) fn is_permitted(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectKey,
) -> bool {
    from.kind.reference(field, to.kind).is_some_and(|reference| {
        permission(cx, from, reference, &Named::of(to)) != Permission::Refused
    })
}

/// True if an invalid ReferenceGrant may have permitted a reference. Nothing is permitted by it: what the
/// object would have refused stays refused.
pub(crate) fn was_permitted(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectKey,
) -> bool {
    if from.namespace == to.namespace || from.kind.reference(field, to.kind).is_none() {
        return false;
    }
    let named = Named::of(to);
    let mut grants = cx.list(Kind::ReferenceGrant, &to.namespace);
    grants.any(|object| {
        claimed(object).is_some_and(|claims| {
            let mut from_it = claims.from.iter();
            from_it.any(|entry| entry.may_admit(from.kind, &from.namespace))
                && claims.may_offer(named.group, named.kind, named.name)
        })
    })
}

/// The parts that can be read of an invalid ReferenceGrant.
fn claimed(object: &Object) -> Option<&GrantClaims> {
    match &object.body {
        Body::Invalid(Invalid { claims: Claims::ReferenceGrant(claims), .. }) => Some(claims),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The objects that name `to` as their target, without those of other namespaces that may not.
pub(crate) fn referrers<'a>(cx: &mut Context<'a>, to: &ObjectKey) -> Vec<&'a ObjectKey> {
    let edge = if to.kind.is_route() { Edge::route(to) } else { Edge::Target(to.clone()) };
    let mut referring = cx.edge(edge);
    referring.retain(|from| {
        let fields = [Field::Target, Field::Server];
        fields.into_iter().any(|field| is_permitted(cx, from, field, to))
    });
    referring
}

/// The routes that name a Server as a parent: those of its namespace, and of namespaces with a grant,
/// valid or not.
/// Routes of other namespaces are not examined, however many there are. Each reference is nonetheless
/// [followed](follow) on its own.
pub(crate) fn routes_naming<'a>(cx: &mut Context<'a>, server: &ObjectKey) -> Vec<&'a ObjectKey> {
    let mut routes = cx.edge(Edge::Parent(server.clone(), server.namespace.clone()));
    for namespace in granted_namespaces(cx, server) {
        routes.extend(cx.edge(Edge::Parent(server.clone(), namespace.clone())));
    }
    routes
}

/// The routes of the same namespaces that may name a Server as a parent, because a parent cannot be
/// read. Those of other namespaces have a grant for that Server, valid or not.
pub(crate) fn routes_that_may_name<'a>(
    cx: &mut Context<'a>,
    server: &ObjectKey,
) -> Vec<&'a ObjectKey> {
    let mut routes = cx.edge(Edge::AnyParent(server.namespace.clone()));
    for namespace in granted_namespaces(cx, server) {
        let foreign = cx.edge(Edge::AnyParent(namespace.clone()));
        routes.extend(foreign.into_iter().filter(|route| {
            is_permitted(cx, route, Field::Parent, server)
                || was_permitted(cx, route, Field::Parent, server)
        }));
    }
    routes.retain(|route| match cx.object(route).map(|object| &object.body) {
        Some(Body::Invalid(Invalid { claims: Claims::Route(claims), .. })) => {
            claims.may_name(&server.namespace, &server.name)
        }
        Some(Body::Valid(_) | Body::Invalid(_)) | None => false,
    });
    routes
}

/// The other namespaces of which a ReferenceGrant beside an object, valid or not, permits something.
fn granted_namespaces<'a>(cx: &mut Context<'a>, to: &ObjectKey) -> BTreeSet<&'a Arc<str>> {
    let mut namespaces: BTreeSet<&Arc<str>> = BTreeSet::new();
    for object in cx.list(Kind::ReferenceGrant, &to.namespace) {
        let valid = content(object).into_iter().flat_map(|grant| &grant.from);
        namespaces.extend(valid.map(|from| &from.namespace));
        let claimed = claimed(object).into_iter().flat_map(|claims| &claims.from);
        namespaces.extend(claimed.map(|from| &from.namespace));
    }
    namespaces.retain(|name| **name != to.namespace);
    namespaces
}

/// The content of a valid ReferenceGrant.
pub(crate) fn content(object: &Object) -> Option<&ReferenceGrant> {
    match &object.body {
        Body::Valid(Resource::ReferenceGrant(grant)) => Some(grant),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The permission of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Permission {
    /// The object is in the namespace of the one that names it, or in none.
    Own,
    /// The field names clients: a grant to them, not one by them.
    Exempt,
    /// The namespace is shared.
    Shared,
    /// By a ReferenceGrant.
    Granted,
    /// Nothing permits it, and this is only warned about.
    Warned,
    /// Nothing permits it.
    Refused,
}

/// A ReferenceGrant with a position in `from` and one in `to`.
type PermittingEntry<'a> = (&'a ObjectKey, usize, usize);

/// A target by name.
struct Named<'n> {
    group: &'n str,
    kind: &'n str,
    /// `None` for an object without a namespace.
    namespace: Option<&'n Arc<str>>,
    name: &'n str,
}

impl<'n> Named<'n> {
    fn of(key: &'n ObjectKey) -> Self {
        let ObjectKey { kind, namespace, name } = key;
        let namespace = kind.is_namespaced().then_some(namespace);
        Self { group: kind.group(), kind: kind.as_str(), namespace, name }
    }

    fn unread(object: &'n ObjectRef, namespace: &'n Arc<str>) -> Self {
        let (group, kind, name) = (object.group(), object.kind(), object.name());
        Self { group, kind, namespace: Some(namespace), name }
    }
}

/// The permission of a reference, whether or not its target exists.
fn permission(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    reference: &ReferenceField,
    to: &Named<'_>,
) -> Permission {
    let Some(namespace) = to.namespace.filter(|namespace| **namespace != from.namespace) else {
        return Permission::Own;
    };
    let otherwise = match reference.grant {
        GrantRule::Local => return Permission::Refused,
        GrantRule::Exempt => return Permission::Exempt,
        GrantRule::Grant => Permission::Refused,
        GrantRule::GrantUnlessShared | GrantRule::GrantUnlessWarned
            if cx.config.shared_namespaces.contains(namespace) =>
        {
            return Permission::Shared;
        }
        GrantRule::GrantUnlessShared => Permission::Refused,
        GrantRule::GrantUnlessWarned => match cx.config.reference_grants {
            ReferenceGrants::Enforce => Permission::Refused,
            ReferenceGrants::Warn => Permission::Warned,
        },
    };
    let granted = permitting(cx, from, namespace, to).next().is_some();
    if granted { Permission::Granted } else { otherwise }
}

/// The entries of the target's namespace that permit a reference: any of `from` with any of `to` of
/// one ReferenceGrant (GEP-709). Grants add up, and none takes away.
fn permitting<'a>(
    cx: &mut Context<'a>,
    from: &ObjectKey,
    namespace: &Arc<str>,
    to: &Named<'_>,
) -> impl Iterator<Item = PermittingEntry<'a>> {
    let grants = cx.list(Kind::ReferenceGrant, namespace);
    grants.filter_map(|object| Some((&object.meta.key, content(object)?))).flat_map(
        move |(key, grant)| {
            let admitting = grant.from.iter().enumerate();
            let admitting = admitting.filter(|(_, entry)| entry.admits(from.kind, &from.namespace));
            admitting.flat_map(move |(i, _)| {
                let offering = grant.to.iter().enumerate();
                let offering =
                    offering.filter(|(_, entry)| entry.offers(to.group, to.kind, to.name));
                offering.map(move |(j, _)| (key, i, j))
            })
        },
    )
}

/// An object that can be used.
fn usable<'a>(cx: &mut Context<'a>, key: &ObjectKey) -> Result<&'a Arc<Object>, ReferenceError> {
    let object = cx.object(key).ok_or(ReferenceError::Missing)?;
    match object.body {
        Body::Valid(_) => Ok(object),
        Body::Invalid(_) => Err(ReferenceError::Invalid),
    }
}

/// The field of a kind that names objects that are not read.
fn unread(kind: Kind, field: Field) -> Option<&'static ReferenceField> {
    kind.spec().reference(&[field]).filter(|reference| reference.to.is_empty())
}

fn foreign_references(
    query: &ForeignReferencesOf,
    cx: &mut Context<'_>,
) -> Arc<[ForeignReference]> {
    let Some(object) = cx.object(&query.0) else { return Arc::from([]) };
    let mut found: Vec<ForeignReference> = Vec::new();
    for named in object.references() {
        let references = match named.what {
            ReferenceTarget::One(to) => {
                to_object(cx, &query.0, named.field, &to).into_iter().collect()
            }
            ReferenceTarget::Unread(to) => {
                to_unread(cx, &query.0, named.field, to).into_iter().collect()
            }
            ReferenceTarget::AnyOf(_, namespace) => to_selected(cx, object, &namespace),
        };
        for reference in references {
            // A route may name a Server more than once.
            if !found.contains(&reference) {
                found.push(reference);
            }
        }
    }
    found.into()
}

fn to_object(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    field: Field,
    to: &ObjectKey,
) -> Option<ForeignReference> {
    let reference = from.kind.reference(field, to.kind)?;
    let permission = recorded(cx, from, reference, &Named::of(to))?;
    let fault = usable(cx, to).err().map(ReferenceError::as_str);
    let (from, to) = (from.clone(), to.to_ref());
    Some(ForeignReference { from, field: reference.path, to, permission, fault })
}

/// The references of an InboundRoute to the objects of a namespace that it selects by label.
fn to_selected(cx: &mut Context<'_>, from: &Object, namespace: &Arc<str>) -> Vec<ForeignReference> {
    let Body::Valid(Resource::InboundRoute(route)) = &from.body else { return Vec::new() };
    let mut selected: BTreeSet<ObjectKey> = BTreeSet::new();
    for rule in &route.routes {
        if let InboundAction::Delegate(Delegate::Selected { namespace: of, labels }) = &rule.action
            && of == namespace
        {
            let (namespace, labels) = (of.clone(), labels.clone());
            selected.extend(cx.query(&Labelled { namespace, labels }).iter().cloned());
        }
    }
    let to = |key| to_object(cx, &from.meta.key, Field::Delegate, key);
    selected.iter().filter_map(to).collect()
}

fn to_unread(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    field: Field,
    to: ObjectRef,
) -> Option<ForeignReference> {
    let reference = unread(from.kind, field)?;
    let namespace = to.namespace().into();
    let permission = recorded(cx, from, reference, &Named::unread(&to, &namespace))?;
    let from = from.clone();
    Some(ForeignReference { from, field: reference.path, to, permission, fault: None })
}

/// The permission as it is reported; `None` if the reference does not cross namespaces.
fn recorded(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    reference: &ReferenceField,
    to: &Named<'_>,
) -> Option<ReferencePermission> {
    match permission(cx, from, reference, to) {
        Permission::Own | Permission::Exempt => None,
        Permission::Shared => Some(ReferencePermission::Shared),
        Permission::Granted => {
            let entries = permitting(cx, from, to.namespace?, to);
            let entries =
                entries.map(|(grant, from, to)| GrantEntry { grant: grant.clone(), from, to });
            Some(ReferencePermission::Granted(entries.collect()))
        }
        Permission::Warned => Some(ReferencePermission::Warned),
        Permission::Refused => Some(ReferencePermission::Refused),
    }
}
