//! What cannot be said because something could not be listed.

use super::Scope;
use super::gaps::{Gaps, resource};
use policy_crds::resource::{
    IdentityRequirement, NamespacedName, NetworkRequirement, ParentRef, PolicyTarget,
};
use policy_crds::{Body, Claims, Kind, Object, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The kinds that decide what holds on a port of a namespace.
const OF_PORTS: [Kind; 9] = [
    Kind::Server,
    Kind::ServerAuthorization,
    Kind::AuthorizationPolicy,
    Kind::HttpLocalRateLimitPolicy,
    Kind::PolicyHttpRoute,
    Kind::GatewayHttpRoute,
    Kind::GrpcRoute,
    Kind::ReferenceGrant,
    Kind::Namespace,
];

/// The kinds whose objects a Server may be bound by from elsewhere.
pub(crate) const ROUTES: [Kind; 3] =
    [Kind::PolicyHttpRoute, Kind::GatewayHttpRoute, Kind::GrpcRoute];

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
    let mut told = of_kinds(&OF_PORTS, namespace, gaps);
    if objects.iter().any(|object| admits_routes(object, namespace)) {
        let elsewhere = ROUTES
            .into_iter()
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
            .any(|from| ROUTES.iter().any(|k| Kind::find(&from.group, &from.kind) == Some(*k)))
}

fn words(kind: Kind, namespace: &str) -> String {
    if kind.is_namespaced() {
        format!("{} of namespace {namespace}", resource(kind))
    } else {
        resource(kind)
    }
}

type Reference = (Kind, Option<Arc<str>>);

/// What an object refers to, with the namespace where it is not its own.
fn references(object: &Object) -> Vec<Reference> {
    match &object.body {
        Body::Valid(resource) => of_resource(resource, &object.meta.key.namespace),
        Body::Invalid(invalid) => match &invalid.claims {
            Claims::Route { parents, .. } => of_parents(parents, &object.meta.key.namespace),
            Claims::Nothing
            | Claims::Server { .. }
            | Claims::AuthorizationPolicy { .. }
            | Claims::ServerAuthorization { .. }
            | Claims::RateLimit { .. } => Vec::new(),
        },
    }
}

fn of_resource(resource: &Resource, own: &Arc<str>) -> Vec<Reference> {
    match resource {
        Resource::AuthorizationPolicy(policy) => {
            let mut all = vec![match &policy.target {
                PolicyTarget::Server(_) => (Kind::Server, None),
                PolicyTarget::Namespace => (Kind::AuthorizationPolicy, None),
                PolicyTarget::Route { kind, .. } => (*kind, None),
            }];
            if let Some(IdentityRequirement::MeshTls(name)) = &policy.identity {
                all.extend(of_authentication(Kind::MeshTlsAuthentication, name, own));
            }
            if let Some(NetworkRequirement::Authentication(name)) = &policy.network {
                all.extend(of_authentication(Kind::NetworkAuthentication, name, own));
            }
            all
        }
        Resource::ServerAuthorization(_) | Resource::RateLimit(_) => vec![(Kind::Server, None)],
        Resource::Route(route) => of_parents(&route.parents, own),
        Resource::Server(_) => ROUTES.into_iter().map(|kind| (kind, None)).collect(),
        Resource::MeshTlsAuthentication(_)
        | Resource::NetworkAuthentication(_)
        | Resource::EgressNetwork
        | Resource::ReferenceGrant(_)
        | Resource::ExternalWorkload(_)
        | Resource::Pod(_)
        | Resource::Workload(_)
        | Resource::Namespace
        | Resource::Node(_)
        | Resource::ServiceAccount => Vec::new(),
    }
}

/// An authentication, and elsewhere the grant that it needs.
fn of_authentication(kind: Kind, name: &NamespacedName, own: &Arc<str>) -> Vec<Reference> {
    let namespace = name.namespace.clone();
    let foreign = namespace.as_ref().is_some_and(|namespace| namespace != own);
    let grant = foreign.then(|| (Kind::ReferenceGrant, namespace.clone()));
    [(kind, namespace)].into_iter().chain(grant).collect()
}

fn of_parents(parents: &[ParentRef], own: &Arc<str>) -> Vec<Reference> {
    let servers = parents.iter().filter(|parent| parent.is_server());
    let of = |parent: &ParentRef| {
        let namespace = parent.namespace.clone();
        let foreign = namespace.as_ref().is_some_and(|namespace| namespace != own);
        let grant = foreign.then(|| (Kind::ReferenceGrant, namespace.clone()));
        [(Kind::Server, namespace)].into_iter().chain(grant)
    };
    servers.flat_map(of).collect()
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
