//! An identity that is written to files, once or as often as it is renewed.

use super::bridge::Bridge;
use super::files::Files;
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
use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
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
        let source = self.source(&own).await?;
        let (mut status, identity) = (source.status(), source.identity());
        let running = tokio::spawn(source.run());
        let (mut until, mut told) = (None, None);
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
                told = None;
            }
            if until.is_some() && !keep {
                break Ok(());
            }
            if let Some(failure) = &state.failure {
                let way = self.bridge.failure().map(|way| format!(" ({way})"));
                let words = format!("{}{}", failure.message, way.unwrap_or_default());
                if until.is_none() {
                    break Err(anyhow!(words));
                }
                if told.as_ref() != Some(&words) {
                    eprintln!("{} not renewed: {words}", Paint::stderr().notice("note:"));
                    told = Some(words);
                }
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

    /// The client of the issuer, which reads key and request from a folder as it does Linkerd's helper's.
    /// The folder is gone when this returns. It is beside the files, because an image without a system
    /// has no other place to write to.
    async fn source(&self, own: &KeyAndRequest) -> anyhow::Result<IdentitySource> {
        let beside = self.files.key.parent().unwrap_or_else(|| Path::new("."));
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(private).tempdir_in(beside);
        let folder = folder.context("no folder for the key can be made")?;
        for (name, bytes) in [("key.p8", own.key.secret_der()), ("csr.der", own.request.as_slice())]
        {
            let mut options = OpenOptions::new();
            let file =
                options.write(true).create_new(true).mode(0o600).open(folder.path().join(name));
            file.and_then(|mut file| file.write_all(bytes)).context("the key cannot be written")?;
        }
        let issuer = ControllerAddress::loopback(self.bridge.address())?;
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
