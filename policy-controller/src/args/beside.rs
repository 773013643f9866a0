//! Flags of the webhook that points Linkerd's proxies at this controller.

use clap::Args;
use policy_webhooks::admission::{AdmissionSettings, CertificateSource};
use policy_webhooks::beside::{BESIDE_CONFIGURATION, Repoint};
use policy_webhooks::injector::Places;

/// Flags of this webhook, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Beside Linkerd")]
pub struct BesideArgs {
    /// With --beside-linkerd: serve a webhook, on path /beside-linkerd of the webhook's port, that
    /// points Linkerd's proxies at this controller when their pods are created.
    #[arg(long, requires = "beside_linkerd", conflicts_with = "injector")]
    pub redirect_linkerd_proxies: bool,

    /// MutatingWebhookConfiguration of that webhook, whose caBundle is kept in step with the
    /// certificate that is made.
    #[arg(long, value_name = "NAME", default_value = BESIDE_CONFIGURATION)]
    pub beside_configuration: String,
}

/// The webhook's port is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--redirect-linkerd-proxies needs the webhook's port: leave out --admission-controller-disabled; \
     with --watch-namespace give --server-tls-certs and --server-tls-key"
)]
pub struct NoPort;

impl BesideArgs {
    /// What the flags mean; absent: the webhook is not served. With a certificate that is made here,
    /// it is published to this webhook too.
    ///
    /// # Errors
    /// [`NoPort`].
    pub fn settings(
        &self,
        places: &Places,
        admission: Option<&mut AdmissionSettings>,
    ) -> Result<Option<Repoint>, NoPort> {
        if !self.redirect_linkerd_proxies {
            return Ok(None);
        }
        let admission = admission.ok_or(NoPort)?;
        if let CertificateSource::Provisioned(provisioning) = &mut admission.certificate {
            // There is no injector beside Linkerd's.
            provisioning.injector = Some(self.beside_configuration.clone());
        }
        Ok(Some(Repoint { address: places.policy.clone(), name: places.controller() }))
    }
}
