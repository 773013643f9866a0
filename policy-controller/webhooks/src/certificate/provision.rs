//! Issues the serving certificate, stores it in a Secret that all replicas share, and publishes its
//! CA bundle in the webhook configurations. Every replica does the same. The first write wins, and
//! the other replicas read its result.

use super::cert_resolver::CertResolver;
use super::cert_secret::CertSecret;
use super::issue::issue;
use super::plan::{LIFETIME, plan};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use policy_kube::rotation::secret::Data;
use policy_kube::rotation::{ATTEMPTS, SecretStore, Step, StoreError};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// Interval at which the Secret and the webhook configurations are reconciled.
const INTERVAL: Duration = Duration::from_secs(10);

/// Delay of the next attempt after a failure.
const RETRY: Duration = Duration::from_secs(2);

const CONFLICT: u16 = 409;

/// Settings of an issued serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisioning {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Name of the ValidatingWebhookConfiguration.
    pub configuration: String,
    /// Name of the injector's MutatingWebhookConfiguration; absent if it is not served.
    pub injector: Option<String>,
    /// DNS names and addresses at which the API server calls the webhook. Never empty.
    pub names: Vec<String>,
}

/// A webhook configuration and the targets of its webhooks.
trait WebhookConfiguration:
    kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
    + Clone
    + std::fmt::Debug
    + serde::de::DeserializeOwned
{
    /// Returns the name and the target of each webhook.
    fn targets(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)>;
}

impl WebhookConfiguration for ValidatingWebhookConfiguration {
    fn targets(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

impl WebhookConfiguration for MutatingWebhookConfiguration {
    fn targets(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

/// Issues and renews the serving certificate.
pub(crate) struct Provisioner {
    settings: Provisioning,
    secret: SecretStore,
    client: Client,
    resolver: CertResolver,
}

/// Error of one reconciliation of the serving certificate.
#[derive(Debug, thiserror::Error)]
enum ProvisionError {
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Secret(#[from] StoreError),
    #[error("cannot issue a certificate for {names}: {error}")]
    Issue { names: String, error: rcgen::Error },
    #[error("an issued certificate cannot be used")]
    Unusable,
}

impl Provisioner {
    pub(crate) fn new(client: Client, settings: Provisioning, resolver: CertResolver) -> Self {
        let Provisioning { namespace, secret, .. } = &settings;
        let secret = SecretStore::new(client.clone(), namespace, secret, None);
        Self { settings, secret, client, resolver }
    }

    /// Reconciles the certificate until the process ends.
    pub(crate) async fn run(self) {
        let mut failing = false;
        let mut serving = None;
        loop {
            let pause = match self.reconcile(&mut serving, SystemTime::now()).await {
                Ok(()) => {
                    failing = false;
                    INTERVAL
                }
                Err(error) => {
                    self.resolver.metrics.certificate_failed();
                    if failing {
                        tracing::debug!(%error, "cannot reconcile the webhook's certificate");
                    } else {
                        let (namespace, secret) = (&self.settings.namespace, &self.settings.secret);
                        tracing::warn!(
                            %error, namespace, secret, "cannot reconcile the webhook's certificate"
                        );
                    }
                    failing = true;
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reconciles once: plans and writes the next step, serves the stored certificate and publishes
    /// its CA bundle.
    async fn reconcile(
        &self,
        serving: &mut Option<Data>,
        now: SystemTime,
    ) -> Result<(), ProvisionError> {
        for _ in 0..ATTEMPTS {
            let secret = self.secret.read().await?;
            let data = secret.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
            let current = CertSecret::read(&data, &self.settings.names);
            let published = match &current {
                Some(current) => self.publish(&current.bundle()).await,
                None => Ok(false),
            };
            if let Some(current) = &current {
                self.serve(current, serving)?;
            }
            let in_place = published.as_ref().is_ok_and(|published| *published);
            let step = plan(current.as_ref().map(CertSecret::times), in_place, now);
            let Some(changed) = self.change(step, current, &data, now)? else {
                return published.map(|_| ()).map_err(ProvisionError::from);
            };
            // If another replica was faster, its write is as good as ours and is read next.
            if self.secret.write(secret, |data| changed.write(data)).await? {
                tracing::info!(
                    ?step,
                    secret = %self.settings.secret,
                    "webhook certificate rotation step"
                );
            }
        }
        Err(StoreError::Contended.into())
    }

    /// Returns the next content of the Secret; `None` to keep the current one.
    fn change(
        &self,
        step: Step,
        current: Option<CertSecret>,
        data: &Data,
        now: SystemTime,
    ) -> Result<Option<CertSecret>, ProvisionError> {
        let made = || {
            issue(&self.settings.names, now, LIFETIME).map_err(|error| ProvisionError::Issue {
                names: self.settings.names.join(", "),
                error,
            })
        };
        let changed = match (step, current) {
            (Step::Keep, _) => return Ok(None),
            (Step::Create, _) | (_, None) => CertSecret::create(made()?, data, now),
            (Step::Stage, Some(current)) => current.stage(&made()?, now),
            (Step::Promote, Some(current)) => Some(current.promote()),
            (Step::Retire, Some(current)) => Some(current.prune(now)),
        };
        changed.map(Some).ok_or(ProvisionError::Unusable)
    }

    fn serve(
        &self,
        current: &CertSecret,
        serving: &mut Option<Data>,
    ) -> Result<(), ProvisionError> {
        let mut data = Data::new();
        current.write(&mut data);
        if serving.as_ref() != Some(&data) {
            self.resolver.put(current.certified_key().map_err(|_| ProvisionError::Unusable)?);
            *serving = Some(data);
        }
        Ok(())
    }

    /// Publishes the CA bundle in the webhook configurations; true if they already had it.
    async fn publish(&self, bundle: &[u8]) -> Result<bool, kube::Error> {
        let Provisioning { configuration, injector, .. } = &self.settings;
        let admission =
            self.publish_in::<ValidatingWebhookConfiguration>(configuration, bundle).await?;
        let Some(injector) = injector else { return Ok(admission) };
        let injector = self.publish_in::<MutatingWebhookConfiguration>(injector, bundle).await?;
        Ok(admission && injector)
    }

    /// Publishes the CA bundle in every webhook of the configuration that targets our namespace.
    /// True if it was already there, because API servers read a new one with a delay. A missing
    /// configuration needs none.
    async fn publish_in<K: WebhookConfiguration>(
        &self,
        name: &str,
        bundle: &[u8],
    ) -> Result<bool, kube::Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let Some(configuration) = api.get_opt(name).await? else { return Ok(true) };
        let current = |config: &Option<k8s_openapi::ByteString>| {
            config.as_ref().is_some_and(|current| current.0 == bundle)
        };
        let wrong: Vec<_> = configuration
            .targets()
            .filter(|(_, target)| self.is_ours(target))
            .filter(|(_, target)| !current(&target.ca_bundle))
            .map(|(name, _)| {
                let bundle = k8s_openapi::ByteString(bundle.to_vec());
                json!({"name": name, "clientConfig": {"caBundle": bundle}})
            })
            .collect();
        if wrong.is_empty() {
            return Ok(true);
        }
        // With the resourceVersion that was read: a webhook that was removed meanwhile must not
        // come back incomplete.
        let patch = json!({
            "metadata": {"resourceVersion": configuration.meta().resource_version},
            "webhooks": wrong,
        });
        let patch = Patch::Strategic(&patch);
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                tracing::info!(configuration = %name, "caBundle updated");
                Ok(false)
            }
            // Another client has changed it; the next reconciliation reads that.
            Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True if the webhook targets our namespace. Two installations with the same configuration
    /// would otherwise overwrite each other's CA bundle.
    fn is_ours(&self, config: &WebhookClientConfig) -> bool {
        let service = config.service.as_ref();
        service.is_none_or(|service| service.namespace == self.settings.namespace)
    }
}
