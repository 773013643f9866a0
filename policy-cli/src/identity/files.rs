//! Files of an identity, each replaced atomically.

use anyhow::Context;
use policy_tls::identity::{key_pem, pem};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Serialize;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Paths of the files of an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IdentityFiles {
    /// The certificate and its chain to a root, PEM.
    pub(crate) certificate: PathBuf,
    /// The private key, PEM, readable only by its owner.
    pub(crate) key: PathBuf,
    /// The roots of the mesh, PEM.
    pub(crate) roots: PathBuf,
}

impl IdentityFiles {
    /// Files of a folder, with the names that TLS Secrets use.
    pub(crate) fn of(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        Self { certificate: file("tls.crt"), key: file("tls.key"), roots: file("ca.crt") }
    }

    /// Creates the folder, readable only by its owner, unless it exists.
    ///
    /// # Errors
    /// It cannot be created, or is not a folder.
    pub(crate) fn folder(folder: &Path) -> anyhow::Result<()> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("--out: `{}`", folder.display()))
    }

    /// Writes the key first, so that a certificate is never without its key.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write(
        &self,
        key: &PrivateKeyDer<'_>,
        chain: &[CertificateDer<'_>],
        roots: &[CertificateDer<'_>],
    ) -> anyhow::Result<()> {
        let certificates = |all: &[CertificateDer<'_>]| all.iter().map(pem).collect::<String>();
        replace(&self.key, key_pem(key).as_bytes(), 0o600)?;
        replace(&self.roots, certificates(roots).as_bytes(), 0o644)?;
        replace(&self.certificate, certificates(chain).as_bytes(), 0o644)
    }
}

/// Creates or replaces a file atomically.
///
/// # Errors
/// It cannot be written.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let written = || {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        // A temporary file is created readable only by its owner.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.persist(path).map_err(|error| error.error)?;
        std::io::Result::Ok(())
    };
    written().with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_tls::identity::KeyAndRequest;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn a_key_is_read_back_and_is_its_owners_alone() {
        let made = KeyAndRequest::generate("web.example").unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        IdentityFiles::folder(&folder).unwrap();
        let files = IdentityFiles::of(&folder);
        let root = CertificateDer::from(vec![1, 2, 3]);
        for _ in 0..2 {
            files
                .write(&made.key, std::slice::from_ref(&root), &[root.clone(), root.clone()])
                .unwrap();
        }
        assert_eq!(PrivateKeyDer::from_pem_file(&files.key).unwrap(), made.key);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&files.key), mode(&files.roots)), (0o600, 0o644));
        assert_eq!(mode(&folder), 0o700);
        let roots = std::fs::read_to_string(&files.roots).unwrap();
        assert_eq!(roots.matches("BEGIN CERTIFICATE").count(), 2);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left");
    }
}
