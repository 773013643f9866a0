//! Tests of the counts, by hand and against a naive implementation of the definition.
#![allow(clippy::arithmetic_side_effects, reason = "a test ends where it cannot go on")]

mod acks;
mod timing;
mod tracker;

use super::acks::AckTable;
use crate::serve::{InForce, WorkloadPort, cut};
use policy_core::{ObjectRef, WorkloadKey};
use policy_engine::desired::{DesiredDelta, DesiredPolicy, DesiredPorts, ShapeId};
use policy_engine::report::Count;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which these tests retain withdrawn reports.
const KEEP: Duration = Duration::from_secs(10);

fn object(name: &str) -> ObjectRef {
    ObjectRef::new("policy.linkerd.io", "Server", "ns", name)
}

fn pod(name: &str) -> WorkloadKey {
    WorkloadKey::pod("ns", name)
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn at(name: &str, number: u16) -> WorkloadPort {
    (pod(name), port(number))
}

/// The desired policy of one port.
fn wanted(content: u64, objects: &[&str]) -> Arc<DesiredPolicy> {
    Arc::new(DesiredPolicy { content, objects: objects.iter().map(|name| object(name)).collect() })
}

fn ports(ports: &[(u16, Arc<DesiredPolicy>)]) -> DesiredPorts {
    ports.iter().map(|(number, wanted)| (port(*number), wanted.clone())).collect()
}

fn news(shapes: &[(ShapeId, DesiredPorts)], pods: &[(&str, Option<ShapeId>)]) -> DesiredDelta {
    DesiredDelta {
        since: Instant::now(),
        shapes: shapes.to_vec(),
        workloads: pods.iter().map(|(name, shape)| (pod(name), *shape)).collect(),
        objects: Vec::new(),
        reaches: Vec::new(),
    }
}

fn has(content: u64) -> Option<InForce> {
    Some(InForce { content, refused: None, since: Instant::now() })
}

fn refuses(content: u64) -> Option<InForce> {
    Some(InForce { content, refused: Some("no".into()), since: Instant::now() })
}

fn count(in_force: u64, concerned: u64, refused: u64) -> Count {
    Count { in_force, concerned, refused }
}

/// The counts, by name.
fn counts(acks: &mut AckTable) -> Vec<(String, Count)> {
    acks.recount();
    acks.counts().iter().map(|(object, count)| (object.name().to_string(), *count)).collect()
}
