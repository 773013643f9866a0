//! The policy of one port of one workload shape: that of its Server, which is the same for every
//! port that the Server owns, or the defaults where no Server owns it (docs/spec/controller.md 2.3).

use super::implicit::{exemptions, with_localhost};
use super::smi::{add_targets, is_closed};
use crate::config::{ControllerConfig, MetricsReaders, ProbeRoutes};
use crate::incremental::{Context, query};
use crate::query::delegation::{ConstrainedRoutesOf, DelegatedRoutesOf};
use crate::query::grant::ServerGrants;
use crate::query::policy::{
    AttachedRoutesOf, PolicyOf, RateLimitOf, ServerAuthorizationsOf, ServerBaseOf,
};
use crate::query::port_ownership::PortOwnersOf;
use crate::query::workload::WorkloadShape;
use crate::resolve::effects::effects_on;
use crate::resolve::smi::named_ports;
use crate::resolve::workload;
use policy_core::{
    Authorization, AuthorizationSet, Condition, DefaultPolicy, Denied, IdentityMatch, Owner,
    PathHandling, Predicate, Protocol, Requirement, ServerPolicy, Source, UndeclaredPorts,
    Unmatched,
};
use policy_crds::resource::{ProxyProtocol, Server};
use policy_crds::{Body, ObjectKey, ObjectMeta, Resource, server_annotation};
use std::num::NonZeroU16;
use std::sync::Arc;

query!(PolicyOf, Arc<ServerPolicy>, policy_of);
query!(ServerAuthorizationsOf, AuthorizationSet, server_authorizations);
query!(ServerBaseOf, Arc<ServerPolicy>, server_pieces);

fn policy_of(query: &PolicyOf, cx: &mut Context<'_>) -> Arc<ServerPolicy> {
    let PolicyOf { shape, port } = query;
    let owners = cx.query(&PortOwnersOf(shape.clone()));
    let mut policy = match owners.of(*port) {
        Some(server) => {
            let pieces = cx.query(&ServerBaseOf(server.clone()));
            owned_port(cx, &pieces, shape, *port)
        }
        None => default_port(cx, shape, *port),
    };
    add_targets(cx, shape, *port, &mut policy);
    cx.intern(policy)
}

fn owned_port(
    cx: &Context<'_>,
    pieces: &ServerPolicy,
    shape: &WorkloadShape,
    port: NonZeroU16,
) -> ServerPolicy {
    let mut policy = pieces.clone();
    let wanted = match cx.config.probe_routes {
        ProbeRoutes::Always => true,
        ProbeRoutes::Unrouted => policy.routes.otherwise == Unmatched::DefaultRoute,
    };
    if wanted && policy.deny.is_none() {
        policy.exemptions = exemptions(cx.config, &shape.probes, port, policy.protocol);
    }
    policy
}

fn default_port(cx: &mut Context<'_>, shape: &WorkloadShape, port: NonZeroU16) -> ServerPolicy {
    let policy = match is_closed(shape, port) {
        true => DefaultPolicy::Deny,
        false => workload::default_policy(cx, shape),
    };
    let opaque = shape.opaque.contains(port);
    let mut compiled = if shape.proxy.contains(&port) && !shape.proxy_by_default {
        proxy_port(cx.config)
    } else if shape.require_identity.contains(port) {
        unowned(cx.config, authenticated(policy), opaque)
    } else {
        unowned(cx.config, policy, opaque)
    };
    let undeclared =
        !shape.declared.contains(&port) && workload::undeclared(cx, shape) == UndeclaredPorts::Deny;
    if undeclared && !named_ports(cx, &shape.namespace, &shape.targets).contains(&port) {
        compiled.deny = Some(Denied::PortUndeclared);
        return compiled;
    }
    compiled.authorizations = with_localhost(cx, compiled.authorizations.to_vec()).into();
    compiled.exemptions = exemptions(cx.config, &shape.probes, port, compiled.protocol);
    compiled
}

/// The policy of a port that no Server owns, before probes.
fn unowned(config: &ControllerConfig, policy: DefaultPolicy, opaque: bool) -> ServerPolicy {
    let timeout = config.detect_timeout;
    let protocol = if opaque { Protocol::Opaque } else { Protocol::Detect { timeout } };
    let mut compiled = ServerPolicy::without_grants(Owner::Default(policy), protocol);
    compiled.authorizations = policy.authorizations();
    compiled
}

/// The policy of the proxy's own port, whatever the default of the workload: only configured
/// readers may read metrics, by default any mesh identity and the node (docs/spec/decisions.md, *Admin port*). A
/// Server that owns the port replaces it.
fn proxy_port(config: &ControllerConfig) -> ServerPolicy {
    let mut compiled = unowned(config, DefaultPolicy::AllAuthenticated, false);
    let MetricsReaders { identities, networks } = &config.metrics;
    let by_identity = match &**identities {
        [] => Vec::new(),
        [IdentityMatch::Any] => compiled.authorizations.to_vec(),
        some => vec![admin([Predicate::all_networks(), Predicate::Identity(some.to_vec())])],
    };
    let by_network = (!networks.is_empty()).then(|| admin([Predicate::Network(networks.clone())]));
    compiled.authorizations = by_identity.into_iter().chain(by_network).collect();
    compiled
}

fn admin<const N: usize>(tests: [Predicate; N]) -> Arc<Authorization> {
    let source = Source::Default("admin".into());
    let condition = |test| Condition { source: source.clone(), test };
    let requirement = Requirement::All(tests.into_iter().map(condition).collect());
    Arc::new(Authorization { source: source.clone(), requirement, audit: false })
}

/// The stricter form of a default policy on a port whose clients must have an identity.
fn authenticated(policy: DefaultPolicy) -> DefaultPolicy {
    match policy {
        DefaultPolicy::AllUnauthenticated | DefaultPolicy::AllAuthenticated => {
            DefaultPolicy::AllAuthenticated
        }
        DefaultPolicy::ClusterUnauthenticated | DefaultPolicy::ClusterAuthenticated => {
            DefaultPolicy::ClusterAuthenticated
        }
        DefaultPolicy::Deny => DefaultPolicy::Deny,
        DefaultPolicy::Audit => DefaultPolicy::Audit,
    }
}

fn server_pieces(query: &ServerBaseOf, cx: &mut Context<'_>) -> Arc<ServerPolicy> {
    let object = cx.object(&query.0).map(|object| (&object.meta, &object.body));
    Arc::new(match object {
        Some((meta, Body::Valid(Resource::Server(server)))) => valid_server(cx, meta, server),
        Some((_, Body::Valid(_) | Body::Invalid(_))) | None => invalid_server(cx, &query.0),
    })
}

fn server_authorizations(query: &ServerAuthorizationsOf, cx: &mut Context<'_>) -> AuthorizationSet {
    let object = cx.object(&query.0).map(|object| &object.body);
    let Some(Body::Valid(Resource::Server(server))) = object else {
        return AuthorizationSet::default();
    };
    let grants = cx.query(&ServerGrants(query.0.clone()));
    let mut authorizations = grants.authorizations.clone();
    authorizations.extend_from_slice(&server.access_policy.authorizations());
    with_localhost(cx, authorizations).into()
}

fn owner(key: &ObjectKey) -> Owner {
    Owner::Server(key.to_ref())
}

fn detect(cx: &Context<'_>) -> Protocol {
    Protocol::Detect { timeout: cx.config.detect_timeout }
}

fn invalid_server(cx: &Context<'_>, key: &ObjectKey) -> ServerPolicy {
    let mut policy = ServerPolicy::without_grants(owner(key), detect(cx));
    policy.deny = Some(Denied::ServerInvalid);
    policy.routes.otherwise = Unmatched::Deny(Denied::ServerInvalid);
    policy
}

fn valid_server(cx: &mut Context<'_>, meta: &ObjectMeta, server: &Server) -> ServerPolicy {
    let key = &meta.key;
    let protocol = match server.protocol {
        ProxyProtocol::Unknown => detect(cx),
        ProxyProtocol::Http1 => Protocol::Http1,
        ProxyProtocol::Http2 => Protocol::Http2,
        ProxyProtocol::Grpc => Protocol::Grpc,
        ProxyProtocol::Opaque => Protocol::Opaque,
        ProxyProtocol::Tls => Protocol::Tls,
    };
    let mut policy = ServerPolicy::without_grants(owner(key), protocol);
    policy.paths = server_annotation::path_normalization(&meta.annotations).value;
    policy.informational_headers =
        server_annotation::informational_headers(&meta.annotations).value;
    policy.upstream_reuse = server_annotation::upstream_reuse(&meta.annotations).value;

    policy.authorizations = cx.query(&ServerAuthorizationsOf(key.clone()));
    policy.withheld = cx.query(&ServerGrants(key.clone())).withheld.clone();

    let attached = cx.query(&AttachedRoutesOf(key.clone()));
    if attached.bound {
        policy.routes.otherwise = Unmatched::NotFound;
        policy.routes.routes = attached.routes.clone();
        // Matches that cannot be read count on these hosts, as they do not on those of trees.
        let unread = !attached.first.is_empty();
        let closed = if unread { Denied::RouteInvalid } else { Denied::NotDelegated };
        let closed = Unmatched::Deny(closed);
        policy.routes.hosts.extend(attached.lost.iter().map(|host| (host.clone(), closed)));
        if attached.routes.is_empty() && attached.lost.is_empty() {
            policy.deny = Some(Denied::RoutesInvalid);
            policy.routes.otherwise = Unmatched::Deny(Denied::RoutesInvalid);
        }
        policy.routes.routes.extend_from_slice(&attached.first);
    }
    add_trees(cx, key, &mut policy);
    let paths = policy.paths;
    for route in &mut policy.routes.routes {
        if let Some(own) = route.with_expressions_on(paths) {
            *route = Arc::new(own);
        }
    }
    if protocol.is_http() {
        policy.effects = effects_on(cx, key);
        policy.rate_limit = cx.query(&RateLimitOf(key.clone())).map(|(_, limit)| (*limit).clone());
    }
    policy
}

/// Adds what InboundRoutes give a Server: on their hosts nothing else counts, and without other
/// routes nothing else is permitted.
fn add_trees(cx: &mut Context<'_>, server: &ObjectKey, policy: &mut ServerPolicy) {
    let delegated = cx.query(&DelegatedRoutesOf(server.clone()));
    if !delegated.hosts.bound {
        return;
    }
    let closed = Unmatched::Deny(Denied::NotDelegated);
    if !policy.protocol.is_http() {
        // Without requests there are no hosts.
        policy.deny = Some(Denied::NotDelegated);
        return;
    }
    if policy.deny == Some(Denied::RoutesInvalid) {
        policy.deny = None;
    } else if policy.routes.otherwise == Unmatched::DefaultRoute {
        policy.routes.otherwise = closed;
    }
    // A path that the application reads otherwise would leave its prefix.
    policy.paths = PathHandling::Canonical;
    let hosts = delegated.hosts.hosts.iter();
    policy.routes.hosts.extend(hosts.map(|host| (host.clone(), closed)));
    for (root, part) in &delegated.parts {
        if part.constraints.is_empty() {
            policy.routes.routes.extend_from_slice(&part.answered);
        } else {
            let (root, server) = (root.clone(), server.clone());
            let met = cx.query(&ConstrainedRoutesOf { root, server });
            policy.routes.routes.extend_from_slice(&met);
        }
    }
    let denied = delegated.parts.iter().flat_map(|(_, part)| &part.denied);
    policy.routes.routes.extend(denied.cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::{Connection, Facts, Identity, NetworkMatch, Subject, Tls};

    fn admits(readers: &MetricsReaders, client: &str, identity: Option<&str>) -> bool {
        let facts = Facts { node_local: vec!["10.9.0.1/32".parse().unwrap()], ..Facts::default() };
        let identity = identity.map(|name| Identity::Dns(name.into()));
        let tls = identity.as_ref().map_or(Tls::Absent, |identity| Tls::Terminated(Some(identity)));
        let connection = Connection { client: client.parse().unwrap(), tls, facts: &facts };
        let config = ControllerConfig { metrics: readers.clone(), ..ControllerConfig::default() };
        let subject = Subject::of_connection(&connection);
        proxy_port(&config).authorizations.iter().any(|grant| grant.holds(&subject))
    }

    #[test]
    fn metrics_are_for_any_identity_and_the_node_unless_others_are_named() {
        let usual = MetricsReaders::default();
        assert!(admits(&usual, "10.1.1.1", Some("a.b")));
        assert!(admits(&usual, "10.9.0.1", None));
        assert!(!admits(&usual, "10.1.1.1", None));
        let prometheus = "prometheus.monitoring.serviceaccount.identity.portcullis.cluster.local";
        let named = MetricsReaders {
            identities: vec![IdentityMatch::parse(prometheus)],
            networks: vec![NetworkMatch::net("10.2.0.0/16".parse().unwrap())],
        };
        assert!(admits(&named, "10.1.1.1", Some(prometheus)));
        assert!(admits(&named, "10.2.3.4", None));
        assert!(!admits(&named, "10.1.1.1", Some("a.b")));
        assert!(!admits(&named, "10.9.0.1", None), "the node only where it is named");
        let nobody = MetricsReaders { identities: Vec::new(), networks: Vec::new() };
        assert!(!admits(&nobody, "10.9.0.1", Some(prometheus)));
    }
}
