//! The definition of HeaderRewritePolicy (docs/spec/requests.md).

use super::condition::{MAX_CONDITIONS, MAX_VALUES};
use super::fields::{MAX_HEADERS, MAX_RULES};
use crate::kind::Kind;
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{
    at_most, list_of, local_reference, object, one_of, or, rule, text_up_to,
};
use serde_json::{Value, json};

pub(in crate::kinds) fn definition(_: Profile) -> Definition {
    let target = "A Server, routes bound to one, a class of them, or a route.";
    let about = "Rules, applied in order.";
    let failure = one_of(
        "`Deny`: requests are refused where the changes cannot be made.",
        &["Ignore", "Deny"],
    );
    let spec = object(
        "Changes of the headers of requests.",
        &[
            ("targetRef", local_reference(target)),
            ("rules", list_of(about, of_rule(), Some(1), at_most(MAX_RULES))),
            ("failure", or(failure, json!("Ignore"))),
        ],
        &["targetRef", "rules"],
    );
    let columns = &[
        ("Target_kind", "string", ".spec.targetRef.kind"),
        ("Target_name", "string", ".spec.targetRef.name"),
    ];
    Definition::own(Kind::HeaderRewritePolicy, columns, spec, None)
}

fn of_rule() -> Value {
    let operators = &["In", "NotIn", "Exists", "DoesNotExist"];
    let value = text_up_to("A value.", 4096);
    let header = object(
        "A condition on one header of the request as it was received.",
        &[
            ("key", text_up_to("Name; `host` stands for the host of the request.", 256)),
            ("op", one_of("Operator.", operators)),
            ("values", list_of("For `In` and `NotIn`.", value, None, at_most(MAX_VALUES))),
        ],
        &["key", "op"],
    );
    let condition = object("A condition.", &[("header", header)], &["header"]);
    let conditions = "Conditions that must all hold; absent or empty: every request.";
    let name = text_up_to("A name.", 256);
    let of_rule = object(
        "A change: first `clear`, then `set`, then `add`.",
        &[
            ("match", list_of(conditions, condition, None, at_most(MAX_CONDITIONS))),
            ("clear", list_of("Headers that are removed.", name, None, at_most(MAX_HEADERS))),
            ("set", values("Values that replace all of that name.")),
            ("add", values("Values that are added.")),
        ],
        &[],
    );
    let something = "has(self.clear) || has(self.set) || has(self.add)";
    rule(of_rule, something, "one of `clear`, `set`, `add` is required")
}

fn values(about: &str) -> Value {
    json!({
        "description": about,
        "type": "object",
        "maxProperties": MAX_HEADERS,
        "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 4096},
    })
}
