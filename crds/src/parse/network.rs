//! Networks: blocks of addresses with exceptions.

use crate::reader::{AllowedFields, JsonNode, quote};
use ipnet::IpNet;
use policy_core::address::parse_block;
use policy_core::{NetworkMatch, NetworkTerm};

/// A list of `{cidr, except}`.
pub(crate) fn networks(node: &JsonNode<'_>) -> Option<Vec<NetworkMatch>> {
    node.clean(|node| node.list_of(network))
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
    match parse_block(text) {
        Ok(net) => Some(net),
        Err(reason) => {
            let reason = match text.split_once('-') {
                Some(_) => "is a range, write it as networks such as `10.0.0.0/24`".to_owned(),
                None => reason,
            };
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}
