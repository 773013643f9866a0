//! Configuration of the issuer.

use super::ca_manager::CaSecretSettings;
use super::files::AuthorityFiles;
use super::plan::Rotation;
use super::roots::RootsScope;
use policy_engine::config::ControllerConfig;
use policy_server::Rate;
use std::sync::Arc;
use std::time::Duration;

/// Default audience of tokens.
pub const AUDIENCE: &str = "portcullis.dev/identity";

/// Default name of the Secret of the authority.
pub const SECRET: &str = policy_kube::names::ISSUER_AUTHORITY;

/// Default service account of the issuer, and the value of its component label.
pub const SERVICE_ACCOUNT: &str = "portcullis-issuer";

/// Configuration of the issuer.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    /// Control plane and trust domain.
    pub controller: ControllerConfig,
    /// The issuer's own identity.
    pub identity: Arc<str>,
    /// Accepted audiences of tokens. Never empty.
    pub audiences: Vec<String>,
    /// Source of the authority.
    pub authority: AuthoritySettings,
    /// Lifetimes of certificates and authorities.
    pub rotation: Rotation,
    /// Name of the ConfigMap of the roots.
    pub roots_configmap: String,
    /// Namespaces that get the ConfigMap.
    pub roots_to: RootsScope,
    /// Maximum rate of requests from one address.
    pub rate: Rate,
    /// Timeout of a request.
    pub request_timeout: Duration,
}

/// Source of the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthoritySettings {
    /// The issuer generates it and stores it in a Secret.
    Secret(CaSecretSettings),
    /// An external tool stores it in files.
    Files(AuthorityFiles),
}
