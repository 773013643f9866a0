//! What keeping an authority needs, wherever the authority comes from.

use super::authority::{Authority, AuthorityError};
use super::ca_secret::certificates;
use super::error::CaError;
use super::metrics::IssuerMetrics;
use super::propagation::{Propagation, PublishResult};
use super::roots::Roots;
use super::serving_cert::ServingCertificate;
use super::signer::Signer;
use k8s_openapi::api::core::v1::ObjectReference;
use policy_kube::status::Events;
use policy_server::Requirement;
use policy_tls::identity::MOST_ROOTS;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What keeping needs, wherever the authority comes from.
#[derive(Debug)]
pub(super) struct CaContext {
    pub(super) roots: Roots,
    pub(super) signer: Signer,
    pub(super) serving_cert: ServingCertificate,
    pub(super) metrics: IssuerMetrics,
    pub(super) events: AuthorityEvents,
    pub(super) ready: Requirement,
    pub(super) propagation: Propagation,
    /// How many roots were left out at the last look.
    pub(super) left_out: usize,
}

/// Tells people of the cluster.
#[derive(Debug)]
pub(super) struct AuthorityEvents {
    pub(super) events: Option<Events>,
    pub(super) regarding: ObjectReference,
}

impl AuthorityEvents {
    /// Warns, once for as long as the API server keeps Events.
    pub(super) fn warn(&self, reason: &str, note: &str) {
        tracing::warn!(reason, "{note}");
        if let Some(events) = &self.events {
            events.warn(self.regarding.clone(), reason, note);
        }
    }

    pub(super) fn note(&self, reason: &str, note: &str) {
        tracing::info!(reason, "{note}");
        if let Some(events) = &self.events {
            events.tell(self.regarding.clone(), reason, note);
        }
    }
}

impl CaContext {
    /// The roots that are to be published, after people have been told that some are left out.
    pub(super) fn report_left_out(&mut self, (bundle, left_out): (String, usize)) -> String {
        if std::mem::replace(&mut self.left_out, left_out) != left_out && left_out > 0 {
            let note = format!(
                "{left_out} roots are not published, because nobody reads more than {MOST_ROOTS}: \
                 the oldest that neither the authority in use nor the next one leads to"
            );
            self.events.warn("RootsLeftOut", &note);
        }
        bundle
    }

    /// Publishes these roots, for which `authority` vouches; since when they have been everywhere.
    ///
    /// # Errors
    /// Nobody whom proxies trust vouches for `authority`: nothing was published, and nothing may be
    /// issued from it.
    pub(super) async fn publish(
        &mut self,
        bundle: &str,
        authority: &Authority,
    ) -> Result<Option<Duration>, CaError> {
        let endorsed = self.roots.endorse(bundle, authority, SystemTime::now()).await;
        let (copy, failure) = match endorsed {
            Ok(copy) => (Some(copy), None),
            Err(error @ CaError::Authority(AuthorityError::Unvouched { .. })) => {
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
        // What nobody vouches for no proxy takes over, wherever it is.
        let unsaid = failure.map(|why| ("*".to_owned(), format!("nobody vouches for them: {why}")));
        published.pending.extend(unsaid);
        let PublishResult { namespaces, restored, pending } = &published;
        self.metrics.published(*namespaces, pending.len(), restored.len());
        let former = std::mem::replace(&mut self.propagation.bundle, bundle.to_owned());
        let same = former == bundle;
        // What we wrote because the roots changed needs no telling, others' changes do.
        for namespace in restored.iter().filter(|_| same) {
            let note = format!(
                "the roots in namespace {namespace} were not those of the mesh and were restored"
            );
            self.events.warn("RootsRestored", &note);
        }
        for (namespace, why) in pending.iter().filter(|one| !self.propagation.pending.contains(one))
        {
            tracing::warn!(namespace, why, "the roots could not be published");
        }
        self.propagation.pending.clone_from(pending);
        Ok(self.propagation.complete_for(same, &published, Instant::now()))
    }

    /// Uses this authority from now on.
    pub(super) fn put_in_use(
        &mut self,
        authority: &Arc<Authority>,
        bundle: &str,
        confirmed: Option<Instant>,
        longest: Duration,
    ) -> Result<(), CaError> {
        let now = SystemTime::now();
        self.signer.put(authority.clone(), confirmed, longest);
        self.metrics.authority(authority.ends(), certificates(bundle.as_bytes()).len());
        self.serving_cert.refresh(authority.certificate(), bundle, now)?;
        Ok(())
    }
}
