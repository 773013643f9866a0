//! The policy of one port of one workload shape.

use super::common::with_localhost;
use super::{default, probe};
use crate::config::ProbeRoutes;
use crate::incremental::{Context, question};
use crate::question::owner::PortsOwned;
use crate::question::policy::{Pieces, PolicyOf, ServerPieces};
use crate::question::workload::Shape;
use crate::resolve::workload;
use policy_core::{Denied, ServerPolicy, UndeclaredPorts};
use std::num::NonZeroU16;
use std::sync::Arc;

question!(PolicyOf, Arc<ServerPolicy>, policy_of);

fn policy_of(question: &PolicyOf, cx: &mut Context<'_>) -> Arc<ServerPolicy> {
    let PolicyOf { shape, port } = question;
    let owners = cx.ask(&PortsOwned(shape.clone()));
    let policy = match owners.of(*port) {
        Some(server) => {
            let pieces = cx.ask(&ServerPieces(server.clone()));
            owned_port(cx, &pieces, shape, *port)
        }
        None => default_port(cx, shape, *port),
    };
    cx.intern(policy)
}

fn owned_port(cx: &Context<'_>, pieces: &Pieces, shape: &Shape, port: NonZeroU16) -> ServerPolicy {
    let mut policy = pieces.policy.clone();
    let wanted = match cx.config.probe_routes {
        ProbeRoutes::Always => true,
        ProbeRoutes::Unrouted => !pieces.routed,
    };
    if wanted && policy.deny.is_none() {
        policy.exemptions = probe::exemptions(cx.config, &shape.probes, port, policy.protocol);
    }
    policy
}

fn default_port(cx: &mut Context<'_>, shape: &Shape, port: NonZeroU16) -> ServerPolicy {
    let policy = workload::default_policy(cx, shape);
    let opaque = shape.opaque.contains(port);
    let mut compiled = if shape.proxy.contains(&port) {
        default::proxy_port(cx.config)
    } else if shape.require_identity.contains(port) {
        default::policy(cx.config, default::authenticated(policy), opaque)
    } else {
        default::policy(cx.config, policy, opaque)
    };
    let undeclared =
        !shape.declared.contains(&port) && workload::undeclared(cx, shape) == UndeclaredPorts::Deny;
    if undeclared {
        compiled.deny = Some(Denied::PortUndeclared);
        return compiled;
    }
    compiled.authorizations = with_localhost(cx, compiled.authorizations.to_vec()).into();
    compiled.exemptions = probe::exemptions(cx.config, &shape.probes, port, compiled.protocol);
    compiled
}
