//! HttpRouteClass (docs/spec/requests.md): some of the routes that are bound to a Server.

use super::{route_labels, target};
use crate::kind::Kind;
use crate::object::{Body, FieldError, Object};
use crate::parse::input::Input;
use crate::parse::route_label::route_selector;
use crate::reader::AllowedFields;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{local_reference, object};
use crate::resource::{HttpRouteClass, Resource};
use crate::spec::ObjectReference;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["targetRef", "routeSelector"]))?;
    let server = spec.require("targetRef").and_then(|node| target::only(&node, Kind::Server));
    let selector = spec.require("routeSelector").and_then(|node| route_selector(&node));
    Some(Resource::HttpRouteClass(HttpRouteClass { server: server?, selector: selector? }))
}

/// The Server. An invalid class selects nothing, so that it names none.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let Body::Valid(Resource::HttpRouteClass(class)) = &object.body else { return Vec::new() };
    vec![target::reference(object.meta.key.beside(Kind::Server, &class.server))]
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::HttpRouteClass(class) = resource else { return None };
    let message = format!(
        "selects nothing: no route that it selects is bound to Server {namespace}/{}, or the Server owns \
         no port of any workload",
        class.server
    );
    Some(FieldError::new("spec.routeSelector", message))
}

pub(super) fn definition(_: Profile) -> Definition {
    let about = "Selects routes by their labels; empty: all of them.";
    let spec = object(
        "Some of the routes that are bound to a Server.",
        &[
            ("targetRef", local_reference("The Server.")),
            ("routeSelector", route_labels::selector(about)),
        ],
        &["targetRef", "routeSelector"],
    );
    let columns = &[("Server", "string", ".spec.targetRef.name")];
    Definition::own(Kind::HttpRouteClass, columns, spec, None)
}
