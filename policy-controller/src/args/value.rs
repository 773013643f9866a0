//! Values of flags that several parts have.

use super::error::ArgsError;
use super::text::{items, socket_address};
use ipnet::IpNet;
use policy_core::{DefaultPolicy, NetworkMatch, NetworkSymbol};
use std::net::{IpAddr, SocketAddr};

/// The same for a flag, which is named where it is none.
pub(crate) fn address(flag: &'static str, value: &str) -> Result<SocketAddr, ArgsError> {
    socket_address(value).ok_or_else(|| ArgsError::Address { flag, value: value.to_owned() })
}

pub(crate) fn network(
    flag: &'static str,
    item: &str,
    also: &'static str,
) -> Result<IpNet, ArgsError> {
    item.parse::<IpNet>()
        .or_else(|_| item.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| ArgsError::Network { flag, value: item.to_owned(), also })
}

pub(crate) fn probe_networks(list: &str) -> Result<Vec<NetworkMatch>, ArgsError> {
    items(list)
        .map(|item| match item {
            "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
            item => network("probe-networks", item, " or `node-local`").map(NetworkMatch::net),
        })
        .collect()
}

pub(crate) fn default_policy(value: &str) -> Result<DefaultPolicy, ArgsError> {
    DefaultPolicy::parse(value).ok_or_else(|| ArgsError::DefaultPolicy {
        value: value.to_owned(),
        allowed: DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", "),
    })
}

/// Networks and the symbols that stand for some, for the flag `flag`.
pub(crate) fn networks(flag: &'static str, list: &str) -> Result<Vec<NetworkMatch>, ArgsError> {
    items(list)
        .map(|item| match item {
            "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
            "cluster" => Ok(NetworkMatch::symbol(NetworkSymbol::Cluster)),
            item => network(flag, item, ", `node-local` or `cluster`").map(NetworkMatch::net),
        })
        .collect()
}
