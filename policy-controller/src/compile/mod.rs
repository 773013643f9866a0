//! Joins what was resolved into the policy of one port of one workload shape (controller-semantics
//! 2.13). Resources stop here: what comes out is the policy model alone.

mod default;
mod probe;
mod server;

pub(crate) use server::{Pieces, ServerPieces};

use crate::config::ProbeRoutes;
use crate::publish::UndeclaredPorts;
use crate::resolve::owner::PortsOwned;
use crate::resolve::workload::{self, Shape};
use crate::resolve::{Context, question};
use policy_core::{
    Authorization, Condition, DefaultPolicy, Denied, NetworkMatch, Requirement, ServerPolicy,
    Source, Test,
};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// How long a detecting port waits for the first bytes, as in Linkerd.
pub(crate) const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The policy of a port of every workload of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PolicyOf {
    /// The shape.
    pub(crate) shape: Arc<Shape>,
    /// The port.
    pub(crate) port: NonZeroU16,
}

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
        default::proxy_port(&cx.config.metrics)
    } else if shape.require_identity.contains(port) {
        default::policy(default::authenticated(policy), opaque)
    } else {
        default::policy(policy, opaque)
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

/// Adds the grant to loopback addresses that every port of Linkerd's proxy has, if configured.
/// What is audited stays last.
fn with_localhost(
    cx: &Context<'_>,
    mut authorizations: Vec<Arc<Authorization>>,
) -> Vec<Arc<Authorization>> {
    if cx.config.localhost_authorization {
        let source = Source::Default("localhost".into());
        let loopback = [
            ipnet::Ipv4Net::new(std::net::Ipv4Addr::LOCALHOST, 8).ok().map(|n| n.trunc().into()),
            ipnet::Ipv6Net::new(std::net::Ipv6Addr::LOCALHOST, 128).ok().map(Into::into),
        ];
        let test = Test::Network(loopback.into_iter().flatten().map(NetworkMatch::net).collect());
        let condition = Condition { source: source.clone(), test };
        let requirement = Requirement::All([condition].into());
        let grant = Arc::new(Authorization { source, requirement, audit: false });
        let audited = authorizations.iter().position(|a| a.audit).unwrap_or(authorizations.len());
        authorizations.insert(audited, grant);
    }
    authorizations
}

/// The grant of a default policy, as a list.
fn grants_of(policy: DefaultPolicy) -> Vec<Arc<Authorization>> {
    policy.authorizations().to_vec()
}
