//! The definition of InboundRoute.

use crate::kind::Kind;
use crate::render::conditions::conditions;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{
    HOST, LABEL, boolean, exactly_one, list, list_of, local_reference, matching, networks, object,
    one_of, set, text, text_up_to, time,
};
use serde_json::{Value, json};

pub(crate) fn definition(_: Profile) -> Definition {
    Definition {
        kind: Kind::InboundRoute,
        short_names: Kind::InboundRoute.spec().names.short,
        categories: &[],
        versions: vec![Version {
            name: "v1alpha1",
            storage: true,
            deprecated: None,
            columns: &[("Host", "string", ".spec.virtualhost.fqdn")],
            spec: spec(),
            status: Status::Always(status()),
        }],
    }
}

fn host(about: &str) -> Value {
    let mut schema = matching(about, HOST);
    set(&mut schema, "minLength", json!(1));
    set(&mut schema, "maxLength", json!(253));
    schema
}

fn spec() -> Value {
    let mut spec = object(
        "Paths of hosts, and who answers them.",
        &[
            ("virtualhost", virtual_host()),
            (
                "delegatedFrom",
                list_of(
                    "The consent of an object without `virtualhost`.",
                    consent(),
                    None,
                    Some(16),
                ),
            ),
            ("routes", list_of("Rules, each with a path of its own.", rule(), Some(1), Some(64))),
        ],
        &["routes"],
    );
    let rule = "has(self.virtualhost) != has(self.delegatedFrom)";
    let message = "exactly one of virtualhost and delegatedFrom is required";
    let kept = "has(self.virtualhost) == has(oldSelf.virtualhost)";
    let validations = json!([
        {"rule": rule, "message": message},
        {"rule": kept, "message": "a root stays one, and others never become one"},
    ]);
    set(&mut spec, "x-kubernetes-validations", validations);
    spec
}

fn virtual_host() -> Value {
    let mut fqdn = host("The host. It cannot be changed.");
    let immutable = json!([{"rule": "self == oldSelf", "message": "cannot be changed"}]);
    set(&mut fqdn, "x-kubernetes-validations", immutable);
    let modes = ["Optional", "Required", "MutualRequired"];
    let tls = object(
        "Requirement on the connections of clients.",
        &[("mode", one_of("`Required`: mesh TLS. `MutualRequired`: with an identity.", &modes))],
        &[],
    );
    let mut access_list = networks("Networks of clients; absent: every network.");
    set(&mut access_list, "maxItems", json!(32));
    let aliases = list_of("Other hosts with the same rules.", host("A host."), None, Some(16));
    object(
        "The hosts of a root.",
        &[
            ("fqdn", fqdn),
            ("aliases", aliases),
            ("targetRef", local_reference("The Server that answers rules with `serve`.")),
            ("tls", tls),
            ("accessList", access_list),
            (
                "allowRegexChildren",
                boolean("Routes with regular expressions may be children at `/`."),
            ),
        ],
        &["fqdn"],
    )
}

fn consent() -> Value {
    let parent = object(
        "The only InboundRoute that may delegate; absent: any.",
        &[("namespace", namespace("Its namespace.")), ("name", text_up_to("Its name.", 253))],
        &["namespace", "name"],
    );
    object(
        "A host that others may have this object serve.",
        &[("fqdn", host("The host.")), ("parent", parent)],
        &["fqdn"],
    )
}

fn namespace(about: &str) -> Value {
    let mut schema = matching(about, LABEL);
    set(&mut schema, "minLength", json!(1));
    set(&mut schema, "maxLength", json!(63));
    schema
}

fn rule() -> Value {
    let server = object("A Server.", &[("name", text_up_to("Its name.", 253))], &["name"]);
    let labels = json!({
        "description": "Labels that must have these values.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "string"},
    });
    let selector = object("InboundRoutes by label.", &[("matchLabels", labels)], &["matchLabels"]);
    let kinds = ["InboundRoute", "HTTPRoute", "GRPCRoute"];
    let delegate = object(
        "The objects that decide below the path.",
        &[
            ("kind", one_of("Kind; absent: InboundRoute.", &kinds)),
            ("name", text_up_to("Name.", 253)),
            ("selector", selector),
            ("namespace", text("Namespace; absent: that of this object.")),
        ],
        &[],
    );
    let delegate = exactly_one(delegate, &["name", "selector"]);
    let serve = json!({"description": "The Server of the root answers.", "type": "object"});
    let mut path = matching("A path, and everything below it.", "^/");
    set(&mut path, "maxLength", json!(1024));
    let actions = ["Inherit", "Ignore"];
    let rule = object(
        "A path, and who answers it.",
        &[
            ("match", path),
            ("servers", list_of("Servers of this namespace.", server, Some(1), Some(8))),
            ("serve", serve),
            ("delegate", delegate),
            (
                "serverAuthorizations",
                one_of("`Ignore`: grants on the Server and the namespace do not count.", &actions),
            ),
        ],
        &["match"],
    );
    exactly_one(rule, &["servers", "serve", "delegate"])
}

fn status() -> Value {
    let claim = object(
        "A claim on a path of a host.",
        &[
            ("host", text("Host.")),
            ("path", text("Path.")),
            ("state", one_of("State.", &["Active", "Inactive"])),
            ("claimedAt", time("Time of the claim. Earlier claims win.")),
            ("reason", text("Reason, in one word for programs.")),
            ("message", text("Message for people.")),
        ],
        &["host", "path", "state"],
    );
    let route = object(
        "A rule of this object.",
        &[
            ("match", text("Its path.")),
            ("state", text("`Programmed`, `Delegated`, `Blackholed`, `Shadowed` or `Inactive`.")),
            ("reason", text("Reason, in one word for programs.")),
        ],
        &["match", "state"],
    );
    object(
        "Status of this object.",
        &[
            ("conditions", conditions(true)),
            ("claims", list("Claims of a root.", claim)),
            ("delegationStatuses", list("Places of this object in trees.", delegation_status())),
            ("routes", list("The rules of this object.", route)),
        ],
        &[],
    )
}

fn delegation_status() -> Value {
    let name = || ("name", text("Name."));
    let namespace = || ("namespace", text("Namespace."));
    let prefix = || ("prefix", text("The path that is delegated."));
    let parent = || object("The object that delegates.", &[namespace(), name(), prefix()], &[]);
    let reason = || ("reason", text("Reason, in one word for programs."));
    let connected = object(
        "A tree reaches this object.",
        &[
            ("parent", parent()),
            ("fqdn", text("The first of the hosts.")),
            ("hosts", list("Hosts that reach it.", json!({"type": "string"}))),
            ("connectedAt", time("Time since which it is connected.")),
        ],
        &["parent"],
    );
    let last = object("The object that delegated last.", &[namespace(), name()], &[]);
    let orphaned = object(
        "No tree reaches this object.",
        &[("lastParent", last), reason(), ("since", time("Time since which it is orphaned."))],
        &["reason"],
    );
    let message = ("message", text("Message for people."));
    let rejected = object(
        "A delegation to this object is refused.",
        &[("parent", parent()), reason(), message],
        &["parent", "reason"],
    );
    let states = [("connected", connected), ("orphaned", orphaned), ("rejected", rejected)];
    let state =
        exactly_one(object("Its state.", &states, &[]), &["connected", "orphaned", "rejected"]);
    object("A place of this object in a tree.", &[("state", state)], &["state"])
}
