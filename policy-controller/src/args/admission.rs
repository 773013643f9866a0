//! Flags of the admission webhook.

use super::value::{List, ParseResult, address, items, label, name};
use clap::Args;
use policy_webhooks::admission::{
    AdmissionSettings, CertificateFiles, CertificateSource, Provisioning, WEBHOOK_CONFIGURATION,
    WEBHOOK_SECRET,
};
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Flags of the admission webhook, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Admission")]
pub struct AdmissionArgs {
    /// Address of the admission webhook, served over HTTPS.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:443", value_parser = address)]
    pub server_addr: SocketAddr,

    /// Certificates of the webhook, PEM, leaf first; read again when they change. Without them one
    /// is made and kept in a Secret.
    #[arg(long, value_name = "FILE", requires = "server_tls_key")]
    pub server_tls_certs: Option<PathBuf>,

    /// Key of the webhook's certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "server_tls_certs")]
    pub server_tls_key: Option<PathBuf>,

    /// Do not serve the admission webhook.
    #[arg(long)]
    pub admission_controller_disabled: bool,

    /// Service, in the control plane's namespace, through which the API server reaches the webhook.
    #[arg(long, value_name = "NAME", default_value = "policy-admission", value_parser = label::<Arc<str>>)]
    pub webhook_service: Arc<str>,

    /// Further names under which the API server may reach the webhook, for the certificate that is
    /// made: DNS names and addresses, separated by commas.
    #[arg(long, value_name = "NAMES", default_value = "", value_parser = server_names)]
    pub webhook_names: List<String>,

    /// Secret, in the control plane's namespace, that keeps the certificate that is made.
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_SECRET, value_parser = name::<String>)]
    pub webhook_secret: String,

    /// ValidatingWebhookConfiguration whose caBundle is kept in step with the certificate that is
    /// made.
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_CONFIGURATION, value_parser = name::<String>)]
    pub webhook_configuration: String,
}

impl AdmissionArgs {
    /// Returns the settings; absent: the webhook is not served. `namespace` is the control plane's.
    pub fn settings(&self, namespace: &str) -> Option<AdmissionSettings> {
        if self.admission_controller_disabled {
            return None;
        }
        let certificate = match (&self.server_tls_certs, &self.server_tls_key) {
            (Some(certificates), Some(key)) => CertificateSource::Files(CertificateFiles {
                certificates: certificates.clone(),
                key: key.clone(),
            }),
            // Each needs the other.
            (_, _) => CertificateSource::Provisioned(self.provisioning(namespace)),
        };
        Some(AdmissionSettings { listen: self.server_addr, certificate, linkerd_compatible: false })
    }

    fn provisioning(&self, namespace: &str) -> Provisioning {
        let service = &self.webhook_service;
        // The API server uses the first; people use the others.
        let mut names = vec![
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ];
        names.extend(self.webhook_names.iter().cloned());
        Provisioning {
            namespace: namespace.to_owned(),
            secret: self.webhook_secret.clone(),
            configuration: self.webhook_configuration.clone(),
            injector: None,
            names,
        }
    }
}

/// Names that a certificate can have.
fn server_names(list: &str) -> ParseResult<List<String>> {
    let wrong = |item: &str| format!("`{item}` is neither a DNS name nor an address");
    let one = |item: &str| match ServerName::try_from(item) {
        Ok(_) => Ok(item.to_owned()),
        Err(_) => Err(wrong(item)),
    };
    items(list).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(flags: &[&str]) -> Result<Option<AdmissionSettings>, String> {
        parsed(flags).map(|args: AdmissionArgs| args.settings("mesh"))
    }

    #[test]
    fn without_flags_a_certificate_is_made_for_the_service() {
        let provisioning = Provisioning {
            namespace: "mesh".to_owned(),
            secret: "policy-admission-tls".to_owned(),
            configuration: "portcullis-policy".to_owned(),
            injector: None,
            names: vec![
                "policy-admission.mesh.svc".to_owned(),
                "policy-admission.mesh.svc.cluster.local".to_owned(),
            ],
        };
        let expected = AdmissionSettings {
            listen: "0.0.0.0:443".parse().unwrap(),
            certificate: CertificateSource::Provisioned(provisioning),
            linkerd_compatible: false,
        };
        assert_eq!(settings(&[]), Ok(Some(expected)));
        assert_eq!(settings(&["--admission-controller-disabled"]), Ok(None));
    }

    #[test]
    fn files_are_served_where_both_are_given() {
        let given = ["--server-tls-certs=c.pem", "--server-tls-key=k.pem", "--server-addr=:9443"];
        let expected = AdmissionSettings {
            listen: "0.0.0.0:9443".parse().unwrap(),
            certificate: CertificateSource::Files(CertificateFiles {
                certificates: "c.pem".into(),
                key: "k.pem".into(),
            }),
            linkerd_compatible: false,
        };
        assert_eq!(settings(&given), Ok(Some(expected)));
        for (given, missing) in [("key", "certs"), ("certs", "key")] {
            let refused = settings(&[&format!("--server-tls-{given}=pem")]).unwrap_err();
            let want = format!("not provided:\n  --server-tls-{missing} <FILE>");
            assert!(refused.contains(&want), "{refused}");
        }
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refused = settings(&["--server-addr=everywhere"]).unwrap_err();
        assert!(refused.contains("'everywhere' for '--server-addr <ADDR>': expected"), "{refused}");
        let refused = settings(&["--webhook-names=127.0.0.1,a b"]).unwrap_err();
        let want = "'--webhook-names <NAMES>': `a b` is neither a DNS name nor an address";
        assert!(refused.contains(want), "{refused}");
        let refused = settings(&["--webhook-service=a b"]).unwrap_err();
        assert!(refused.contains("'--webhook-service <NAME>': `a b` is not a name"), "{refused}");
    }
}
