//! The schemas of the labels of routes, and of selectors over them.

use crate::parse::route_label::{MAX_EXPRESSIONS, MAX_LABELS, MAX_SELECTED, MAX_VALUE, MAX_VALUES};
use crate::render::schema::{at_most, list_of, object, one_of, rule, text_up_to};
use serde_json::{Value, json};

/// Labels that authors write.
pub(super) fn labels(about: &str) -> Value {
    let automatic = "self.all(name, !name.startsWith('path.http.linkerd.io/') && \
                     (!name.startsWith('http.linkerd.io/') || name == 'http.linkerd.io/idempotent'))";
    let message = "labels of `http.linkerd.io` and `path.http.linkerd.io` are automatic, but for \
                   `http.linkerd.io/idempotent`";
    rule(texts(about, MAX_VALUE), automatic, message)
}

/// A selector over labels of routes.
pub(super) fn selector(about: &str) -> Value {
    let value = json!({"type": "string", "maxLength": MAX_SELECTED});
    let values = list_of("For `In` and `NotIn`.", value, None, at_most(MAX_VALUES));
    let expression = object(
        "A condition on one label.",
        &[
            ("key", text_up_to("The label's name.", 317)),
            ("operator", one_of("Operator.", &["In", "NotIn", "Exists", "DoesNotExist"])),
            ("values", values),
        ],
        &["key", "operator"],
    );
    let about_expressions = "Conditions that must hold.";
    let expressions = list_of(about_expressions, expression, None, at_most(MAX_EXPRESSIONS));
    let labels = texts("Labels that must have these values.", MAX_SELECTED);
    object(about, &[("matchLabels", labels), ("matchExpressions", expressions)], &[])
}

fn texts(about: &str, max: usize) -> Value {
    json!({
        "description": about,
        "type": "object",
        "maxProperties": MAX_LABELS,
        "additionalProperties": {"type": "string", "maxLength": max},
    })
}
