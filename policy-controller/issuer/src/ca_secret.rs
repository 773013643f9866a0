//! Content of the issuer's Secret: reading, rotation and writing.

use super::authority::{Authority, AuthorityError, GeneratedAuthority, PemSources};
use super::plan::{Rotation, Times};
use super::root_limit::limit_roots;
use policy_kube::rotation::NextCertificate;
use policy_kube::rotation::secret::{
    self, CERTIFICATE, Data, KEY, NEXT_CERTIFICATE, NEXT_KEY, Pair, ROOTS, put, put_time,
};
use policy_tls::identity::{MAX_ROOTS, pem, readable};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Keys of the former roots that valid certificates may still lead to, and of the time until which
/// they are needed.
const FORMER: &str = "ca-previous.crt";
const FORMER_UNTIL: &str = "previous.until";
/// Key of the maximum validity, in seconds, of certificates signed by the authority in use.
const LONGEST: &str = "longest.seconds";
/// Key of the last rotation request that was carried out.
const ROTATE_DONE: &str = "rotate.done";

/// The content of the Secret, all of it usable.
#[derive(Clone, Debug)]
pub(super) struct CaSecret {
    pub(super) authority: Arc<Authority>,
    /// The authority in use as the Secret holds it, and its root.
    texts: Pair,
    root: Vec<u8>,
    /// The staged authority, which is its own root.
    next: Option<(Pair, NextCertificate)>,
    former: Vec<String>,
    former_until: Option<SystemTime>,
    longest: Duration,
    rotate: String,
}

impl CaSecret {
    /// Reads a Secret's data.
    ///
    /// # Errors
    /// The authority in use cannot be used. An unusable staged authority is left out.
    pub(super) fn read(data: &Data) -> Result<Self, AuthorityError> {
        let text = |key: &str| String::from_utf8(secret::bytes(data, key)?).ok();
        let needed = |key: &str| {
            let place = key.to_owned();
            let missing = || AuthorityError::Text { place, message: "missing".to_owned() };
            secret::bytes(data, key).ok_or_else(missing)
        };
        let texts = Pair { certificate: needed(CERTIFICATE)?, key: needed(KEY)? };
        let root = needed(ROOTS)?;
        let authority = in_use(&texts, &root)?;
        let next = Pair::staged(data).and_then(|(texts, since)| {
            let ends = waiting(&texts).ok()?.not_after();
            Some((texts, NextCertificate { ends, since }))
        });
        let seconds = text(LONGEST).and_then(|text| text.parse().ok());
        Ok(Self {
            authority: Arc::new(authority),
            texts,
            root,
            next,
            former: data.get(FORMER).map(|bytes| certificates(&bytes.0)).unwrap_or_default(),
            former_until: secret::time(data, FORMER_UNTIL),
            longest: Duration::from_secs(seconds.unwrap_or_default()),
            rotate: text(ROTATE_DONE).unwrap_or_default(),
        })
    }

    /// Creates the content with an authority that is used at once. The roots in `before` stay
    /// published while certificates that lead to them may be valid.
    pub(super) fn create(
        generated: GeneratedAuthority,
        before: &Data,
        rotate: &str,
        rotation: &Rotation,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        let texts = generated.into_pair();
        let root = texts.certificate.clone();
        let authority = Arc::new(in_use(&texts, &root)?);
        let left = [ROOTS, FORMER].into_iter().filter_map(|key| before.get(key));
        let former: Vec<String> = left.flat_map(|bytes| certificates(&bytes.0)).collect();
        let longest = rotation.longest();
        let former_until = (!former.is_empty()).then(|| rotation.former_until(longest, now));
        let rotate = rotate.to_owned();
        Ok(Self { authority, texts, root, next: None, former, former_until, longest, rotate })
    }

    /// Stages the next authority for the rotation request `rotate`, in place of one that was staged
    /// before.
    pub(super) fn stage(
        mut self,
        generated: GeneratedAuthority,
        rotate: &str,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        let texts = generated.into_pair();
        let ends = waiting(&texts)?.not_after();
        self.next = Some((texts, NextCertificate { ends, since: now }));
        self.rotate = rotate.to_owned();
        Ok(self)
    }

    /// Puts the staged authority in use.
    pub(super) fn promote(
        mut self,
        rotation: &Rotation,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        let Some((next, _)) = self.next.take() else { return Ok(self) };
        let root = next.certificate.clone();
        self.authority = Arc::new(in_use(&next, &root)?);
        self.former.extend(certificates(&std::mem::replace(&mut self.root, root)));
        let until = rotation.former_until(self.longest, now);
        self.former_until = Some(self.former_until.map_or(until, |earlier| earlier.max(until)));
        self.texts = next;
        self.longest = rotation.longest();
        Ok(self)
    }

    /// Removes the former roots.
    pub(super) fn retire(mut self) -> Self {
        self.former.clear();
        self.former_until = None;
        self
    }

    /// Raises the maximum validity of signed certificates to `longest`.
    pub(super) fn widen(mut self, longest: Duration) -> Self {
        self.longest = self.longest.max(longest);
        self
    }

    /// Returns the roots of `last` that this content lacks although another authority is in use,
    /// which no step of the rotation causes.
    pub(super) fn missing_roots(&self, last: &Self) -> Vec<String> {
        if self.authority.is(&last.authority) {
            return Vec::new();
        }
        let here = certificates(self.bundle().0.as_bytes());
        let mut there = certificates(last.bundle().0.as_bytes());
        there.retain(|root| !here.contains(root));
        there
    }

    /// Adds roots to the former ones.
    pub(super) fn retain_roots(
        mut self,
        roots: Vec<String>,
        rotation: &Rotation,
        now: SystemTime,
    ) -> Self {
        self.former.extend(roots);
        // Roots beyond this number are never published again.
        let excess = self.former.len().saturating_sub(MAX_ROOTS);
        self.former.drain(..excess);
        let until = rotation.former_until(rotation.longest().max(self.longest), now);
        self.former_until = Some(self.former_until.map_or(until, |earlier| earlier.max(until)));
        self
    }

    /// Returns the times that the next step is planned by. `rotate`: the current rotation request.
    pub(super) fn times(&self, rotate: &str) -> Times {
        Times {
            begins: self.authority.not_before(),
            ends: self.authority.not_after(),
            next: self.next.as_ref().map(|(_, next)| *next),
            former_until: self.former_until,
            formers: self.former.len(),
            longest: self.longest,
            requested: !rotate.is_empty() && rotate != self.rotate,
        }
    }

    /// Returns the bundle that clients must trust, and the number of roots left out of it: the root
    /// in use first, then the next one, then former ones. The oldest former roots are left out if
    /// there are more than clients read.
    pub(super) fn bundle(&self) -> (String, usize) {
        let next = self.next.iter().map(|(texts, _)| texts.certificate.as_slice());
        let next: Vec<_> = next.flat_map(readable).collect();
        let mut all = readable(&self.root);
        let former = self.former.iter().flat_map(|root| readable(root.as_bytes()));
        for root in next.iter().cloned().chain(former) {
            if !all.contains(&root) {
                all.push(root);
            }
        }
        limit_roots(&all, |root| next.contains(root) || self.authority.leads_to(root))
    }

    /// Returns the phase of the rotation.
    pub(super) fn state(&self) -> RotationPhase {
        match (&self.next, self.former.is_empty()) {
            (Some(_), _) => RotationPhase::Staged,
            (None, false) => RotationPhase::Overlap,
            (None, true) => RotationPhase::Steady,
        }
    }

    /// Writes the content into a Secret's data. Other keys stay as they are.
    pub(super) fn write(&self, data: &mut Data) {
        self.texts.write(self.next.as_ref().map(|(texts, next)| (texts, *next)), data);
        put(data, ROOTS, Some(self.root.clone()));
        let former = (!self.former.is_empty()).then(|| self.former.concat().into_bytes());
        put(data, FORMER, former);
        put_time(data, FORMER_UNTIL, self.former_until);
        put(data, LONGEST, Some(self.longest.as_secs().to_string().into_bytes()));
        let rotate = (!self.rotate.is_empty()).then(|| self.rotate.clone().into_bytes());
        put(data, ROTATE_DONE, rotate);
    }
}

/// Phase of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RotationPhase {
    /// One authority, one root.
    Steady,
    /// The next root is published, but no certificate is issued from it yet.
    Staged,
    /// A former root is published, but no certificate is issued from it any more.
    Overlap,
}

impl RotationPhase {
    pub(super) const ALL: [Self; 3] = [Self::Steady, Self::Staged, Self::Overlap];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Staged => "staged",
            Self::Overlap => "overlap",
        }
    }
}

/// Reads the authority in use.
fn in_use(texts: &Pair, root: &[u8]) -> Result<Authority, AuthorityError> {
    authority(texts, root, [CERTIFICATE, KEY, ROOTS])
}

/// Reads the staged authority.
fn waiting(texts: &Pair) -> Result<Authority, AuthorityError> {
    authority(texts, &texts.certificate, [NEXT_CERTIFICATE, NEXT_KEY, NEXT_CERTIFICATE])
}

fn authority(texts: &Pair, roots: &[u8], sources: [&str; 3]) -> Result<Authority, AuthorityError> {
    let [certificate, key, place] = sources.map(str::to_owned);
    let sources = PemSources { certificate, key, roots: place };
    Authority::read(sources, &texts.certificate, &texts.key, roots)
}

/// Returns the certificates of a bundle, each as PEM. Anything else in the bundle, such as a
/// private key, is never published.
pub(super) fn certificates(bundle: &[u8]) -> Vec<String> {
    readable(bundle).iter().map(pem).collect()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
