//! The certificate made here: kept in a Secret that all replicas share, and vouched for in the webhook
//! configuration. Every replica does the same; whoever writes first wins, and the others read.

use super::held::{Data, Held};
use super::issue::issue;
use super::plan::{LIFETIME, Step, plan};
use super::slot::Slot;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// How often the Secret and the webhook configuration are looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// How soon after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// How often a write is tried in a row where others write too.
const ATTEMPTS: u32 = 5;

const CONFLICT: u16 = 409;
const FORBIDDEN: u16 = 403;

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
    secrets: Api<Secret>,
    client: Client,
    slot: Slot,
}

/// Why the certificate cannot be kept at the moment.
#[derive(Debug, thiserror::Error)]
enum ProvisionError {
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    #[error("cannot make a certificate for {names}: {error}")]
    Issue { names: String, error: rcgen::Error },
    #[error("a certificate that was made cannot be used")]
    Unusable,
    #[error("the Secret is being changed by others all the time")]
    Contended,
    #[error(
        "Secret {0} does not exist, and this controller may not create it: `helm upgrade` makes it, \
         and so does `kubectl create secret generic`, without data"
    )]
    Absent(String),
}

impl Provisioner {
    pub(crate) fn new(client: Client, settings: Provisioning, slot: Slot) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            client,
            settings,
            slot,
        }
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
            let secret = self.secrets.get_opt(&self.settings.secret).await?;
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
            if self.write(secret, &changed).await? {
                tracing::info!(?step, secret = %self.settings.secret, "webhook certificate");
            }
        }
        Err(ProvisionError::Contended)
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
            (Step::Prune, Some(held)) => Some(held.prune(now)),
        };
        changed.map(Some).ok_or(ProvisionError::Unusable)
    }

    /// Writes it, unless somebody else was faster.
    async fn write(&self, secret: Option<Secret>, held: &Held) -> Result<bool, ProvisionError> {
        let exists = secret.is_some();
        let mut secret = secret.unwrap_or_else(|| self.new_secret());
        held.write(secret.data.get_or_insert_default());
        let params = PostParams::default();
        let written = if exists {
            // With the version that was read: a change in between is a conflict.
            self.secrets.replace(&self.settings.secret, &params, &secret).await
        } else {
            self.secrets.create(&params, &secret).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(false),
            Err(kube::Error::Api(status)) if status.code == FORBIDDEN && !exists => {
                let Provisioning { namespace, secret, .. } = &self.settings;
                Err(ProvisionError::Absent(format!("{namespace}/{secret}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A Secret where none is. Only administrators may create one: the chart makes it before the
    /// controller starts.
    fn new_secret(&self) -> Secret {
        let mut secret =
            Secret { type_: Some("kubernetes.io/tls".to_owned()), ..Secret::default() };
        secret.metadata.name = Some(self.settings.secret.clone());
        secret.metadata.namespace = Some(self.settings.namespace.clone());
        secret
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
