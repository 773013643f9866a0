//! A serving certificate in files, which an external tool renews.

use super::cert_resolver::CertResolver;
use super::pair::{CertificateError, PemSources, certified_key};
use policy_kube::rotation::secret::Pair;
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval at which the files are read.
const INTERVAL: Duration = Duration::from_secs(2);

/// Paths of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM, leaf first.
    pub certificates: PathBuf,
    /// PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Reads the files once and serves the certificate. Returns the content, for [`watch_files`].
    ///
    /// # Errors
    /// [`CertificateError`] names the file that is missing or unusable.
    pub(crate) async fn load(&self, resolver: &CertResolver) -> Result<Pair, CertificateError> {
        let texts = self.read().await?;
        resolver.put(self.parse(&texts)?);
        Ok(texts)
    }

    async fn read(&self) -> Result<Pair, CertificateError> {
        Ok(Pair {
            certificate: contents(&self.certificates).await?,
            key: contents(&self.key).await?,
        })
    }

    fn parse(&self, texts: &Pair) -> Result<CertifiedKey, CertificateError> {
        let (certificates, key) =
            (self.certificates.display().to_string(), self.key.display().to_string());
        let sources = PemSources { certificates: &certificates, key: &key };
        certified_key(&sources, texts)
    }
}

async fn contents(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |error| CertificateError::Read { path: path.to_owned(), error };
    tokio::fs::read(path).await.map_err(failed)
}

/// Serves changed files, forever. Unusable content is logged once, and the current certificate
/// stays. `loaded`: the content in use at the start, since when the files may have changed.
pub(crate) async fn watch_files(files: CertificateFiles, resolver: CertResolver, loaded: Pair) {
    let mut seen = Some(loaded);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let texts = match files.read().await {
            Ok(texts) if seen.as_ref() == Some(&texts) => continue,
            Ok(texts) => texts,
            Err(error) => {
                if seen.take().is_some() {
                    resolver.metrics.certificate_failed();
                    tracing::warn!(
                        %error,
                        "cannot reload the webhook's certificate, keeping the current one"
                    );
                }
                continue;
            }
        };
        // The two files are not replaced atomically: a pair that does not match is normal and is
        // read again when either changes.
        match files.parse(&texts) {
            Ok(renewed) => {
                resolver.put(renewed);
                tracing::info!("reloaded the webhook's certificate");
            }
            Err(error) => {
                resolver.metrics.certificate_failed();
                tracing::warn!(
                    %error,
                    "cannot reload the webhook's certificate, keeping the current one"
                );
            }
        }
        seen = Some(texts);
    }
}
