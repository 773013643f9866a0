//! The definition of Server (docs/spec/controller.md 1.1).

use crate::kind::Kind;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{exactly_one, object, or, selector, text};
use serde_json::{Value, json};

const PORT: (&str, &str, &str) = ("Port", "string", ".spec.port");
const PROTOCOL: (&str, &str, &str) = ("Protocol", "string", ".spec.proxyProtocol");
const ACCESS: (&str, &str, &str) = ("Access Policy", "string", ".spec.accessPolicy");

pub(crate) fn definition(_: Profile) -> Definition {
    let version = |name, storage, deprecated, columns, spec| Version {
        name,
        storage,
        deprecated,
        columns,
        spec,
        status: Status::Ours,
    };
    Definition {
        kind: Kind::Server,
        short_names: Kind::Server.spec().names.short,
        categories: &[],
        versions: vec![
            version(
                "v1alpha1",
                false,
                Some(
                    "policy.linkerd.io/v1alpha1 Server is deprecated; use policy.linkerd.io/v1beta1 Server",
                ),
                &[],
                pods_only(exactly_one(pods(), &["matchExpressions", "matchLabels"])),
            ),
            version(
                "v1beta1",
                false,
                Some(
                    "policy.linkerd.io/v1beta1 Server is deprecated; use policy.linkerd.io/v1beta3 Server",
                ),
                &[PORT, PROTOCOL],
                pods_only(pods()),
            ),
            version("v1beta2", false, None, &[PORT, PROTOCOL], either(Vec::new())),
            version(
                "v1beta3",
                true,
                None,
                &[PORT, PROTOCOL, ACCESS],
                either(vec![access_policy()]),
            ),
        ],
    }
}

fn pods() -> Value {
    selector("Pods of the namespace; empty: all.")
}

fn port() -> (&'static str, Value) {
    let about = "Number or name of the port of the selected workloads.";
    ("port", json!({"description": about, "x-kubernetes-int-or-string": true}))
}

fn protocol() -> (&'static str, Value) {
    let about = "Protocol of the connections: `unknown` (detected), `HTTP/1`, `HTTP/2`, `gRPC`, \
                 `opaque` or `TLS`.";
    ("proxyProtocol", or(text(about), json!("unknown")))
}

fn access_policy() -> (&'static str, Value) {
    let about = "Clients admitted without an authorization: `all-unauthenticated`, \
                 `all-authenticated`, `cluster-unauthenticated`, `cluster-authenticated`, `deny` or \
                 `audit`.";
    ("accessPolicy", or(text(about), json!("deny")))
}

const ABOUT: &str = "A port of workloads, and its protocol.";

fn pods_only(pods: Value) -> Value {
    object(ABOUT, &[("podSelector", pods), port(), protocol()], &["podSelector", "port"])
}

fn either(more: Vec<(&'static str, Value)>) -> Value {
    let external = selector("ExternalWorkloads of the namespace; empty: all.");
    let mut fields =
        vec![("podSelector", pods()), ("externalWorkloadSelector", external), port(), protocol()];
    fields.extend(more);
    exactly_one(object(ABOUT, &fields, &["port"]), &["podSelector", "externalWorkloadSelector"])
}
