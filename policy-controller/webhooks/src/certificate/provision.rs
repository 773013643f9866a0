//! The certificate made here: kept in a Secret that all replicas share, and vouched for in the webhook
//! configuration. Every replica does the same; whoever writes first wins, and the others read.

use super::held::Held;
use super::issue::issue;
use super::plan::{LIFETIME, plan};
use super::slot::Slot;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use policy_kube::rotation::secret::Data;
use policy_kube::rotation::{ATTEMPTS, SecretStore, Step, StoreError};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// How often the Secret and the webhook configuration are looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// How soon after a failure.
const RETRY: Duration = Duration::from_secs(2);

const CONFLICT: u16 = 409;

/// Where the certificate is kept and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisioning {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Name of the ValidatingWebhookConfiguration.
    pub configuration: String,
    /// Name of the injector's MutatingWebhookConfiguration; absent: it is not served.
    pub injector: Option<String>,
    /// The names under which the API server calls: DNS names and addresses. Never empty.
    pub names: Vec<String>,
}

/// A configuration of webhooks, and where each leads.
trait Webhooks:
    kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
    + Clone
    + std::fmt::Debug
    + serde::de::DeserializeOwned
{
    /// Name and target of each webhook.
    fn targets(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)>;
}

impl Webhooks for ValidatingWebhookConfiguration {
    fn targets(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

impl Webhooks for MutatingWebhookConfiguration {
    fn targets(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

/// Keeps a certificate.
pub(crate) struct Provisioner {
    settings: Provisioning,
    secret: SecretStore,
    client: Client,
    slot: Slot,
}

/// Why the certificate cannot be kept at the moment.
#[derive(Debug, thiserror::Error)]
enum ProvisionError {
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Secret(#[from] StoreError),
    #[error("cannot make a certificate for {names}: {error}")]
    Issue { names: String, error: rcgen::Error },
    #[error("a certificate that was made cannot be used")]
    Unusable,
}

impl Provisioner {
    pub(crate) fn new(client: Client, settings: Provisioning, slot: Slot) -> Self {
        let Provisioning { namespace, secret, .. } = &settings;
        let secret = SecretStore::new(client.clone(), namespace, secret, None);
        Self { settings, secret, client, slot }
    }

    /// Keeps the certificate, for ever.
    pub(crate) async fn run(self) {
        let mut told = false;
        let mut serving = None;
        loop {
            let pause = match self.look(&mut serving, SystemTime::now()).await {
                Ok(()) => {
                    told = false;
                    INTERVAL
                }
                Err(error) => {
                    self.slot.metrics.certificate_failed();
                    if told {
                        tracing::debug!(%error, "the webhook's certificate cannot be kept");
                    } else {
                        let (namespace, secret) = (&self.settings.namespace, &self.settings.secret);
                        tracing::warn!(
                            %error, namespace, secret, "the webhook's certificate cannot be kept"
                        );
                    }
                    told = true;
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks once: does what is to be done, serves what is held, publishes who vouches for it.
    async fn look(
        &self,
        serving: &mut Option<Data>,
        now: SystemTime,
    ) -> Result<(), ProvisionError> {
        for _ in 0..ATTEMPTS {
            let secret = self.secret.read().await?;
            let data = secret.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
            let held = Held::read(&data, &self.settings.names);
            let published = match &held {
                Some(held) => self.publish(&held.bundle()).await,
                None => Ok(false),
            };
            if let Some(held) = &held {
                self.serve(held, serving)?;
            }
            let in_place = published.as_ref().is_ok_and(|published| *published);
            let step = plan(held.as_ref().map(Held::times), in_place, now);
            let Some(changed) = self.change(step, held, &data, now)? else {
                return published.map(|_| ()).map_err(ProvisionError::from);
            };
            // Whoever was faster has it as it should be; what they wrote is read next.
            if self.secret.write(secret, |data| changed.write(data)).await? {
                tracing::info!(?step, secret = %self.settings.secret, "webhook certificate");
            }
        }
        Err(StoreError::Contended.into())
    }

    /// What is to be held instead; `None`: what is held.
    fn change(
        &self,
        step: Step,
        held: Option<Held>,
        data: &Data,
        now: SystemTime,
    ) -> Result<Option<Held>, ProvisionError> {
        let made = || {
            issue(&self.settings.names, now, LIFETIME).map_err(|error| ProvisionError::Issue {
                names: self.settings.names.join(", "),
                error,
            })
        };
        let changed = match (step, held) {
            (Step::Keep, _) => return Ok(None),
            (Step::Create, _) | (_, None) => Held::create(made()?, data, now),
            (Step::Stage, Some(held)) => held.stage(&made()?, now),
            (Step::Promote, Some(held)) => Some(held.promote()),
            (Step::Retire, Some(held)) => Some(held.prune(now)),
        };
        changed.map(Some).ok_or(ProvisionError::Unusable)
    }

    fn serve(&self, held: &Held, serving: &mut Option<Data>) -> Result<(), ProvisionError> {
        let mut data = Data::new();
        held.write(&mut data);
        if serving.as_ref() != Some(&data) {
            self.slot.put(held.certified().map_err(|_| ProvisionError::Unusable)?);
            *serving = Some(data);
        }
        Ok(())
    }

    /// Brings the bundle into the configurations that lead here; true if it was there.
    async fn publish(&self, bundle: &[u8]) -> Result<bool, kube::Error> {
        let Provisioning { configuration, injector, .. } = &self.settings;
        let admission =
            self.publish_in::<ValidatingWebhookConfiguration>(configuration, bundle).await?;
        let Some(injector) = injector else { return Ok(admission) };
        let injector = self.publish_in::<MutatingWebhookConfiguration>(injector, bundle).await?;
        Ok(admission && injector)
    }

    /// Brings the bundle into every webhook of the configuration that leads to our namespace; true if
    /// it was there: what is written now is not seen by every API server yet. A configuration that
    /// does not exist needs none.
    async fn publish_in<K: Webhooks>(
        &self,
        name: &str,
        bundle: &[u8],
    ) -> Result<bool, kube::Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let Some(configuration) = api.get_opt(name).await? else { return Ok(true) };
        let held = |config: &Option<k8s_openapi::ByteString>| {
            config.as_ref().is_some_and(|held| held.0 == bundle)
        };
        let wrong: Vec<_> = configuration
            .targets()
            .filter(|(_, target)| self.is_ours(target))
            .filter(|(_, target)| !held(&target.ca_bundle))
            .map(|(name, _)| {
                let bundle = k8s_openapi::ByteString(bundle.to_vec());
                json!({"name": name, "clientConfig": {"caBundle": bundle}})
            })
            .collect();
        if wrong.is_empty() {
            return Ok(true);
        }
        // With the version that was read: a webhook removed meanwhile must not come back half made.
        let patch = json!({
            "metadata": {"resourceVersion": configuration.meta().resource_version},
            "webhooks": wrong,
        });
        let patch = Patch::Strategic(&patch);
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                tracing::info!(configuration = %name, "caBundle brought up to date");
                Ok(false)
            }
            // Another replica did it, or it is being edited: the next look tells.
            Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A second installation that takes the same configuration for its own would take turns with the
    /// first in making the API server distrust the other.
    fn is_ours(&self, config: &WebhookClientConfig) -> bool {
        let service = config.service.as_ref();
        service.is_none_or(|service| service.namespace == self.settings.namespace)
    }
}
