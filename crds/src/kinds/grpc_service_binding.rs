//! GrpcServiceBinding (docs/spec/requests.md): services on a Server.

use super::binding;
use crate::kind::Kind;
use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::reader::AllowedFields;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{local_reference, object};
use crate::resource::{GrpcServiceBinding, Resource};

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Only(&["targetRef", "serviceRefs"])) else {
        return (None, Claims::Binding { server: None });
    };
    let server = binding::server(&spec);
    let claims = Claims::Binding { server: server.clone() };
    let services = binding::references_in(&spec, "serviceRefs", Kind::GrpcService, input);
    let binding = server.zip(services).map(|(server, services)| {
        Resource::GrpcServiceBinding(GrpcServiceBinding { server, services })
    });
    (binding, claims)
}

pub(super) fn definition(_: Profile) -> Definition {
    let spec = object(
        "Services on a Server.",
        &[
            ("targetRef", local_reference("The Server.")),
            ("serviceRefs", binding::references_schema("The services.", "A GrpcService.")),
        ],
        &["targetRef", "serviceRefs"],
    );
    let columns = &[("Server", "string", ".spec.targetRef.name")];
    Definition::own(Kind::GrpcServiceBinding, columns, spec, None)
}
