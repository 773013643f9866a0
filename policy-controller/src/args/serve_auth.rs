//! Settings of watch authorization and of the gRPC port's certificate.

use policy_discovery::serve::AuthzConfig;
use policy_discovery::{KeyError, KeyReviewer};
use policy_engine::config::ControllerConfig;
use policy_kube::ClusterReviewer;
use policy_server::TlsFiles;
use policy_server::review::CachedReviewer;
use policy_server::review::Reviewer;
use policy_tls::identity::CertifyConfig;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings of watch authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeAuth {
    /// Address at which policies are served: over TLS if there is a certificate, else in plaintext
    /// on loopback.
    pub grpc: SocketAddr,
    /// Source of its certificate.
    pub tls: Option<OwnCertificate>,
    /// Further address at which policies are served in plaintext.
    pub plaintext: Option<SocketAddr>,
    /// Identities and users that may see everything.
    pub viewers: BTreeSet<Arc<str>>,
    /// Verification of viewers' tokens.
    pub tokens: ViewerTokens,
}

/// Verification of viewers' tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerTokens {
    /// No tokens are accepted.
    Off,
    /// TokenReviews of the API server.
    Review {
        /// The audience that they must have.
        audience: String,
    },
    /// Configured keys.
    Keys {
        /// File with the keys.
        file: PathBuf,
        /// Required issuer.
        issuer: String,
        /// The audience that they must have.
        audience: String,
    },
}

/// Source of the gRPC port's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnCertificate {
    /// Files that others renew.
    Files(TlsFiles),
    /// The issuer, as for proxies.
    Certify(Box<CertifyConfig>),
}

impl ServeAuth {
    /// Returns the configuration of authorization. `client`: the client of the API server, if this
    /// controller may create TokenReviews.
    ///
    /// # Errors
    /// [`KeyError`]: the supplied keys cannot be used.
    pub fn access(
        &self,
        config: &ControllerConfig,
        client: Option<kube::Client>,
    ) -> Result<AuthzConfig, KeyError> {
        let reviewer: Option<Arc<dyn Reviewer>> = match (&self.tokens, client) {
            (ViewerTokens::Off, _) | (ViewerTokens::Review { .. }, None) => None,
            (ViewerTokens::Review { audience }, Some(client)) => {
                Some(Arc::new(CachedReviewer::new(ClusterReviewer::new(client, audience))))
            }
            (ViewerTokens::Keys { file, issuer, audience }, _) => {
                Some(Arc::new(KeyReviewer::load(file, issuer, audience)?))
            }
        };
        let (namespace, domain) = (&config.control_plane_namespace, &config.identity_domain);
        let identity_suffix = format!("serviceaccount.identity.{namespace}.{domain}").into();
        Ok(AuthzConfig { viewers: self.viewers.clone(), identity_suffix, reviewer })
    }

    /// Describes the functions that these settings disable. `reviews`: true if this controller may
    /// create TokenReviews.
    pub fn lost(&self, reviews: bool) -> Vec<String> {
        let mut lost = Vec::new();
        if self.tls.is_none() {
            lost.push(
                "only clients on loopback are served: neither --identity=certify nor --grpc-tls-key, \
                 --grpc-tls-certs and --grpc-tls-roots are given"
                    .to_owned(),
            );
        }
        if matches!(self.tokens, ViewerTokens::Review { .. }) && !reviews {
            lost.push(
                "viewers' tokens are not accepted: with --watch-namespace the API server cannot \
                 be called to review them, and --viewer-token-keys is not given"
                    .to_owned(),
            );
        }
        lost
    }
}
