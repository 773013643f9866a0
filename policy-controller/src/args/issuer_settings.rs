//! What the flags of `policy-controller issuer` mean.

use super::choice::LogFormat;
use super::connection::ClusterArgs;
use super::duration::{DAY, HOUR, MINUTE, SECOND, duration};
use super::error::ArgsError;
use super::issuer::IssuerArgs;
use super::issuer_error::IssuerArgsError;
use super::text::items;
use super::value::address;
use crate::guard::GuardSettings;
use policy_engine::config::ControllerConfig;
use policy_issuer::{
    AuthorityFiles, AuthoritySettings, IssuerConfig, Lifetime, Provision, Rate, Rotation, Where,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What the label portcullis.dev/component of its pods says.
const COMPONENT: &str = "issuer";

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
    /// What is issued, to whom and from which authority.
    pub issuer: IssuerConfig,
    /// The issuer's own pod.
    pub pod: Option<String>,
    /// How its own ports are guarded.
    pub guard: GuardSettings,
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
        let grpc = address("grpc-addr", &args.grpc_addr)?;
        let admin = address("admin-addr", &args.admin_addr)?;
        let issuer = IssuerConfig {
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
            roots_configmap: args.roots_configmap,
        };
        Ok(Self {
            grpc,
            admin,
            issuer,
            guard: GuardSettings { component: COMPONENT, ..guard },
            cluster: args.cluster,
            log_level: args.log_level,
            log_format: args.log_format,
            pod: args.pod_name.filter(|name| !name.is_empty()),
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use policy_issuer::{AUDIENCE, SECRET};

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
        assert_eq!(settings.issuer.rotation.longest(), longest);
        assert_eq!(settings.issuer.rotation.lifetime, 365 * DAY);
        assert_eq!(settings.issuer.audiences, [AUDIENCE]);
        assert_eq!(settings.issuer.roots_to, Where::Injected);
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
        assert_eq!(settings.issuer.authority, AuthoritySettings::Files(files));
    }
}
