//! The grants of TrafficTargets on a port (docs/smi.md).
//!
//! A target that allows any bytes is a grant like one of an AuthorizationPolicy on a Server. One that allows
//! requests permits exactly these, whatever others the port has: an exemption with clients. A Server with routes
//! decides about requests by these alone, because a request that passed beside them would pass beside their
//! filters and denials.

use super::implicit::add_grant;
use crate::incremental::Context;
use crate::query::smi::TargetedTraffic;
use crate::query::workload::WorkloadShape;
use crate::resolve::smi::{grants, withheld};
use policy_core::{Exemption, ServerPolicy, Unmatched};
use policy_crds::ObjectKey;
use std::num::NonZeroU16;
use std::sync::Arc;

/// True if TrafficTargets close a port that no Server owns. The ports of the proxy itself belong to the mesh.
pub(super) fn is_closed(shape: &WorkloadShape, port: NonZeroU16) -> bool {
    !shape.targets.is_empty() && !shape.proxy.contains(&port)
}

/// Adds the grants of TrafficTargets.
pub(super) fn add_targets(
    cx: &mut Context<'_>,
    shape: &WorkloadShape,
    port: NonZeroU16,
    policy: &mut ServerPolicy,
) {
    if !is_closed(shape, port) || policy.deny.is_some() {
        return;
    }
    for (key, grant) in grants(cx, &shape.namespace, &shape.targets) {
        match &grant.outcome {
            Ok(traffic) => {
                if traffic.ports.as_ref().is_none_or(|ports| ports.contains(&port)) {
                    add(policy, &key, traffic);
                }
            }
            Err(reason) => policy.withheld.push(withheld(&key, reason)),
        }
    }
}

fn add(policy: &mut ServerPolicy, key: &ObjectKey, traffic: &TargetedTraffic) {
    let grant = &traffic.authorization;
    let Some(requests) = &traffic.requests else {
        let mut all: Vec<_> = policy.authorizations.iter().cloned().collect();
        add_grant(&mut all, Arc::clone(grant));
        policy.authorizations = all.into_iter().collect();
        return;
    };
    let table = &policy.routes;
    let routed = !table.routes.is_empty()
        || !table.hosts.is_empty()
        || table.otherwise != Unmatched::DefaultRoute;
    if !policy.protocol.is_http() {
        policy.withheld.push(withheld(key, "it allows requests, and the port carries bytes"));
    } else if routed {
        let reason = "it allows requests, and the Server has routes, which decide about them";
        policy.withheld.push(withheld(key, reason));
    } else {
        policy.exemptions.extend(requests.iter().map(|request| Exemption {
            request: Some(request.clone()),
            authorization: Arc::clone(grant),
        }));
    }
}
