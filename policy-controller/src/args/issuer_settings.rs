//! Settings of `policy-controller issuer`.

use super::choice::LogFormat;
use super::connection::ClusterArgs;
use super::error::ArgsError;
use super::issuer::IssuerArgs;
use crate::self_policy::SelfPolicySettings;
use policy_engine::config::ControllerConfig;
use policy_issuer::{
    AuthorityFiles, AuthoritySettings, CaSecretSettings, IssuerConfig, Lifetime, Rate, RootsScope,
    Rotation,
};
use std::net::SocketAddr;

/// Value of the label portcullis.dev/component of its pods.
const COMPONENT: &str = "issuer";

/// Settings of the issuer.
#[derive(Clone, Debug)]
pub struct IssuerSettings {
    /// The connection to the cluster.
    pub cluster: ClusterArgs,
    /// Filter of log lines.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Address at which certificates are issued.
    pub grpc: SocketAddr,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Configuration of the issuer: certificates, audiences, authority.
    pub issuer: IssuerConfig,
    /// The issuer's own pod.
    pub pod: Option<String>,
    /// Policy of its own ports.
    pub guard: SelfPolicySettings,
}

impl TryFrom<IssuerArgs> for IssuerSettings {
    type Error = ArgsError;

    fn try_from(args: IssuerArgs) -> Result<Self, ArgsError> {
        let namespace = args.control_plane_namespace.clone();
        let controller = ControllerConfig {
            shared_namespaces: [namespace.clone()].into(),
            control_plane_namespace: namespace.clone(),
            identity_domain: args.identity_domain.clone(),
            ..ControllerConfig::default()
        }
        .validated()?;
        let account = &args.service_account;
        let identity = controller.certifiable_identity(&namespace, account);
        let pod = args.pod_name.clone().flatten();
        let guard = args.guard.settings(pod.as_deref(), &namespace);
        let rotation = args.rotation()?;
        let issuer = IssuerConfig {
            identity: identity.ok_or_else(|| ArgsError::ServiceAccount(account.clone()))?,
            authority: args.authority(&controller, rotation),
            audiences: args.identity_audiences,
            rotation,
            roots_to: args.roots_namespaces.map_or(RootsScope::Injected, RootsScope::Named),
            rate: Rate { per_second: args.max_rate_per_client, burst: args.max_burst_per_client },
            request_timeout: args.request_timeout,
            controller,
            roots_configmap: args.roots_configmap,
        };
        Ok(Self {
            grpc: args.grpc_addr,
            admin: args.admin_addr,
            issuer,
            guard: SelfPolicySettings { component: COMPONENT, ..guard },
            cluster: args.cluster,
            log_level: args.log_level,
            log_format: args.log_format,
            pod,
        })
    }
}

impl IssuerArgs {
    fn rotation(&self) -> Result<Rotation, ArgsError> {
        let certificates = Lifetime { lifetime: self.issuance_lifetime, skew: self.clock_skew };
        let (lifetime, settle, after) = (self.ca_lifetime, self.root_settle, self.rotate_after);
        let rotation = Rotation { lifetime, after, settle, certificates };
        let left = self.ca_lifetime.checked_div(100).unwrap_or_default();
        let left = left.saturating_mul(u32::from(100_u8.saturating_sub(after)));
        if left < rotation.longest().saturating_add(settle) {
            return Err(ArgsError::TooShort);
        }
        Ok(rotation)
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
            _ => AuthoritySettings::Secret(CaSecretSettings {
                namespace: controller.control_plane_namespace.to_string(),
                secret: self.issuer_secret.clone(),
                trust_domain: controller.identity_domain.to_string(),
                rotation,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use policy_issuer::{AUDIENCE, SECRET};
    use std::time::Duration;

    fn settings(flags: &[&str]) -> Result<IssuerSettings, String> {
        let command = ["policy-controller", "issuer"].iter().chain(flags);
        match Cli::try_parse_from(command).map_err(|error| error.to_string())?.command {
            Command::Issuer(args) => {
                IssuerSettings::try_from(*args).map_err(|error| error.to_string())
            }
            Command::Run(_) => panic!("another command"),
        }
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        let settings = settings(&[]).unwrap();
        let longest = Duration::from_secs(86_420);
        assert_eq!(settings.issuer.rotation.longest(), longest);
        assert_eq!(settings.issuer.rotation.lifetime, Duration::from_secs(365 * 86_400));
        assert_eq!(settings.issuer.audiences, [AUDIENCE]);
        assert_eq!(settings.issuer.roots_to, RootsScope::Injected);
        assert_eq!(settings.guard.component, "issuer");
        assert_eq!(
            &*settings.issuer.identity,
            "portcullis-issuer.linkerd.serviceaccount.identity.linkerd.cluster.local"
        );
        let AuthoritySettings::Secret(provision) = settings.issuer.authority else {
            panic!("files")
        };
        assert_eq!((&*provision.namespace, &*provision.secret), ("linkerd", SECRET));
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refusal = |flag: &str| settings(&[flag]).unwrap_err();
        for (flag, want) in [
            (
                "--issuance-lifetime=24",
                "'--issuance-lifetime <DURATION>': expected a whole number with",
            ),
            (
                "--issuance-lifetime=1s",
                "'1s' for '--issuance-lifetime <DURATION>': expected a whole",
            ),
            ("--issuance-lifetime=31d", "from 1m to 30d"),
            ("--issuance-lifetime=99999999999999999999d", "expected a whole number"),
            ("--issuance-lifetime=24hh", "expected a whole number"),
            ("--issuance-lifetime=", "expected a whole number"),
            ("--clock-skew=2h", "'2h' for '--clock-skew <DURATION>'"),
            ("--request-timeout=61s", "from 1s to 1m"),
            ("--ca-lifetime=25h", "--ca-lifetime: it is too short: --issuance-lifetime"),
            ("--rotate-after=95", "'95' for '--rotate-after <PERCENT>': 95 is not in 10..=90"),
            ("--identity-audiences=,", "'--identity-audiences <AUDIENCES>': it names no audience"),
            ("--service-account=A", "'A' for '--service-account <NAME>': expected lower-case"),
            ("--grpc-addr=localhost", "'localhost' for '--grpc-addr <ADDR>': expected an address"),
            ("--max-rate-per-client=0", "'--max-rate-per-client <N>': 0 is not in 1..="),
            ("--control-plane-namespace=A", "`A` is not a name"),
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
        assert_eq!(settings.issuer.authority, AuthoritySettings::Files(files));
    }
}
