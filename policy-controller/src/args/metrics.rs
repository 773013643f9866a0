//! Flags about who may read the proxies' metrics.

use super::value::{List, items, networks};
use clap::Args;
use policy_core::{IdentityMatch, NetworkMatch};
use policy_crds::{Body, Resource};
use policy_engine::config::MetricsReaders;
use serde_json::json;

/// Flags of access to the proxies' metrics, as written.
#[derive(Args, Clone, Debug)]
pub struct MetricsArgs {
    /// Mesh identities that may read the metrics of proxies, as a MeshTLSAuthentication lists them,
    /// separated by commas; empty: none.
    #[arg(long, value_name = "IDENTITIES", default_value = "*", value_parser = identities)]
    pub metrics_allow_identities: List<IdentityMatch>,

    /// Networks from which the metrics of proxies may be read without an identity: CIDRs,
    /// `node-local` (the pod's own node) and `cluster`, separated by commas; empty: none.
    #[arg(long, value_name = "NETWORKS", default_value = "node-local", value_parser = networks)]
    pub metrics_allow_networks: List<NetworkMatch>,
}

impl MetricsArgs {
    pub(super) fn settings(&self) -> MetricsReaders {
        MetricsReaders {
            identities: self.metrics_allow_identities.clone(),
            networks: self.metrics_allow_networks.clone(),
        }
    }
}

fn identities(list: &str) -> Result<List<IdentityMatch>, String> {
    items(list).map(identity).collect()
}

/// Read by the rules of the kind that lists such identities.
fn identity(item: &str) -> Result<IdentityMatch, String> {
    let parsed = policy_crds::parse(&json!({
        "apiVersion": "policy.linkerd.io/v1alpha1",
        "kind": "MeshTLSAuthentication",
        "metadata": {"name": "flag", "namespace": "flag"},
        "spec": {"identities": [item]},
    }));
    let nobody = || "names nobody".to_owned();
    match parsed.map_err(|error| error.to_string())?.body {
        Body::Valid(Resource::MeshTlsAuthentication(one)) => {
            one.identities.first().cloned().ok_or_else(nobody)
        }
        Body::Valid(_) => Err(nobody()),
        Body::Invalid(invalid) => {
            let errors: Vec<_> = invalid.errors.iter().map(|e| e.message.to_string()).collect();
            Err(errors.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::NetworkSymbol;

    fn read(listed: &str, from: &str) -> Result<MetricsReaders, String> {
        let metrics_allow_identities = identities(listed)?;
        let metrics_allow_networks = networks(from)?;
        Ok(MetricsArgs { metrics_allow_identities, metrics_allow_networks }.settings())
    }

    #[test]
    fn lists_are_read_and_mistakes_named() {
        assert_eq!(read("*", "node-local"), Ok(MetricsReaders::default()));
        let nobody = MetricsReaders { identities: Vec::new(), networks: Vec::new() };
        assert_eq!(read("", ""), Ok(nobody));
        let some = MetricsReaders {
            identities: vec![
                IdentityMatch::Exact("a.b".into()),
                IdentityMatch::Suffix("c.d".into()),
            ],
            networks: vec![
                NetworkMatch::net("10.0.0.0/8".parse().unwrap()),
                NetworkMatch::symbol(NetworkSymbol::Cluster),
            ],
        };
        assert_eq!(read("a.b, *.c.d", "10.0.0.0/8,cluster"), Ok(some));
        assert_eq!(
            read("A.b", ""),
            Err("`A.b` is not an identity: expected `*`, `*.<suffix>` \
                 or a lower-case DNS name"
                .to_owned())
        );
        assert_eq!(
            read("", "10.0.0.0/33"),
            Err("`10.0.0.0/33` has no valid length after `/`, expected 0 to 32 without leading \
                 zeros; `node-local` and `cluster` are allowed, too"
                .to_owned())
        );
    }
}
