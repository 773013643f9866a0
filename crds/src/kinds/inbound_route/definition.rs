//! The definition of InboundRoute (docs/spec/delegation.md).

use super::fields::{MAX_ALIASES, MAX_ALLOWED, MAX_NETWORKS, MAX_RULES, MAX_SERVERS};
use crate::kind::Kind;
use crate::kinds::consent;
use crate::render::conditions::conditions;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{
    at_most, boolean, exactly_one, list, list_of, local_reference, networks, object, one_of, set,
    text, text_up_to, time,
};
use crate::resource::FilterType;
use serde_json::{Value, json};

pub(in crate::kinds) fn definition(_: Profile) -> Definition {
    Definition {
        kind: Kind::InboundRoute,
        short_names: Kind::InboundRoute.spec().names.short,
        categories: &[],
        versions: vec![Version {
            name: "v1alpha1",
            storage: true,
            deprecated: None,
            columns: &[("FQDN", "string", ".spec.virtualhost.fqdn")],
            spec: spec(),
            status: Status::Always(status()),
        }],
    }
}

fn spec() -> Value {
    let spec = object(
        "A root of a tree, with `virtualhost`, or an object that others delegate to.",
        &[
            ("virtualhost", virtual_host()),
            ("delegatedFrom", consent::schema()),
            (
                "routes",
                list_of("Paths and how they are answered.", rule(), Some(1), at_most(MAX_RULES)),
            ),
        ],
        &["routes"],
    );
    exactly_one(spec, &["virtualhost", "delegatedFrom"])
}

fn virtual_host() -> Value {
    let mut fqdn = consent::host("The host that the root is about.");
    let immutable = json!([{
        "rule": "self == oldSelf",
        "message": "is immutable: create another InboundRoute for another host",
    }]);
    set(&mut fqdn, "x-kubernetes-validations", immutable);
    let aliases = list_of(
        "Further hosts with the same routes.",
        consent::host("A host."),
        None,
        at_most(MAX_ALIASES),
    );
    let mut access = networks("Networks of its clients; absent: every network.");
    set(&mut access, "maxItems", json!(MAX_NETWORKS));
    let mode = one_of(
        "`Required`: over mesh TLS. `MutualRequired`: with an identity too.",
        &["MutualRequired", "Required", "Optional"],
    );
    object(
        "The hosts of a root, and what it requires of their clients.",
        &[
            ("fqdn", fqdn),
            ("aliases", aliases),
            ("targetRef", local_reference("The Server that answers routes with `serve`.")),
            ("tls", object("Requirement on connections.", &[("mode", mode)], &["mode"])),
            ("accessList", access),
            (
                "allowRegexChildren",
                boolean("True if routes in the tree may have regular expressions as paths."),
            ),
        ],
        &["fqdn"],
    )
}

fn rule() -> Value {
    let mut path = text_up_to("A path, which stands for everything below it too.", 1024);
    set(&mut path, "pattern", json!("^/[!-~]*$"));
    let server = object("A Server.", &[("name", text_up_to("Name.", 253))], &["name"]);
    let servers =
        list_of("Servers of the namespace that answer.", server, Some(1), at_most(MAX_SERVERS));
    let inherit = one_of(
        "`Ignore`: grants on the Server and its namespace do not count for the path.",
        &["Inherit", "Ignore"],
    );
    let rule = object(
        "A path and how it is answered.",
        &[
            ("match", path),
            ("servers", servers),
            ("serve", object("By the Server of the root.", &[], &[])),
            ("delegate", delegate()),
            ("serverAuthorizations", inherit),
        ],
        &["match"],
    );
    exactly_one(rule, &["servers", "serve", "delegate"])
}

fn delegate() -> Value {
    let labels = json!({
        "description": "Labels that the objects must have.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "string"},
    });
    let selector =
        object("InboundRoutes by their labels.", &[("matchLabels", labels)], &["matchLabels"]);
    let kinds = ["InboundRoute", "HTTPRoute", "GRPCRoute", "HttpRouteGroup"];
    let mut namespace = text("Namespace; absent: that of this object.");
    set(&mut namespace, "maxLength", json!(63));
    let delegate = object(
        "The objects that the path is handed down to.",
        &[
            ("kind", one_of("Kind; absent: InboundRoute.", &kinds)),
            ("name", text_up_to("Name.", 253)),
            ("selector", selector),
            ("namespace", namespace),
            ("allowFilters", allowed_filters()),
        ],
        &[],
    );
    exactly_one(delegate, &["name", "selector"])
}

fn allowed_filters() -> Value {
    let kinds = FilterType::ALL.map(FilterType::as_str);
    let header = text_up_to("Name of a header.", 256);
    let headers = "Headers that may be changed although frameworks route by them.";
    let hosts = "Further hosts to which a redirect may lead.";
    let filter = object(
        "Filters of one kind.",
        &[
            ("kind", one_of("Kind.", &kinds)),
            ("headers", list_of(headers, header, None, at_most(MAX_ALLOWED))),
            ("hosts", list_of(hosts, consent::host("A host."), None, at_most(MAX_ALLOWED))),
        ],
        &["kind"],
    );
    list_of(
        "Of a root: filters that objects of other namespaces may have below; absent: none.",
        filter,
        None,
        at_most(FilterType::ALL.len()),
    )
}

fn status() -> Value {
    let claim = object(
        "A claim of a path of a host.",
        &[
            ("host", text("The host.")),
            ("path", text("The path.")),
            ("state", one_of("State of the claim.", &["Active", "Inactive"])),
            ("claimedAt", time("Time of the claim, by which claims are ordered.")),
            ("reason", text("Reason, in one word for programs.")),
            ("message", text("Message for people.")),
        ],
        &["host", "path", "state"],
    );
    let route = object(
        "The state of a route.",
        &[
            ("match", text("The path.")),
            (
                "state",
                one_of(
                    "State of the route.",
                    &["Programmed", "Delegated", "Blackholed", "Shadowed", "Inactive"],
                ),
            ),
            ("reason", text("Reason, in one word for programs.")),
        ],
        &["match", "state"],
    );
    object(
        "Status of this object.",
        &[
            ("conditions", conditions(true)),
            ("claims", whole("Claims of a root.", claim)),
            ("delegationStatuses", whole("Places in trees.", delegation())),
            ("routes", whole("The own routes.", route)),
        ],
        &[],
    )
}

fn delegation() -> Value {
    let connected = object(
        "A tree reaches the object.",
        &[
            ("parent", consent::delegator("The object that delegates.", true)),
            ("fqdn", text("The fqdn of the root.")),
            ("hosts", list("Hosts that reach the object.", text("A host."))),
            ("connectedAt", time("Time since when.")),
        ],
        &["parent"],
    );
    let orphaned = object(
        "No tree reaches the object.",
        &[
            ("lastParent", consent::delegator("The object that delegated last.", false)),
            ("reason", text("Reason, in one word for programs.")),
            ("since", time("Time since when.")),
        ],
        &["reason"],
    );
    let rejected = object(
        "A delegation to the object is refused.",
        &[
            ("parent", consent::delegator("The object that delegates.", true)),
            ("reason", text("Reason, in one word for programs.")),
            ("message", text("Message for people.")),
        ],
        &["parent", "reason"],
    );
    let states = [("connected", connected), ("orphaned", orphaned), ("rejected", rejected)];
    let state = exactly_one(
        object("One of three states.", &states, &[]),
        &["connected", "orphaned", "rejected"],
    );
    object("A place in a tree.", &[("state", state)], &["state"])
}

/// A list that one writer replaces as a whole.
fn whole(about: &str, items: Value) -> Value {
    let mut schema = list(about, items);
    set(&mut schema, "x-kubernetes-list-type", json!("atomic"));
    schema
}
