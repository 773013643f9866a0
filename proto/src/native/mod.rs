//! The native service's messages: full states, changes, facts, revisions.
//!
//! The server keeps an [`EncodedPort`] per policy and feature set, and sends [`EncodedPort::full`] or
//! the [`diff`] of two. The client applies either to a [`PortState`].

pub mod lean;
mod names;
mod pieces;
mod port;
mod read;
mod restrict;
mod state;
mod update;
mod write;

pub(crate) use read::{bounded, duration as read_duration, header_name, header_value};
pub(crate) use read::{method, pattern, prefix};
pub(crate) use write::duration as write_duration;

pub use port::{EncodedPort, diff, encode_port};
pub use state::{ApplyError, PortState};
pub use update::Update;

use crate::error::{DecodeError, each};
use crate::messages as m;
use policy_core::feature::Feature;
use policy_core::network::Facts;
use policy_core::revision::Revision;
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
    let Facts { pod_addresses, node_local, cluster } = facts;
    m::Facts {
        pod_addresses: pod_addresses.iter().copied().map(write::address).collect(),
        node_local: node_local.iter().map(write::network).collect(),
        cluster: cluster.iter().map(write::network).collect(),
    }
}

/// Reads a workload's facts.
///
/// # Errors
/// An address or a block that is none, by its field.
pub fn decode_facts(facts: &m::Facts) -> Result<Facts, DecodeError> {
    let m::Facts { pod_addresses, node_local, cluster } = facts;
    Ok(Facts {
        pod_addresses: each("pod_addresses", pod_addresses, |bytes| read::address(bytes))?,
        node_local: each("node_local", node_local, read::network)?,
        cluster: each("cluster", cluster, read::network)?,
    })
}

/// Encodes a revision.
pub fn encode_revision(revision: &Revision) -> m::Revision {
    let Revision { epoch, content, versions } = revision;
    m::Revision {
        epoch: epoch.to_string(),
        content: *content,
        versions: versions.iter().map(|(kind, version)| (kind.to_string(), *version)).collect(),
    }
}

/// Reads a revision. Cannot fail now; callers must expect that it may.
///
/// # Errors
/// None yet.
pub fn decode_revision(revision: &m::Revision) -> Result<Revision, DecodeError> {
    let m::Revision { epoch, content, versions } = revision;
    Ok(Revision {
        epoch: epoch.as_str().into(),
        content: *content,
        versions: versions.iter().map(|(kind, version)| (kind.as_str().into(), *version)).collect(),
    })
}
