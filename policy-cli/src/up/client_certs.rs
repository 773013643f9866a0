//! Client certificates in a private directory that is removed when `up` ends.

use crate::local_mesh::authority::{Authority, IssueError};
use policy_core::Identity;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory and its files. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct ClientCertificates {
    directory: TempDir,
    written: BTreeMap<String, CertificateFiles>,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFiles {
    /// The certificate.
    pub(crate) certificate: PathBuf,
    /// The key.
    pub(crate) key: PathBuf,
}

/// Error of writing client certificates.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateFilesError {
    /// The directory or a file cannot be written.
    #[error("cannot write certificates to `{}`: {error}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A certificate cannot be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
}

impl ClientCertificates {
    /// Creates a directory with the root in it, readable only by its owner.
    pub(crate) fn new(authority: &Authority) -> Result<Self, CertificateFilesError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("portcullis-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let directory = builder
            .tempdir()
            .map_err(|error| CertificateFilesError::Io { path: std::env::temp_dir(), error })?;
        if cfg!(panic = "abort") {
            remove_on_panic(directory.path().to_owned());
        }
        let certificates = Self { directory, written: BTreeMap::new() };
        write(&certificates.root(), authority.root_pem())?;
        Ok(certificates)
    }

    /// The root certificate.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// Returns the certificate of an identity, issued at the first call, in a file named after
    /// `name`.
    pub(crate) fn of(
        &mut self,
        authority: &Authority,
        name: &str,
        identity: &str,
    ) -> Result<CertificateFiles, CertificateFilesError> {
        if let Some(pair) = self.written.get(identity) {
            return Ok(pair.clone());
        }
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '.' };
        let stem: String = name.chars().map(safe).take(100).collect();
        let path = |end: &str| self.directory.path().join(format!("{stem}.{end}"));
        let pair = CertificateFiles { certificate: path("crt"), key: path("key") };
        let leaf = authority.issue(&if identity.starts_with("spiffe://") {
            Identity::Spiffe(identity.into())
        } else {
            Identity::Dns(identity.into())
        })?;
        write(&pair.certificate, &leaf.certificate_pem)?;
        write(&pair.key, &leaf.key_pem)?;
        self.written.insert(identity.to_owned(), pair.clone());
        Ok(pair)
    }
}

/// With `panic = "abort"` nothing is dropped, so the keys are removed before the process ends.
fn remove_on_panic(directory: PathBuf) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // The panic's message matters more than an error of the removal.
        let _ = std::fs::remove_dir_all(&directory);
        usual(info);
    }));
}

fn write(path: &Path, text: &str) -> Result<(), CertificateFilesError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| CertificateFilesError::Io { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_look_and_nothing_stays() {
        use std::os::unix::fs::PermissionsExt;
        let authority = Authority::new().unwrap();
        let mut certificates = ClientCertificates::new(&authority).unwrap();
        let pair = certificates.of(&authority, "shop/../web", "web.shop.example").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(certificates.directory.path()), 0o700);
        assert_eq!(mode(&pair.key), 0o600);
        assert_eq!(pair.key.parent(), Some(certificates.directory.path()));
        let path = certificates.directory.path().to_owned();
        drop(certificates);
        assert!(!path.exists());
    }

    #[test]
    fn a_panic_that_ends_the_process_takes_the_keys_along() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        std::fs::create_dir(&path).unwrap();
        let usual = std::panic::take_hook();
        remove_on_panic(path.clone());
        let ended = std::thread::spawn(|| panic!("as expected")).join();
        std::panic::set_hook(usual);
        assert!(ended.is_err());
        assert!(!path.exists());
    }
}
