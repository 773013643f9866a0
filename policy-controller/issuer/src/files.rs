//! An authority in files, which an external tool renews.
//!
//! That tool also chooses the roots. The issuer only makes sure that a root is published before
//! certificates that lead to it are issued, while the previous authority is still valid.

use super::authority::{Authority, PemSources};
use super::ca_context::CaContext;
use super::error::CaError;
use super::plan::Rotation;
use super::root_limit::limit_roots;
use policy_tls::identity::{MAX_ROOTS, validity};
use rustls::pki_types::CertificateDer;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Paths of the parts of an authority, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Its certificate first, then the intermediates up to a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The roots that all clients must trust.
    pub roots: PathBuf,
}

/// Manages an authority in files.
#[derive(Debug)]
pub(super) struct FileManager {
    files: AuthorityFiles,
    rotation: Rotation,
    in_use: Option<Arc<Authority>>,
    waiting: Option<(Arc<Authority>, Instant)>,
}

impl AuthorityFiles {
    /// Reads the files once.
    ///
    /// # Errors
    /// The file that is missing or cannot be used.
    pub(super) async fn read(&self) -> Result<Authority, CaError> {
        let (certificate, key, roots) = tokio::try_join!(
            contents(&self.certificate),
            contents(&self.key),
            contents(&self.roots)
        )?;
        let sources = PemSources {
            certificate: self.certificate.display().to_string(),
            key: self.key.display().to_string(),
            roots: self.roots.display().to_string(),
        };
        Ok(Authority::read(sources, &certificate, &key, &roots)?)
    }
}

async fn contents(path: &PathBuf) -> Result<Vec<u8>, CaError> {
    let failed = |error| CaError::Files(format!("cannot read `{}`: {error}", path.display()));
    tokio::fs::read(path).await.map_err(failed)
}

impl FileManager {
    pub(super) fn new(files: AuthorityFiles, rotation: Rotation) -> Self {
        Self { files, rotation, in_use: None, waiting: None }
    }

    /// Reads the files and puts them in use. If they are unusable, returns the error and keeps the
    /// authority in use.
    pub(super) async fn reconcile(&mut self, context: &mut CaContext) -> Result<(), CaError> {
        let found = self.files.read().await.map(Arc::new);
        let wanted = match (&found, &self.in_use) {
            (Ok(found), _) => found.clone(),
            (Err(_), Some(in_use)) => in_use.clone(),
            (Err(_), None) => return found.map(|_| ()),
        };
        let using = self.choose(wanted.clone(), Instant::now(), SystemTime::now());
        let bundle = context.report_left_out(bundle(&wanted, &using));
        // The authority that proxies trust endorses the next roots.
        context.publish(&bundle, &using).await?;
        self.in_use = Some(using.clone());
        context.activate(&using, &bundle, None, self.rotation.longest())?;
        found.map(|_| ())
    }

    /// Chooses the authority to issue from.
    fn choose(
        &mut self,
        wanted: Arc<Authority>,
        now: Instant,
        clock: SystemTime,
    ) -> Arc<Authority> {
        let Some(in_use) = self.in_use.clone() else { return wanted };
        let same = |one: &Authority, other: &Authority| {
            one.is(other) && one.roots().iter().all(|root| other.roots().contains(root))
        };
        if same(&wanted, &in_use) || in_use.not_after() <= clock {
            self.waiting = None;
            return wanted;
        }
        // Roots that were published with the authority in use need no further waiting.
        let known = wanted.roots().iter().all(|root| in_use.roots().contains(root));
        let since = match &self.waiting {
            Some((waiting, since)) if same(waiting, &wanted) => *since,
            Some(_) | None => {
                tracing::info!("a new authority was supplied; publishing its roots first");
                self.waiting = Some((wanted.clone(), now));
                now
            }
        };
        if known || now.saturating_duration_since(since) >= self.rotation.settle {
            tracing::info!("the supplied authority is in use");
            self.waiting = None;
            return wanted;
        }
        in_use
    }
}

/// Returns the roots of `wanted` and those of the authority in use, and the number of roots left
/// out. The oldest ones are left out if there are more than clients read.
fn bundle(wanted: &Authority, in_use: &Authority) -> (String, usize) {
    let mut all: Vec<CertificateDer<'static>> = Vec::new();
    for root in wanted.roots().iter().chain(in_use.roots()) {
        if !all.contains(root) {
            all.push(root.clone());
        }
    }
    if all.len() > MAX_ROOTS {
        // Their age is the only sign of a former root.
        all.sort_by_key(|root| validity(root).map(|(begins, _)| begins));
    }
    limit_roots(&all, |root| wanted.leads_to(root) || in_use.leads_to(root))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::super::authority::{Lifetime, generate};
    use super::super::ca_secret::certificates;
    use super::*;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    fn files() -> FileManager {
        let path = PathBuf::from("none");
        let files = AuthorityFiles { certificate: path.clone(), key: path.clone(), roots: path };
        let certificates = Lifetime { lifetime: HOUR, skew: HOUR };
        let rotation = Rotation { lifetime: HOUR, after: 66, settle: HOUR, certificates };
        FileManager::new(files, rotation)
    }

    fn authority(roots: &[&str]) -> (Arc<Authority>, String) {
        let made = generate("a", SystemTime::now(), 24 * HOUR).unwrap();
        let roots = [&[made.certificate.as_str()], roots].concat().concat();
        let sources = PemSources { certificate: "c".into(), key: "k".into(), roots: "r".into() };
        let (certificate, key) = (made.certificate.as_bytes(), made.key.as_bytes());
        let read = Authority::read(sources, certificate, key, roots.as_bytes());
        (Arc::new(read.unwrap()), made.certificate)
    }

    #[test]
    fn a_new_root_is_published_before_anything_leads_to_it() {
        let mut files = files();
        let (now, clock) = (Instant::now(), SystemTime::now());
        let (first, first_root) = authority(&[]);
        assert!(files.choose(first.clone(), now, clock).is(&first), "there is no other");
        files.in_use = Some(first.clone());
        let (second, second_root) = authority(&[]);
        let using = files.choose(second.clone(), now, clock);
        assert!(using.is(&first), "it waits");
        let both = [second_root, first_root].map(|root| certificates(root.as_bytes()).concat());
        assert_eq!(bundle(&second, &using), (both.concat(), 0), "both roots are published at once");
        assert!(files.choose(second.clone(), now + HOUR / 2, clock).is(&first));
        assert!(files.choose(second.clone(), now + HOUR, clock).is(&second));
    }

    #[test]
    fn nothing_waits_for_an_authority_that_has_expired() {
        let mut files = files();
        let (first, _) = authority(&[]);
        files.in_use = Some(first);
        let (second, _) = authority(&[]);
        let clock = SystemTime::now() + 25 * HOUR;
        assert!(files.choose(second.clone(), Instant::now(), clock).is(&second));
    }
}
