//! Flags about the destinations of outbound connections.

use super::choice::Toggle;
use super::value::{ParseResult, items, label, labels, name, names};
use clap::Args;
use policy_engine::outbound::{OutboundConfig, OutboundPeer};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Flags about the destinations of outbound connections.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Outbound discovery")]
pub struct DestinationArgs {
    /// Whether sidecars may ask what an address and port lead to. While it is on, Services and
    /// EndpointSlices of the whole cluster are read; with --watch-namespace it is off.
    #[arg(long, value_enum, default_value_t = Toggle::Enabled)]
    pub outbound_discovery: Toggle,

    /// Another control plane whose pods are reached in mesh TLS, as
    /// namespace=NAME,trust-domain=NAME,shared-roots=true. May be repeated. The pods of all other
    /// control planes are reached in plaintext, and so are those of one that does not share the
    /// roots of trust.
    #[arg(long, value_name = "PEER", value_parser = peer)]
    pub outbound_peers: Vec<Peer>,

    /// Namespaces, separated by commas, whose ExternalWorkloads count by their addresses outside
    /// the cluster networks; --injector-outbound-networks has to name theirs. All others count as
    /// endpoints of Services of their own namespace alone [default: none].
    #[arg(long, value_name = "NAMESPACES", value_parser = labels::<Arc<str>>)]
    pub external_workload_namespaces: Option<BTreeSet<Arc<str>>>,

    /// Former values of --identity-domain, separated by commas, that the identity in a pod's annotation
    /// portcullis.dev/sidecar may end in besides: while pods from before a change run. A pod whose
    /// annotation names another trust domain is not reached by clients in the mesh [default: none].
    #[arg(long, value_name = "NAMES", value_parser = names::<Arc<str>>)]
    pub former_trust_domains: Option<BTreeSet<Arc<str>>>,
}

/// Another control plane, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    peer: OutboundPeer,
    shares_roots: bool,
}

impl DestinationArgs {
    /// Returns the settings; absent: destinations are not looked up. `is_whole`: the whole cluster is
    /// read, or a directory.
    pub(super) fn settings(&self, is_whole: bool) -> Option<OutboundConfig> {
        if !is_whole || self.outbound_discovery == Toggle::Disabled {
            return None;
        }
        let peers = self.outbound_peers.iter().filter(|peer| peer.shares_roots);
        Some(OutboundConfig {
            peers: peers.map(|peer| peer.peer.clone()).collect(),
            external_workload_namespaces: self
                .external_workload_namespaces
                .clone()
                .unwrap_or_default(),
            networks: Vec::new(),
            former_trust_domains: self.former_trust_domains.clone().unwrap_or_default(),
        })
    }

    /// The function that is lost where only some namespaces are watched.
    pub(super) fn lost(&self, is_whole: bool) -> Option<String> {
        let lost = !is_whole && self.outbound_discovery == Toggle::Enabled;
        lost.then(|| {
            "outbound discovery is off: it needs the whole cluster, not --watch-namespace"
                .to_owned()
        })
    }
}

/// `namespace=NAME,trust-domain=NAME,shared-roots=true`, each once, in any order.
fn peer(text: &str) -> ParseResult<Peer> {
    let (mut namespace, mut trust_domain, mut shares_roots) = (None, None, None);
    for item in items(text) {
        let (field, value) =
            item.split_once('=').ok_or_else(|| format!("`{item}` is not FIELD=VALUE"))?;
        let is_new = match field {
            "namespace" => namespace.replace(label(value)?).is_none(),
            "trust-domain" => trust_domain.replace(name(value)?).is_none(),
            "shared-roots" => {
                let shared = value
                    .parse::<bool>()
                    .map_err(|_| format!("shared-roots: `{value}` is neither true nor false"))?;
                shares_roots.replace(shared).is_none()
            }
            _ => {
                let known = "namespace, trust-domain and shared-roots are known";
                return Err(format!("`{field}` is not a field of a peer; {known}"));
            }
        };
        if !is_new {
            return Err(format!("`{field}` is stated twice"));
        }
    }
    let missing = |field: &str| format!("`{field}` is missing");
    let namespace = namespace.ok_or_else(|| missing("namespace"))?;
    let trust_domain = trust_domain.ok_or_else(|| missing("trust-domain"))?;
    let shares_roots = shares_roots.ok_or_else(|| missing("shared-roots"))?;
    Ok(Peer { peer: OutboundPeer { namespace, trust_domain }, shares_roots })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(flags: &[&str]) -> Result<OutboundConfig, String> {
        let settings = parsed::<DestinationArgs>(flags)?.settings(true);
        settings.ok_or_else(|| "off".to_owned())
    }

    #[test]
    fn discovery_is_off_where_it_is_disabled_or_only_some_namespaces_are_watched() {
        let off = "outbound discovery is off: it needs the whole cluster, not --watch-namespace";
        for (flags, is_whole, is_on, lost) in [
            (&[][..], true, true, None),
            (&[], false, false, Some(off)),
            (&["--outbound-discovery=enabled"], false, false, Some(off)),
            (&["--outbound-discovery=disabled"], true, false, None),
            (&["--outbound-discovery=disabled"], false, false, None),
        ] {
            let args: DestinationArgs = parsed(flags).unwrap();
            assert_eq!(args.settings(is_whole).is_some(), is_on, "{flags:?} {is_whole}");
            assert_eq!(args.lost(is_whole).as_deref(), lost, "{flags:?} {is_whole}");
        }
    }

    #[test]
    fn peers_and_namespaces_are_read() {
        assert_eq!(settings(&[]), Ok(OutboundConfig::default()));
        let flags = [
            "--outbound-peers=namespace=linkerd,trust-domain=cluster.local,shared-roots=true",
            "--outbound-peers=shared-roots=true, namespace=other, trust-domain=example.org",
            "--outbound-peers=namespace=strange,trust-domain=example.org,shared-roots=false",
            "--external-workload-namespaces=vms,databases",
            "--former-trust-domains=old.example.org",
        ];
        let peer = |namespace: &str, trust_domain: &str| OutboundPeer {
            namespace: namespace.into(),
            trust_domain: trust_domain.into(),
        };
        let expected = OutboundConfig {
            peers: [peer("linkerd", "cluster.local"), peer("other", "example.org")].into(),
            external_workload_namespaces: ["databases".into(), "vms".into()].into(),
            networks: Vec::new(),
            former_trust_domains: ["old.example.org".into()].into(),
        };
        assert_eq!(settings(&flags), Ok(expected));
    }

    #[test]
    fn a_peer_that_cannot_be_read_is_refused() {
        let cases = [
            ("namespace=a,trust-domain=b", "`shared-roots` is missing"),
            ("trust-domain=b,shared-roots=true", "`namespace` is missing"),
            ("namespace=a,shared-roots=true", "`trust-domain` is missing"),
            ("namespace", "`namespace` is not FIELD=VALUE"),
            ("name=a", "`name` is not a field of a peer"),
            ("namespace=a,namespace=b", "`namespace` is stated twice"),
            ("namespace=A", "`A`"),
            ("shared-roots=yes", "`yes` is neither true nor false"),
        ];
        for (text, message) in cases {
            let refused = settings(&[&format!("--outbound-peers={text}")]).unwrap_err();
            assert!(refused.contains(message), "{text}: {refused}");
        }
    }
}
