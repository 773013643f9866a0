//! GrpcServiceBinding (docs/spec/requests.md): services on a Server.

use super::binding;
use crate::kind::Kind;
use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::reader::AllowedFields;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{local_reference, object};
use crate::resource::{BindingClaims, GrpcServiceBinding, Resource};

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Only(&["targetRef", "serviceRefs"])) else {
        return (None, binding::claims(None));
    };
    let server = binding::server(&spec);
    let (services, all) = binding::references_in(&spec, "serviceRefs", Kind::GrpcService, input);
    if spec.errors().count() == 0
        && let Some(server) = server
    {
        let own = GrpcServiceBinding { server, services };
        return (Some(Resource::GrpcServiceBinding(own)), Claims::Nothing);
    }
    let (hostnames, unread) = (Vec::new(), !all);
    let claims = BindingClaims { server, named: services, unread, hostnames, any_host: false };
    (None, Claims::Binding(Box::new(claims)))
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
