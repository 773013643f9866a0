//! What cannot be said because something could not be listed.

use super::Scope;
use super::gaps::{Gaps, resource};
use policy_crds::spec::{GrantRule, ObjectReference, ReferenceTarget};
use policy_crds::{Body, Field, Kind, Object, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an object refers to and could not be listed, as `RESOURCE of namespace NAME`; empty if all
/// of it could.
pub(crate) fn of_object(object: &Object, gaps: &Gaps) -> BTreeSet<String> {
    let own = &object.meta.key.namespace;
    let missing = references(object)
        .into_iter()
        .filter(|(kind, namespace)| !gaps.knows(*kind, namespace.as_ref().unwrap_or(own)));
    missing.map(|(kind, namespace)| words(kind, &namespace.unwrap_or(own.clone()))).collect()
}

/// Those of some kinds that could not be listed in a namespace.
pub(crate) fn of_kinds(kinds: &[Kind], namespace: &str, gaps: &Gaps) -> Vec<String> {
    let missing = kinds.iter().filter(|kind| !gaps.knows(**kind, namespace));
    missing.map(|kind| words(*kind, namespace)).collect()
}

/// Those of some kinds that could not be listed where a scope looks.
pub(crate) fn in_scope(kinds: &[Kind], scope: &Scope, gaps: &Gaps) -> Vec<String> {
    match scope {
        Scope::Namespace(namespace) => of_kinds(kinds, namespace, gaps),
        Scope::All => {
            let missing = kinds.iter().filter(|kind| !gaps.knows_everywhere(**kind));
            missing.map(|kind| resource(*kind)).collect()
        }
    }
}

/// What decides about the ports of a namespace and could not be listed.
pub(crate) fn of_ports(namespace: &Arc<str>, gaps: &Gaps, objects: &[Arc<Object>]) -> Vec<String> {
    let of_ports: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.spec().of_ports).collect();
    let mut told = of_kinds(&of_ports, namespace, gaps);
    if objects.iter().any(|object| admits_routes(object, namespace)) {
        let elsewhere = Kind::routes()
            .filter(|kind| gaps.knows(*kind, namespace) && !gaps.knows_everywhere(*kind));
        told.extend(elsewhere.map(|kind| format!("{} of other namespaces", resource(kind))));
    }
    told
}

/// Whether an object lets routes of other namespaces refer to this one's Servers.
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

/// What an object refers to, with the namespace where it is not its own, and the grant that it needs
/// there; of a Server, the routes that may refer to it.
fn references(object: &Object) -> Vec<Reference> {
    let own = &object.meta.key;
    let mut all = Vec::new();
    for ObjectReference { field, what } in object.references() {
        let (kind, namespace) = match what {
            ReferenceTarget::One(key) => (key.kind, key.namespace),
            ReferenceTarget::AnyOf(kind, namespace) => (kind, namespace),
        };
        if !kind.is_namespaced() {
            continue;
        }
        let rule = own.kind.reference(field, kind).map(|reference| reference.grant);
        let granted = matches!(rule, Some(GrantRule::Grant | GrantRule::GrantUnlessShared));
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
    use crate::cluster::gaps::Extent;
    use serde_json::json;

    fn object(value: &serde_json::Value) -> Object {
        policy_crds::parse(value).unwrap()
    }

    fn refused(kind: Kind) -> Gaps {
        let mut gaps = Gaps::default();
        gaps.note(kind, Extent::Only { namespace: "shop".into(), refusal: "no".into() });
        gaps
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
        let told = |kind| of_object(&policy, &refused(kind)).into_iter().collect::<Vec<_>>();
        assert_eq!(told(Kind::Server), Vec::<String>::new());
        assert_eq!(
            told(Kind::MeshTlsAuthentication),
            ["meshtlsauthentications.policy.linkerd.io of namespace bank"]
        );
        assert_eq!(
            told(Kind::ReferenceGrant),
            ["referencegrants.gateway.networking.k8s.io of namespace bank"]
        );
    }

    #[test]
    fn routes_of_other_namespaces_matter_only_where_they_are_admitted() {
        let gaps = refused(Kind::PolicyHttpRoute);
        let grant = Arc::new(object(&json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "shop"},
            "spec": {
                "from": [{"group": "policy.linkerd.io", "kind": "HTTPRoute", "namespace": "edge"}],
                "to": [{"group": "policy.linkerd.io", "kind": "Server"}]
            }
        })));
        let shop: Arc<str> = "shop".into();
        assert_eq!(of_ports(&shop, &gaps, &[]), Vec::<String>::new());
        assert_eq!(
            of_ports(&shop, &gaps, &[grant]),
            ["httproutes.policy.linkerd.io of other namespaces"]
        );
        let nothing = of_ports(&"bank".into(), &gaps, &[]);
        assert_eq!(nothing, ["httproutes.policy.linkerd.io of namespace bank"]);
    }
}
