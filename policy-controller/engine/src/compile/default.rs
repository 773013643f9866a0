//! Ports that no Server owns (controller-semantics 2.3).

use crate::config::{ControllerConfig, MetricsReaders};
use policy_core::{
    Authorization, Condition, DefaultPolicy, IdentityMatch, Owner, Protocol, Requirement,
    ServerPolicy, Source, Test,
};
use std::sync::Arc;

/// The policy of such a port, before probes.
pub(super) fn policy(
    config: &ControllerConfig,
    policy: DefaultPolicy,
    opaque: bool,
) -> ServerPolicy {
    let timeout = config.detect_timeout;
    let protocol = if opaque { Protocol::Opaque } else { Protocol::Detect { timeout } };
    let mut compiled = ServerPolicy::without_grants(Owner::Default(policy), protocol);
    compiled.authorizations = policy.authorizations();
    compiled
}

/// The policy of the proxy's own port, whatever the default of the workload: those may read metrics who
/// are named for it, by default any mesh identity and the node (product, *Admin port*). A Server that
/// owns the port replaces it.
pub(super) fn proxy_port(config: &ControllerConfig) -> ServerPolicy {
    let mut compiled = policy(config, DefaultPolicy::AllAuthenticated, false);
    let MetricsReaders { identities, networks } = &config.metrics;
    let by_identity = match &**identities {
        [] => Vec::new(),
        [IdentityMatch::Any] => compiled.authorizations.to_vec(),
        some => vec![admin([Test::all_networks(), Test::Identity(some.to_vec())])],
    };
    let by_network = (!networks.is_empty()).then(|| admin([Test::Network(networks.clone())]));
    compiled.authorizations = by_identity.into_iter().chain(by_network).collect();
    compiled
}

fn admin<const N: usize>(tests: [Test; N]) -> Arc<Authorization> {
    let source = Source::Default("admin".into());
    let condition = |test| Condition { source: source.clone(), test };
    let requirement = Requirement::All(tests.into_iter().map(condition).collect());
    Arc::new(Authorization { source: source.clone(), requirement, audit: false })
}

/// What a policy becomes where clients must have an identity.
pub(super) fn authenticated(policy: DefaultPolicy) -> DefaultPolicy {
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
