//! What the issuer's Secret holds, and how it is written there.

use super::authority::{Authority, AuthorityError, Made, Places};
use super::bounded::bounded;
use super::pem::pem;
use super::plan::{Next, Rotation, Times};
use super::time::timestamp;
use k8s_openapi::ByteString;
use policy_tls::identity::MOST_ROOTS;
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The data of a Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// The authority in use, as every Secret of type `kubernetes.io/tls` has it, and the root it leads to.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const ROOT: &str = "ca.crt";
/// Former roots that something valid may still lead to, and until when.
const FORMER: &str = "ca-previous.crt";
const FORMER_UNTIL: &str = "previous.until";
/// The authority that waits, which is its own root, and since when its root is published.
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const NEXT_SINCE: &str = "next.since";
/// The most seconds that what the authority in use has signed may be valid.
const LONGEST: &str = "longest.seconds";
/// The operator's wish that has been fulfilled.
const ASKED: &str = "rotate.done";

/// What is held, all of it usable.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) authority: Arc<Authority>,
    /// The texts of the authority in use.
    texts: Texts,
    next: Option<(Texts, Next)>,
    former: Vec<String>,
    former_until: Option<SystemTime>,
    longest: Duration,
    asked: String,
}

/// An authority, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Secret,
    root: Vec<u8>,
}

/// Bytes that no log gets.
#[derive(Clone, PartialEq, Eq)]
struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Held {
    /// Reads a Secret's data.
    ///
    /// # Errors
    /// Why the authority in use cannot be used. What waits and cannot be used is left out.
    pub(super) fn read(data: &Data) -> Result<Self, AuthorityError> {
        let bytes = |key: &str| data.get(key).map(|bytes| bytes.0.clone());
        let text = |key: &str| String::from_utf8(bytes(key)?).ok();
        let time = |key: &str| text(key)?.parse::<jiff::Timestamp>().ok().map(SystemTime::from);
        let needed = |key: &str| {
            let place = key.to_owned();
            let missing = || AuthorityError::Text { place, message: "missing".to_owned() };
            bytes(key).ok_or_else(missing)
        };
        let texts = Texts {
            certificate: needed(CERTIFICATE)?,
            key: Secret(needed(KEY)?),
            root: needed(ROOT)?,
        };
        let authority = texts.read([CERTIFICATE, KEY, ROOT])?;
        let next = bytes(NEXT_CERTIFICATE).zip(bytes(NEXT_KEY)).zip(time(NEXT_SINCE));
        let next = next.and_then(|((certificate, key), since)| {
            let texts = Texts { root: certificate.clone(), certificate, key: Secret(key) };
            let places = [NEXT_CERTIFICATE, NEXT_KEY, NEXT_CERTIFICATE];
            let ends = texts.read(places).ok()?.ends();
            Some((texts, Next { ends, since }))
        });
        let seconds = text(LONGEST).and_then(|text| text.parse().ok());
        Ok(Self {
            authority: Arc::new(authority),
            texts,
            next,
            former: bytes(FORMER).map(|bytes| certificates(&bytes)).unwrap_or_default(),
            former_until: time(FORMER_UNTIL),
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
        let texts = Texts::of(made);
        let authority = Arc::new(texts.read([CERTIFICATE, KEY, ROOT])?);
        let left = [ROOT, FORMER].into_iter().filter_map(|key| before.get(key));
        let former: Vec<String> = left.flat_map(|bytes| certificates(&bytes.0)).collect();
        let longest = rotation.longest();
        let former_until = (!former.is_empty()).then(|| rotation.former_until(longest, now));
        let asked = asked.to_owned();
        Ok(Self { authority, texts, next: None, former, former_until, longest, asked })
    }

    /// The same with an authority that waits, for what the operator `asked`. One that waited already
    /// is forgotten.
    pub(super) fn stage(
        mut self,
        made: Made,
        asked: &str,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        let texts = Texts::of(made);
        let ends = texts.read([NEXT_CERTIFICATE, NEXT_KEY, NEXT_CERTIFICATE])?.ends();
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
        self.authority = Arc::new(next.read([CERTIFICATE, KEY, ROOT])?);
        self.former.extend(certificates(&self.texts.root));
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
        let excess = self.former.len().saturating_sub(MOST_ROOTS);
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
        let next = self.next.iter().map(|(texts, _)| texts.root.as_slice());
        let next: Vec<_> = next.flat_map(read).collect();
        let mut all = read(&self.texts.root);
        let former = self.former.iter().flat_map(|root| read(root.as_bytes()));
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
        let mut put = |key: &str, bytes: Option<Vec<u8>>| match bytes {
            Some(bytes) => _ = data.insert(key.to_owned(), ByteString(bytes)),
            None => _ = data.remove(key),
        };
        let time = |at: SystemTime| timestamp(at).to_string().into_bytes();
        put(CERTIFICATE, Some(self.texts.certificate.clone()));
        put(KEY, Some(self.texts.key.0.clone()));
        put(ROOT, Some(self.texts.root.clone()));
        let next = self.next.as_ref();
        put(NEXT_CERTIFICATE, next.map(|(texts, _)| texts.certificate.clone()));
        put(NEXT_KEY, next.map(|(texts, _)| texts.key.0.clone()));
        put(NEXT_SINCE, next.map(|(_, next)| time(next.since)));
        let former = (!self.former.is_empty()).then(|| self.former.concat().into_bytes());
        put(FORMER, former);
        put(FORMER_UNTIL, self.former_until.map(time));
        put(LONGEST, Some(self.longest.as_secs().to_string().into_bytes()));
        put(ASKED, (!self.asked.is_empty()).then(|| self.asked.clone().into_bytes()));
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

impl Texts {
    fn of(made: Made) -> Self {
        let certificate = made.certificate.into_bytes();
        Self { root: certificate.clone(), certificate, key: Secret(made.key.into_bytes()) }
    }

    fn read(&self, [certificate, key, roots]: [&str; 3]) -> Result<Authority, AuthorityError> {
        let places = Places {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            roots: roots.to_owned(),
        };
        Authority::read(places, &self.certificate, &self.key.0, &self.root)
    }
}

/// The certificates of a bundle, each as PEM of its own. What else is in it, such as a key that
/// somebody put there, is not published.
pub(super) fn certificates(bundle: &[u8]) -> Vec<String> {
    read(bundle).iter().map(pem).collect()
}

fn read(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
    policy_tls::identity::certificates(bundle).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
