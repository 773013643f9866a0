//! Who may watch, and where the certificate of the gRPC port comes from, as the flags say it.

use policy_discovery::serve::AccessConfig;
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

/// What the flags of who may watch mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeAuth {
    /// Where policies are served: over TLS if there are files, else in plaintext on loopback.
    pub grpc: SocketAddr,
    /// Where its certificate comes from.
    pub tls: Option<OwnCertificate>,
    /// Where policies are served in plaintext besides.
    pub plaintext: Option<SocketAddr>,
    /// Who may see everything.
    pub viewers: BTreeSet<Arc<str>>,
    /// How tokens are checked.
    pub tokens: ViewerTokens,
}

/// How viewers' tokens are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerTokens {
    /// There are none.
    Off,
    /// By the API server.
    Review {
        /// The audience that they must have.
        audience: String,
    },
    /// By supplied keys.
    Keys {
        /// Where the keys are.
        file: PathBuf,
        /// Who must have issued them.
        issuer: String,
        /// The audience that they must have.
        audience: String,
    },
}

/// Where the certificate of the gRPC port comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnCertificate {
    /// Files that others renew.
    Files(TlsFiles),
    /// The issuer, whom the controller asks as proxies do.
    Certify(Box<CertifyConfig>),
}

impl ServeAuth {
    /// What decides who may watch. `client`: the API server, if it may be asked about tokens.
    ///
    /// # Errors
    /// [`KeyError`]: the supplied keys cannot be used.
    pub fn access(
        &self,
        config: &ControllerConfig,
        client: Option<kube::Client>,
    ) -> Result<AccessConfig, KeyError> {
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
        Ok(AccessConfig { viewers: self.viewers.clone(), identity_suffix, reviewer })
    }

    /// What does not work with these settings, in words. `reviews`: the API server may be asked
    /// about tokens.
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
                "viewers' tokens are not accepted: the API server cannot be asked about them, and \
                 --viewer-token-keys is not given"
                    .to_owned(),
            );
        }
        lost
    }
}
