//! The definition of ServerAuthorization (docs/spec/controller.md 1.2).

use crate::kind::Kind;
use crate::render::definition::{Column, Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{
    IDENTITY, LABEL, boolean, exactly_one, list, matching, networks, object, selector,
};
use serde_json::Value;

pub(crate) fn definition(profile: Profile) -> Definition {
    let column = match profile {
        Profile::Portcullis => SERVER,
        Profile::Linkerd => LINKERDS_SERVER,
    };

    let old = Version {
        name: "v1alpha1",
        storage: false,
        deprecated: Some(
            "policy.linkerd.io/v1alpha1 ServerAuthorization is deprecated; use \
             policy.linkerd.io/v1beta1 ServerAuthorization",
        ),
        columns: &[],
        spec: schema(),
        status: Status::Ours,
    };
    let new = Version {
        name: "v1beta1",
        storage: true,
        deprecated: None,
        columns: column,
        spec: schema(),
        status: Status::Ours,
    };
    Definition {
        kind: Kind::ServerAuthorization,
        short_names: Kind::ServerAuthorization.spec().names.short,
        categories: &[],
        versions: vec![old, new],
    }
}

/// The name, or else the selector, as JSON: an object has one of the two.
const SERVER: &[Column] = &[("Server", "string", ".spec.server['name','selector']")];

/// The name alone, as Linkerd's definition has it.
const LINKERDS_SERVER: &[Column] = &[("Server", "string", ".spec.server.name")];

fn schema() -> Value {
    let server = exactly_one(
        object(
            "Servers of the namespace.",
            &[
                ("name", matching("The one of this name.", LABEL)),
                ("selector", selector("Those whose labels match.")),
            ],
            &[],
        ),
        &["name", "selector"],
    );
    let account = object(
        "A ServiceAccount.",
        &[
            ("name", matching("Its name.", LABEL)),
            ("namespace", matching("Its namespace; absent: that of this object.", LABEL)),
        ],
        &["name"],
    );
    let identity = matching("A name, `*.<suffix>`, or `*` for any.", IDENTITY);
    let mesh = object(
        "Clients on mesh TLS.",
        &[
            (
                "unauthenticatedTLS",
                boolean("True if mesh TLS suffices, with or without an identity."),
            ),
            ("identities", list("Clients by identity.", identity)),
            ("serviceAccounts", list("Clients by ServiceAccount.", account)),
        ],
        &[],
    );
    let client = object(
        "Authorized clients.",
        &[
            ("networks", networks("Client networks; absent or empty: the cluster's networks.")),
            ("unauthenticated", boolean("True if clients need neither mesh TLS nor an identity.")),
            ("meshTLS", mesh),
        ],
        &[],
    );
    object(
        "Clients that may access Servers.",
        &[("server", server), ("client", client)],
        &["server", "client"],
    )
}
