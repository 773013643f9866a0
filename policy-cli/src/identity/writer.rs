//! Writes an identity to files, once or at each renewal.

use super::files::{IdentityFiles, replace};
use super::issuer_proxy::IssuerProxy;
use super::token::{RENEW, Token};
use crate::output::Paint;
use anyhow::{Context, anyhow, bail};
use policy_tls::control::ControllerAddress;
use policy_tls::datetime::rfc3339;
use policy_tls::identity::{
    CertifyConfig, IdentityConfig, IdentityMetrics, IdentitySource, KeyAndRequest, Roots,
    TrustAnchors, pem,
};
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes an identity to files.
pub(crate) struct IdentityWriter {
    /// The identity.
    pub(crate) name: String,
    /// The roots of the mesh.
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// Token for the issuer.
    pub(crate) token: Token,
    /// Proxy to the issuer.
    pub(crate) proxy: IssuerProxy,
    /// Paths of the files.
    pub(crate) files: IdentityFiles,
}

/// A written identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenIdentity {
    /// The identity that the certificate proves.
    pub(crate) identity: String,
    /// End of the certificate's validity, RFC 3339.
    pub(crate) until: String,
    /// Paths of the files.
    #[serde(flatten)]
    pub(crate) files: IdentityFiles,
}

impl IdentityWriter {
    /// Requests the certificate and writes the files, with `keep` again at each renewal. Calls
    /// `written` each time.
    ///
    /// # Errors
    /// The issuer rejects the first request, or a file cannot be written.
    pub(crate) async fn run(
        mut self,
        keep: bool,
        mut written: impl FnMut(&WrittenIdentity) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let own = KeyAndRequest::generate(&self.name).map_err(|words| anyhow!(words))?;
        let source = self.source(&own).await?;
        let (mut status, identity) = (source.status(), source.identity());
        let running = tokio::spawn(source.run());
        let (mut until, mut reported) = (None, None);
        let mut renewed = tokio::time::interval(RENEW);
        renewed.tick().await;
        let ended = loop {
            let state = status.state();
            if let Some(certificate) = &state.certificate
                && until != Some(certificate.not_after)
                && let Some(current) = identity.current().as_ref()
            {
                until = Some(certificate.not_after);
                self.files.write(&own.key, current.chain(), current.roots())?;
                let until = rfc3339(certificate.not_after);
                let (identity, files) = (self.name.clone(), self.files.clone());
                written(&WrittenIdentity { identity, until, files })?;
                reported = None;
            }
            if until.is_some() && !keep {
                break Ok(());
            }
            if let Some(failure) = &state.failure {
                let route = self.proxy.failure().map(|route| format!(" ({route})"));
                let words = format!("{}{}", failure.message, route.unwrap_or_default());
                if until.is_none() {
                    break Err(anyhow!(words));
                }
                if reported.as_ref() != Some(&words) {
                    eprintln!("{} not renewed: {words}", Paint::stderr().notice("note:"));
                    reported = Some(words);
                }
            }
            tokio::select! {
                () = status.changed() => {}
                _ = renewed.tick() => if let Err(error) = self.token.renew().await {
                    // The certificate outlasts an outage of the API server.
                    eprintln!("{} {error:#}", Paint::stderr().notice("note:"));
                },
            }
        };
        running.abort();
        ended
    }

    /// Opens the issuer client, which reads key and request from a folder, like those of Linkerd's
    /// identity helper. The folder is deleted on return. It is created beside the files, because a
    /// distroless image has no other writable place.
    async fn source(&self, own: &KeyAndRequest) -> anyhow::Result<IdentitySource> {
        let beside = self.files.key.parent().unwrap_or_else(|| Path::new("."));
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(private).tempdir_in(beside);
        let folder = folder.context("no folder for the key can be made")?;
        for (name, bytes) in [("key.p8", own.key.secret_der()), ("csr.der", own.request.as_slice())]
        {
            replace(&folder.path().join(name), bytes, 0o600)?;
        }
        let issuer = ControllerAddress::loopback(self.proxy.address())?;
        let roots = Roots::Text(self.roots.iter().map(pem).collect());
        let token = self.token.path().to_owned();
        let config = CertifyConfig {
            folder: Some(folder.path().to_owned()),
            ..CertifyConfig::new(issuer, &self.name, token, TrustAnchors::Trusted(roots))
        };
        let opened =
            IdentitySource::open(IdentityConfig::Certify(config), IdentityMetrics::default()).await;
        match opened {
            Ok(source) => Ok(source),
            Err(error) => bail!("{error}"),
        }
    }
}
