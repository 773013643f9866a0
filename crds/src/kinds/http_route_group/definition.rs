//! The definition of HttpRouteGroup (docs/spec/requests.md).

use super::entry::{MAX_ENTRIES, MAX_METHODS};
use crate::kind::Kind;
use crate::kinds::{binding, consent, route_labels};
use crate::parse::values::METHODS;
use crate::render::conditions::conditions;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{
    at_most, exactly_one, headers, integer, list_of, object, one_of, query_params, rule, set,
    text_up_to,
};
use serde_json::{Value, json};

pub(in crate::kinds) fn definition(_: Profile) -> Definition {
    let columns = &[("Routes", "integer", ".status.routes")];
    Definition::own(Kind::HttpRouteGroup, columns, spec(), Some(status()))
}

fn spec() -> Value {
    let about = "Routes and other groups.";
    object(
        "Routes, described once.",
        &[
            ("routes", list_of(about, entry(), Some(1), at_most(MAX_ENTRIES))),
            ("headers", headers()),
            ("queryParams", query_params()),
            ("delegatedFrom", consent::schema()),
        ],
        &["routes"],
    )
}

fn entry() -> Value {
    let mut path = text_up_to("Segments, `:parameter`, and a final `*rest`.", 1024);
    set(&mut path, "pattern", json!("^/[!-~]*$"));
    let method = one_of("A method.", &METHODS);
    let methods = list_of("Methods; absent: any.", method, Some(1), at_most(MAX_METHODS));
    let entry = object(
        "A route, or another group.",
        &[
            ("path", path),
            (
                "routeGroupRef",
                binding::reference_schema("Another group, whose routes are included."),
            ),
            ("methods", methods),
            ("headers", headers()),
            ("queryParams", query_params()),
            ("labels", route_labels::labels("Labels of the route, or of all included routes.")),
        ],
        &[],
    );
    let labels_alone = "has(self.path) || !(has(self.methods) || has(self.headers) || \
                        has(self.queryParams))";
    let message = "an element with `routeGroupRef` has `labels` alone besides";
    rule(exactly_one(entry, &["path", "routeGroupRef"]), labels_alone, message)
}

fn status() -> Value {
    let routes = integer("Number of routes, included ones among them.", "int32", Some(0), None);
    object("Status of this object.", &[("conditions", conditions(true)), ("routes", routes)], &[])
}
