//! HttpRouteBinding (docs/spec/requests.md): the routes of groups on a Server.

use super::binding;
use crate::kind::Kind;
use crate::object::Claims;
use crate::parse::hostnames::hostnames;
use crate::parse::input::{Draft, Input};
use crate::reader::AllowedFields;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{HOST, list_of, local_reference, matching, object, set};
use crate::resource::{BindingClaims, HttpRouteBinding, Resource};
use serde_json::json;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let known = &["targetRef", "routeRefs", "hostnames"];
    let Some(spec) = input.spec(AllowedFields::Only(known)) else {
        return (None, binding::claims(None));
    };
    let server = binding::server(&spec);
    let (groups, all_groups) =
        binding::references_in(&spec, "routeRefs", Kind::HttpRouteGroup, input);
    let (hostnames, all_hosts) = hostnames(&spec);
    if spec.errors().count() == 0
        && let Some(server) = server
    {
        let own = HttpRouteBinding { server, groups, hostnames };
        return (Some(Resource::HttpRouteBinding(own)), Claims::Nothing);
    }
    // An unknown field may be the misspelt name of one that is absent.
    let is_misspelt = spec.has_unknown(known) && spec.get("hostnames").is_none();
    let claims = BindingClaims {
        server,
        named: groups,
        unread: !all_groups,
        hostnames,
        any_host: !all_hosts || is_misspelt,
    };
    (None, Claims::Binding(Box::new(claims)))
}

pub(super) fn definition(_: Profile) -> Definition {
    let mut host = matching("A host, or `*.name`.", HOST);
    set(&mut host, "minLength", json!(1));
    set(&mut host, "maxLength", json!(253));
    let groups = binding::references_schema("The groups.", "An HttpRouteGroup.");
    let spec = object(
        "Routes of groups on a Server.",
        &[
            ("targetRef", local_reference("The Server.")),
            ("routeRefs", groups),
            ("hostnames", list_of("Hosts; empty: every host.", host, None, Some(16))),
        ],
        &["targetRef", "routeRefs"],
    );
    let columns = &[("Server", "string", ".spec.targetRef.name")];
    Definition::own(Kind::HttpRouteBinding, columns, spec, None)
}
