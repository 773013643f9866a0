//! State shared by the managers of an authority, whether it comes from a Secret or from files.

use super::authority::{Authority, AuthorityError};
use super::ca_secret::certificates;
use super::error::CaError;
use super::metrics::IssuerMetrics;
use super::propagation::Propagation;
use super::publish_result::PublishResult;
use super::roots::Roots;
use super::serving_cert::ServingCertificate;
use super::signer::Signer;
use k8s_openapi::api::core::v1::ObjectReference;
use policy_kube::status::EventRecorder;
use policy_server::Requirement;
use policy_tls::identity::MAX_ROOTS;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// State that the managers of an authority need, whether it comes from a Secret or from files.
#[derive(Debug)]
pub(super) struct CaContext {
    pub(super) roots: Roots,
    pub(super) signer: Signer,
    pub(super) serving_cert: ServingCertificate,
    pub(super) metrics: IssuerMetrics,
    pub(super) events: AuthorityEvents,
    pub(super) ready: Requirement,
    pub(super) propagation: Propagation,
    /// Number of roots that the last published bundle left out.
    pub(super) left_out: usize,
}

/// Reports changes of the authority in the log and as Events.
#[derive(Debug)]
pub(super) struct AuthorityEvents {
    pub(super) events: Option<EventRecorder>,
    pub(super) regarding: ObjectReference,
}

impl AuthorityEvents {
    /// Logs a warning and writes a Warning Event, once for as long as the API server keeps Events.
    pub(super) fn warn(&self, reason: &str, note: &str) {
        tracing::warn!(reason, "{note}");
        if let Some(events) = &self.events {
            events.warn(self.regarding.clone(), reason, note);
        }
    }

    pub(super) fn note(&self, reason: &str, note: &str) {
        tracing::info!(reason, "{note}");
        if let Some(events) = &self.events {
            events.normal(self.regarding.clone(), reason, note);
        }
    }
}

impl CaContext {
    /// Returns the bundle to publish, after a warning if roots are left out of it.
    pub(super) fn report_left_out(&mut self, (bundle, left_out): (String, usize)) -> String {
        if std::mem::replace(&mut self.left_out, left_out) != left_out && left_out > 0 {
            let note = format!(
                "{left_out} roots are not published, because clients read at most {MAX_ROOTS}: the \
                 oldest that neither the authority in use nor the next one leads to"
            );
            self.events.warn("RootsLeftOut", &note);
        }
        bundle
    }

    /// Publishes these roots, endorsed by `authority`. Returns for how long every namespace has had
    /// them.
    ///
    /// # Errors
    /// No authority that proxies trust endorses `authority`: nothing was published, and nothing may
    /// be issued from it.
    pub(super) async fn publish(
        &mut self,
        bundle: &str,
        authority: &Authority,
    ) -> Result<Option<Duration>, CaError> {
        let endorsed = self.roots.endorse(bundle, authority, SystemTime::now()).await;
        let (copy, failure) = match endorsed {
            Ok(copy) => (Some(copy), None),
            Err(error @ CaError::Authority(AuthorityError::NotEndorsed { .. })) => {
                return Err(error);
            }
            Err(error) => {
                self.metrics.failed(error.label());
                (self.roots.last_endorsed(bundle), Some(error.to_string()))
            }
        };
        let mut published = match &copy {
            Some(copy) => self.roots.publish(copy).await,
            None => PublishResult::default(),
        };
        // Proxies ignore roots without an endorsement, in whatever namespace they are.
        let unsaid = failure.map(|why| ("*".to_owned(), format!("they are not endorsed: {why}")));
        published.pending.extend(unsaid);
        self.settle_refusals(bundle, &mut published);
        let PublishResult { restored, pending, .. } = &published;
        self.metrics.published(&published);
        let former = std::mem::replace(&mut self.propagation.bundle, bundle.to_owned());
        let same = former == bundle;
        // Only changes by others are reported, not those that follow from new roots.
        for namespace in restored.iter().filter(|_| same) {
            let note = format!(
                "the ConfigMap of roots in namespace {namespace} was changed and has been restored"
            );
            self.events.warn("RootsRestored", &note);
        }
        for (namespace, why) in pending.iter().filter(|one| !self.propagation.pending.contains(one))
        {
            tracing::warn!(namespace, why, "the roots could not be published");
        }
        for (namespace, why) in &published.changing {
            tracing::debug!(namespace, why, "a namespace that had the roots refuses them");
        }
        self.propagation.pending.clone_from(pending);
        Ok(self.propagation.complete_for(same, &published, Instant::now()))
    }

    /// Decides which of the namespaces that refused the roots a rotation waits for, and reports those
    /// that are left behind from now on.
    fn settle_refusals(&mut self, bundle: &str, published: &mut PublishResult) {
        let refusals = &mut self.propagation.refusals;
        let newly_left = refusals.settle(bundle, self.roots.home(), published, Instant::now());
        for (namespace, why) in newly_left {
            let note = format!(
                "namespace {namespace} keeps refusing the ConfigMap of roots and is left behind: a \
                 rotation does not wait for it, and its pods do not get the next roots ({why})"
            );
            self.events.warn("RootsRefused", &note);
        }
    }

    /// Signs with this authority from now on.
    pub(super) fn activate(
        &mut self,
        authority: &Arc<Authority>,
        bundle: &str,
        confirmed: Option<Instant>,
        longest: Duration,
    ) -> Result<(), CaError> {
        let now = SystemTime::now();
        self.signer.put(authority.clone(), confirmed, longest);
        self.metrics.authority(authority.not_after(), certificates(bundle.as_bytes()).len());
        self.serving_cert.refresh(authority.certificate(), bundle, now)?;
        Ok(())
    }
}
