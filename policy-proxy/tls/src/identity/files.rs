//! An identity from files: read at the start and when they change.

use super::contents::contents;
use super::credentials::{Credentials, TlsIdentity};
use super::error::SourceError;
use super::pem::certificates;
use super::publish::Publisher;
use super::roots::Roots;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Configuration of an identity from files, which are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// PEM with our certificate, leaf first.
    pub certificate: PathBuf,
    /// PEM with its private key.
    pub key: PathBuf,
    /// The mesh's roots.
    pub roots: Roots,
    /// The name that clients send as SNI.
    pub name: Arc<str>,
    /// Interval of the check for changed files.
    pub interval: Duration,
}

impl IdentityFiles {
    /// Default interval. Kubernetes replaces mounted files within about a minute; certificates are
    /// renewed hours before they expire.
    pub const INTERVAL: Duration = Duration::from_secs(10);
}

/// The source of an identity from files.
#[derive(Debug)]
pub(super) struct FileSource {
    config: IdentityFiles,
    /// The contents as last read.
    last_read: FileContents,
    /// True if these contents are in force.
    usable: bool,
}

/// Contents of the files.
#[derive(PartialEq, Eq)]
struct FileContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    roots: Vec<CertificateDer<'static>>,
}

impl std::fmt::Debug for FileContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContents").finish_non_exhaustive()
    }
}

/// Maximum size of a file, in bytes of PEM; longer than any certificate chain or key.
const MAX_BYTES: u64 = 1 << 20;

impl FileSource {
    /// Reads the identity and puts it in force.
    ///
    /// # Errors
    /// [`SourceError`] names the file that is missing or unusable.
    pub(super) async fn open(
        config: IdentityFiles,
        publisher: &Publisher,
    ) -> Result<Self, SourceError> {
        let parts = config.read().await?;
        publisher.renew(config.parse(&parts)?);
        Ok(Self { config, last_read: parts, usable: true })
    }

    /// Puts changed files in force. If they are unusable, only their roots take effect.
    pub(super) async fn run(mut self, publisher: &Publisher) {
        loop {
            tokio::time::sleep(self.config.interval).await;
            publisher.check();
            match self.config.read().await {
                Ok(parts) if self.last_read == parts => {
                    if self.usable {
                        publisher.clear_failure();
                    }
                }
                Ok(parts) => self.put(parts, publisher),
                Err(error) => {
                    self.follow_roots(publisher).await;
                    publisher.fail(error.kind(), &error.to_string());
                }
            }
        }
    }

    /// Puts the roots in force if they can be read although another file cannot.
    async fn follow_roots(&mut self, publisher: &Publisher) {
        if let Ok(roots) = self.config.roots.read().await
            && roots != self.last_read.roots
        {
            replace_roots(&roots, publisher);
            self.last_read.roots = roots;
        }
    }

    fn put(&mut self, parts: FileContents, publisher: &Publisher) {
        let same =
            self.last_read.certificate == parts.certificate && self.last_read.key == parts.key;
        let parsed = self.config.parse(&parts);
        let rooted = same && self.usable;
        self.usable = parsed.is_ok();
        match parsed {
            Ok(identity) if rooted => publisher.replace_roots(identity),
            Ok(identity) => publisher.renew(identity),
            Err(error) => {
                if self.last_read.roots != parts.roots {
                    replace_roots(&parts.roots, publisher);
                }
                publisher.fail(error.kind(), &error.to_string());
            }
        }
        self.last_read = parts;
    }
}

/// Replaces the roots of the current identity: a removed root must not stay trusted, even if the
/// certificate is unusable.
fn replace_roots(roots: &[CertificateDer<'static>], publisher: &Publisher) {
    let current = publisher.identity().current().clone();
    if let Some(Ok(identity)) = current.map(|own| own.with_roots(roots.to_vec())) {
        publisher.replace_roots(identity);
    }
}

impl IdentityFiles {
    async fn read(&self) -> Result<FileContents, SourceError> {
        Ok(FileContents {
            certificate: contents(&self.certificate, MAX_BYTES).await?,
            key: contents(&self.key, MAX_BYTES).await?,
            roots: self.roots.read().await?,
        })
    }

    fn parse(&self, parts: &FileContents) -> Result<TlsIdentity, SourceError> {
        let wrong =
            |path: &Path, message| SourceError::Pem { place: path.display().to_string(), message };
        let key = PrivateKeyDer::from_pem_slice(&parts.key)
            .map_err(|error| wrong(&self.key, error.to_string()))?;
        let chain =
            certificates(&parts.certificate).map_err(|error| wrong(&self.certificate, error))?;
        let (server_name, roots) = (Arc::clone(&self.name), parts.roots.clone());
        Ok(TlsIdentity::new(Credentials { server_name, roots, chain, key })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::IdentityMetrics;
    use crate::identity::{FailureKind, IdentityConfig, IdentityHandle, IdentitySource};
    use rcgen::{CertificateParams, KeyPair};

    /// Waits, in virtual time, until the files were checked often enough.
    async fn until(holds: impl Fn() -> bool) {
        for _ in 0..1000 {
            if holds() {
                return;
            }
            tokio::time::sleep(IdentityFiles::INTERVAL).await;
        }
        assert!(holds());
    }

    fn write(directory: &Path, name: &str) -> IdentityFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let files = IdentityFiles {
            certificate: directory.join("cert.pem"),
            key: directory.join("key.pem"),
            roots: Roots::File(directory.join("roots.pem")),
            name: name.into(),
            interval: IdentityFiles::INTERVAL,
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
        let load = async |files: &IdentityFiles| {
            let publisher = Publisher::new(IdentityMetrics::default());
            FileSource::open(files.clone(), &publisher).await.map(|_| publisher)
        };
        let loaded = load(&files).await.unwrap();
        assert_eq!(loaded.identity().current().as_ref().unwrap().server_name(), "web.example");
        assert_eq!(loaded.status().missing(), None);
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
        let source = IdentityConfig::Files(files.clone());
        let source = IdentitySource::open(source, IdentityMetrics::default()).await.unwrap();
        let (identity, status) = (source.identity(), source.status());
        let task = tokio::spawn(source.run());
        tokio::time::sleep(IdentityFiles::INTERVAL).await;
        std::fs::write(&files.certificate, "nothing").unwrap();
        until(|| status.state().failure.is_some()).await;
        let name = |identity: &IdentityHandle| identity.current().as_ref().unwrap().name().cloned();
        assert_eq!(name(&identity).unwrap().as_str(), "one.example");
        let failure = status.state().failure.unwrap();
        assert_eq!(failure.kind, FailureKind::Files);
        assert!(failure.message.contains("cert.pem"), "{}", failure.message);
        write(directory.path(), "two.example");
        until(|| name(&identity).unwrap().as_str() == "two.example").await;
        assert_eq!(status.state().failure, None);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_root_that_is_taken_out_is_not_trusted_any_longer() {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path(), "web.example");
        let other = tempfile::tempdir().unwrap();
        write(other.path(), "other.example");
        let text = |path: &Path| std::fs::read_to_string(path.join("roots.pem")).unwrap();
        let (own, more) = (text(directory.path()), text(other.path()));
        std::fs::write(directory.path().join("roots.pem"), format!("{own}{more}")).unwrap();
        let source = IdentityConfig::Files(files.clone());
        let source = IdentitySource::open(source, IdentityMetrics::default()).await.unwrap();
        let status = source.status();
        let roots = || status.state().certificate.unwrap().roots;
        let since = status.state().certificate.unwrap().since;
        assert_eq!(roots(), 2);
        let task = tokio::spawn(source.run());
        std::fs::write(directory.path().join("roots.pem"), own).unwrap();
        until(|| roots() == 1).await;
        assert_eq!(status.missing(), None);
        assert_eq!(status.state().certificate.unwrap().since, since, "the certificate stayed");
        // Without our own root, others would not accept us: in force, but not ready.
        std::fs::write(directory.path().join("roots.pem"), more).unwrap();
        until(|| status.missing().is_some()).await;
        let said = status.missing().unwrap();
        assert!(said.starts_with("the certificate does not verify as a server's"), "{said}");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_root_that_is_taken_out_beside_an_unusable_certificate_is_not_trusted_any_longer() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = write(directory.path(), "web.example");
        write(other.path(), "other.example");
        let text = |path: &Path| std::fs::read_to_string(path.join("roots.pem")).unwrap();
        let (own, more) = (text(directory.path()), text(other.path()));
        std::fs::write(directory.path().join("roots.pem"), format!("{own}{more}")).unwrap();
        let source = IdentityConfig::Files(files.clone());
        let source = IdentitySource::open(source, IdentityMetrics::default()).await.unwrap();
        let status = source.status();
        let roots = || status.state().certificate.unwrap().roots;
        assert_eq!(roots(), 2);
        let task = tokio::spawn(source.run());
        std::fs::write(&files.certificate, "nothing").unwrap();
        until(|| status.state().failure.is_some()).await;
        std::fs::write(directory.path().join("roots.pem"), &own).unwrap();
        until(|| roots() == 1).await;
        until(|| status.state().failure.is_some()).await;
        assert_eq!(status.state().failure.unwrap().kind, FailureKind::Files);
        // The same beside a file that is not there.
        std::fs::write(directory.path().join("roots.pem"), format!("{own}{more}")).unwrap();
        until(|| roots() == 2).await;
        std::fs::remove_file(&files.key).unwrap();
        std::fs::write(directory.path().join("roots.pem"), own).unwrap();
        until(|| roots() == 1).await;
        task.abort();
    }
}
