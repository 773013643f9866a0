//! The roots that sidecars begin with, as they are when a pod is created.

use super::settings::{Trust, TrustSettings};
use policy_server::TlsHandle;
use policy_tls::identity::{certificates, pem};

/// More than fits into a variable of the environment beside others, in bytes.
const MOST: usize = 64 * 1024;

/// Where the roots come from.
#[derive(Clone, Debug)]
pub(super) struct RootsSource {
    settings: TrustSettings,
    /// What the controller trusts itself; absent: it has no certificate.
    own: Option<TlsHandle>,
}

impl RootsSource {
    pub(super) fn new(settings: TrustSettings, own: Option<TlsHandle>) -> Self {
        Self { settings, own }
    }

    /// Whom a sidecar trusts that is created now.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) async fn trust(&self) -> Result<Trust, String> {
        let roots = match (&self.settings.file, &self.own) {
            (Some(file), _) => {
                let place = file.display();
                let text = tokio::fs::read(file).await;
                let text = text.map_err(|error| format!("cannot read `{place}`: {error}"))?;
                certificates(&text).map_err(|error| format!("`{place}`: {error}"))?
            }
            (None, Some(own)) => own
                .roots()
                .ok_or("the roots of the mesh are not known yet: there is no certificate")?,
            (None, None) => return Ok(Trust::ConfigMap),
        };
        let text: String = roots.iter().map(pem).collect();
        if text.len() > MOST {
            let length = text.len();
            return Err(format!("the roots have {length} bytes; {MOST} are allowed"));
        }
        Ok(if self.settings.fixed { Trust::Fixed(text) } else { Trust::Followed(text) })
    }
}

/// Sidecars that begin with the roots of a PEM text. What else stands there is left out.
///
/// # Errors
/// What is wrong with the text.
pub fn trust_from_pem(text: &[u8]) -> Result<Trust, String> {
    Ok(Trust::Followed(certificates(text)?.iter().map(pem).collect()))
}
