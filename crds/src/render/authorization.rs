//! ServerAuthorization, AuthorizationPolicy and the authentications (controller-semantics 1.2 to
//! 1.5).

use super::definition::{Definition, Status, Version};
use super::schema::{
    IDENTITY, LABEL, any_namespace, boolean, exactly_one, list, list_of, local_reference, matching,
    networks, object, reference, selector, text,
};
use serde_json::Value;

const GROUP: &str = "policy.linkerd.io";

fn only_version(spec: Value) -> Vec<Version> {
    let (name, deprecated, columns) = ("v1alpha1", None, &[]);
    vec![Version { name, storage: true, deprecated, columns, spec, status: Status::Ours }]
}

pub(super) fn server_authorizations() -> Definition {
    let old = Version {
        name: "v1alpha1",
        storage: false,
        deprecated: Some(
            "policy.linkerd.io/v1alpha1 ServerAuthorization is deprecated; use \
             policy.linkerd.io/v1beta1 ServerAuthorization",
        ),
        columns: &[],
        spec: server_authorization(),
        status: Status::Ours,
    };
    let new = Version {
        name: "v1beta1",
        storage: true,
        deprecated: None,
        columns: &[("Server", "string", ".spec.server.name")],
        spec: server_authorization(),
        status: Status::Ours,
    };
    Definition {
        group: GROUP,
        kind: "ServerAuthorization",
        plural: "serverauthorizations",
        short_names: &["saz", "serverauthz", "srvauthz"],
        categories: &[],
        versions: vec![old, new],
    }
}

fn server_authorization() -> Value {
    let server = exactly_one(
        object(
            "Which Servers of the namespace.",
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
            ("unauthenticatedTLS", boolean("Whether clients without an identity count too.")),
            ("identities", list("Clients by identity.", identity)),
            ("serviceAccounts", list("Clients by ServiceAccount.", account)),
        ],
        &[],
    );
    let client = object(
        "Who is authorized.",
        &[
            ("networks", networks("From where; absent or empty: the cluster's networks.")),
            ("unauthenticated", boolean("Whether clients need prove nothing.")),
            ("meshTLS", mesh),
        ],
        &[],
    );
    object(
        "Who may reach Servers.",
        &[("server", server), ("client", client)],
        &["server", "client"],
    )
}

pub(super) fn authorization_policies() -> Definition {
    let authentication = reference(
        "A MeshTLSAuthentication, a NetworkAuthentication, a ServiceAccount or a NetworkSet.",
        any_namespace(),
        &["kind", "name"],
    );
    let spec = object(
        "Who may reach a target.",
        &[
            ("targetRef", local_reference("A Server, a route, or the namespace itself.")),
            (
                "requiredAuthenticationRefs",
                list("What clients must prove, all of it; empty: nothing.", authentication),
            ),
        ],
        &["targetRef", "requiredAuthenticationRefs"],
    );
    Definition {
        group: GROUP,
        kind: "AuthorizationPolicy",
        plural: "authorizationpolicies",
        short_names: &["authzpolicy"],
        categories: &[],
        versions: only_version(spec),
    }
}

pub(super) fn mesh_tls_authentications() -> Definition {
    let client = reference(
        "A ServiceAccount, or a Namespace with all of its own.",
        any_namespace(),
        &["kind"],
    );
    let identity = text("A name, `*.<suffix>`, `*` for any, or a SPIFFE id.");
    let spec = exactly_one(
        object(
            "Clients by what their certificate proves.",
            &[
                ("identities", list_of("Clients by identity.", identity, Some(1), None)),
                ("identityRefs", list_of("Clients by object.", client, Some(1), None)),
            ],
            &[],
        ),
        &["identities", "identityRefs"],
    );
    Definition {
        group: GROUP,
        kind: "MeshTLSAuthentication",
        plural: "meshtlsauthentications",
        short_names: &["meshtlsauthn"],
        categories: &[],
        versions: only_version(spec),
    }
}

pub(super) fn network_authentications() -> Definition {
    let spec = object(
        "Clients by their address.",
        &[("networks", networks("Networks, any of which suffices."))],
        &["networks"],
    );
    Definition {
        group: GROUP,
        kind: "NetworkAuthentication",
        plural: "networkauthentications",
        short_names: &["netauthn", "networkauthn"],
        categories: &[],
        versions: only_version(spec),
    }
}
