//! GrpcServiceClass (docs/spec/requests.md): some methods of a service.

use super::{route_labels, target};
use crate::kind::Kind;
use crate::object::{Body, FieldError, Object};
use crate::parse::input::Input;
use crate::parse::route_label::route_selector;
use crate::reader::AllowedFields;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{local_reference, object};
use crate::resource::{GrpcServiceClass, Resource};
use crate::spec::ObjectReference;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["targetRef", "methodSelector"]))?;
    let service = spec.require("targetRef").and_then(|node| target::only(&node, Kind::GrpcService));
    let selector = spec.require("methodSelector").and_then(|node| route_selector(&node));
    Some(Resource::GrpcServiceClass(GrpcServiceClass { service: service?, selector: selector? }))
}

/// The GrpcService. An invalid class selects nothing, so that it names none.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let Body::Valid(Resource::GrpcServiceClass(class)) = &object.body else { return Vec::new() };
    vec![target::reference(object.meta.key.beside(Kind::GrpcService, &class.service))]
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::GrpcServiceClass(class) = resource else { return None };
    let message = format!(
        "selects nothing: no method that it selects of GrpcService {namespace}/{} is bound to a Server \
         that owns a port of any workload",
        class.service
    );
    Some(FieldError::new("spec.methodSelector", message))
}

pub(super) fn definition(_: Profile) -> Definition {
    let about = "Selects methods by their labels; empty: all of them.";
    let spec = object(
        "Some methods of a service.",
        &[
            ("targetRef", local_reference("The GrpcService.")),
            ("methodSelector", route_labels::selector(about)),
        ],
        &["targetRef", "methodSelector"],
    );
    let columns = &[("Service", "string", ".spec.targetRef.name")];
    Definition::own(Kind::GrpcServiceClass, columns, spec, None)
}
