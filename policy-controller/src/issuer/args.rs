//! Flags of `policy-controller issuer`.

use super::authority::Lifetime;
use super::files::AuthorityFiles;
use super::keeper::Provision;
use super::limit::Rate;
use super::plan::Rotation;
use super::roots::{CONFIG_MAP, Where};
use crate::args::value::{address, items};
use crate::args::{ArgsError, LogFormat};
use crate::cluster::ClusterArgs;
use crate::config::ControllerConfig;
use crate::guard::{GuardArgs, GuardSettings};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The audience that a token must have unless others are configured.
pub const AUDIENCE: &str = "portcullis.dev/identity";

/// The Secret of the authority, unless another is configured.
pub const SECRET: &str = policy_kube::names::ISSUER_AUTHORITY;

/// The issuer's service account, unless another is configured; and its component label's value.
pub const SERVICE_ACCOUNT: &str = "portcullis-issuer";

/// What the label portcullis.dev/component of its pods says.
const COMPONENT: &str = "issuer";

/// What people are told below the flags.
pub(crate) const AFTER_HELP: &str = "\
The authority:
  Without --issuer-cert the issuer makes an authority for itself and keeps it in a Secret, which all
  replicas share and which nobody else needs to read. It is replaced by itself, after --rotate-after
  percent of its life, or when asked for:
    kubectl -n NAMESPACE annotate secret portcullis-identity-issuer \\
      portcullis.dev/rotate=\"$(date +%s)\" --overwrite
  The next root is published for --root-settle before anything is issued from it, and the former one
  until everything that it signed has expired. The metric issuer_rotation and Events about the Secret
  tell how far it is.
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

    /// Which log lines are written, in the syntax of tracing filters. One line for each certificate
    /// is at level info.
    #[arg(
        long,
        value_name = "FILTER",
        env = "PORTCULLIS_ISSUER_LOG",
        default_value = "policy_controller=info,warn"
    )]
    pub log_level: String,

    /// How log lines are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Plain)]
    pub log_format: LogFormat,

    /// Where certificates are issued, over TLS.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080")]
    pub grpc_addr: String,

    /// Where /live, /ready and /metrics are served.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9990")]
    pub admin_addr: String,

    /// Trust domain that ends every mesh identity.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub identity_domain: String,

    /// Namespace of the control plane, which is part of every mesh identity.
    #[arg(long, value_name = "NAMESPACE", default_value = "linkerd")]
    pub control_plane_namespace: String,

    /// The issuer's own service account, which makes its own identity.
    #[arg(long, value_name = "NAME", default_value = SERVICE_ACCOUNT)]
    pub service_account: String,

    /// Audiences of tokens that are accepted, separated by commas. Linkerd's proxies have
    /// `identity.l5d.io`.
    #[arg(long, value_name = "AUDIENCES", default_value = AUDIENCE)]
    pub identity_audiences: String,

    /// How long a certificate is valid: 1m to 30d.
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    pub issuance_lifetime: String,

    /// How far clocks may differ: so much earlier a certificate begins, and so much later it ends.
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    pub clock_skew: String,

    /// PEM file with a supplied authority's certificate, what leads to a root after it.
    #[arg(long, value_name = "FILE", requires_all = ["issuer_key", "roots"], conflicts_with = "issuer_secret")]
    pub issuer_cert: Option<PathBuf>,

    /// PEM file with its private key.
    #[arg(long, value_name = "FILE", requires = "issuer_cert")]
    pub issuer_key: Option<PathBuf>,

    /// PEM file with the roots that everybody is to trust.
    #[arg(long, value_name = "FILE", requires = "issuer_cert")]
    pub roots: Option<PathBuf>,

    /// Secret in the control plane's namespace in which the authority is kept that the issuer makes.
    #[arg(long, value_name = "NAME", default_value = SECRET)]
    pub issuer_secret: String,

    /// How long that authority is valid.
    #[arg(long, value_name = "DURATION", default_value = "365d")]
    pub ca_lifetime: String,

    /// Percent of its life after which the next one is made: 10 to 90.
    #[arg(long, value_name = "PERCENT", default_value_t = 66)]
    pub rotate_after: u8,

    /// How long a root is published before anything is issued from it.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub root_settle: String,

    /// ConfigMap that the roots are published in.
    #[arg(long, value_name = "NAME", default_value = CONFIG_MAP)]
    pub roots_configmap: String,

    /// Namespaces that get the roots, besides the control plane's, separated by commas: then nothing
    /// of the whole cluster is looked at [default: those with injection].
    #[arg(long, value_name = "NAMESPACES")]
    pub roots_namespaces: Option<String>,

    /// Requests of one address in a row.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_burst_per_client: u32,

    /// Requests of one address a second, after that.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_rate_per_client: u32,

    /// How long a request may take.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub request_timeout: String,

    /// Name of the issuer's own pod, for Events.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod_name: Option<String>,

    /// The issuer's own ports.
    #[command(flatten)]
    pub guard: GuardArgs,
}

/// What the flags mean.
#[derive(Clone, Debug)]
pub struct IssuerSettings {
    /// How the cluster is reached.
    pub cluster: ClusterArgs,
    /// Filter of log lines.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Where certificates are issued.
    pub grpc: SocketAddr,
    /// Where the admin server listens.
    pub admin: SocketAddr,
    /// Control plane and trust domain.
    pub controller: ControllerConfig,
    /// The issuer's own identity.
    pub identity: Arc<str>,
    /// Audiences of tokens. Never empty.
    pub audiences: Vec<String>,
    /// Where the authority comes from.
    pub authority: AuthoritySettings,
    /// How long certificates are valid and when authorities are replaced.
    pub rotation: Rotation,
    /// ConfigMap of the roots.
    pub roots_configmap: String,
    /// Who gets them.
    pub roots_to: Where,
    /// How often one address may ask.
    pub rate: Rate,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// The issuer's own pod.
    pub pod: Option<String>,
    /// How its own ports are guarded.
    pub guard: GuardSettings,
}

/// Where the authority comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthoritySettings {
    /// The issuer makes it and keeps it in a Secret.
    Secret(Provision),
    /// Others keep it in files.
    Files(AuthorityFiles),
}

/// A flag of the issuer that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerArgsError {
    /// Not a time.
    #[error("--{flag}: `{value}` is not {allowed}")]
    Duration {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Nobody could come.
    #[error(
        "--identity-audiences: `{0}` names no audience (for example `portcullis.dev/identity`)"
    )]
    Audiences(String),
    /// Not a service account that can have an identity.
    #[error("--service-account: `{0}` makes no identity (allowed: labels of the DNS, lower-case)")]
    ServiceAccount(String),
    /// Certificates would outlive their authority.
    #[error(
        "--ca-lifetime: `{ca}` is too short: --issuance-lifetime and --root-settle have to fit into \
         what is left of it after --rotate-after percent"
    )]
    TooShort {
        /// What was written.
        ca: String,
    },
}

impl TryFrom<IssuerArgs> for IssuerSettings {
    type Error = ArgsError;

    fn try_from(args: IssuerArgs) -> Result<Self, ArgsError> {
        let namespace: Arc<str> = args.control_plane_namespace.as_str().into();
        let controller = ControllerConfig {
            shared_namespaces: [namespace.clone()].into(),
            control_plane_namespace: namespace.clone(),
            identity_domain: args.identity_domain.as_str().into(),
            ..ControllerConfig::default()
        }
        .validated()?;
        let account = &args.service_account;
        let identity = controller.certifiable_identity(&namespace, account);
        let audiences: Vec<String> =
            items(&args.identity_audiences).map(ToOwned::to_owned).collect();
        if audiences.is_empty() {
            return Err(IssuerArgsError::Audiences(args.identity_audiences).into());
        }
        let guard = args.guard.settings(args.pod_name.as_deref(), &namespace)?;
        let rotation = args.rotation()?;
        Ok(Self {
            grpc: address("grpc-addr", &args.grpc_addr)?,
            admin: address("admin-addr", &args.admin_addr)?,
            identity: identity.ok_or_else(|| IssuerArgsError::ServiceAccount(account.clone()))?,
            audiences,
            authority: args.authority(&controller, rotation),
            rotation,
            roots_to: match &args.roots_namespaces {
                None => Where::Injected,
                Some(list) => Where::These(items(list).map(ToOwned::to_owned).collect()),
            },
            rate: args.rate()?,
            request_timeout: duration("request-timeout", &args.request_timeout, SECOND, MINUTE)?,
            controller,
            guard: GuardSettings { component: COMPONENT, ..guard },
            cluster: args.cluster,
            log_level: args.log_level,
            log_format: args.log_format,
            roots_configmap: args.roots_configmap,
            pod: args.pod_name.filter(|name| !name.is_empty()),
        })
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

impl IssuerArgs {
    fn rotation(&self) -> Result<Rotation, ArgsError> {
        let days = |count: u32| DAY.saturating_mul(count);
        let value = u64::from(self.rotate_after);
        if !(10..=90).contains(&value) {
            return Err(ArgsError::Range { flag: "rotate-after", value, allowed: "10 to 90" });
        }
        let certificates = Lifetime {
            lifetime: duration("issuance-lifetime", &self.issuance_lifetime, MINUTE, days(30))?,
            skew: duration("clock-skew", &self.clock_skew, Duration::ZERO, HOUR)?,
        };
        let lifetime = duration("ca-lifetime", &self.ca_lifetime, HOUR, days(36_500))?;
        let settle = duration("root-settle", &self.root_settle, SECOND, days(30))?;
        let after = self.rotate_after;
        let rotation = Rotation { lifetime, after, settle, certificates };
        let left = lifetime.checked_div(100).unwrap_or_default();
        let left = left.saturating_mul(u32::from(100_u8.saturating_sub(after)));
        if left < rotation.longest().saturating_add(settle) {
            return Err(IssuerArgsError::TooShort { ca: self.ca_lifetime.clone() }.into());
        }
        Ok(rotation)
    }

    fn rate(&self) -> Result<Rate, ArgsError> {
        let rate = Rate { per_second: self.max_rate_per_client, burst: self.max_burst_per_client };
        for (flag, value) in
            [("max-rate-per-client", rate.per_second), ("max-burst-per-client", rate.burst)]
        {
            if value == 0 {
                return Err(ArgsError::Range { flag, value: 0, allowed: "at least 1" });
            }
        }
        Ok(rate)
    }

    fn authority(&self, controller: &ControllerConfig, rotation: Rotation) -> AuthoritySettings {
        match (&self.issuer_cert, &self.issuer_key, &self.roots) {
            (Some(certificate), Some(key), Some(roots)) => {
                AuthoritySettings::Files(AuthorityFiles {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    roots: roots.clone(),
                })
            }
            // The three come together, or none does.
            _ => AuthoritySettings::Secret(Provision {
                namespace: controller.control_plane_namespace.to_string(),
                secret: self.issuer_secret.clone(),
                trust_domain: controller.identity_domain.to_string(),
                rotation,
            }),
        }
    }
}

/// A whole number with `s`, `m`, `h` or `d`, within bounds.
fn duration(
    flag: &'static str,
    value: &str,
    least: Duration,
    most: Duration,
) -> Result<Duration, IssuerArgsError> {
    let wrong = |allowed| IssuerArgsError::Duration { flag, value: value.to_owned(), allowed };
    let form = || wrong("a whole number with s, m, h or d (for example `24h`)");
    let text = value.trim();
    let unit = text.chars().last().ok_or_else(form)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(form()),
    };
    let number: u64 = text.trim_end_matches(unit).parse().map_err(|_| form())?;
    let duration = number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(form)?;
    if duration < least || duration > most {
        return Err(wrong(match flag {
            "issuance-lifetime" => "within 1m to 30d",
            "clock-skew" => "within 0s to 1h",
            "ca-lifetime" => "within 1h to 36500d",
            "root-settle" => "within 1s to 30d",
            _ => "within 1s to 1m",
        }));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn settings(flags: &[&str]) -> Result<IssuerSettings, ArgsError> {
        let command = ["policy-controller", "issuer"].iter().chain(flags);
        match Cli::try_parse_from(command).unwrap().command {
            Command::Issuer(args) => IssuerSettings::try_from(*args),
            Command::Run(_) => panic!("another command"),
        }
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        let settings = settings(&[]).unwrap();
        let longest = Duration::from_secs(86_420);
        assert_eq!(settings.rotation.longest(), longest);
        assert_eq!(settings.rotation.lifetime, 365 * DAY);
        assert_eq!(settings.audiences, [AUDIENCE]);
        assert_eq!(settings.roots_to, Where::Injected);
        assert_eq!(settings.guard.component, "issuer");
        assert_eq!(
            &*settings.identity,
            "portcullis-issuer.linkerd.serviceaccount.identity.linkerd.cluster.local"
        );
        let AuthoritySettings::Secret(provision) = settings.authority else { panic!("files") };
        assert_eq!((&*provision.namespace, &*provision.secret), ("linkerd", SECRET));
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refusal = |flag: &str| settings(&[flag]).unwrap_err().to_string();
        for (flag, want) in [
            (
                "--issuance-lifetime=24",
                "--issuance-lifetime: `24` is not a whole number with s, m,",
            ),
            ("--issuance-lifetime=1s", "--issuance-lifetime: `1s` is not within 1m to 30d"),
            ("--issuance-lifetime=99999999999999999999d", "is not a whole number"),
            ("--clock-skew=2h", "--clock-skew: `2h` is not within 0s to 1h"),
            ("--ca-lifetime=25h", "--ca-lifetime: `25h` is too short: --issuance-lifetime"),
            ("--rotate-after=95", "--rotate-after: `95` is out of range; 10 to 90"),
            ("--identity-audiences=,", "--identity-audiences: `,` names no audience"),
            ("--service-account=A", "--service-account: `A` makes no identity"),
            ("--grpc-addr=localhost", "--grpc-addr: `localhost` is not an address"),
            ("--max-rate-per-client=0", "--max-rate-per-client: `0` is out of range"),
            ("--control-plane-namespace=A", "`A`"),
        ] {
            let refused = refusal(flag);
            assert!(refused.contains(want), "{flag}: {refused}");
        }
    }

    #[test]
    fn a_supplied_authority_needs_all_its_files() {
        let flags = ["policy-controller", "issuer", "--issuer-cert=/c"];
        assert!(Cli::try_parse_from(flags).is_err());
        let flags = ["policy-controller", "issuer", "--roots=/c"];
        assert!(Cli::try_parse_from(flags).is_err());
        let settings = settings(&["--issuer-cert=/c", "--issuer-key=/k", "--roots=/r"]).unwrap();
        let files =
            AuthorityFiles { certificate: "/c".into(), key: "/k".into(), roots: "/r".into() };
        assert_eq!(settings.authority, AuthoritySettings::Files(files));
    }
}
