//! The header of a policy: everything besides its routes and grants.

use super::interner::Interner;
use super::update::{find, missing_key};
use super::{read, read_route};
use crate::error::{At, DecodeError, each, required};
use crate::messages as m;
use policy_core::authorization::{Authorization, AuthorizationSet};
use policy_core::policy::{Exemption, Route, RouteTable, ServerPolicy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The policy of a header, with the Server's own grants and the routes. `pool` has the grants that
/// exemptions name.
pub(super) fn policy(
    names: &Interner,
    header: &m::PortHeader,
    (authorizations, routes): (AuthorizationSet, Vec<Arc<Route>>),
    pool: &[(u64, Arc<Authorization>)],
) -> Result<ServerPolicy, DecodeError> {
    let m::PortHeader {
        owner,
        protocol,
        deny,
        paths,
        no_informational_headers,
        reuse_without_body,
        exemptions,
        rate_limit,
        effects,
        withheld,
        hosts,
        otherwise,
    } = header;
    let limit = |limit| read::rate_limit(names, limit);
    Ok(ServerPolicy {
        owner: required("owner", owner.as_ref(), |owner| read::owner(names, owner))?,
        protocol: required("protocol", protocol.as_ref(), read::protocol)?,
        deny: deny.as_deref().map(read::denied).transpose().at("deny")?,
        paths: read::paths(*paths).at("paths")?,
        informational_headers: read::informational_headers(*no_informational_headers),
        upstream_reuse: read::upstream_reuse(*reuse_without_body),
        authorizations,
        exemptions: each("exemptions", exemptions, |one| exemption(names, one, pool))?,
        routes: RouteTable {
            routes,
            hosts: table(names, hosts)?,
            otherwise: required("otherwise", otherwise.as_ref(), read::unmatched)?,
        },
        rate_limit: rate_limit.as_ref().map(limit).transpose().at("rate_limit")?,
        effects: each("effects", effects, |effect| read_route::effect(names, effect))?,
        withheld: each("withheld", withheld, |one| read::withheld(names, one))?,
    })
}

fn exemption(
    names: &Interner,
    exemption: &m::Exemption,
    pool: &[(u64, Arc<Authorization>)],
) -> Result<Exemption, DecodeError> {
    let m::Exemption { request, authorization: key } = exemption;
    let grant = find(pool, *key).ok_or_else(|| missing_key("authorization", *key));
    let request = request.as_ref().map(|wanted| read::request(names, wanted));
    Ok(Exemption {
        request: request.transpose().at("request")?.map(Arc::new),
        authorization: Arc::clone(grant.at("authorization")?),
    })
}

fn table(
    names: &Interner,
    hosts: &[m::HostRule],
) -> Result<BTreeMap<policy_core::HostPattern, policy_core::Unmatched>, DecodeError> {
    let host = |rule: &m::HostRule| {
        Ok((
            required("host", rule.host.as_ref(), |host| read::host(names, host))?,
            required("unmatched", rule.unmatched.as_ref(), read::unmatched)?,
        ))
    };
    let mut table = BTreeMap::new();
    for (number, (name, unmatched)) in each("hosts", hosts, host)?.into_iter().enumerate() {
        if table.insert(name, unmatched).is_some() {
            return Err(DecodeError::here("names a host twice")).item("hosts", number);
        }
    }
    Ok(table)
}
