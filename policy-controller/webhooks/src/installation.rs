//! How webhooks are installed: under which name, and where the API server finds what answers.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ServiceReference, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

/// The Secret that keeps the webhook's certificate, unless another is named.
pub const WEBHOOK_SECRET: &str = policy_kube::names::WEBHOOK_SECRET;

/// The configuration of the webhook, unless another is named.
pub const WEBHOOK_CONFIGURATION: &str = policy_kube::names::WEBHOOK_CONFIGURATION;

/// How the webhook is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Name of the ValidatingWebhookConfiguration.
    pub name: String,
    /// Our own namespace, of which nothing is asked: installing must not wait for what is installed.
    pub namespace: String,
    /// Where the webhook is.
    pub target: Target,
    /// Who vouches for it, PEM; absent where the controller is to fill it in.
    pub ca_bundle: Option<Vec<u8>>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Service of our own namespace.
    Service {
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// An address that the API server can reach.
    Url(String),
}

/// How the API server reaches what answers on `path` of the webhook's port.
pub(crate) fn client_config(installation: &Installation, path: &str) -> WebhookClientConfig {
    let ca_bundle = installation.ca_bundle.clone().map(ByteString);
    match &installation.target {
        Target::Service { name, port } => WebhookClientConfig {
            ca_bundle,
            service: Some(ServiceReference {
                name: name.clone(),
                namespace: installation.namespace.clone(),
                path: Some(path.to_owned()),
                port: Some(i32::from(*port)),
            }),
            url: None,
        },
        Target::Url(url) => {
            WebhookClientConfig { ca_bundle, service: None, url: Some(url.clone()) }
        }
    }
}

/// What a webhook about new pods is asked about.
pub(crate) fn created_pods() -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![String::new()]),
        api_versions: Some(vec!["v1".to_owned()]),
        operations: Some(vec!["CREATE".to_owned()]),
        resources: Some(vec!["pods".to_owned()]),
        scope: Some("Namespaced".to_owned()),
    }
}

/// What a label has to be for a webhook to be asked.
pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: (!values.is_empty()).then(|| values.iter().map(ToString::to_string).collect()),
    }
}
