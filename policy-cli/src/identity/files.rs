//! The folder in which a certificate, its key and the roots are.

use anyhow::Context as _;
use policy_tls::identity::{Certified, key_pem, pem};
use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use tempfile::NamedTempFile;

/// The certificate with its chain, the key, the roots: named as in a Secret of type kubernetes.io/tls.
pub(crate) const FILES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// Writes what was certified into a folder, which is made (for its owner alone) if it is not there. Each
/// file is replaced as a whole, and readable for its owner alone. The key comes first: whoever reads the
/// files in between finds a key and a certificate that do not fit each other, and never a half one.
///
/// # Errors
/// The folder or a file that cannot be written.
pub(crate) fn write(folder: &Path, certified: &Certified) -> anyhow::Result<()> {
    if !folder.is_dir() {
        let made = DirBuilder::new().mode(0o700).recursive(true).create(folder);
        made.with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    }
    let [certificate, key, roots] = FILES;
    replace(folder, key, &key_pem(&certified.key))?;
    let chain: String = certified.identity.chain().iter().map(pem).collect();
    replace(folder, certificate, &chain)?;
    let trusted: String = certified.identity.roots().iter().map(pem).collect();
    replace(folder, roots, &trusted)
}

/// A temporary file beside it, which takes its place. It is made with mode 0600.
fn replace(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    let written = || -> std::io::Result<()> {
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        fs::File::open(folder)?.sync_all()
    };
    written().with_context(|| format!("cannot write `{}`", path.display()))
}
