//! What the issuer's Secret holds, and how it is written there.

use super::authority::{Authority, AuthorityError, Made, Places};
use super::bounded::bounded;
use super::plan::{Rotation, Times};
use policy_kube::rotation::Next;
use policy_kube::rotation::secret::{
    self, CERTIFICATE, Data, KEY, NEXT_CERTIFICATE, NEXT_KEY, Pair, ROOTS, put, put_time,
};
use policy_tls::identity::{MAX_ROOTS, pem, readable};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Former roots that something valid may still lead to, and until when.
const FORMER: &str = "ca-previous.crt";
const FORMER_UNTIL: &str = "previous.until";
/// The most seconds that what the authority in use has signed may be valid.
const LONGEST: &str = "longest.seconds";
/// The operator's wish that has been fulfilled.
const ASKED: &str = "rotate.done";

/// What is held, all of it usable.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) authority: Arc<Authority>,
    /// The authority in use as it is written, and the root it leads to.
    texts: Pair,
    root: Vec<u8>,
    /// The authority that waits, which is its own root.
    next: Option<(Pair, Next)>,
    former: Vec<String>,
    former_until: Option<SystemTime>,
    longest: Duration,
    asked: String,
}

impl Held {
    /// Reads a Secret's data.
    ///
    /// # Errors
    /// Why the authority in use cannot be used. What waits and cannot be used is left out.
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
        let next = Pair::waiting(data).and_then(|(texts, since)| {
            let ends = waiting(&texts).ok()?.ends();
            Some((texts, Next { ends, since }))
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
            asked: text(ASKED).unwrap_or_default(),
        })
    }

    /// An authority to be used at once. The roots that `before` names stay for as long as anything
    /// that they vouch for could be valid.
    pub(super) fn create(
        made: Made,
        before: &Data,
        asked: &str,
        rotation: &Rotation,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        let texts = made.pair();
        let root = texts.certificate.clone();
        let authority = Arc::new(in_use(&texts, &root)?);
        let left = [ROOTS, FORMER].into_iter().filter_map(|key| before.get(key));
        let former: Vec<String> = left.flat_map(|bytes| certificates(&bytes.0)).collect();
        let longest = rotation.longest();
        let former_until = (!former.is_empty()).then(|| rotation.former_until(longest, now));
        let asked = asked.to_owned();
        Ok(Self { authority, texts, root, next: None, former, former_until, longest, asked })
    }

    /// The same with an authority that waits, for what the operator `asked`. One that waited already
    /// is forgotten.
    pub(super) fn stage(
        mut self,
        made: Made,
        asked: &str,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        let texts = made.pair();
        let ends = waiting(&texts)?.ends();
        self.next = Some((texts, Next { ends, since: now }));
        self.asked = asked.to_owned();
        Ok(self)
    }

    /// The same with the one that waited in use.
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

    /// The same without its former roots.
    pub(super) fn retire(mut self) -> Self {
        self.former.clear();
        self.former_until = None;
        self
    }

    /// The same, which may sign for so long.
    pub(super) fn widen(mut self, longest: Duration) -> Self {
        self.longest = self.longest.max(longest);
        self
    }

    /// The roots of `last` that are not among these, though another authority is in use: none of our
    /// own steps does that.
    pub(super) fn forgotten(&self, last: &Self) -> Vec<String> {
        if self.authority.is(&last.authority) {
            return Vec::new();
        }
        let here = certificates(self.bundle().0.as_bytes());
        let mut there = certificates(last.bundle().0.as_bytes());
        there.retain(|root| !here.contains(root));
        there
    }

    /// The same with these roots among the former ones.
    pub(super) fn keep(mut self, roots: Vec<String>, rotation: &Rotation, now: SystemTime) -> Self {
        self.former.extend(roots);
        // What is never published again need not be held.
        let excess = self.former.len().saturating_sub(MAX_ROOTS);
        self.former.drain(..excess);
        let until = rotation.former_until(rotation.longest().max(self.longest), now);
        self.former_until = Some(self.former_until.map_or(until, |earlier| earlier.max(until)));
        self
    }

    /// What planning looks at. `asked`: what the operator asks for now.
    pub(super) fn times(&self, asked: &str) -> Times {
        Times {
            begins: self.authority.begins(),
            ends: self.authority.ends(),
            next: self.next.as_ref().map(|(_, next)| *next),
            former_until: self.former_until,
            formers: self.former.len(),
            longest: self.longest,
            asked: !asked.is_empty() && asked != self.asked,
        }
    }

    /// What everybody must trust: the root in use first, then the one to come, then former ones. Former
    /// ones of long ago are left out where they are more than anybody reads; how many.
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
        bounded(&all, |root| next.contains(root) || self.authority.leads_to(root))
    }

    /// Which state the rotation is in.
    pub(super) fn state(&self) -> State {
        match (&self.next, self.former.is_empty()) {
            (Some(_), _) => State::Staged,
            (None, false) => State::Overlap,
            (None, true) => State::Steady,
        }
    }

    /// Puts it into a Secret's data and leaves other keys alone.
    pub(super) fn write(&self, data: &mut Data) {
        self.texts.write(self.next.as_ref().map(|(texts, next)| (texts, *next)), data);
        put(data, ROOTS, Some(self.root.clone()));
        let former = (!self.former.is_empty()).then(|| self.former.concat().into_bytes());
        put(data, FORMER, former);
        put_time(data, FORMER_UNTIL, self.former_until);
        put(data, LONGEST, Some(self.longest.as_secs().to_string().into_bytes()));
        let asked = (!self.asked.is_empty()).then(|| self.asked.clone().into_bytes());
        put(data, ASKED, asked);
    }
}

/// Which state a rotation is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// One authority, one root.
    Steady,
    /// The next root is published, and nothing is issued from it.
    Staged,
    /// A former root is published, and nothing is issued from it any more.
    Overlap,
}

impl State {
    pub(super) const ALL: [Self; 3] = [Self::Steady, Self::Staged, Self::Overlap];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Staged => "staged",
            Self::Overlap => "overlap",
        }
    }
}

/// The authority in use.
fn in_use(texts: &Pair, root: &[u8]) -> Result<Authority, AuthorityError> {
    authority(texts, root, [CERTIFICATE, KEY, ROOTS])
}

/// The authority that waits.
fn waiting(texts: &Pair) -> Result<Authority, AuthorityError> {
    authority(texts, &texts.certificate, [NEXT_CERTIFICATE, NEXT_KEY, NEXT_CERTIFICATE])
}

fn authority(texts: &Pair, roots: &[u8], places: [&str; 3]) -> Result<Authority, AuthorityError> {
    let [certificate, key, places_roots] = places.map(str::to_owned);
    let places = Places { certificate, key, roots: places_roots };
    Authority::read(places, &texts.certificate, &texts.key, roots)
}

/// The certificates of a bundle, each as PEM of its own. What else is in it, such as a key that
/// somebody put there, is not published.
pub(super) fn certificates(bundle: &[u8]) -> Vec<String> {
    readable(bundle).iter().map(pem).collect()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
