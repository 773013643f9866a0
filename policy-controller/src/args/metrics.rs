//! Flags about who may read the proxies' metrics.

use super::error::ArgsError;
use super::text::items;
use super::value::networks;
use clap::Args;
use policy_core::IdentityMatch;
use policy_crds::{Body, Resource};
use policy_engine::config::MetricsReaders;
use serde_json::json;

/// Who may read the proxies' metrics, as written.
#[derive(Args, Clone, Debug)]
pub struct MetricsArgs {
    /// Mesh identities that may read the metrics of proxies, as a MeshTLSAuthentication lists them,
    /// separated by commas; empty: none.
    #[arg(long, value_name = "IDENTITIES", default_value = "*")]
    pub metrics_allow_identities: String,

    /// Networks from which the metrics of proxies may be read without an identity: CIDRs,
    /// `node-local` (the pod's own node) and `cluster`, separated by commas; empty: none.
    #[arg(long, value_name = "NETWORKS", default_value = "node-local")]
    pub metrics_allow_networks: String,
}

impl MetricsArgs {
    pub(super) fn settings(&self) -> Result<MetricsReaders, ArgsError> {
        let identities = items(&self.metrics_allow_identities).map(identity);
        Ok(MetricsReaders {
            identities: identities.collect::<Result<_, _>>()?,
            networks: networks("metrics-allow-networks", &self.metrics_allow_networks)?,
        })
    }
}

/// Read by the rules of the kind that lists such identities.
fn identity(item: &str) -> Result<IdentityMatch, ArgsError> {
    let parsed = policy_crds::parse(&json!({
        "apiVersion": "policy.linkerd.io/v1alpha1",
        "kind": "MeshTLSAuthentication",
        "metadata": {"name": "flag", "namespace": "flag"},
        "spec": {"identities": [item]},
    }));
    let wrong = |why: String| ArgsError::Identity { value: item.to_owned(), why };
    match parsed.map_err(|error| wrong(error.to_string()))?.body {
        Body::Valid(Resource::MeshTlsAuthentication(one)) => {
            one.identities.first().cloned().ok_or_else(|| wrong("names nobody".to_owned()))
        }
        Body::Valid(_) => Err(wrong("names nobody".to_owned())),
        Body::Invalid(invalid) => {
            let errors: Vec<_> = invalid.errors.iter().map(|e| e.message.to_string()).collect();
            Err(wrong(errors.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::{NetworkMatch, NetworkSymbol};

    fn read(identities: &str, networks: &str) -> Result<MetricsReaders, String> {
        let args = MetricsArgs {
            metrics_allow_identities: identities.to_owned(),
            metrics_allow_networks: networks.to_owned(),
        };
        args.settings().map_err(|error| error.to_string())
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
            Err(
                "--metrics-allow-identities: `A.b` is not an identity: expected `*`, `*.<suffix>` \
                 or a lower-case DNS name"
                    .to_owned()
            )
        );
        assert_eq!(
            read("", "10.0.0.0/33"),
            Err("--metrics-allow-networks: `10.0.0.0/33` is not a CIDR or address, `node-local` or \
                 `cluster`"
                .to_owned())
        );
    }
}
