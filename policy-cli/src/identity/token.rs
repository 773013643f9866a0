//! Token for the issuer: a file that another program renews, or a file that is renewed here from
//! the API server.

use super::account::Account;
use crate::cluster::api_error::{explain, is_forbidden, is_not_found, message};
use crate::cluster::{Cluster, token};
use anyhow::{Context, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;

/// Lifetime of the token in seconds, the shortest that the API server issues.
const LIFE: i64 = 600;

/// Interval of renewal: twice per lifetime, because the API server may be unavailable for a while.
pub(crate) const RENEW: Duration = Duration::from_secs(200);

/// Source of the token.
pub(crate) enum Token {
    /// A file that another program renews.
    File(PathBuf),
    /// A file of this process, renewed from the API server.
    Requested {
        /// The API server.
        cluster: Box<Cluster>,
        /// Account of the token.
        account: Account,
        /// The audience.
        audience: String,
        /// The file, removed when dropped.
        file: NamedTempFile,
    },
}

impl Token {
    /// Requests a token of the account from the API server.
    ///
    /// # Errors
    /// The request is rejected; the message names the missing permission.
    pub(crate) async fn request(
        cluster: Cluster,
        account: Account,
        audience: String,
    ) -> anyhow::Result<Self> {
        let file = NamedTempFile::new().context("no file for the token can be made")?;
        let mut token = Self::Requested { cluster: Box::new(cluster), account, audience, file };
        token.renew().await?;
        Ok(token)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Requested { file, .. } => file.path(),
        }
    }

    /// Requests the next token, unless another program renews the file.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(crate) async fn renew(&mut self) -> anyhow::Result<()> {
        let Self::Requested { cluster, account, audience, file } = self else { return Ok(()) };
        let Account { namespace, name } = &*account;
        let text = match token::request(cluster, (namespace, name), audience, LIFE).await {
            Ok(text) => text,
            Err(error) if is_not_found(&error) => {
                bail!("there is no ServiceAccount {namespace}/{name}; -n names another namespace")
            }
            Err(error) if is_forbidden(&error) => bail!(
                "cannot create a token of ServiceAccount {namespace}/{name}: {}. It needs in namespace \
                 {namespace}: {{apiGroups: [\"\"], resources: [serviceaccounts/token], \
                 resourceNames: [{name}], verbs: [create]}}; --token FILE takes one that you have",
                message(&error)
            ),
            Err(error) => return Err(explain(&error, &cluster.source, "create a token")),
        };
        // Replaced atomically, because the issuer client may read it at the same time.
        let folder = file.path().parent().unwrap_or_else(|| Path::new("."));
        let mut next =
            NamedTempFile::new_in(folder).context("no file for the token can be made")?;
        next.write_all(text.as_bytes()).context("the token cannot be written")?;
        std::fs::rename(next.path(), file.path()).context("the token cannot be written")?;
        // The rename has consumed the temporary name, so there is nothing to delete.
        let _ = next.keep();
        Ok(())
    }
}
