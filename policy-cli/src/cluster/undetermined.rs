//! Determines what is unknown because something could not be listed.

use super::Scope;
use super::permissions::{ListPermissions, resource};
use policy_crds::spec::{GrantRule, ObjectReference, ReferenceTarget};
use policy_crds::{Body, Field, Kind, Object, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// References of an object into resources that could not be listed, as `RESOURCE of namespace
/// NAME`; empty if all of them could.
pub(crate) fn of_object(object: &Object, permissions: &ListPermissions) -> BTreeSet<String> {
    let own = &object.meta.key.namespace;
    let missing = references(object).into_iter().filter(|(kind, namespace)| {
        !permissions.can_list(*kind, namespace.as_ref().unwrap_or(own))
    });
    missing.map(|(kind, namespace)| words(kind, &namespace.unwrap_or(own.clone()))).collect()
}

/// Kinds that could not be listed in a namespace.
pub(crate) fn of_kinds(
    kinds: &[Kind],
    namespace: &str,
    permissions: &ListPermissions,
) -> Vec<String> {
    let missing = kinds.iter().filter(|kind| !permissions.can_list(**kind, namespace));
    missing.map(|kind| words(*kind, namespace)).collect()
}

/// Kinds that could not be listed in a scope.
pub(crate) fn in_scope(
    kinds: &[Kind],
    scope: &Scope,
    permissions: &ListPermissions,
) -> Vec<String> {
    match scope {
        Scope::Namespace(namespace) => of_kinds(kinds, namespace, permissions),
        Scope::All => {
            let missing = kinds.iter().filter(|kind| !permissions.can_list_everywhere(**kind));
            missing.map(|kind| resource(*kind)).collect()
        }
    }
}

/// Resources that affect the ports of a namespace and could not be listed.
pub(crate) fn of_ports(
    namespace: &Arc<str>,
    permissions: &ListPermissions,
    objects: &[Arc<Object>],
) -> Vec<String> {
    let of_ports: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.spec().of_ports).collect();
    let mut missing = of_kinds(&of_ports, namespace, permissions);
    if objects.iter().any(|object| admits_routes(object, namespace)) {
        let elsewhere = Kind::routes().filter(|kind| {
            permissions.can_list(*kind, namespace) && !permissions.can_list_everywhere(*kind)
        });
        missing.extend(elsewhere.map(|kind| format!("{} of other namespaces", resource(kind))));
    }
    missing
}

/// True if a ReferenceGrant lets routes of other namespaces refer to this one's Servers.
fn admits_routes(object: &Object, namespace: &Arc<str>) -> bool {
    let Body::Valid(Resource::ReferenceGrant(grant)) = &object.body else { return false };
    object.meta.key.namespace == *namespace
        && grant
            .from
            .iter()
            .any(|from| Kind::find(&from.group, &from.kind).is_some_and(Kind::is_route))
}

fn words(kind: Kind, namespace: &str) -> String {
    if kind.is_namespaced() {
        format!("{} of namespace {namespace}", resource(kind))
    } else {
        resource(kind)
    }
}

type Reference = (Kind, Option<Arc<str>>);

/// Kinds that an object refers to, each with its namespace unless it is the object's own, and the
/// ReferenceGrants that this needs. For a Server, also the routes that may refer to it.
fn references(object: &Object) -> Vec<Reference> {
    let own = &object.meta.key;
    let mut all = Vec::new();
    for ObjectReference { field, what } in object.references() {
        let (kind, namespace) = match what {
            ReferenceTarget::One(key) => (key.kind, key.namespace),
            ReferenceTarget::AnyOf(kind, namespace) => (kind, namespace),
            ReferenceTarget::Unread(to) => {
                all.push((Kind::ReferenceGrant, Some(to.namespace().into())));
                continue;
            }
        };
        if !kind.is_namespaced() {
            continue;
        }
        let rule = own.kind.reference(field, kind).map(|reference| reference.grant);
        let granted = rule.is_some_and(GrantRule::takes_grants);
        let foreign = namespace != own.namespace;
        all.push((kind, Some(namespace.clone())));
        all.extend((granted && foreign).then_some((Kind::ReferenceGrant, Some(namespace))));
    }
    let attaching =
        Kind::ALL.into_iter().filter(|k| k.reference(Field::Parent, own.kind).is_some());
    all.extend(attaching.map(|kind| (kind, None)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::permissions::ListScope;
    use serde_json::json;

    fn object(value: &serde_json::Value) -> Object {
        policy_crds::parse(value).unwrap()
    }

    fn refused(kind: Kind) -> ListPermissions {
        let mut permissions = ListPermissions::default();
        permissions
            .record(kind, ListScope::Namespace { namespace: "shop".into(), refusal: "no".into() });
        permissions
    }

    #[test]
    fn a_reference_into_a_namespace_that_may_not_be_listed_is_not_known() {
        let policy = object(&json!({
            "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {
                "targetRef": {"group": "policy.linkerd.io", "kind": "Server", "name": "web"},
                "requiredAuthenticationRefs": [{
                    "group": "policy.linkerd.io", "kind": "MeshTLSAuthentication",
                    "name": "m", "namespace": "bank"
                }]
            }
        }));
        let missing = |kind| of_object(&policy, &refused(kind)).into_iter().collect::<Vec<_>>();
        assert_eq!(missing(Kind::Server), Vec::<String>::new());
        assert_eq!(
            missing(Kind::MeshTlsAuthentication),
            ["meshtlsauthentications.policy.linkerd.io of namespace bank"]
        );
        assert_eq!(
            missing(Kind::ReferenceGrant),
            ["referencegrants.gateway.networking.k8s.io of namespace bank"]
        );
    }

    #[test]
    fn routes_of_other_namespaces_matter_only_where_they_are_admitted() {
        let permissions = refused(Kind::PolicyHttpRoute);
        let grant = Arc::new(object(&json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "shop"},
            "spec": {
                "from": [{"group": "policy.linkerd.io", "kind": "HTTPRoute", "namespace": "edge"}],
                "to": [{"group": "policy.linkerd.io", "kind": "Server"}]
            }
        })));
        let shop: Arc<str> = "shop".into();
        assert_eq!(of_ports(&shop, &permissions, &[]), Vec::<String>::new());
        assert_eq!(
            of_ports(&shop, &permissions, &[grant]),
            ["httproutes.policy.linkerd.io of other namespaces"]
        );
        let nothing = of_ports(&"bank".into(), &permissions, &[]);
        assert_eq!(nothing, ["httproutes.policy.linkerd.io of namespace bank"]);
    }
}
