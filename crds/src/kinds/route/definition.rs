//! HTTPRoute of `policy.linkerd.io` (docs/spec/controller.md 1.7).

use super::filter::REDIRECT_STATUSES;
use crate::kind::Kind;
use crate::parse::values::METHODS;
use crate::render::conditions::conditions;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{
    HOST, PRECISE_HOST, headers, integer, list, list_of, matching, named, object, one_of, or, port,
    query_params, set, text, text_up_to,
};
use serde_json::{Value, json};

/// Differences between the versions.
#[derive(Clone, Copy)]
struct Features {
    /// Backends have group, kind and weight.
    backends: bool,
    /// Rules have timeouts.
    timeouts: bool,
}

pub(crate) fn definition(_: Profile) -> Definition {
    let version = |name, backends, timeouts| Version {
        name,
        storage: timeouts,
        deprecated: None,
        columns: &[
            ("Hostnames", "string", ".spec.hostnames"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        spec: spec(Features { backends, timeouts }),
        status: Status::Always(status()),
    };
    Definition {
        kind: Kind::PolicyHttpRoute,
        short_names: &[],
        categories: &[],
        versions: vec![
            version("v1alpha1", false, false),
            version("v1beta1", false, false),
            version("v1beta2", true, false),
            version("v1beta3", true, true),
        ],
    }
}

fn spec(features: Features) -> Value {
    let mut host = matching("A name, optionally beginning with `*.`.", HOST);
    set(&mut host, "minLength", json!(1));
    set(&mut host, "maxLength", json!(253));
    let everything = json!([{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]}]);
    let rules = list_of("Rules with their matches and filters.", rule(features), None, Some(16));
    object(
        "Requests of a Server.",
        &[
            ("parentRefs", list_of("Parents of the route.", parent(), None, Some(32))),
            ("hostnames", list_of("Hosts; absent: every host.", host, None, Some(16))),
            ("rules", or(rules, everything)),
        ],
        &[],
    )
}

fn group(default: &str) -> Value {
    let mut group = matching("API group.", crate::render::schema::GROUP);
    set(&mut group, "maxLength", json!(253));
    or(group, json!(default))
}

fn kind(default: &str) -> Value {
    let mut kind = matching("Kind.", crate::render::schema::KIND);
    set(&mut kind, "minLength", json!(1));
    set(&mut kind, "maxLength", json!(63));
    or(kind, json!(default))
}

fn namespace() -> Value {
    let mut namespace =
        matching("Namespace; absent: that of this object.", crate::render::schema::LABEL);
    set(&mut namespace, "minLength", json!(1));
    set(&mut namespace, "maxLength", json!(63));
    namespace
}

fn parent() -> Value {
    object(
        "A Server, or for outbound traffic a Service or EgressNetwork.",
        &[
            ("group", group("policy.linkerd.io")),
            ("kind", kind("Gateway")),
            ("name", text_up_to("Name.", 253)),
            ("namespace", namespace()),
            ("port", port("Port, where the parent has several.")),
            ("sectionName", text_up_to("Section, where the parent has several.", 253)),
        ],
        &["name"],
    )
}

fn rule(features: Features) -> Value {
    let everything = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    let matches = list_of("Alternatives, any of which suffices.", request_match(), None, Some(8));
    let mut fields = vec![
        ("matches", or(matches, everything)),
        ("filters", list_of("Filters, in order.", filter(false), None, Some(16))),
        ("backendRefs", list_of("Outbound only.", backend(features), None, Some(16))),
    ];
    if features.timeouts {
        let timeouts = object(
            "Time allowed.",
            &[
                ("request", duration("For the whole request; `0s`: no limit.")),
                ("backendRequest", duration("For one request to a backend; outbound only.")),
            ],
            &[],
        );
        fields.push(("timeouts", timeouts));
    }
    object("A rule.", &fields, &[])
}

fn duration(about: &str) -> Value {
    json!({"description": about, "type": "string", "format": "duration"})
}

fn request_match() -> Value {
    let mut value = or(text("Path."), json!("/"));
    set(&mut value, "maxLength", json!(1024));
    let kinds = &["Exact", "PathPrefix", "RegularExpression"];
    let path = object(
        "The path.",
        &[
            ("type", or(one_of("Type of the comparison.", kinds), json!("PathPrefix"))),
            ("value", value),
        ],
        &[],
    );
    let everything = json!({"type": "PathPrefix", "value": "/"});
    object(
        "All parts must match.",
        &[
            ("path", or(path, everything)),
            ("method", one_of("The method.", &METHODS)),
            ("headers", headers()),
            ("queryParams", query_params()),
        ],
        &[],
    )
}

/// A filter of a rule, or of a backend, which may change responses too.
fn filter(of_backend: bool) -> Value {
    let mut kinds = vec!["RequestHeaderModifier", "RequestRedirect"];
    let mut fields = vec![
        ("requestHeaderModifier", header_change("Changes of the request's headers.")),
        ("requestRedirect", redirect()),
    ];
    if of_backend {
        kinds.push("ResponseHeaderModifier");
        fields
            .push(("responseHeaderModifier", header_change("Changes of the response's headers.")));
    }
    fields.push(("type", one_of("Type of the filter.", &kinds)));
    object("A filter.", &fields, &["type"])
}

fn header_change(about: &str) -> Value {
    let header = object(
        "Name and value.",
        &[("name", text_up_to("Name.", 256)), ("value", text_up_to("Value.", 4096))],
        &["name", "value"],
    );
    let pairs = |about: &str| named(list_of(about, header.clone(), None, Some(16)));
    let names = json!({"type": "string"});
    object(
        about,
        &[
            ("set", pairs("Values that replace all of that name.")),
            ("add", pairs("Values that are added.")),
            ("remove", list_of("Names that are removed.", names, None, Some(16))),
        ],
        &[],
    )
}

fn redirect() -> Value {
    let mut host = matching("Host; absent: as requested.", PRECISE_HOST);
    set(&mut host, "minLength", json!(1));
    set(&mut host, "maxLength", json!(253));
    let limited = |about: &str| {
        let mut schema = text(about);
        set(&mut schema, "maxLength", json!(1024));
        schema
    };
    let path = object(
        "Change of the path.",
        &[
            (
                "type",
                one_of(
                    "Part of the path that is replaced.",
                    &["ReplaceFullPath", "ReplacePrefixMatch"],
                ),
            ),
            ("replaceFullPath", limited("Instead of the whole path.")),
            ("replacePrefixMatch", limited("Instead of the prefix that matched.")),
        ],
        &["type"],
    );
    let mut status = or(integer("Status.", "int64", None, None), json!(302));
    set(&mut status, "enum", json!(REDIRECT_STATUSES));
    object(
        "A redirect response.",
        &[
            ("scheme", one_of("Scheme; absent: as requested.", &["http", "https"])),
            ("hostname", host),
            ("path", path),
            ("port", port("Port; absent: as requested.")),
            ("statusCode", status),
        ],
        &[],
    )
}

fn backend(features: Features) -> Value {
    let mut fields = vec![
        ("name", text_up_to("Name.", 253)),
        ("namespace", namespace()),
        ("port", port("Port.")),
        ("filters", list_of("Filters.", filter(true), None, Some(16))),
    ];
    if features.backends {
        let weight = integer("Share of the requests.", "int32", Some(0), Some(1_000_000));
        fields.push(("group", group("")));
        fields.push(("kind", kind("Service")));
        fields.push(("weight", or(weight, json!(1))));
    }
    object("A backend.", &fields, &["name"])
}

fn status() -> Value {
    let mut of_parent = conditions(true);
    set(&mut of_parent, "minItems", json!(1));
    set(&mut of_parent, "maxItems", json!(8));
    let about = object(
        "Status of the route for one parent.",
        &[
            ("parentRef", parent()),
            ("controllerName", text_up_to("Controller that wrote the status.", 253)),
            ("conditions", of_parent),
        ],
        &["parentRef", "controllerName"],
    );
    let mut parents = list("Every parent.", about);
    set(&mut parents, "maxItems", json!(32));
    object("Status of this object.", &[("parents", parents)], &["parents"])
}
