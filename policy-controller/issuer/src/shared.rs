//! What keeping an authority needs, wherever the authority comes from.

use super::authority::{Authority, AuthorityError};
use super::error::KeepError;
use super::held::certificates;
use super::metrics::IssuerMetrics;
use super::own::OwnCertificate;
use super::roots::Roots;
use super::signer::Signer;
use super::spread::{Published, Spread};
use k8s_openapi::api::core::v1::ObjectReference;
use policy_kube::status::Events;
use policy_server::Requirement;
use policy_tls::identity::MAX_ROOTS;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What keeping needs, wherever the authority comes from.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) roots: Roots,
    pub(super) signer: Signer,
    pub(super) own: OwnCertificate,
    pub(super) metrics: IssuerMetrics,
    pub(super) told: Told,
    pub(super) ready: Requirement,
    pub(super) spread: Spread,
    /// How many roots were left out at the last look.
    pub(super) left_out: usize,
}

/// Tells people of the cluster.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) events: Option<Events>,
    pub(super) regarding: ObjectReference,
}

impl Told {
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

impl Shared {
    /// The roots that are to be published, after people have been told that some are left out.
    pub(super) fn told_of(&mut self, (bundle, left_out): (String, usize)) -> String {
        if std::mem::replace(&mut self.left_out, left_out) != left_out && left_out > 0 {
            let note = format!(
                "{left_out} roots are not published, because nobody reads more than {MAX_ROOTS}: \
                 the oldest that neither the authority in use nor the next one leads to"
            );
            self.told.warn("RootsLeftOut", &note);
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
    ) -> Result<Option<Duration>, KeepError> {
        let endorsed = self.roots.endorse(bundle, authority, SystemTime::now()).await;
        let (copy, failure) = match endorsed {
            Ok(copy) => (Some(copy), None),
            Err(error @ KeepError::Authority(AuthorityError::Unvouched { .. })) => {
                return Err(error);
            }
            Err(error) => {
                self.metrics.failed(error.label());
                (self.roots.as_they_were(bundle), Some(error.to_string()))
            }
        };
        let mut published = match &copy {
            Some(copy) => self.roots.publish(copy).await,
            None => Published::default(),
        };
        // What nobody vouches for no proxy takes over, wherever it is.
        let unsaid = failure.map(|why| ("*".to_owned(), format!("nobody vouches for them: {why}")));
        published.pending.extend(unsaid);
        let Published { namespaces, restored, pending } = &published;
        self.metrics.published(*namespaces, pending.len(), restored.len());
        let former = std::mem::replace(&mut self.spread.bundle, bundle.to_owned());
        let same = former == bundle;
        // What we wrote because the roots changed needs no telling, others' changes do.
        for namespace in restored.iter().filter(|_| same) {
            let note = format!(
                "the roots in namespace {namespace} were not those of the mesh and were restored"
            );
            self.told.warn("RootsRestored", &note);
        }
        for (namespace, why) in pending.iter().filter(|one| !self.spread.pending.contains(one)) {
            tracing::warn!(namespace, why, "the roots could not be published");
        }
        self.spread.pending.clone_from(pending);
        Ok(self.spread.lasts(same, &published, Instant::now()))
    }

    /// Uses this authority from now on.
    pub(super) fn put_in_use(
        &mut self,
        authority: &Arc<Authority>,
        bundle: &str,
        confirmed: Option<Instant>,
        longest: Duration,
    ) -> Result<(), KeepError> {
        let now = SystemTime::now();
        self.signer.put(authority.clone(), confirmed, longest);
        self.metrics.authority(authority.ends(), certificates(bundle.as_bytes()).len());
        self.own.look(authority.certificate(), bundle, now)?;
        Ok(())
    }
}
