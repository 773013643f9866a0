//! `virtualhost`: the hosts of a root, and the constraints of its tree.

use super::fields::{MAX_ALIASES, MAX_NETWORKS, VIRTUAL_HOST};
use crate::kind::Kind;
use crate::parse::host::host;
use crate::parse::network::networks;
use crate::parse::target::{Reference, Target};
use crate::reader::{AllowedFields, Fields, JsonNode};
use crate::resource::{RequiredTls, VirtualHost};
use policy_core::{HostPattern, NetworkMatch};
use std::sync::Arc;

pub(super) fn read(node: &JsonNode<'_>) -> Option<VirtualHost> {
    let fields = node.fields(AllowedFields::Only(VIRTUAL_HOST))?;
    let hosts = hosts(&fields);
    let target = match fields.get("targetRef") {
        Some(node) => server(&node).map(Some),
        None => Some(None),
    };
    let tls = match fields.get("tls") {
        Some(node) => tls(&node),
        None => Some(RequiredTls::Optional),
    };
    let access_list = match fields.get("accessList") {
        Some(node) => access_list(&node).map(Some),
        None => Some(None),
    };
    let allow_regex_children = match fields.get("allowRegexChildren") {
        Some(node) => node.boolean(),
        None => Some(false),
    };
    Some(VirtualHost {
        hosts: hosts?,
        target: target?,
        tls: tls?,
        access_list: access_list?,
        allow_regex_children: allow_regex_children?,
    })
}

/// The fqdn, then the aliases. Two spellings of one host are one host.
fn hosts(fields: &Fields<'_>) -> Option<Vec<HostPattern>> {
    let fqdn = fields.require("fqdn").and_then(|node| host(&node));
    let mut hosts: Vec<HostPattern> = fqdn.iter().cloned().collect();
    if let Some(node) = fields.get("aliases") {
        node.clean(|node| {
            for node in node.list_up_to(MAX_ALIASES)? {
                let Some(alias) = host(&node) else { continue };
                if hosts.contains(&alias) {
                    node.error("names a host again, every host may appear only once");
                }
                hosts.push(alias);
            }
            Some(())
        })?;
    }
    fqdn.map(|_| hosts)
}

/// A Server of the object's own namespace.
fn server(node: &JsonNode<'_>) -> Option<Arc<str>> {
    let allowed = &[Target::Kind(Kind::Server)];
    Reference::read(node, &["group", "kind", "name"], allowed)?.name()
}

fn tls(node: &JsonNode<'_>) -> Option<RequiredTls> {
    let fields = node.fields(AllowedFields::Only(&["mode"]))?;
    fields.require("mode")?.choice(&[
        ("MutualRequired", RequiredTls::MutualRequired),
        ("Required", RequiredTls::Required),
        ("Optional", RequiredTls::Optional),
    ])
}

fn access_list(node: &JsonNode<'_>) -> Option<Vec<NetworkMatch>> {
    node.list_up_to(MAX_NETWORKS)?;
    networks(node)
}
