//! Installation of webhooks: the configuration's name, and the address that the API server calls.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ServiceReference, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

/// Default name of the Secret of the webhook's certificate.
pub const WEBHOOK_SECRET: &str = policy_kube::names::WEBHOOK_SECRET;

/// Default name of the ValidatingWebhookConfiguration.
pub const WEBHOOK_CONFIGURATION: &str = policy_kube::names::WEBHOOK_CONFIGURATION;

/// Installation of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Name of the ValidatingWebhookConfiguration.
    pub name: String,
    /// Namespace of the control plane, which is exempt: its own installation must not wait for the
    /// webhook.
    pub namespace: String,
    /// Address of the webhook.
    pub target: Target,
    /// CA bundle that verifies the webhook, PEM; absent if the controller publishes it.
    pub ca_bundle: Option<Vec<u8>>,
}

/// Address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Service in the namespace of the control plane.
    Service {
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// A URL that the API server can reach.
    Url(String),
}

/// Returns the client configuration for `path` of the webhook's port.
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

/// Returns the rule of webhooks for new pods.
pub(crate) fn created_pods() -> RuleWithOperations {
    pods_that("CREATE")
}

/// Returns the rule of webhooks for pods that are changed themselves, without their subresources.
pub(crate) fn updated_pods() -> RuleWithOperations {
    pods_that("UPDATE")
}

fn pods_that(operation: &str) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![String::new()]),
        api_versions: Some(vec!["v1".to_owned()]),
        operations: Some(vec![operation.to_owned()]),
        resources: Some(vec!["pods".to_owned()]),
        scope: Some("Namespaced".to_owned()),
    }
}

/// Returns a requirement of a label selector.
pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: (!values.is_empty()).then(|| values.iter().map(ToString::to_string).collect()),
    }
}
