//! The grants of TrafficTargets on a port (docs/smi.md).
//!
//! A target that allows any bytes is a grant like one of an AuthorizationPolicy on a Server. One that allows
//! requests permits exactly these, whatever others the port has: an exemption with clients. A Server with routes
//! decides about requests by these alone, because a request that passed beside them would pass beside their
//! filters and denials.

use super::implicit::add_grants;
use crate::incremental::Context;
use crate::query::smi::TargetedTraffic;
use crate::query::workload::WorkloadShape;
use crate::resolve::smi::{grants, withheld};
use policy_core::{Authorization, Exemption, RequestMatch, ServerPolicy, Unmatched};
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
    let mut of_bytes = Vec::new();
    for (key, grant) in grants(cx, &shape.namespace, &shape.targets) {
        match &grant.outcome {
            Ok(traffic) if traffic.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) => {}
            Ok(TargetedTraffic { authorization, requests: None, .. }) => {
                of_bytes.push(Arc::clone(authorization));
            }
            Ok(TargetedTraffic { authorization, requests: Some(requests), .. }) => {
                add_requests(policy, &key, (authorization, requests));
            }
            Err(reason) => policy.withheld.push(withheld(&key, reason)),
        }
    }
    if !of_bytes.is_empty() {
        let mut all = policy.authorizations.to_vec();
        add_grants(&mut all, of_bytes);
        policy.authorizations = all.into();
    }
}

fn add_requests(
    policy: &mut ServerPolicy,
    key: &ObjectKey,
    (grant, requests): (&Arc<Authorization>, &[Arc<RequestMatch>]),
) {
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
            request: Some(Arc::clone(request)),
            authorization: Arc::clone(grant),
        }));
    }
}
