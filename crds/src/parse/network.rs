//! Networks: blocks of addresses with exceptions.

use crate::reader::{AllowedFields, JsonNode, quote};
use ipnet::IpNet;
use policy_core::{NetworkMatch, NetworkTerm};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A list of `{cidr, except}`.
pub(crate) fn networks(node: &JsonNode<'_>) -> Option<Vec<NetworkMatch>> {
    node.clean(|node| node.list()?.iter().map(network).collect())
}

fn network(node: &JsonNode<'_>) -> Option<NetworkMatch> {
    let fields = node.fields(AllowedFields::Only(&["cidr", "except"]))?;
    let block = fields.require("cidr").and_then(|node| Some((cidr(&node)?, node)));
    let except: Vec<(IpNet, JsonNode<'_>)> = match fields.get("except") {
        Some(node) => {
            node.list()?.into_iter().filter_map(|node| Some((cidr(&node)?, node))).collect()
        }
        None => Vec::new(),
    };
    let (net, block) = block?;
    for (exception, node) in &except {
        check_exception(net, *exception, node);
    }
    let except: Vec<IpNet> = except.into_iter().map(|(exception, _)| exception).collect();
    let together = IpNet::aggregate(&except);
    if !except.iter().any(|e| e.contains(&net)) && together.iter().any(|e| e.contains(&net)) {
        block.error(format!("`{net}` is negated completely by its exceptions together"));
    }
    Some(NetworkMatch { term: NetworkTerm::Net(net), except })
}

fn check_exception(net: IpNet, exception: IpNet, node: &JsonNode<'_>) {
    if exception.contains(&net) {
        node.error(format!("the exception `{exception}` negates `{net}` completely"));
    } else if !net.contains(&exception) {
        node.error(format!("the exception `{exception}` is not inside `{net}`"));
    }
}

/// A block, or an address that stands for itself.
pub(crate) fn cidr(node: &JsonNode<'_>) -> Option<IpNet> {
    let text = node.text()?;
    match block(text) {
        Ok(net) => Some(net),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

/// Reads a block. The reason follows the quoted text.
fn block(text: &str) -> Result<IpNet, String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address = parse_address(address)?;
    let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        Some(length) => prefix_length(length, longest)?,
        None => longest,
    };
    let net = IpNet::new(address, length).map_err(|_| "is not a network".to_owned())?;
    let masked = net.trunc();
    if masked.addr() != address {
        return Err(format!("has bits set beyond the first {length}, write `{masked}`"));
    }
    if let IpNet::V6(v6) = masked {
        refuse_mapped(v6)?;
    }
    Ok(masked)
}

fn parse_address(text: &str) -> Result<IpAddr, String> {
    const FORM: &str = "is not an address or network such as `10.0.0.0/8` or `fd00::/8`";
    if text.contains('%') {
        return Err("names a zone, which means nothing to another host".to_owned());
    }
    if text.contains(char::is_whitespace) {
        return Err("contains spaces".to_owned());
    }
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| FORM.to_owned());
    }
    let padded = |part: &str| part.len() > 1 && part.starts_with('0');
    if text.split('.').any(padded) {
        return Err("has leading zeros, which some programs read as octal".to_owned());
    }
    text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| FORM.to_owned())
}

fn prefix_length(text: &str, longest: u8) -> Result<u8, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    match text.parse::<u8>() {
        Ok(length) if digits && !padded && length <= longest => Ok(length),
        Ok(_) | Err(_) => Err(format!(
            "has no valid length after `/`, expected 0 to {longest} without leading zeros"
        )),
    }
}

/// Rejects IPv4-mapped blocks. Clients at `::ffff:a.b.c.d` appear as `a.b.c.d`, so that such a
/// block would match no client.
fn refuse_mapped(net: ipnet::Ipv6Net) -> Result<(), String> {
    let Some(v4) = net.addr().to_ipv4_mapped() else { return Ok(()) };
    let length = net.prefix_len().saturating_sub(96);
    Err(format!("is IPv4 in IPv6 notation, which matches nobody, write `{v4}/{length}`"))
}
