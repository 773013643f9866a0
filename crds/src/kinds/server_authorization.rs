//! ServerAuthorization (docs/spec/controller.md 1.2, 4).

mod definition;

use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Invalid, Object};
use crate::parse::identity::dns_identity;
use crate::parse::input::{Draft, Input};
use crate::parse::label::selector;
use crate::parse::name::object_name;
use crate::parse::network::networks;
use crate::parse::target::namespaced;
use crate::reader::{AllowedFields, Fields, JsonNode, every};
use crate::resource::{
    ClientRequirement, NamespacedName, Resource, ServerAuthorization, ServerRef,
};
use crate::spec::{ClientReference, Field, ObjectReference, ReferenceTarget};
use policy_core::NetworkMatch;

pub(super) use definition::definition;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Only(&["server", "client"])) else {
        return (None, Claims::ServerAuthorization { server: None });
    };
    let server = spec.require("server").and_then(|node| server(&node));
    let client = spec.require("client").and_then(|node| {
        node.fields(AllowedFields::Only(&["networks", "unauthenticated", "meshTLS"]))
    });
    let client = client.and_then(|fields| {
        let networks = client_networks(&fields);
        Some((networks?, requirement(&fields)?))
    });
    let claims = Claims::ServerAuthorization { server: server.clone() };
    let authorization = server.zip(client).map(|(server, (networks, client))| {
        Resource::ServerAuthorization(ServerAuthorization { server, networks, client })
    });
    (authorization, claims)
}

pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::ServerAuthorization(authorization)) = resource else {
        return Claims::ServerAuthorization { server: None };
    };
    Claims::ServerAuthorization { server: Some(authorization.server.clone()) }
}

/// The Servers that it is for, valid or not.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let servers = match &object.body {
        Body::Valid(Resource::ServerAuthorization(authorization)) => Some(&authorization.server),
        Body::Invalid(Invalid { claims: Claims::ServerAuthorization { server }, .. }) => {
            server.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    };
    let key = &object.meta.key;
    let what = servers.map(|servers| match servers {
        ServerRef::Name(name) => ReferenceTarget::One(key.beside(Kind::Server, name)),
        ServerRef::Labels(_) => ReferenceTarget::AnyOf(Kind::Server, key.namespace.clone()),
    });
    what.map(|what| ObjectReference { field: Field::Server, what }).into_iter().collect()
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::ServerAuthorization(authorization) = resource else { return Vec::new() };
    if authorization.networks.is_some() {
        return Vec::new();
    }
    let message = "absent or empty: only clients in the cluster's networks are admitted; \
                   `0.0.0.0/0` and `::/0` stand for every network";
    vec![FieldError::new("spec.client.networks", message)]
}

pub(super) fn clients(resource: &Resource) -> Vec<ClientReference> {
    let Resource::ServerAuthorization(authorization) = resource else { return Vec::new() };
    let ClientRequirement::Identities { identities, service_accounts } = &authorization.client
    else {
        return Vec::new();
    };
    let accounts = service_accounts.iter().enumerate().map(|(i, name)| {
        ClientReference::account(format!("spec.client.meshTLS.serviceAccounts[{i}].name"), name)
    });
    ClientReference::identities("spec.client.meshTLS.identities", identities)
        .chain(accounts)
        .collect()
}

pub(super) fn idle(_: &Resource, _: &str) -> Option<FieldError> {
    let message = "grants nothing: no Server that it selects owns a port of any workload";
    Some(FieldError::new("spec.server", message))
}

fn server(node: &JsonNode<'_>) -> Option<ServerRef> {
    let fields = node.fields(AllowedFields::Only(&["name", "selector"]))?;
    match (fields.get("name"), fields.get("selector")) {
        (Some(name), None) => object_name(&name).map(ServerRef::Name),
        (None, Some(node)) => selector(&node).map(ServerRef::Labels),
        (Some(_), Some(_)) | (None, None) => {
            node.error("exactly one of `name` and `selector` is required");
            None
        }
    }
}

/// Absent and empty mean the cluster's networks.
fn client_networks(fields: &Fields<'_>) -> Option<Option<Vec<NetworkMatch>>> {
    match fields.get("networks") {
        Some(node) => networks(&node).map(|list| (!list.is_empty()).then_some(list)),
        None => Some(None),
    }
}

fn requirement(fields: &Fields<'_>) -> Option<ClientRequirement> {
    let unauthenticated = match fields.get("unauthenticated") {
        Some(node) => node.boolean()?,
        None => false,
    };
    match (fields.get("meshTLS"), unauthenticated) {
        (None, true) => Some(ClientRequirement::Unauthenticated),
        (Some(node), true) => {
            node.error("must be absent where `unauthenticated` is `true`");
            None
        }
        (Some(node), false) => mesh_tls(&node),
        (None, false) => {
            fields.error("grants nobody: one of `meshTLS` and `unauthenticated: true` is required");
            None
        }
    }
}

fn mesh_tls(node: &JsonNode<'_>) -> Option<ClientRequirement> {
    const NAMES: AllowedFields =
        AllowedFields::Only(&["unauthenticatedTLS", "identities", "serviceAccounts"]);
    let fields = node.fields(NAMES)?;
    let any_tls = match fields.get("unauthenticatedTLS") {
        Some(node) => node.boolean()?,
        None => false,
    };
    let listed: Vec<JsonNode<'_>> =
        ["identities", "serviceAccounts"].into_iter().filter_map(|name| fields.get(name)).collect();
    if any_tls {
        for node in &listed {
            node.error("must be absent where `unauthenticatedTLS` is `true`");
        }
        return listed.is_empty().then_some(ClientRequirement::TlsUnauthenticated);
    }
    if listed.is_empty() {
        node.error(
            "grants nobody: one of `identities`, `serviceAccounts` and `unauthenticatedTLS: true` \
             is required",
        );
        return None;
    }
    let identities = match fields.get("identities") {
        Some(node) => every(&some(&node)?, dns_identity),
        None => Some(Vec::new()),
    };
    let service_accounts = match fields.get("serviceAccounts") {
        Some(node) => every(&some(&node)?, service_account),
        None => Some(Vec::new()),
    };
    Some(ClientRequirement::Identities {
        identities: identities?,
        service_accounts: service_accounts?,
    })
}

/// A list of clients, which must not be empty.
fn some<'a>(node: &JsonNode<'a>) -> Option<Vec<JsonNode<'a>>> {
    let list = node.list()?;
    if list.is_empty() {
        node.error("an empty list grants nobody, name somebody or remove the field");
        return None;
    }
    Some(list)
}

fn service_account(node: &JsonNode<'_>) -> Option<NamespacedName> {
    namespaced(&node.fields(AllowedFields::Only(&["name", "namespace"]))?)
}
