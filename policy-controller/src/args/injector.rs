//! Flags of the injector.

use super::choice::{BypassArg, SidecarArg, TransportArg, UnansweredArg};
use super::value::{List, ParseResult, cidr, cidrs, dns_identity, host_port, items, label, name};
use clap::Args;
use clap::builder::NonEmptyStringValueParser as Text;
use ipnet::IpNet;
use policy_webhooks::injector::{
    Bypass, ControlPlane, Defaults, INJECTOR_CONFIGURATION, InjectorSettings, OutboundSettings,
    OutboundTransport, PlaintextAllowed, Preset, Sidecar, TrustSettings, Unanswered,
};
use std::path::PathBuf;

/// Flags of the injector, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Injector")]
pub struct InjectorArgs {
    /// Serve the injector, on path /inject of the admission webhook's port, and keep the label of
    /// namespaces whose annotation enables injection.
    #[arg(long)]
    pub injector: bool,

    /// MutatingWebhookConfiguration whose caBundle is kept in step with the certificate that is
    /// made.
    #[arg(long, value_name = "NAME", default_value = INJECTOR_CONFIGURATION, value_parser = name::<String>)]
    pub injector_configuration: String,

    /// Default of a setting for pods where neither the pod nor its namespace sets it: the name of
    /// its annotation after `portcullis.dev/`, and the value; may be repeated.
    #[arg(long, value_name = "SETTING=VALUE")]
    pub injector_default: Vec<Preset>,

    /// Kind of container that the sidecar is.
    #[arg(long, value_enum, default_value_t)]
    pub injector_sidecar: SidecarArg,

    /// The DNS domain of the cluster.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = name::<String>)]
    pub injector_cluster_domain: String,

    /// Address of the policy controller as sidecars reach it; by default Service portcullis-policy
    /// of the control plane's namespace.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub injector_policy_addr: Option<String>,

    /// Address of the issuer as sidecars reach it; by default Service portcullis-issuer of the
    /// control plane's namespace.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub injector_issuer_addr: Option<String>,

    /// The identity that the issuer proves to sidecars [default: that of the service account
    /// portcullis-issuer of the control plane].
    #[arg(long, value_name = "NAME", value_parser = dns_identity)]
    pub injector_issuer_name: Option<String>,

    /// The audience of the tokens that the issuer reviews [default: portcullis.dev/identity].
    #[arg(long, value_name = "AUDIENCE", value_parser = Text::new())]
    pub injector_token_audience: Option<String>,

    /// PEM file with the roots that sidecars begin with, read for each pod [default: the roots that
    /// the controller trusts itself].
    #[arg(long, value_name = "FILE")]
    pub injector_roots: Option<PathBuf>,

    /// Sidecars keep the roots that they begin with, because the issuer publishes no later ones that
    /// authorities vouch for.
    #[arg(long)]
    pub injector_fixed_roots: bool,

    /// Handling of pods that could bypass their sidecar, by capabilities or by images of their own
    /// choice.
    #[arg(long, value_enum, default_value_t)]
    pub injector_bypass: BypassArg,

    /// The annotation `linkerd.io/inject` asks this injector, too, where Linkerd's does not run. Without
    /// it, of this annotation only `disabled` on a pod counts.
    #[arg(long)]
    pub injector_linkerd_inject: bool,

    /// Sidecars listen on IPv4 alone, for nodes without IPv6.
    #[arg(long)]
    pub injector_disable_ipv6: bool,

    /// The way of mesh TLS from one pod to another, where pods have the outbound half
    /// (--injector-default outbound=enabled).
    #[arg(long, value_enum, default_value_t)]
    pub injector_outbound_transport: TransportArg,

    /// Networks whose addresses sidecars look up: CIDRs, separated by commas. Connections to others
    /// go straight on [default: the cluster networks].
    #[arg(long, value_name = "CIDRS", default_value = "", hide_default_value = true, value_parser = cidrs)]
    pub injector_outbound_networks: List<IpNet>,

    /// Handling of a connection within these networks whose lookup gets no answer.
    #[arg(long, value_enum, default_value_t)]
    pub injector_outbound_unanswered: UnansweredArg,

    /// What pods with `portcullis.dev/outbound: mesh-only` reach in plaintext besides the API server:
    /// CIDRs, and Services as NAME.NAMESPACE, separated by commas.
    #[arg(long, value_name = "DESTINATIONS", default_value = "", hide_default_value = true, value_parser = plaintext_allowed)]
    pub injector_outbound_plaintext_allowed: List<PlaintextAllowed>,
}

impl InjectorArgs {
    /// Returns the settings; absent: the injector is not served. `control_plane` is the namespace
    /// of the control plane.
    pub fn settings(&self, control_plane: &str, trust_domain: &str) -> Option<InjectorSettings> {
        if !self.injector {
            return None;
        }
        let mut defaults = Defaults::default();
        self.injector_default.iter().cloned().for_each(|preset| defaults.set(preset));
        Some(InjectorSettings {
            configuration: self.injector_configuration.clone(),
            defaults,
            control_plane: self.control_plane(control_plane, trust_domain),
            sidecar: match self.injector_sidecar {
                SidecarArg::Auto => Sidecar::Auto,
                SidecarArg::Native => Sidecar::Native,
                SidecarArg::Container => Sidecar::Container,
            },
            trust: TrustSettings {
                file: self.injector_roots.clone(),
                fixed: self.injector_fixed_roots,
            },
            bypass: match self.injector_bypass {
                BypassArg::Warn => Bypass::Warn,
                BypassArg::Refuse => Bypass::Refuse,
            },
            outbound: self.outbound(),
            reads_linkerd: self.injector_linkerd_inject,
        })
    }

    fn outbound(&self) -> OutboundSettings {
        OutboundSettings {
            transport: match self.injector_outbound_transport {
                TransportArg::Original => OutboundTransport::Original,
                TransportArg::Header => OutboundTransport::Header,
            },
            networks: self.injector_outbound_networks.clone(),
            unanswered: match self.injector_outbound_unanswered {
                UnansweredArg::Refuse => Unanswered::Refuse,
                UnansweredArg::Plaintext => Unanswered::Plaintext,
            },
            plaintext_allowed: self.injector_outbound_plaintext_allowed.clone(),
            is_unanswered: false,
        }
    }

    /// Returns the addresses of the control plane as pods reach it.
    pub fn control_plane(&self, control_plane: &str, trust_domain: &str) -> ControlPlane {
        let mut control_plane =
            ControlPlane::new(control_plane, trust_domain, &self.injector_cluster_domain);
        control_plane.ipv4_only = self.injector_disable_ipv6;
        for (given, place) in [
            (&self.injector_issuer_name, &mut control_plane.issuer_identity),
            (&self.injector_token_audience, &mut control_plane.audience),
            (&self.injector_policy_addr, &mut control_plane.policy),
            (&self.injector_issuer_addr, &mut control_plane.issuer),
        ] {
            if let Some(given) = given {
                place.clone_from(given);
            }
        }
        control_plane
    }
}

/// Networks, addresses and Services.
fn plaintext_allowed(list: &str) -> ParseResult<List<PlaintextAllowed>> {
    let one = |item: &str| match item.split_once('.') {
        Some((service, namespace)) if item.bytes().any(|byte| byte.is_ascii_alphabetic()) => {
            let part = |text| label::<String>(text).map_err(|error| format!("`{item}`: {error}"));
            let (name, namespace) = (part(service)?, part(namespace)?);
            Ok(PlaintextAllowed::Service { namespace, name })
        }
        Some(_) | None => cidr(item, "; Services as NAME.NAMESPACE are allowed, too")
            .map(PlaintextAllowed::Network),
    };
    items(list).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(flags: &[&str]) -> Result<Option<InjectorSettings>, String> {
        parsed(flags).map(|args: InjectorArgs| args.settings("mesh", "example.org"))
    }

    #[test]
    fn without_its_flag_the_injector_is_not_served() {
        assert_eq!(settings(&[]), Ok(None));
        let expected = InjectorSettings {
            configuration: "portcullis-injector".to_owned(),
            defaults: Defaults::default(),
            control_plane: ControlPlane::new("mesh", "example.org", "cluster.local"),
            sidecar: Sidecar::Auto,
            trust: TrustSettings::default(),
            bypass: Bypass::Warn,
            outbound: OutboundSettings::default(),
            reads_linkerd: false,
        };
        assert_eq!(expected.control_plane.policy, "portcullis-policy.mesh.svc.cluster.local.:8090");
        assert_eq!(settings(&["--injector"]), Ok(Some(expected)));
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        for (flag, want) in [
            (
                "--injector-default=proxy-log-levl=info",
                "there is no setting `proxy-log-levl`; did you mean `proxy-log-level`?",
            ),
            (
                "--injector-default=proxy-workers=many",
                "proxy-workers: `many` is not allowed; expected a number from 1 to 64",
            ),
            (
                "--injector-default=proxy-image=",
                "proxy-image: `` is not allowed; expected an image such as \
                 `ghcr.io/portcullis/proxy`",
            ),
            ("--injector-default=proxy-workers", "expected SETTING=VALUE"),
            ("--injector-default=outbound=on", "outbound: `on` is not allowed; expected one of"),
            ("--injector-outbound-networks=10.0.0.0/33", "`10.0.0.0/33` has no valid length"),
            (
                "--injector-outbound-plaintext-allowed=10.0.0.0/33",
                "`10.0.0.0/33` has no valid length",
            ),
            ("--injector-outbound-plaintext-allowed=sql.DB", "`sql.DB`: `DB` is not a name"),
            ("--injector-outbound-unanswered=open", "[possible values: refuse, plaintext]"),
            ("--injector-policy-addr=nowhere", "`nowhere` is not an address; expected"),
            ("--injector-issuer-name=a b", "expected a DNS name"),
            ("--injector-token-audience=", "a value is required"),
            ("--injector-cluster-domain=a b", "expected lower-case letters, digits, `-` and `.`"),
        ] {
            let refused = settings(&[flag]).unwrap_err();
            assert!(refused.contains(want), "{flag}: {refused}");
        }
    }

    #[test]
    fn flags_say_where_the_control_plane_is() {
        let flags = [
            "--injector",
            "--injector-policy-addr=policy.example:1",
            "--injector-issuer-addr=issuer.example:2",
            "--injector-issuer-name=issuer.example",
            "--injector-token-audience=aud",
            "--injector-disable-ipv6",
            "--injector-default=proxy-log-level=debug",
        ];
        let settings = settings(&flags).unwrap().unwrap();
        let control_plane = ControlPlane {
            policy: "policy.example:1".to_owned(),
            issuer: "issuer.example:2".to_owned(),
            issuer_identity: "issuer.example".to_owned(),
            audience: "aud".to_owned(),
            ipv4_only: true,
            ..ControlPlane::new("mesh", "example.org", "cluster.local")
        };
        assert_eq!(settings.control_plane, control_plane);
        let mut defaults = Defaults::default();
        defaults.set("proxy-log-level=debug".parse().unwrap());
        assert_eq!(settings.defaults, defaults);
    }

    #[test]
    fn flags_say_how_pods_reach_others() {
        let flags = [
            "--injector",
            "--injector-outbound-transport=header",
            "--injector-outbound-networks=10.0.0.0/8,fd00::/8",
            "--injector-outbound-unanswered=plaintext",
            "--injector-outbound-plaintext-allowed=192.0.2.1, sql.db",
        ];
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let outbound = OutboundSettings {
            transport: OutboundTransport::Header,
            networks: vec![net("10.0.0.0/8"), net("fd00::/8")],
            unanswered: Unanswered::Plaintext,
            plaintext_allowed: vec![
                PlaintextAllowed::Network(net("192.0.2.1/32")),
                PlaintextAllowed::Service { namespace: "db".to_owned(), name: "sql".to_owned() },
            ],
            is_unanswered: false,
        };
        assert_eq!(settings(&flags).unwrap().unwrap().outbound, outbound);
    }
}
