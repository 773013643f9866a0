//! Flags of `policy-controller issuer`.

use super::choice::LogFormat;
use super::connection::ClusterArgs;
use super::self_policy::SelfPolicyArgs;
use super::value::{
    List, Optional, ParseResult, address, duration_between, items, label, labels, name, optional,
};
use clap::Args;
use policy_issuer::{AUDIENCE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Help text below the flags.
pub(super) const AFTER_HELP: &str = "\
The authority:
  Without --issuer-cert the issuer makes an authority for itself and keeps it in a Secret, which all
  replicas share and which nobody else needs to read. It is replaced by itself, after --rotate-after
  percent of its life, or on request:
    kubectl -n NAMESPACE annotate secret portcullis-identity-issuer \\
      portcullis.dev/rotate=\"$(date +%s)\" --overwrite
  The next root is published for --root-settle before anything is issued from it, and the former one
  until everything that it signed has expired. The metric issuer_rotation and Events about the Secret
  report its progress.
  With --issuer-cert, --issuer-key and --roots others keep the authority (cert-manager, for instance).

Whom certificates are for:
  A token of a service account, with an audience of --identity-audiences and reviewed by the API
  server, stands for <account>.<namespace>.serviceaccount.identity.<control plane>.<domain> and for
  nothing else. A request has to ask for exactly that name, under a P-256 key.

Roots:
  The ConfigMap --roots-configmap, key ca-bundle.crt, in the control plane's namespace and in every
  namespace with injection. What others change there is put right.";

/// Flags of `policy-controller issuer`, as written.
#[derive(Clone, Debug, Args)]
pub struct IssuerArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Filter of log lines, in the syntax of tracing filters. One line for each certificate is at
    /// level info.
    #[arg(
        long,
        value_name = "FILTER",
        env = "PORTCULLIS_ISSUER_LOG",
        default_value = "policy_controller=info,warn"
    )]
    pub log_level: String,

    /// Format of log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Plain)]
    pub log_format: LogFormat,

    /// Address at which certificates are issued, over TLS.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080", value_parser = address)]
    pub grpc_addr: SocketAddr,

    /// Address of /live, /ready and /metrics.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9990", value_parser = address)]
    pub admin_addr: SocketAddr,

    /// Trust domain that ends every mesh identity.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = name::<Arc<str>>)]
    pub identity_domain: Arc<str>,

    /// Namespace of the control plane, which is part of every mesh identity.
    #[arg(long, value_name = "NAMESPACE", default_value = "linkerd", value_parser = label::<Arc<str>>)]
    pub control_plane_namespace: Arc<str>,

    /// The issuer's own service account, which makes its own identity.
    #[arg(long, value_name = "NAME", default_value = SERVICE_ACCOUNT, value_parser = name::<Arc<str>>)]
    pub service_account: Arc<str>,

    /// Audiences of tokens that are accepted, separated by commas. Linkerd's proxies have
    /// `identity.l5d.io`.
    #[arg(long, value_name = "AUDIENCES", default_value = AUDIENCE, value_parser = audiences)]
    pub identity_audiences: List<String>,

    /// Lifetime of a certificate: 1m to 30d.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration_between("1m", "30d"))]
    pub issuance_lifetime: Duration,

    /// Allowed clock skew: certificates begin so much earlier, and end so much later.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration_between("0s", "1h"))]
    pub clock_skew: Duration,

    /// PEM file with a supplied authority's certificate, what leads to a root after it.
    #[arg(long, value_name = "FILE", requires_all = ["issuer_key", "roots"], conflicts_with = "issuer_secret")]
    pub issuer_cert: Option<PathBuf>,

    /// PEM file with its private key.
    #[arg(long, value_name = "FILE", requires = "issuer_cert")]
    pub issuer_key: Option<PathBuf>,

    /// PEM file with the roots that all workloads are to trust.
    #[arg(long, value_name = "FILE", requires = "issuer_cert")]
    pub roots: Option<PathBuf>,

    /// Secret in the control plane's namespace in which the authority is kept that the issuer makes.
    #[arg(long, value_name = "NAME", default_value = SECRET, value_parser = name::<String>)]
    pub issuer_secret: String,

    /// Lifetime of that authority.
    #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = duration_between("1h", "36500d"))]
    pub ca_lifetime: Duration,

    /// Percent of its life after which the next one is made: 10 to 90.
    #[arg(long, value_name = "PERCENT", default_value_t = 66, value_parser = clap::value_parser!(u8).range(10..=90))]
    pub rotate_after: u8,

    /// Time for which a root is published before anything is issued from it.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration_between("1s", "30d"))]
    pub root_settle: Duration,

    /// ConfigMap that the roots are published in.
    #[arg(long, value_name = "NAME", default_value = CONFIG_MAP, value_parser = name::<String>)]
    pub roots_configmap: String,

    /// Namespaces that get the roots, besides the control plane's, separated by commas: then nothing
    /// of the whole cluster is looked at [default: those with injection].
    #[arg(long, value_name = "NAMESPACES", value_parser = labels::<String>)]
    pub roots_namespaces: Option<BTreeSet<String>>,

    /// Requests of one address in a row.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_burst_per_client: u32,

    /// Requests of one address a second, after that.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_rate_per_client: u32,

    /// Timeout of a request.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration_between("1s", "1m"))]
    pub request_timeout: Duration,

    /// Name of the issuer's own pod, for Events.
    #[arg(long, value_name = "NAME", env = "POD_NAME", value_parser = optional(name::<String>))]
    pub pod_name: Option<Optional<String>>,

    /// The issuer's own ports.
    #[command(flatten)]
    pub guard: SelfPolicyArgs,
}

fn audiences(list: &str) -> ParseResult<List<String>> {
    let audiences: Vec<String> = items(list).map(ToOwned::to_owned).collect();
    match audiences.is_empty() {
        true => Err(format!("it names no audience (for example `{AUDIENCE}`)")),
        false => Ok(audiences),
    }
}
