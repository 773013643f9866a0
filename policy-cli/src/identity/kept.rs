//! An identity that is written to files, once or as often as it is renewed.

use super::bridge::Bridge;
use super::files::Files;
use super::token::{RENEW, Token};
use crate::output::Paint;
use anyhow::{Context, anyhow, bail};
use policy_tls::civil::rfc3339;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{
    Anchors, CertifyConfig, IdentityConfig, IdentityMetrics, IdentitySource, KeyAndRequest, Roots,
    pem,
};
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use std::path::Path;

/// What is made.
pub(crate) struct Making {
    /// The identity.
    pub(crate) name: String,
    /// The roots of the mesh.
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// The token that is shown.
    pub(crate) token: Token,
    /// The way to the issuer.
    pub(crate) bridge: Bridge,
    /// Where it is written to.
    pub(crate) files: Files,
}

/// An identity that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    /// The identity that the certificate proves.
    pub(crate) identity: String,
    /// When the certificate ends, RFC 3339.
    pub(crate) until: String,
    /// Where its parts are.
    #[serde(flatten)]
    pub(crate) files: Files,
}

impl Making {
    /// Asks the issuer and writes what it gives; with `keep` again whenever it is renewed. `written`
    /// is told each time.
    ///
    /// # Errors
    /// The issuer gives none, at the first attempt; or a file cannot be written.
    pub(crate) async fn run(
        mut self,
        keep: bool,
        mut written: impl FnMut(&Written) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let own = KeyAndRequest::generate(&self.name).map_err(|words| anyhow!(words))?;
        // The client of the issuer reads them from a folder, as it does Linkerd's helper's.
        // It is beside the files, because an image without a system has no other place to write to.
        let beside = self.files.key.parent().unwrap_or_else(|| Path::new("."));
        let folder = tempfile::tempdir_in(beside).context("no folder for the key can be made")?;
        for (name, bytes) in [("key.p8", own.key.secret_der()), ("csr.der", own.request.as_slice())]
        {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).context("the key cannot be written")?;
        }
        let source = self.source(folder.path()).await?;
        let (mut status, identity) = (source.status(), source.identity());
        let running = tokio::spawn(source.run());
        let mut until = None;
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
                written(&Written { identity, until, files })?;
            }
            if until.is_some() && !keep {
                break Ok(());
            }
            if let (None, Some(failure)) = (&state.certificate, &state.failure) {
                let way = self.bridge.failure().map(|way| format!(" ({way})"));
                break Err(anyhow!("{}{}", failure.message, way.unwrap_or_default()));
            }
            tokio::select! {
                () = status.changed() => {}
                _ = renewed.tick() => if let Err(error) = self.token.renew().await {
                    // The certificate is good for longer than an API server is away.
                    eprintln!("{} {error:#}", Paint::stderr().notice("note:"));
                },
            }
        };
        running.abort();
        ended
    }

    async fn source(&self, folder: &Path) -> anyhow::Result<IdentitySource> {
        let issuer = ControllerAddress::loopback(self.bridge.address())?;
        let roots = Roots::Text(self.roots.iter().map(pem).collect());
        let token = self.token.path().to_owned();
        let config = CertifyConfig {
            folder: Some(folder.to_owned()),
            ..CertifyConfig::new(issuer, &self.name, token, Anchors::Trusted(roots))
        };
        let opened =
            IdentitySource::open(IdentityConfig::Certify(config), IdentityMetrics::default()).await;
        match opened {
            Ok(source) => Ok(source),
            Err(error) => bail!("{error}"),
        }
    }
}
