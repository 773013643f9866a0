//! Flags of the controller's own certificate, named as those of the proxy are.

use super::error::ArgsError;
use super::value::{dns_identity, host_port, server_identity};
use clap::{Args, ValueEnum};
use policy_engine::config::ControllerConfig;
use policy_tls::identity::{CertifyConfig, Roots, TrustAnchors};
use std::path::PathBuf;

/// Source of the certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OwnIdentity {
    /// --grpc-tls-key, --grpc-tls-certs and --grpc-tls-roots, if they are given.
    #[default]
    Files,
    /// The issuer at --identity-addr.
    Certify,
}

/// Flags of the controller's own certificate, as written.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The controller's own certificate")]
pub struct OwnIdentityArgs {
    /// Source of the gRPC port's certificate.
    #[arg(long, value_enum, default_value_t, requires_if("certify", "identity_addr"))]
    pub identity: OwnIdentity,

    /// Address of the issuer.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub identity_addr: Option<String>,

    /// The identity that the issuer has to prove [default: that of the service account
    /// portcullis-issuer of the control plane].
    #[arg(long, value_name = "NAME", value_parser = server_identity)]
    pub identity_service_name: Option<String>,

    /// The controller's own identity [default: that of the service account policy-controller of the
    /// control plane].
    #[arg(long, value_name = "NAME", value_parser = dns_identity)]
    pub identity_name: Option<String>,

    /// File with the token that is shown to the issuer [default: /var/run/secrets/portcullis/token].
    #[arg(long, value_name = "FILE")]
    pub identity_token: Option<PathBuf>,

    /// PEM file with the roots of the mesh, followed as it changes [default:
    /// /var/run/portcullis/roots/ca-bundle.crt].
    #[arg(long, value_name = "FILE")]
    pub identity_roots: Option<PathBuf>,
}

impl OwnIdentityArgs {
    /// Returns the configuration of the issuer's client; `None`: it is not used.
    pub(super) fn settings(
        &self,
        config: &ControllerConfig,
    ) -> Result<Option<CertifyConfig>, ArgsError> {
        if self.identity == OwnIdentity::Files {
            return Ok(None);
        }
        // clap requires the address with `certify`.
        let Some(address) = &self.identity_addr else { return Ok(None) };
        let home = &config.control_plane_namespace;
        let of = |name: &Option<String>, account: &str| match name {
            Some(name) => name.clone(),
            None => config.service_account_identity(home, account).to_string(),
        };
        let issuer = of(&self.identity_service_name, policy_issuer::SERVICE_ACCOUNT);
        let own = of(&self.identity_name, "policy-controller");
        let flags = ("identity-addr", "identity-service-name");
        let issuer = ArgsError::server(flags, address, Some(&issuer))?;
        let file = |path: &Option<PathBuf>, default: &str| {
            path.clone().unwrap_or_else(|| PathBuf::from(default))
        };
        let token = file(&self.identity_token, "/var/run/secrets/portcullis/token");
        let roots = file(&self.identity_roots, "/var/run/portcullis/roots/ca-bundle.crt");
        let roots = TrustAnchors::Trusted(Roots::File(roots));
        Ok(Some(CertifyConfig::new(issuer, &own, token, roots)))
    }
}
