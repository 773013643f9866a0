//! An authority that is kept in files, which others renew.
//!
//! Whoever renews it decides on its roots too. What is seen to it here: a root is published before
//! anything is issued that leads to it, for as long as the authority before it can still be used.

use super::authority::{Authority, Places};
use super::bounded::bounded;
use super::error::KeepError;
use super::plan::Rotation;
use super::shared::Shared;
use policy_tls::identity::{MAX_ROOTS, validity};
use rustls::pki_types::CertificateDer;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Where the parts of an authority are, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Its certificate first, what leads to a root after it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The roots that everybody is to trust.
    pub roots: PathBuf,
}

/// Keeps an authority that is in files.
#[derive(Debug)]
pub(super) struct Files {
    files: AuthorityFiles,
    rotation: Rotation,
    in_use: Option<Arc<Authority>>,
    waiting: Option<(Arc<Authority>, Instant)>,
}

impl AuthorityFiles {
    /// Reads them once.
    ///
    /// # Errors
    /// What is missing or cannot be used, by file.
    pub(super) async fn read(&self) -> Result<Authority, KeepError> {
        let (certificate, key, roots) = tokio::try_join!(
            contents(&self.certificate),
            contents(&self.key),
            contents(&self.roots)
        )?;
        let places = Places {
            certificate: self.certificate.display().to_string(),
            key: self.key.display().to_string(),
            roots: self.roots.display().to_string(),
        };
        Ok(Authority::read(places, &certificate, &key, &roots)?)
    }
}

async fn contents(path: &PathBuf) -> Result<Vec<u8>, KeepError> {
    let failed = |error| KeepError::Files(format!("cannot read `{}`: {error}", path.display()));
    tokio::fs::read(path).await.map_err(failed)
}

impl Files {
    pub(super) fn new(files: AuthorityFiles, rotation: Rotation) -> Self {
        Self { files, rotation, in_use: None, waiting: None }
    }

    /// Looks at the files. What cannot be used is told, and what is in use stays.
    pub(super) async fn look(&mut self, shared: &mut Shared) -> Result<(), KeepError> {
        let found = self.files.read().await.map(Arc::new);
        let wanted = match (&found, &self.in_use) {
            (Ok(found), _) => found.clone(),
            (Err(_), Some(in_use)) => in_use.clone(),
            (Err(_), None) => return found.map(|_| ()),
        };
        let using = self.choose(wanted.clone(), Instant::now(), SystemTime::now());
        let bundle = shared.told_of(bundle(&wanted, &using));
        // Whom proxies trust already vouches for what they are to trust.
        shared.publish(&bundle, &using).await?;
        self.in_use = Some(using.clone());
        shared.put_in_use(&using, &bundle, None, self.rotation.longest())?;
        found.map(|_| ())
    }

    /// Which one to issue from.
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
        if same(&wanted, &in_use) || in_use.ends() <= clock {
            self.waiting = None;
            return wanted;
        }
        // A root that was published with the one in use needs no waiting for.
        let known = wanted.roots().iter().all(|root| in_use.roots().contains(root));
        let since = match &self.waiting {
            Some((waiting, since)) if same(waiting, &wanted) => *since,
            Some(_) | None => {
                tracing::info!("another authority was supplied; its roots are published first");
                self.waiting = Some((wanted.clone(), now));
                now
            }
        };
        if known || now.saturating_duration_since(since) >= self.rotation.settle {
            tracing::info!("the authority that was supplied is in use");
            self.waiting = None;
            return wanted;
        }
        in_use
    }
}

/// The roots that come with `wanted`, and those that what is in use leads to. Those that began long ago
/// are left out where they are more than anybody reads; how many.
fn bundle(wanted: &Authority, in_use: &Authority) -> (String, usize) {
    let mut all: Vec<CertificateDer<'static>> = Vec::new();
    for root in wanted.roots().iter().chain(in_use.roots()) {
        if !all.contains(root) {
            all.push(root.clone());
        }
    }
    if all.len() > MAX_ROOTS {
        // Nothing else says which of them are former ones.
        all.sort_by_key(|root| validity(root).map(|(begins, _)| begins));
    }
    bounded(&all, |root| wanted.leads_to(root) || in_use.leads_to(root))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::super::authority::{Lifetime, make};
    use super::super::held::certificates;
    use super::*;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    fn files() -> Files {
        let path = PathBuf::from("none");
        let files = AuthorityFiles { certificate: path.clone(), key: path.clone(), roots: path };
        let certificates = Lifetime { lifetime: HOUR, skew: HOUR };
        let rotation = Rotation { lifetime: HOUR, after: 66, settle: HOUR, certificates };
        Files::new(files, rotation)
    }

    fn authority(roots: &[&str]) -> (Arc<Authority>, String) {
        let made = make("a", SystemTime::now(), 24 * HOUR).unwrap();
        let roots = [&[made.certificate.as_str()], roots].concat().concat();
        let places = Places { certificate: "c".into(), key: "k".into(), roots: "r".into() };
        let (certificate, key) = (made.certificate.as_bytes(), made.key.as_bytes());
        let read = Authority::read(places, certificate, key, roots.as_bytes());
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
