//! The roots that a new sidecar begins with.

use super::settings::{Trust, TrustSettings};
use policy_server::TlsHandle;
use policy_tls::identity::{certificates, pem};

/// Maximum size in bytes of the roots in an environment variable.
const MAX_BYTES: usize = 64 * 1024;

/// Source of the roots.
#[derive(Clone, Debug)]
pub(super) struct RootsSource {
    settings: TrustSettings,
    /// The controller's own roots; absent if it has no certificate.
    own: Option<TlsHandle>,
}

impl RootsSource {
    pub(super) fn new(settings: TrustSettings, own: Option<TlsHandle>) -> Self {
        Self { settings, own }
    }

    /// Returns the trust settings of a new sidecar.
    ///
    /// # Errors
    /// The reason why they are not known.
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
        if text.len() > MAX_BYTES {
            let length = text.len();
            return Err(format!("the roots have {length} bytes; {MAX_BYTES} are allowed"));
        }
        Ok(if self.settings.fixed { Trust::Fixed(text) } else { Trust::Followed(text) })
    }
}

/// Returns trust settings with the roots in a PEM text. Anything else in it is ignored.
///
/// # Errors
/// The problem with the text.
pub fn trust_from_pem(text: &[u8]) -> Result<Trust, String> {
    Ok(Trust::Followed(certificates(text)?.iter().map(pem).collect()))
}
