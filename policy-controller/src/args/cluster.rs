//! What flags mean together where a cluster is followed.

use super::error::ArgsError;
use super::injector::InjectorArgsError;
use super::run::RunArgs;
use policy_webhooks::admission::{AdmissionSettings, CertificateSource};
use policy_webhooks::injector::InjectorSettings;

/// The injector shares port and certificate with admission.
pub(super) fn injector(
    args: &RunArgs,
    admission: Option<&mut AdmissionSettings>,
    namespaced: bool,
    lost: &mut Vec<String>,
) -> Result<Option<InjectorSettings>, ArgsError> {
    let settings = args.injector.settings(&args.control_plane_namespace, &args.identity_domain)?;
    let Some(settings) = settings else { return Ok(None) };
    // It labels namespaces, which are objects of the whole cluster.
    if namespaced {
        lost.push("injection is off: it needs the whole cluster, not --watch-namespace".to_owned());
        return Ok(None);
    }
    let admission = admission.ok_or(InjectorArgsError::NoPort)?;
    if let CertificateSource::Provisioned(provisioning) = &mut admission.certificate {
        provisioning.injector = Some(settings.configuration.clone());
    }
    Ok(Some(settings))
}
