//! Manages the authority: reads it from its source, publishes its roots, puts it in use and rotates
//! it. Every replica does the same. The first write wins, and the other replicas read its result.
//!
//! The order matters: roots are published before certificates that lead to them are issued, and the
//! Secret is read immediately before it is written.

use super::authority::generate;
use super::authority::{Authority, AuthorityError};
use super::ca_context::{AuthorityEvents, CaContext};
use super::ca_secret::CaSecret;
use super::error::CaError;
use super::files::FileManager;
use super::plan::{Change, Rotation};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use policy_kube::rotation::secret::{Data, timestamp};
use policy_kube::rotation::{ATTEMPTS, SecretStore, Step, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Interval between two reconciliations.
const INTERVAL: Duration = Duration::from_secs(5);

/// Delay of the next attempt after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// Delay after a change, so that one reconciliation handles a burst of changes.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The annotation by which an operator requests a rotation: any new value.
pub const ROTATE: &str = "portcullis.dev/rotate";

/// The Secret of an authority that the issuer generates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaSecretSettings {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Trust domain, which is part of the authority's name.
    pub trust_domain: String,
    /// Lifetimes and times of its rotation.
    pub rotation: Rotation,
}

/// Source of the authority.
#[derive(Debug)]
pub(super) enum CaSource {
    /// A Secret that the issuer writes.
    Secret(Box<SecretManager>),
    /// Files that an external tool renews.
    Files(Box<FileManager>),
}

/// Manages the authority.
#[derive(Debug)]
pub struct CaManager {
    pub(super) from: CaSource,
    pub(super) context: CaContext,
}

impl CaManager {
    /// Reconciles the authority until the process ends.
    pub async fn run(mut self) {
        let mut last_error = String::new();
        loop {
            let reconciled = match &mut self.from {
                CaSource::Secret(manager) => manager.reconcile(&mut self.context).await,
                CaSource::Files(files) => files.reconcile(&mut self.context).await,
            };
            let pause = match reconciled {
                Ok(()) => {
                    self.context.ready.met();
                    last_error.clear();
                    INTERVAL
                }
                Err(error) => {
                    self.context.metrics.failed(error.label());
                    let text = error.to_string();
                    if last_error == text {
                        tracing::debug!(%error, "cannot reconcile the authority");
                    } else {
                        let note = format!("cannot reconcile the authority: {text}");
                        self.context.events.warn("AuthorityNotKept", &note);
                    }
                    last_error = text;
                    RETRY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.context.roots.changed() => tokio::time::sleep(DEBOUNCE).await,
            }
        }
    }
}

/// Manages an authority in a Secret.
#[derive(Debug)]
pub(super) struct SecretManager {
    settings: CaSecretSettings,
    secret: SecretStore,
    /// The content of the Secret at the last reconciliation, to restore the Secret if it is lost.
    last: Option<CaSecret>,
}

impl SecretManager {
    pub(super) fn new(client: Client, settings: CaSecretSettings) -> Self {
        let CaSecretSettings { namespace, secret, .. } = &settings;
        let secret = SecretStore::new(client, namespace, secret, Some("portcullis-issuer"));
        Self { settings, secret, last: None }
    }

    async fn reconcile(&mut self, context: &mut CaContext) -> Result<(), CaError> {
        for _ in 0..ATTEMPTS {
            let read = Instant::now();
            let secret = self.secret.read().await?;
            let data = secret.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
            let rotate = rotate(secret.as_ref());
            let current = match CaSecret::read(&data) {
                Ok(current) => current,
                Err(error) => {
                    let changed = self.restore(&data, &rotate, &error, &context.events)?;
                    let written = self.secret.write(secret, |data| changed.write(data)).await?;
                    if written && self.last.is_none() {
                        context.roots.allow_unchecked_endorsement();
                    }
                    continue;
                }
            };
            let now = SystemTime::now();
            if let Some((last, missing_roots)) = self.replaced_by_others(&current) {
                context.events.warn(
                    "AuthoritySupplied",
                    "another client wrote a different authority into the Secret; roots that it \
                     omits stay published while their certificates may be valid",
                );
                let retained = current.retain_roots(missing_roots, &self.settings.rotation, now);
                // Before the former authority leaves memory, because proxies accept roots on its
                // endorsement alone.
                let bundle = context.report_left_out(retained.bundle());
                context.roots.endorse(&bundle, &last, now).await?;
                self.secret.write(secret, |data| retained.write(data)).await?;
                self.last = None;
                continue;
            }
            let bundle = context.report_left_out(current.bundle());
            let published = context.publish(&bundle, &current.authority).await?;
            let longest = current.times(&rotate).longest;
            let used = context.activate(&current.authority, &bundle, Some(read), longest);
            context.metrics.state(current.state());
            self.last = Some(current.clone());
            let change = self.settings.rotation.plan(current.times(&rotate), published, now);
            let ended = current.authority.not_after();
            let Some(changed) = self.change(change, current, (&data, &rotate), now)? else {
                return used;
            };
            // If another replica was faster, its write is as good as ours and is read next.
            if self.secret.write(secret, |data| changed.write(data)).await? {
                report(change, (ended, &changed), &context.events);
            }
        }
        Err(StoreError::Contended.into())
    }

    /// Returns the authority of the last reconciliation and those of its roots that `current`
    /// lacks, if another client has written another authority.
    fn replaced_by_others(&self, current: &CaSecret) -> Option<(Arc<Authority>, Vec<String>)> {
        let last = self.last.as_ref()?;
        let missing_roots = current.missing_roots(last);
        (!missing_roots.is_empty()).then(|| (last.authority.clone(), missing_roots))
    }

    /// Returns the content to write into a Secret that has no usable authority: that of the last
    /// reconciliation, or a newly generated authority.
    fn restore(
        &self,
        data: &Data,
        rotate: &str,
        error: &AuthorityError,
        events: &AuthorityEvents,
    ) -> Result<CaSecret, CaError> {
        let secret = &self.settings.secret;
        if let Some(last) = &self.last {
            let note =
                format!("the Secret {secret} was lost and is restored from memory ({error})");
            events.warn("AuthorityRestored", &note);
            return Ok(last.clone());
        }
        match data.is_empty() {
            true => {
                events.note("AuthorityMade", &format!("generated an authority in Secret {secret}"))
            }
            false => {
                let note = format!(
                    "the Secret {secret} cannot be used ({error}); a new authority is \
                     generated, which only workloads started from now on trust"
                );
                events.warn("AuthorityReplaced", &note);
            }
        }
        let (rotation, now) = (&self.settings.rotation, SystemTime::now());
        let generated = generate(&self.settings.trust_domain, now, rotation.lifetime)?;
        Ok(CaSecret::create(generated, data, rotate, rotation, now)?)
    }

    /// Returns the next content of the Secret; `None` to keep the current one.
    fn change(
        &self,
        change: Change,
        current: CaSecret,
        (data, rotate): (&Data, &str),
        now: SystemTime,
    ) -> Result<Option<CaSecret>, CaError> {
        let rotation = &self.settings.rotation;
        let generated = || generate(&self.settings.trust_domain, now, rotation.lifetime);
        Ok(Some(match change {
            Change::Widen => current.widen(rotation.longest()),
            Change::Rotate(Step::Keep) => return Ok(None),
            Change::Rotate(Step::Create) => {
                CaSecret::create(generated()?, data, rotate, rotation, now)?
            }
            Change::Rotate(Step::Stage) => current.stage(generated()?, rotate, now)?,
            Change::Rotate(Step::Promote) => current.promote(rotation, now)?,
            Change::Rotate(Step::Retire) => current.retire(),
        }))
    }
}

/// Reports a completed change. `ended`: the expiry of the previous authority.
fn report(change: Change, (ended, current): (SystemTime, &CaSecret), events: &AuthorityEvents) {
    let ends = timestamp(current.authority.not_after());
    let step = match change {
        Change::Widen => return tracing::info!("certificates may be valid for longer from now on"),
        Change::Rotate(step) => step,
    };
    match step {
        Step::Keep => {}
        Step::Create => events.warn(
            "AuthorityExpired",
            &format!(
                "the authority expired at {}, and no next one was staged; a new one is generated, \
                 valid until {ends}. All certificates signed by the former one have expired, and \
                 running workloads do not trust the new one: restart them",
                timestamp(ended)
            ),
        ),
        Step::Stage => events.note(
            "RotationStaged",
            "the next root is published; no certificate is issued from it yet",
        ),
        Step::Promote => events.note(
            "RotationPromoted",
            &format!(
                "certificates are issued from the next root, valid until {ends}; the former one \
                 stays published while its certificates are valid"
            ),
        ),
        Step::Retire => events.note("RotationRetired", "former roots are no longer published"),
    }
}

/// Returns the value of the annotation that requests a rotation.
fn rotate(secret: Option<&Secret>) -> String {
    let annotations = secret.and_then(|secret| secret.metadata.annotations.as_ref());
    annotations.and_then(|all| all.get(ROTATE)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::authority::Lifetime;
    use super::super::endorse::endorse;
    use super::*;
    use policy_kube::testing::refusing_client;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn the_authority_in_memory_vouches_for_one_that_somebody_wrote_into_the_secret() {
        let certificates = Lifetime { lifetime: HOUR, skew: HOUR };
        let lifetime = Duration::from_secs(86_400);
        let rotation = Rotation { lifetime, after: 66, settle: HOUR, certificates };
        let now = SystemTime::now();
        let current = || {
            let generated = generate("a", now, lifetime).unwrap();
            CaSecret::create(generated, &Data::new(), "", &rotation, now).unwrap()
        };
        let provision = CaSecretSettings {
            namespace: "mesh".to_owned(),
            secret: "issuer".to_owned(),
            trust_domain: "a".to_owned(),
            rotation,
        };
        let mut manager = SecretManager::new(refusing_client(), provision);
        let (old, new) = (current(), current());
        assert!(manager.replaced_by_others(&new).is_none(), "nothing is in memory");
        manager.last = Some(old.clone());
        assert!(manager.replaced_by_others(&old).is_none());
        let (voucher, missing_roots) = manager.replaced_by_others(&new).unwrap();
        assert!(voucher.is(&old.authority));
        let known = endorse(None, &old.bundle().0, &old.authority, now).unwrap();
        let retained = new.retain_roots(missing_roots, &rotation, now);
        let alone = endorse(Some(known.clone()), &retained.bundle().0, &retained.authority, now);
        assert!(alone.is_err(), "proxies would not follow it");
        let both = endorse(Some(known), &retained.bundle().0, &voucher, now).unwrap();
        assert!(endorse(Some(both), &retained.bundle().0, &retained.authority, now).is_ok());
    }
}
