//! The definition of HTTPLocalRateLimitPolicy (docs/spec/controller.md 1.6).

use crate::kind::Kind;
use crate::render::conditions::conditions;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{
    LABEL, integer, list, local_reference, matching, object, or, reference, set, text,
};
use serde_json::{Value, json};

pub(crate) fn definition(profile: Profile) -> Definition {
    Definition {
        kind: Kind::HttpLocalRateLimitPolicy,
        short_names: &[],
        categories: &[],
        versions: vec![Version {
            name: "v1alpha1",
            storage: true,
            deprecated: None,
            columns: &[
                ("Target_kind", "string", ".spec.targetRef.kind"),
                ("Target_name", "string", ".spec.targetRef.name"),
                ("Total_RPS", "int32", ".spec.total.requestsPerSecond"),
                ("Identity_RPS", "int32", ".spec.identity.requestsPerSecond"),
            ],
            spec: spec(),
            status: Status::Always(status(profile)),
        }],
    }
}

fn rate() -> (&'static str, Value) {
    ("requestsPerSecond", integer("Requests per second.", "int64", None, None))
}

fn limit(about: &str) -> Value {
    object(about, &[rate()], &["requestsPerSecond"])
}

fn spec() -> Value {
    let mut namespace = matching("Namespace; absent: that of this object.", LABEL);
    set(&mut namespace, "minLength", json!(1));
    set(&mut namespace, "maxLength", json!(63));
    let client = reference("A ServiceAccount.", namespace, &["kind", "name"]);
    let one = object(
        "A limit for named clients.",
        &[rate(), ("clientRefs", list("The clients.", client))],
        &["requestsPerSecond", "clientRefs"],
    );
    object(
        "Rate limits of a Server.",
        &[
            ("targetRef", local_reference("The Server.")),
            ("total", limit("Of all clients together.")),
            ("identity", limit("Of each client identity.")),
            ("overrides", list("Instead of `identity`, for named clients.", one)),
        ],
        &["targetRef"],
    )
}

/// Linkerd's conditions do not say which generation they are about.
fn status(profile: Profile) -> Value {
    let target = object(
        "The object that the conditions are about.",
        &[
            ("group", or(text("API group."), json!("policy.linkerd.io"))),
            ("kind", or(text("Kind."), json!("Server"))),
            ("name", text("Name.")),
        ],
        &["name"],
    );
    let conditions = conditions(profile == Profile::Portcullis);
    object(
        "Status of this object.",
        &[("conditions", conditions), ("targetRef", target)],
        &["targetRef"],
    )
}
