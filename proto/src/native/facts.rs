//! What a client is told beside policies: features and a workload's facts.

use super::{read, write};
use crate::error::{DecodeError, each};
use crate::messages as m;
use policy_core::feature::Feature;
use policy_core::network::Facts;
use std::collections::BTreeSet;

/// The features of this version, by name: what a client says in `Hello`.
pub fn encode_features(features: &BTreeSet<Feature>) -> Vec<String> {
    features.iter().map(|feature| feature.as_str().to_owned()).collect()
}

/// The features that a client has, of those known here. Others are of no use: nothing this version
/// sends needs them.
pub fn decode_features(names: &[String]) -> BTreeSet<Feature> {
    names.iter().filter_map(|name| Feature::parse(name)).collect()
}

/// Encodes a workload's facts.
pub fn encode_facts(facts: &Facts) -> m::Facts {
    let Facts { pod_addresses, node_local, pod_gateways, cluster } = facts;
    m::Facts {
        pod_addresses: pod_addresses.iter().copied().map(write::address).collect(),
        node_local: node_local.iter().map(write::network).collect(),
        cluster: cluster.iter().map(write::network).collect(),
        pod_gateways: pod_gateways.iter().copied().map(write::address).collect(),
    }
}

/// Reads a workload's facts.
///
/// # Errors
/// An address or a block that is none, by its field.
pub fn decode_facts(facts: &m::Facts) -> Result<Facts, DecodeError> {
    let m::Facts { pod_addresses, node_local, cluster, pod_gateways } = facts;
    Ok(Facts {
        pod_addresses: each("pod_addresses", pod_addresses, |bytes| read::address(bytes))?,
        node_local: each("node_local", node_local, read::network)?,
        pod_gateways: each("pod_gateways", pod_gateways, |bytes| read::address(bytes))?,
        cluster: each("cluster", cluster, read::network)?,
    })
}
