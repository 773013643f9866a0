//! Flags of the webhook that points Linkerd's proxies at this controller.

use super::error::ArgsError;
use super::value::name;
use clap::Args;
use policy_webhooks::admission::{AdmissionSettings, CertificateSource};
use policy_webhooks::injector::ControlPlane;
use policy_webhooks::linkerd_redirect::{BESIDE_CONFIGURATION, ProxyRedirector};

/// Flags of this webhook, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Beside Linkerd")]
pub struct LinkerdRedirectArgs {
    /// With --beside-linkerd: serve a webhook, on path /beside-linkerd of the webhook's port, that
    /// points Linkerd's proxies at this controller when their pods are created.
    #[arg(long, requires = "beside_linkerd", conflicts_with = "injector")]
    pub redirect_linkerd_proxies: bool,

    /// MutatingWebhookConfiguration of that webhook, whose caBundle is kept in step with the
    /// certificate that is made.
    #[arg(long, value_name = "NAME", default_value = BESIDE_CONFIGURATION, value_parser = name::<String>)]
    pub beside_configuration: String,
}

impl LinkerdRedirectArgs {
    /// Returns the settings; absent: the webhook is not served. A provisioned certificate is
    /// published to this webhook too.
    ///
    /// # Errors
    /// [`ArgsError::NoWebhookPort`].
    pub fn settings(
        &self,
        control_plane: &ControlPlane,
        admission: Option<&mut AdmissionSettings>,
    ) -> Result<Option<ProxyRedirector>, ArgsError> {
        if !self.redirect_linkerd_proxies {
            return Ok(None);
        }
        let admission = admission.ok_or(ArgsError::NoWebhookPort("redirect-linkerd-proxies"))?;
        if let CertificateSource::Provisioned(provisioning) = &mut admission.certificate {
            // There is no injector beside Linkerd's.
            provisioning.injector = Some(self.beside_configuration.clone());
        }
        Ok(Some(ProxyRedirector {
            address: control_plane.policy.clone(),
            name: control_plane.controller(),
        }))
    }
}
