//! Flags of the admission webhook.

use super::text::items;
use super::value::address;
use clap::Args;
use policy_webhooks::admission::{
    AdmissionSettings, CertificateFiles, CertificateSource, Provisioning, WEBHOOK_CONFIGURATION,
    WEBHOOK_SECRET,
};
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of the admission webhook, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Admission")]
pub struct AdmissionArgs {
    /// Where the admission webhook is served over HTTPS.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:443", value_parser = address)]
    pub server_addr: SocketAddr,

    /// Certificates of the webhook, PEM, leaf first; read again when they change. Without them one
    /// is made and kept in a Secret.
    #[arg(long, value_name = "FILE")]
    pub server_tls_certs: Option<PathBuf>,

    /// Key of the webhook's certificate, PEM.
    #[arg(long, value_name = "FILE")]
    pub server_tls_key: Option<PathBuf>,

    /// Do not serve the admission webhook.
    #[arg(long)]
    pub admission_controller_disabled: bool,

    /// Service, in the control plane's namespace, through which the API server reaches the webhook.
    #[arg(long, value_name = "NAME", default_value = "policy-admission")]
    pub webhook_service: String,

    /// Further names under which the API server may reach the webhook, for the certificate that is
    /// made: DNS names and addresses, separated by commas.
    #[arg(long, value_name = "NAMES", default_value = "")]
    pub webhook_names: String,

    /// Secret, in the control plane's namespace, that keeps the certificate that is made.
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_SECRET)]
    pub webhook_secret: String,

    /// ValidatingWebhookConfiguration whose caBundle is kept in step with the certificate that is
    /// made.
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_CONFIGURATION)]
    pub webhook_configuration: String,
}

/// A flag of the webhook whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionArgsError {
    /// One of the two files alone.
    #[error("--{given} needs --{missing}: a certificate is served with its key")]
    OneFile {
        /// The flag that is there, without dashes.
        given: &'static str,
        /// The flag that is not.
        missing: &'static str,
    },
    /// Not a name that a certificate can have.
    #[error("--{flag}: `{name}` is neither a DNS name nor an address")]
    Name {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        name: String,
    },
}

impl AdmissionArgs {
    /// What the flags mean; absent: the webhook is not served. `namespace` is the control plane's.
    ///
    /// # Errors
    /// [`AdmissionArgsError`] names the flag, the value and what is allowed.
    pub fn settings(
        &self,
        namespace: &str,
    ) -> Result<Option<AdmissionSettings>, AdmissionArgsError> {
        if self.admission_controller_disabled {
            return Ok(None);
        }
        let listen = self.server_addr;
        let certificate = match (&self.server_tls_certs, &self.server_tls_key) {
            (Some(certificates), Some(key)) => CertificateSource::Files(CertificateFiles {
                certificates: certificates.clone(),
                key: key.clone(),
            }),
            (None, None) => CertificateSource::Provisioned(self.provisioning(namespace)?),
            (Some(_), None) => return Err(one_file("server-tls-certs", "server-tls-key")),
            (None, Some(_)) => return Err(one_file("server-tls-key", "server-tls-certs")),
        };
        Ok(Some(AdmissionSettings { listen, certificate }))
    }

    fn provisioning(&self, namespace: &str) -> Result<Provisioning, AdmissionArgsError> {
        let service = &self.webhook_service;
        // The API server asks for the first; people for the others.
        let mut names = vec![
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ];
        names.extend(items(&self.webhook_names).map(str::to_owned));
        if let Some(wrong) = names.iter().find(|name| ServerName::try_from(name.as_str()).is_err())
        {
            let own = names.first() == Some(wrong);
            let flag = if own { "webhook-service" } else { "webhook-names" };
            return Err(AdmissionArgsError::Name { flag, name: wrong.clone() });
        }
        Ok(Provisioning {
            namespace: namespace.to_owned(),
            secret: self.webhook_secret.clone(),
            configuration: self.webhook_configuration.clone(),
            injector: None,
            names,
        })
    }
}

fn one_file(given: &'static str, missing: &'static str) -> AdmissionArgsError {
    AdmissionArgsError::OneFile { given, missing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        admission: AdmissionArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<AdmissionSettings>, String> {
        let command = Command::try_parse_from(["run"].iter().chain(flags));
        let command = command.map_err(|error| error.to_string())?;
        command.admission.settings("mesh").map_err(|error| error.to_string())
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
        };
        assert_eq!(settings(&given), Ok(Some(expected)));
        assert_eq!(
            settings(&["--server-tls-key=k.pem"]).unwrap_err(),
            "--server-tls-key needs --server-tls-certs: a certificate is served with its key"
        );
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refused = settings(&["--server-addr=everywhere"]).unwrap_err();
        assert!(refused.contains("'everywhere' for '--server-addr <ADDR>': expected"), "{refused}");
        assert_eq!(
            settings(&["--webhook-names=127.0.0.1,a b"]).unwrap_err(),
            "--webhook-names: `a b` is neither a DNS name nor an address"
        );
        assert_eq!(
            settings(&["--webhook-service=a b"]).unwrap_err(),
            "--webhook-service: `a b.mesh.svc` is neither a DNS name nor an address"
        );
    }
}
