//! Permissions without an authorization: for the kubelet (docs/spec/decisions.md, *Where compatible and safe
//! differ*), and for connections from the pod itself.

use crate::behaviour::Behaviour;
use crate::config::{ControllerConfig, KubeletExemption};
use crate::incremental::Context;
use policy_core::{
    Authorization, Condition, Exemption, NetworkMatch, PathPattern, Predicate, Protocol,
    RequestMatch, Requirement, Source, canonical_path,
};
use policy_crds::resource::{Probe, ProbeAction, ProbeOrigin};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The exemptions of a port: requests first, ordered by path, then connections.
pub(super) fn exemptions(
    config: &ControllerConfig,
    probes: &BTreeSet<Probe>,
    port: NonZeroU16,
    protocol: Protocol,
) -> Vec<Exemption> {
    if config.probe_networks.is_empty() {
        return Vec::new();
    }
    match config.kubelet_exemption {
        KubeletExemption::All => everything(config, protocol),
        KubeletExemption::Probes => declared(config, probes, port, protocol),
    }
}

fn everything(config: &ControllerConfig, protocol: Protocol) -> Vec<Exemption> {
    let authorization = grant(config, None);
    let request = protocol.is_http().then(|| Some(Arc::new(RequestMatch::everything())));
    let connection = protocol.allows_opaque().then_some(None);
    request
        .into_iter()
        .chain(connection)
        .map(|request| Exemption { request, authorization: authorization.clone() })
        .collect()
}

fn declared(
    config: &ControllerConfig,
    probes: &BTreeSet<Probe>,
    port: NonZeroU16,
    protocol: Protocol,
) -> Vec<Exemption> {
    let as_linkerd = config.follows_linkerd(Behaviour::ProbeKinds);
    let counts = |probe: &&Probe| match probe.origin {
        ProbeOrigin::Probe => true,
        ProbeOrigin::Hook => !as_linkerd,
        ProbeOrigin::OtherHost => as_linkerd,
    };
    let own = probes.iter().filter(|probe| probe.port == port).filter(counts);
    let mut own: Vec<&ProbeAction> = own.map(|probe| &probe.action).collect();
    // A probe and a hook may make the same request.
    own.dedup();
    let mut exemptions: Vec<Exemption> = Vec::new();
    if protocol.is_http() {
        let authorization = grant(config, None);
        let requests = own.iter().filter_map(|action| request(action, as_linkerd));
        exemptions.extend(requests.map(|request| Exemption {
            request: Some(Arc::new(request)),
            authorization: authorization.clone(),
        }));
    }
    let over_tls =
        own.iter().any(|action| matches!(action, ProbeAction::HttpGet { tls: true, .. }));
    if over_tls && !as_linkerd && protocol.allows_opaque() {
        let authorization = grant(config, Some(Predicate::TlsPassthrough));
        exemptions.push(Exemption { request: None, authorization });
    }
    exemptions
}

/// The request that a probe makes in the clear. Linkerd's controller takes HTTP probes alone, and
/// does not look at their scheme.
fn request(action: &ProbeAction, as_linkerd: bool) -> Option<RequestMatch> {
    match action {
        // The sidecar refuses a target that applications read differently, from every client.
        ProbeAction::HttpGet { path, .. } if !canonical_path(path).is_ok_and(|it| it == **path) => {
            None
        }
        ProbeAction::HttpGet { path, tls } if as_linkerd || !tls => {
            let path = RequestMatch::path(PathPattern::exact(path));
            Some(path.with_method(Some(http::Method::GET)))
        }
        ProbeAction::Grpc if !as_linkerd => {
            Some(RequestMatch::grpc(Some("grpc.health.v1.Health"), Some("Check")))
        }
        // The first is seen as a connection only; the second is rewritten by the injector.
        ProbeAction::HttpGet { .. } | ProbeAction::TcpSocket | ProbeAction::Grpc => None,
    }
}

fn grant(config: &ControllerConfig, further: Option<Predicate>) -> Arc<Authorization> {
    let source = Source::Default("probe".into());
    let tests = std::iter::once(Predicate::Network(config.probe_networks.clone())).chain(further);
    let conditions = tests.map(|test| Condition { source: source.clone(), test }).collect();
    Arc::new(Authorization {
        source: source.clone(),
        requirement: Requirement::All(conditions),
        audit: false,
    })
}

/// Adds the grant to loopback addresses that every port of Linkerd's proxy has, if configured.
pub(super) fn with_localhost(
    cx: &Context<'_>,
    mut authorizations: Vec<Arc<Authorization>>,
) -> Vec<Arc<Authorization>> {
    if cx.config.localhost_authorization {
        let source = Source::Default("localhost".into());
        let loopback = [
            ipnet::Ipv4Net::new(std::net::Ipv4Addr::LOCALHOST, 8).ok().map(|n| n.trunc().into()),
            ipnet::Ipv6Net::new(std::net::Ipv6Addr::LOCALHOST, 128).ok().map(Into::into),
        ];
        let test =
            Predicate::Network(loopback.into_iter().flatten().map(NetworkMatch::net).collect());
        let condition = Condition { source: source.clone(), test };
        let requirement = Requirement::All([condition].into());
        let grant = Arc::new(Authorization { source, requirement, audit: false });
        add_grants(&mut authorizations, vec![grant]);
    }
    authorizations
}

/// Adds grants before the audit grants, which stay last.
pub(super) fn add_grants(
    authorizations: &mut Vec<Arc<Authorization>>,
    grants: Vec<Arc<Authorization>>,
) {
    let audited = authorizations.iter().position(|a| a.audit).unwrap_or(authorizations.len());
    authorizations.splice(audited..audited, grants);
}
