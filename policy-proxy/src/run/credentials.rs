//! An identity kept in files: read at the start, read again when the files change.

use crate::config::{IdentityFiles, Roots};
use crate::identity::{self, Credentials, IdentityError, IdentityHandle, TlsIdentity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why an identity on disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file does not hold what it should.
    #[error("`{place}`: {message}")]
    Pem {
        /// The file or setting.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// The parts do not make an identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The texts that an identity is made of.
#[derive(Clone, PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    roots: Vec<u8>,
}

/// How often files are compared with what is in force. Kubernetes replaces mounted files within a
/// minute or so; certificates are renewed hours before they expire.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the identity.
///
/// # Errors
/// [`CredentialError`] names the file that is missing or unusable.
pub(super) async fn load(files: &IdentityFiles) -> Result<TlsIdentity, CredentialError> {
    parse(files, &read(files).await?)
}

/// Puts changed files in force. What cannot be used is logged once and leaves the identity as it is.
pub(super) async fn follow(files: IdentityFiles, identity: IdentityHandle) {
    let mut seen = read(&files).await.ok();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let texts = match read(&files).await {
            Ok(texts) if seen.as_ref() == Some(&texts) => continue,
            Ok(texts) => texts,
            Err(error) => {
                if seen.take().is_some() {
                    tracing::warn!(%error, "identity files cannot be read, the identity stays");
                }
                continue;
            }
        };
        match parse(&files, &texts) {
            Ok(renewed) => {
                tracing::info!(name = renewed.server_name(), "identity renewed");
                identity.replace(renewed);
            }
            Err(error) => {
                tracing::warn!(%error, "identity files cannot be used, the identity stays")
            }
        }
        seen = Some(texts);
    }
}

async fn read(files: &IdentityFiles) -> Result<Texts, CredentialError> {
    Ok(Texts {
        certificate: contents(&files.certificate).await?,
        key: contents(&files.key).await?,
        roots: match &files.roots {
            Roots::File(path) => contents(path).await?,
            Roots::Text(text) => text.clone().into_bytes(),
        },
    })
}

async fn contents(path: &Path) -> Result<Vec<u8>, CredentialError> {
    let failed = |error| CredentialError::Read { path: path.to_owned(), error };
    tokio::fs::read(path).await.map_err(failed)
}

fn parse(files: &IdentityFiles, texts: &Texts) -> Result<TlsIdentity, CredentialError> {
    let roots = match &files.roots {
        Roots::File(path) => path.display().to_string(),
        Roots::Text(_) => "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS".to_owned(),
    };
    let key_place = files.key.display().to_string();
    let key = PrivateKeyDer::from_pem_slice(&texts.key)
        .map_err(|error| CredentialError::Pem { place: key_place, message: error.to_string() })?;
    Ok(TlsIdentity::new(Credentials {
        server_name: Arc::clone(&files.name),
        roots: certificates(roots, &texts.roots)?,
        chain: certificates(files.certificate.display().to_string(), &texts.certificate)?,
        key,
    })?)
}

/// Every certificate of a PEM text that stands in `place`.
fn certificates(
    place: String,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    identity::certificates(text).map_err(|message| CredentialError::Pem { place, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn write(directory: &Path, name: &str) -> IdentityFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let files = IdentityFiles {
            certificate: directory.join("cert.pem"),
            key: directory.join("key.pem"),
            roots: Roots::File(directory.join("roots.pem")),
            name: name.into(),
        };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(directory.join("roots.pem"), certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    #[tokio::test]
    async fn what_is_missing_or_unusable_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path(), "web.example");
        assert_eq!(load(&files).await.unwrap().server_name(), "web.example");
        std::fs::write(&files.key, "nothing").unwrap();
        let error = load(&files).await.unwrap_err().to_string();
        assert!(error.contains("key.pem"), "{error}");
        std::fs::write(&files.certificate, "").unwrap();
        std::fs::remove_file(&files.key).unwrap();
        let error = load(&files).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read") && error.contains("key.pem"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_replace_the_identity_and_unusable_ones_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path(), "one.example");
        let identity = IdentityHandle::new(load(&files).await.unwrap());
        let task = tokio::spawn(follow(files.clone(), identity.clone()));
        tokio::time::sleep(INTERVAL).await;
        std::fs::write(&files.certificate, "nothing").unwrap();
        tokio::time::sleep(INTERVAL * 3).await;
        let name = |identity: &IdentityHandle| identity.current().as_ref().unwrap().name().cloned();
        assert_eq!(name(&identity).unwrap().as_str(), "one.example");
        write(directory.path(), "two.example");
        for _ in 0..100 {
            tokio::time::sleep(INTERVAL).await;
            if name(&identity).unwrap().as_str() == "two.example" {
                break;
            }
        }
        assert_eq!(name(&identity).unwrap().as_str(), "two.example");
        task.abort();
    }
}
