//! Parts of HttpRouteBinding and GrpcServiceBinding: the Server that routes are bound to, and the
//! objects that describe the routes.

use super::target;
use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Invalid, Object, ObjectKey};
use crate::parse::input::Input;
use crate::parse::target::namespaced;
use crate::reader::{AllowedFields, Fields, JsonNode, quote};
use crate::render::schema::{any_namespace, at_most, list_of, object, text_up_to};
use crate::resource::{BindingClaims, Resource};
use crate::spec::{Field, ObjectReference, ReferenceTarget};
use serde_json::Value;
use std::sync::Arc;

/// The most objects that a binding names.
const MAX_REFERENCES: usize = 16;

/// The Server, which stays bound to routes if the binding is invalid otherwise.
pub(super) fn server(spec: &Fields<'_>) -> Option<Arc<str>> {
    spec.require("targetRef").and_then(|node| target::only(&node, Kind::Server))
}

/// The claims of a valid binding, or without one, of an object that cannot be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let valid = BindingClaims { unread: false, any_host: false, ..BindingClaims::of_nothing() };
    Claims::Binding(Box::new(match resource {
        Some(Resource::HttpRouteBinding(own)) => BindingClaims {
            server: Some(own.server.clone()),
            named: own.groups.clone(),
            hostnames: own.hostnames.clone(),
            ..valid
        },
        Some(Resource::GrpcServiceBinding(own)) => {
            BindingClaims { server: Some(own.server.clone()), named: own.services.clone(), ..valid }
        }
        Some(_) | None => BindingClaims::of_nothing(),
    }))
}

fn named_server(resource: &Resource) -> Option<&Arc<str>> {
    if let Resource::HttpRouteBinding(binding) = resource {
        Some(&binding.server)
    } else if let Resource::GrpcServiceBinding(binding) = resource {
        Some(&binding.server)
    } else {
        None
    }
}

/// The Server of a binding and the objects that it names, valid or not.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let (server, named) = match &object.body {
        Body::Valid(Resource::HttpRouteBinding(own)) => (Some(&own.server), &own.groups[..]),
        Body::Valid(Resource::GrpcServiceBinding(own)) => (Some(&own.server), &own.services[..]),
        Body::Invalid(Invalid { claims: Claims::Binding(claims), .. }) => {
            (claims.server.as_ref(), &claims.named[..])
        }
        Body::Valid(_) | Body::Invalid(_) => (None, &[][..]),
    };
    let key = &object.meta.key;
    let server = server.map(|name| target::reference(key.beside(Kind::Server, name)));
    server.into_iter().chain(named.iter().map(include)).collect()
}

/// The reference to an object whose routes are taken over.
pub(super) fn include(to: &ObjectKey) -> ObjectReference {
    ObjectReference { field: Field::Include, what: ReferenceTarget::One(to.clone()) }
}

/// The objects of this kind in the field `name` of the spec that can be read, and whether these are all.
pub(super) fn references_in(
    spec: &Fields<'_>,
    name: &str,
    kind: Kind,
    input: &Input<'_>,
) -> (Vec<ObjectKey>, bool) {
    let Some(node) = spec.require(name) else { return (Vec::new(), false) };
    let Some(list) = node.list_up_to(MAX_REFERENCES) else { return (Vec::new(), false) };
    if list.is_empty() {
        node.error(format!("must not be empty, name at least one {}", kind.as_str()));
        return (Vec::new(), false);
    }
    let (mut keys, mut all): (Vec<ObjectKey>, bool) = (Vec::new(), true);
    for node in &list {
        let Some(key) = node.clean(|node| reference(node, kind, &input.meta.key)) else {
            all = false;
            continue;
        };
        if keys.contains(&key) {
            node.error(format!("{} is named twice", quote(&key.name)));
            continue;
        }
        keys.push(key);
    }
    (keys, all)
}

/// The object of this kind that a mapping names, seen from `own`.
pub(super) fn reference(node: &JsonNode<'_>, kind: Kind, own: &ObjectKey) -> Option<ObjectKey> {
    let fields = node.fields(AllowedFields::Only(&["name", "namespace"]))?;
    Some(own.elsewhere(kind, &namespaced(&fields)?))
}

/// The remark on a binding whose Server owns no port.
pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let server = named_server(resource)?;
    let message = format!(
        "binds nothing: Server {namespace}/{server} owns no port of any workload that carries requests"
    );
    Some(FieldError::new("spec.targetRef.name", message))
}

/// The schema of a list of such objects.
pub(super) fn references_schema(about: &str, item: &str) -> Value {
    list_of(about, reference_schema(item), Some(1), at_most(MAX_REFERENCES))
}

/// The schema of one.
pub(super) fn reference_schema(about: &str) -> Value {
    let fields = [("name", text_up_to("Name.", 253)), ("namespace", any_namespace())];
    object(about, &fields, &["name"])
}
