//! What an issuer is told.

use super::ca_manager::CaSecretSettings;
use super::files::AuthorityFiles;
use super::plan::Rotation;
use super::roots::RootsScope;
use policy_engine::config::ControllerConfig;
use policy_server::Rate;
use std::sync::Arc;
use std::time::Duration;

/// The audience that a token must have unless others are configured.
pub const AUDIENCE: &str = "portcullis.dev/identity";

/// The Secret of the authority, unless another is configured.
pub const SECRET: &str = policy_kube::names::ISSUER_AUTHORITY;

/// The issuer's service account, unless another is configured; and its component label's value.
pub const SERVICE_ACCOUNT: &str = "portcullis-issuer";

/// What the issuer issues, to whom and from which authority.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
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
    pub roots_to: RootsScope,
    /// How often one address may ask.
    pub rate: Rate,
    /// How long a request may take.
    pub request_timeout: Duration,
}

/// Where the authority comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthoritySettings {
    /// The issuer makes it and keeps it in a Secret.
    Secret(CaSecretSettings),
    /// Others keep it in files.
    Files(AuthorityFiles),
}
