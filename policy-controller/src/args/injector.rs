//! Flags of the injector.

use super::choice::{BypassArg, SidecarArg};
use clap::Args;
use policy_tls::identity::is_dns_name;
use policy_webhooks::injector::{
    Bypass, Defaults, INJECTOR_CONFIGURATION, InjectorSettings, Places, Sidecar, TrustSettings,
};
use std::path::PathBuf;

/// Flags of the injector, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Injector")]
pub struct InjectorArgs {
    /// Serve the injector, on path /inject of the admission webhook's port, and keep the label of
    /// namespaces whose annotation asks for injection.
    #[arg(long)]
    pub injector: bool,

    /// MutatingWebhookConfiguration whose caBundle is kept in step with the certificate that is
    /// made.
    #[arg(long, value_name = "NAME", default_value = INJECTOR_CONFIGURATION)]
    pub injector_configuration: String,

    /// What holds for pods where neither they nor their namespace say: the name of a setting, as it
    /// is annotated after `portcullis.dev/`, and its value; may be repeated.
    #[arg(long, value_name = "SETTING=VALUE")]
    pub injector_default: Vec<String>,

    /// What kind of container the sidecar is.
    #[arg(long, value_enum, default_value_t)]
    pub injector_sidecar: SidecarArg,

    /// The DNS domain of the cluster.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub injector_cluster_domain: String,

    /// Address of the policy controller as sidecars reach it; by default Service portcullis-policy
    /// of the control plane's namespace.
    #[arg(long, value_name = "HOST:PORT")]
    pub injector_policy_addr: Option<String>,

    /// Address of the issuer as sidecars reach it; by default Service portcullis-issuer of the
    /// control plane's namespace.
    #[arg(long, value_name = "HOST:PORT")]
    pub injector_issuer_addr: Option<String>,

    /// The identity that the issuer proves to sidecars [default: that of the service account
    /// portcullis-issuer of the control plane].
    #[arg(long, value_name = "NAME")]
    pub injector_issuer_name: Option<String>,

    /// The audience of the tokens that the issuer reviews [default: portcullis.dev/identity].
    #[arg(long, value_name = "AUDIENCE")]
    pub injector_token_audience: Option<String>,

    /// PEM file with the roots that sidecars begin with, read for each pod [default: the roots that
    /// the controller trusts itself].
    #[arg(long, value_name = "FILE")]
    pub injector_roots: Option<PathBuf>,

    /// Sidecars keep the roots that they begin with, because the issuer publishes no later ones that
    /// authorities vouch for.
    #[arg(long)]
    pub injector_fixed_roots: bool,

    /// What becomes of pods that could get around their sidecar, by capabilities or by images of
    /// their own choice.
    #[arg(long, value_enum, default_value_t)]
    pub injector_bypass: BypassArg,

    /// Sidecars listen on IPv4 alone, for nodes without IPv6.
    #[arg(long)]
    pub injector_disable_ipv6: bool,
}

/// A flag of the injector whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectorArgsError {
    /// Not a setting, or not a value of it.
    #[error("--injector-default: `{given}`: {reason}")]
    Default {
        /// What was written.
        given: String,
        /// What is wrong and what is allowed.
        reason: String,
    },
    /// Not an address.
    #[error("--{flag}: `{value}` is not an address; expected HOST:PORT")]
    Address {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
    },
    /// Not an identity.
    #[error("--injector-issuer-name: `{0}` is not a DNS name")]
    Name(String),
    /// Empty.
    #[error("--injector-token-audience: it is empty; leave it out for portcullis.dev/identity")]
    Audience,
    /// Not a domain.
    #[error("--injector-cluster-domain: `{0}` is not a DNS domain such as `cluster.local`")]
    Domain(String),
    /// The webhook's port is not served.
    #[error("--injector needs the webhook's port: leave out --admission-controller-disabled")]
    NoPort,
}

impl InjectorArgs {
    /// What the flags mean; absent: the injector is not served. `control_plane` is the namespace of
    /// the control plane.
    ///
    /// # Errors
    /// [`InjectorArgsError`] names the flag, the value and what is allowed.
    pub fn settings(
        &self,
        control_plane: &str,
        trust_domain: &str,
    ) -> Result<Option<InjectorSettings>, InjectorArgsError> {
        // A mistake is told whether or not it takes effect.
        let settings = self.read(control_plane, trust_domain)?;
        Ok(self.injector.then_some(settings))
    }

    fn read(
        &self,
        control_plane: &str,
        trust_domain: &str,
    ) -> Result<InjectorSettings, InjectorArgsError> {
        let mut defaults = Defaults::default();
        for given in &self.injector_default {
            defaults
                .set(given)
                .map_err(|reason| InjectorArgsError::Default { given: given.clone(), reason })?;
        }
        let places = self.places(control_plane, trust_domain)?;
        let configuration = self.injector_configuration.clone();
        let sidecar = match self.injector_sidecar {
            SidecarArg::Auto => Sidecar::Auto,
            SidecarArg::Native => Sidecar::Native,
            SidecarArg::Container => Sidecar::Container,
        };
        let trust =
            TrustSettings { file: self.injector_roots.clone(), fixed: self.injector_fixed_roots };
        let bypass = match self.injector_bypass {
            BypassArg::Warn => Bypass::Warn,
            BypassArg::Refuse => Bypass::Refuse,
        };
        Ok(InjectorSettings { configuration, defaults, places, sidecar, trust, bypass })
    }

    /// Where the control plane is, as pods reach it.
    ///
    /// # Errors
    /// As [`Self::settings`].
    pub fn places(
        &self,
        control_plane: &str,
        trust_domain: &str,
    ) -> Result<Places, InjectorArgsError> {
        let domain = &self.injector_cluster_domain;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if domain.is_empty() || domain.ends_with('.') || !domain.bytes().all(allowed) {
            return Err(InjectorArgsError::Domain(domain.clone()));
        }
        let mut places = Places::new(control_plane, trust_domain, domain);
        places.ipv4_only = self.injector_disable_ipv6;
        if let Some(name) = &self.injector_issuer_name {
            if !is_dns_name(name) {
                return Err(InjectorArgsError::Name(name.clone()));
            }
            places.issuer_identity.clone_from(name);
        }
        if let Some(audience) = &self.injector_token_audience {
            if audience.is_empty() {
                return Err(InjectorArgsError::Audience);
            }
            places.audience.clone_from(audience);
        }
        let given = [
            ("injector-policy-addr", &self.injector_policy_addr, &mut places.policy),
            ("injector-issuer-addr", &self.injector_issuer_addr, &mut places.issuer),
        ];
        for (flag, value, place) in given {
            let Some(value) = value else { continue };
            let port = value.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none_or(|port| port == 0) {
                return Err(InjectorArgsError::Address { flag, value: value.clone() });
            }
            place.clone_from(value);
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        injector: InjectorArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<InjectorSettings>, String> {
        let command = Command::try_parse_from(["run"].iter().chain(flags)).unwrap();
        command.injector.settings("mesh", "example.org").map_err(|error| error.to_string())
    }

    #[test]
    fn without_its_flag_the_injector_is_not_served() {
        assert_eq!(settings(&[]), Ok(None));
        let expected = InjectorSettings {
            configuration: "portcullis-injector".to_owned(),
            defaults: Defaults::default(),
            places: Places::new("mesh", "example.org", "cluster.local"),
            sidecar: Sidecar::Auto,
            trust: TrustSettings::default(),
            bypass: Bypass::Warn,
        };
        assert_eq!(expected.places.policy, "portcullis-policy.mesh.svc.cluster.local.:8090");
        assert_eq!(settings(&["--injector"]), Ok(Some(expected)));
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        for (flag, error) in [
            (
                "--injector-default=proxy-log-levl=info",
                "--injector-default: `proxy-log-levl=info`: there is no setting `proxy-log-levl`; \
                 did you mean `proxy-log-level`?",
            ),
            (
                "--injector-default=proxy-workers=many",
                "--injector-default: `proxy-workers=many`: proxy-workers: `many` is not allowed; \
                 expected a number from 1 to 64",
            ),
            (
                "--injector-default=proxy-image=",
                "--injector-default: `proxy-image=`: proxy-image: `` is not allowed; expected an image \
                 such as `ghcr.io/portcullis/proxy`",
            ),
            (
                "--injector-default=proxy-workers",
                "--injector-default: `proxy-workers`: expected SETTING=VALUE",
            ),
            (
                "--injector-policy-addr=nowhere",
                "--injector-policy-addr: `nowhere` is not an address; expected HOST:PORT",
            ),
            ("--injector-issuer-name=a b", "--injector-issuer-name: `a b` is not a DNS name"),
            (
                "--injector-token-audience=",
                "--injector-token-audience: it is empty; leave it out for portcullis.dev/identity",
            ),
            (
                "--injector-cluster-domain=a b",
                "--injector-cluster-domain: `a b` is not a DNS domain such as `cluster.local`",
            ),
        ] {
            assert_eq!(settings(&[flag]), Err(error.to_owned()), "{flag}");
        }
    }
}
