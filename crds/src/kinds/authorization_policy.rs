//! AuthorizationPolicy (docs/spec/controller.md 1.3, 2.5, 4).

use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Invalid, Object};
use crate::parse::input::{Draft, Input};
use crate::parse::target::{Reference, Target};
use crate::reader::{AllowedFields, JsonNode, quote};
use crate::render::definition::{Definition, Version};
use crate::render::profile::Profile;
use crate::render::schema::{any_namespace, list, local_reference, object, reference};
use crate::resource::{
    AuthorizationPolicy, IdentityRequirement, NetworkRequirement, PolicyTarget, Resource,
};
use crate::spec::{ClientReference, Field, ObjectReference, ReferenceTarget};
use policy_core::NetworkSymbol;

const TARGETS: &[Target] = &[
    Target::Kind(Kind::Server),
    Target::Kind(Kind::Namespace),
    Target::Kind(Kind::PolicyHttpRoute),
    Target::Kind(Kind::GatewayHttpRoute),
    Target::Kind(Kind::GrpcRoute),
    Target::Kind(Kind::InboundRoute),
    Target::Kind(Kind::HttpRouteBinding),
    Target::Kind(Kind::HttpRouteClass),
    Target::Kind(Kind::GrpcServiceBinding),
    Target::Kind(Kind::GrpcServiceClass),
];

const AUTHENTICATIONS: &[Target] = &[
    Target::Kind(Kind::MeshTlsAuthentication),
    Target::Kind(Kind::NetworkAuthentication),
    Target::Kind(Kind::ServiceAccount),
    Target::NetworkSet,
];

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Only(&["targetRef", "requiredAuthenticationRefs"]))
    else {
        return (None, Claims::AuthorizationPolicy { target: None });
    };
    let target =
        spec.require("targetRef").and_then(|node| target(&node, &input.meta.key.namespace));
    let refs = spec.require("requiredAuthenticationRefs").and_then(|node| authentications(&node));
    let claims = Claims::AuthorizationPolicy { target: target.clone() };
    let policy = target.zip(refs).map(|(target, (identity, network))| {
        Resource::AuthorizationPolicy(AuthorizationPolicy { target, identity, network })
    });
    (policy, claims)
}

pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::AuthorizationPolicy(policy)) = resource else {
        return Claims::AuthorizationPolicy { target: None };
    };
    Claims::AuthorizationPolicy { target: Some(policy.target.clone()) }
}

/// Its target, valid or not, and the authentications that it requires.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let key = &object.meta.key;
    let one = |field, key| ObjectReference { field, what: ReferenceTarget::One(key) };
    let mut named = Vec::new();
    let target = match &object.body {
        Body::Valid(Resource::AuthorizationPolicy(policy)) => {
            if let Some(IdentityRequirement::MeshTls(name)) = &policy.identity {
                let key = key.elsewhere(Kind::MeshTlsAuthentication, name);
                named.push(one(Field::Authentication, key));
            }
            if let Some(NetworkRequirement::Authentication(name)) = &policy.network {
                let key = key.elsewhere(Kind::NetworkAuthentication, name);
                named.push(one(Field::Authentication, key));
            }
            Some(&policy.target)
        }
        Body::Invalid(Invalid { claims: Claims::AuthorizationPolicy { target }, .. }) => {
            target.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    };
    named.extend(target.map(|target| one(Field::Target, target.key(key))));
    named
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::AuthorizationPolicy(policy) = resource else { return Vec::new() };
    if policy.identity.is_some() || policy.network.is_some() {
        return Vec::new();
    }
    let message = "is empty: asks for nothing, every client is admitted";
    vec![FieldError::new("spec.requiredAuthenticationRefs", message)]
}

pub(super) fn clients(resource: &Resource) -> Vec<ClientReference> {
    let Resource::AuthorizationPolicy(policy) = resource else { return Vec::new() };
    match &policy.identity {
        Some(IdentityRequirement::ServiceAccount(name)) => {
            vec![ClientReference::account("spec.requiredAuthenticationRefs", name)]
        }
        Some(IdentityRequirement::MeshTls(_)) | None => Vec::new(),
    }
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::AuthorizationPolicy(policy) = resource else { return None };
    Some(match &policy.target {
        PolicyTarget::Namespace => FieldError::new(
            "spec.targetRef",
            format!(
                "grants nothing: no Server of namespace `{namespace}` owns a port of any \
                 workload, and it does not apply to default policies"
            ),
        ),
        PolicyTarget::Server(name) => FieldError::new(
            "spec.targetRef.name",
            format!("grants nothing: Server {namespace}/{name} owns no port of any workload"),
        ),
        PolicyTarget::Route { kind, name } => FieldError::new(
            "spec.targetRef.name",
            format!(
                "grants nothing: {} {namespace}/{name} is on no port of any workload",
                kind.in_full()
            ),
        ),
    })
}

fn target(node: &JsonNode<'_>, own_namespace: &str) -> Option<PolicyTarget> {
    let reference = Reference::read(node, &["group", "kind", "name"], TARGETS)?;
    let name = reference.name();
    match reference.target {
        Target::Kind(Kind::Server) => name.map(PolicyTarget::Server),
        Target::Kind(Kind::Namespace) => own(&reference, &name?, own_namespace),
        Target::Kind(kind) => Some(PolicyTarget::Route { kind, name: name? }),
        Target::NetworkSet => None,
    }
}

fn own(reference: &Reference<'_>, name: &str, own_namespace: &str) -> Option<PolicyTarget> {
    if name == own_namespace {
        return Some(PolicyTarget::Namespace);
    }
    reference.fields.error_at(
        "name",
        format!(
            "{} is another namespace, only the policy's own, `{own_namespace}`, can be targeted",
            quote(name)
        ),
    );
    None
}

type Required = (Option<IdentityRequirement>, Option<NetworkRequirement>);

/// Reads the list: all must hold, at most one of each half. An empty list requires nothing.
fn authentications(node: &JsonNode<'_>) -> Option<Required> {
    let (mut identity, mut network): Required = (None, None);
    node.clean(|node| {
        for item in node.list()? {
            match authentication(&item) {
                Some(Half::Identity(new)) => keep_one(&mut identity, new, &item, IDENTITIES),
                Some(Half::Network(new)) => keep_one(&mut network, new, &item, NETWORKS),
                None => {}
            }
        }
        Some(())
    })?;
    Some((identity, network))
}

const IDENTITIES: &str = "at most one MeshTLSAuthentication or ServiceAccount is allowed, list \
                          several clients in one MeshTLSAuthentication";
const NETWORKS: &str = "at most one NetworkAuthentication or NetworkSet is allowed, list several \
                        networks in one NetworkAuthentication";

fn keep_one<T>(slot: &mut Option<T>, new: T, item: &JsonNode<'_>, message: &str) {
    if slot.is_some() {
        item.error(message);
    } else {
        *slot = Some(new);
    }
}

enum Half {
    Identity(IdentityRequirement),
    Network(NetworkRequirement),
}

fn authentication(node: &JsonNode<'_>) -> Option<Half> {
    let names = &["group", "kind", "name", "namespace"];
    let reference = Reference::read(node, names, AUTHENTICATIONS)?;
    match reference.target {
        Target::NetworkSet => network_set(&reference),
        Target::Kind(Kind::MeshTlsAuthentication) => {
            reference.namespaced().map(IdentityRequirement::MeshTls).map(Half::Identity)
        }
        Target::Kind(Kind::ServiceAccount) => {
            reference.namespaced().map(IdentityRequirement::ServiceAccount).map(Half::Identity)
        }
        Target::Kind(_) => {
            reference.namespaced().map(NetworkRequirement::Authentication).map(Half::Network)
        }
    }
}

fn network_set(reference: &Reference<'_>) -> Option<Half> {
    if let Some(namespace) = reference.fields.get("namespace") {
        namespace.error("must be absent: a NetworkSet is built in and has no namespace");
    }
    let set = reference
        .fields
        .require("name")?
        .choice(&[("node-local", NetworkSymbol::NodeLocal), ("cluster", NetworkSymbol::Cluster)])?;
    Some(Half::Network(NetworkRequirement::Set(set)))
}

pub(super) fn definition(_: Profile) -> Definition {
    let authentication = reference(
        "A MeshTLSAuthentication, a NetworkAuthentication, a ServiceAccount or a NetworkSet.",
        any_namespace(),
        &["kind", "name"],
    );
    let spec = object(
        "Clients that may access a target.",
        &[
            (
                "targetRef",
                local_reference(
                    "A Server, a route, routes bound to a Server, or the namespace itself.",
                ),
            ),
            (
                "requiredAuthenticationRefs",
                list(
                    "Requirements on clients, all of which must hold; empty: none.",
                    authentication,
                ),
            ),
        ],
        &["targetRef", "requiredAuthenticationRefs"],
    );
    Definition {
        kind: Kind::AuthorizationPolicy,
        short_names: Kind::AuthorizationPolicy.spec().names.short,
        categories: &[],
        versions: Version::only(spec),
    }
}
