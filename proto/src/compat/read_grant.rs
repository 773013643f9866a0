//! Reads grants.

use super::{meta, network};
use crate::error::{At, DecodeError, Result, each, required};
use crate::linkerd::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
use crate::linkerd::inbound::authn::{Permit, PermitMeshTls, PermitUnauthenticated};
use crate::linkerd::inbound::{Authn, Authz};
use policy_core::authorization::{
    Authorization, AuthorizationSet, Condition, Predicate, Requirement,
};
use policy_core::identity::IdentityMatch;
use policy_core::name::Source;
use std::sync::Arc;

pub(super) fn read_grants(grants: &[Authz]) -> Result<AuthorizationSet> {
    let grants = each("authorizations", grants, read_grant)?;
    Ok(grants.into_iter().map(Arc::new).collect())
}

fn read_grant(grant: &Authz) -> Result<Authorization> {
    let Authz { networks, authentication, labels, metadata } = grant;
    let source = meta::read_grant(metadata.as_ref(), labels)?;
    if networks.is_empty() {
        return Err(DecodeError::here("must not be empty")).at("networks");
    }
    let networks = Predicate::Network(each("networks", networks, network::read_network)?);
    let client = required("authentication", authentication.as_ref(), read_authentication)?;
    let conditions = [Some(networks), client].into_iter().flatten();
    let conditions = conditions.map(|test| Condition { source: source.clone(), test }).collect();
    // Linkerd's proxies log permits of the grant of this name.
    let audit = source == Source::Default("audit".into());
    Ok(Authorization { source, requirement: Requirement::All(conditions), audit })
}

/// Reads the predicate on the client's identity, if there is one.
fn read_authentication(authentication: &Authn) -> Result<Option<Predicate>> {
    match authentication.permit.as_ref().ok_or_else(DecodeError::missing)? {
        Permit::Unauthenticated(PermitUnauthenticated {}) => Ok(None),
        Permit::MeshTls(PermitMeshTls { clients }) => {
            let clients =
                required("clients", clients.as_ref(), |clients| Ok(read_clients(clients)));
            clients.at("mesh_tls").map(Some)
        }
    }
}

fn read_clients(clients: &Clients) -> Predicate {
    match clients {
        Clients::Unauthenticated(PermitUnauthenticated {}) => Predicate::MeshTls,
        Clients::Identities(PermitClientIdentities { identities, suffixes }) => {
            let exact = identities.iter().map(|id| IdentityMatch::Exact(id.name.as_str().into()));
            let suffixes = suffixes.iter().map(|suffix| match suffix.parts.as_slice() {
                [] => IdentityMatch::Any,
                parts => IdentityMatch::Suffix(parts.join(".").into()),
            });
            Predicate::Identity(exact.chain(suffixes).collect())
        }
    }
}
