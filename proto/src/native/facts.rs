//! Messages besides policies: features and a workload's facts.

use super::{read, write};
use crate::error::{DecodeError, each};
use crate::messages as m;
use policy_core::feature::Feature;
use policy_core::network::Facts;
use policy_core::{AccessLogs, Logs};
use std::collections::BTreeSet;

/// Encodes features by name, as a client sends them in `Hello`.
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
    let Facts { pod_addresses, node_local, pod_gateways, cluster, logs } = facts;
    m::Facts {
        pod_addresses: pod_addresses.iter().copied().map(write::address).collect(),
        node_local: node_local.iter().map(write::network).collect(),
        cluster: cluster.iter().map(write::network).collect(),
        pod_gateways: pod_gateways.iter().copied().map(write::address).collect(),
        logs: (*logs != Logs::default()).then(|| encode_logs(logs)),
    }
}

/// Reads a workload's facts.
///
/// # Errors
/// An address or a block that is none, by its field.
pub fn decode_facts(facts: &m::Facts) -> Result<Facts, DecodeError> {
    let m::Facts { pod_addresses, node_local, cluster, pod_gateways, logs } = facts;
    Ok(Facts {
        pod_addresses: each("pod_addresses", pod_addresses, |bytes| read::address(bytes))?,
        node_local: each("node_local", node_local, read::network)?,
        pod_gateways: each("pod_gateways", pod_gateways, |bytes| read::address(bytes))?,
        cluster: each("cluster", cluster, read::network)?,
        logs: logs.as_ref().map(decode_logs).unwrap_or_default(),
    })
}

fn encode_logs(Logs { filter, access_log }: &Logs) -> m::Logs {
    let access_log = match access_log {
        None => m::AccessLogs::Unspecified,
        Some(AccessLogs::Off) => m::AccessLogs::Off,
        Some(AccessLogs::Apache) => m::AccessLogs::Apache,
        Some(AccessLogs::Json) => m::AccessLogs::Json,
    };
    m::Logs {
        filter: filter.as_deref().unwrap_or_default().to_owned(),
        access_log: access_log.into(),
    }
}

/// Reads log settings. Unreadable ones are left unset: no decision depends on them, and they must
/// not block the facts that decisions depend on.
fn decode_logs(m::Logs { filter, access_log }: &m::Logs) -> Logs {
    let access_log = match m::AccessLogs::try_from(*access_log) {
        Ok(m::AccessLogs::Unspecified) | Err(_) => None,
        Ok(m::AccessLogs::Off) => Some(AccessLogs::Off),
        Ok(m::AccessLogs::Apache) => Some(AccessLogs::Apache),
        Ok(m::AccessLogs::Json) => Some(AccessLogs::Json),
    };
    let filter = Some(filter.as_str()).filter(|filter| !filter.is_empty());
    Logs { filter: filter.map(Into::into), access_log }
}
