//! What the Secret holds, and how it is written there.

use super::issue::Issued;
use super::pair::{CertificateError, Places, certified, chain};
use super::plan::Times;
use policy_kube::rotation::NextCertificate;
use policy_kube::rotation::secret::{self, CERTIFICATE, Data, KEY, ROOTS};
use policy_tls::identity::{pem, provider, readable, validity};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Authorities that outlive a certificate made anew. Replicas of different names (two installations
/// that share a Secret) make one anew in turns, and the Secret must not grow by it.
const MAX_LEFT_OVER: usize = 7;

/// What is held, all of it usable.
pub(super) struct Held {
    serving: Pair,
    next: Option<(Pair, SystemTime)>,
    /// The bundle: the authorities of every certificate that may be in use, newest last.
    authorities: Vec<Authority>,
}

/// A certificate that can be served.
struct Pair {
    texts: secret::Pair,
    not_before: SystemTime,
    not_after: SystemTime,
}

/// One authority of the bundle.
struct Authority {
    certificate: CertificateDer<'static>,
    not_after: SystemTime,
}

impl Held {
    /// Reads a Secret's data. `None` if there is nothing in it that could be served under all of
    /// `names`, which is the case too if the bundle does not vouch for it.
    pub(super) fn read(data: &Data, names: &[String]) -> Option<Self> {
        let authorities = authorities(data);
        let serving = pair(secret::Pair::in_use(data)?, &authorities, names)?;
        let next = secret::Pair::staged(data);
        let next = next.and_then(|(next, since)| Some((pair(next, &authorities, names)?, since)));
        Some(Self { serving, next, authorities })
    }

    /// The authorities of a Secret's data that could still be needed, whatever else is wrong with it.
    fn left_over(data: &Data, now: SystemTime) -> Vec<Authority> {
        let mut bundle = authorities(data);
        bundle.retain(|authority| authority.not_after > now);
        let newest = bundle.len().saturating_sub(MAX_LEFT_OVER);
        bundle.split_off(newest)
    }

    /// A certificate to be used at once. Clients that trust what `before` vouched for go on doing so.
    pub(super) fn create(issued: Issued, before: &Data, now: SystemTime) -> Option<Self> {
        let mut held = Self {
            serving: Pair::of(&issued)?,
            next: None,
            authorities: Self::left_over(before, now),
        };
        held.authorities.push(Authority::of(&issued)?);
        Some(held)
    }

    /// The same with a certificate that waits. One that waited already is forgotten.
    pub(super) fn stage(mut self, issued: &Issued, now: SystemTime) -> Option<Self> {
        self.next = Some((Pair::of(issued)?, now));
        self.authorities.retain(|authority| authority.not_after > now);
        self.authorities.push(Authority::of(issued)?);
        Some(self)
    }

    /// The same with the one that waited in use.
    pub(super) fn promote(mut self) -> Self {
        if let Some((next, _)) = self.next.take() {
            self.serving = next;
        }
        self
    }

    /// The same without authorities that have expired.
    pub(super) fn prune(mut self, now: SystemTime) -> Self {
        self.authorities.retain(|authority| authority.not_after > now);
        self
    }

    /// What planning looks at.
    pub(super) fn times(&self) -> Times {
        let oldest = self.authorities.iter().map(|authority| authority.not_after).min();
        Times {
            begins: self.serving.not_before,
            serving: self.serving.not_after,
            next: self.next.as_ref().map(|(pair, since)| pair.waits(*since)),
            oldest_authority: oldest.unwrap_or(self.serving.not_after),
        }
    }

    /// What clients must trust.
    pub(super) fn bundle(&self) -> Vec<u8> {
        self.authorities.iter().map(|one| pem(&one.certificate)).collect::<String>().into()
    }

    /// The certificate in use, ready for handshakes.
    pub(super) fn certified(&self) -> Result<CertifiedKey, CertificateError> {
        certified(&PLACES, &self.serving.texts)
    }

    /// Puts it into a Secret's data and leaves other keys alone.
    pub(super) fn write(&self, data: &mut Data) {
        let next = self.next.as_ref().map(|(pair, since)| (&pair.texts, pair.waits(*since)));
        self.serving.texts.write(next, data);
        secret::put(data, ROOTS, Some(self.bundle()));
    }
}

const PLACES: Places<'_> = Places { certificates: CERTIFICATE, key: KEY };

impl Pair {
    fn of(issued: &Issued) -> Option<Self> {
        let certificate = issued.certificate.clone().into_bytes();
        let (not_before, not_after) = validity(chain(CERTIFICATE, &certificate).ok()?.first()?)?;
        let texts = secret::Pair { certificate, key: issued.key.clone().into_bytes() };
        Some(Self { texts, not_before, not_after })
    }

    /// The same as one that waits since then.
    fn waits(&self, since: SystemTime) -> NextCertificate {
        NextCertificate { ends: self.not_after, since }
    }
}

impl Authority {
    fn of(issued: &Issued) -> Option<Self> {
        readable(issued.authority.as_bytes()).pop().and_then(Self::read)
    }

    fn read(certificate: CertificateDer<'static>) -> Option<Self> {
        let (_, not_after) = validity(&certificate)?;
        Some(Self { certificate, not_after })
    }
}

/// A certificate and its key, if they fit each other and the bundle vouches for every name.
fn pair(texts: secret::Pair, authorities: &[Authority], names: &[String]) -> Option<Pair> {
    let usable = certified(&PLACES, &texts).ok()?;
    let leaf = usable.cert.first()?;
    let (not_before, not_after) = validity(leaf)?;
    // Clocks differ, and its end is looked at when planning: it must have been good until then.
    let last = not_after.checked_sub(Duration::from_secs(1))?;
    let last = UnixTime::since_unix_epoch(last.duration_since(SystemTime::UNIX_EPOCH).ok()?);
    let verifier = verifier(authorities)?;
    let rest = usable.cert.get(1..).unwrap_or_default();
    let vouched = names.iter().all(|name| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| verifier.verify_server_cert(leaf, rest, &name, &[], last).is_ok())
    });
    vouched.then_some(Pair { texts, not_before, not_after })
}

fn verifier(authorities: &[Authority]) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().map(|one| one.certificate.clone()));
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()
}

/// The certificates of a Secret's bundle. What else is in it, such as the key of an authority that
/// somebody put there, is not published.
fn authorities(data: &Data) -> Vec<Authority> {
    let bundle = data.get(ROOTS).map(|bytes| readable(&bytes.0));
    bundle.unwrap_or_default().into_iter().filter_map(Authority::read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::issue::issue;
    use super::super::plan::LIFETIME;
    use super::*;
    use k8s_openapi::ByteString;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1_800_000_000)).unwrap()
    }

    fn names() -> Vec<String> {
        vec!["a.ns.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn make(at: SystemTime) -> Issued {
        issue(&names(), at, LIFETIME).unwrap()
    }

    fn written(held: &Held) -> Data {
        let mut data = Data::new();
        held.write(&mut data);
        data
    }

    #[test]
    fn what_is_written_is_read_back() {
        let held = Held::create(make(now()), &Data::new(), now()).unwrap();
        let data = written(&held);
        let read = Held::read(&data, &names()).unwrap();
        assert_eq!(read.times().serving, now() + LIFETIME);
        assert_eq!(written(&read), data);
        assert!(read.certified().is_ok());
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    }

    #[test]
    fn a_renewal_keeps_both_authorities_until_the_former_certificate_has_expired() {
        let held = Held::create(make(now()), &Data::new(), now()).unwrap();
        let first = held.bundle();
        let later = now() + Duration::from_secs(60 * 86_400);
        let staged = held.stage(&make(later), later).unwrap();
        let read = Held::read(&written(&staged), &names()).unwrap();
        assert_eq!(read.times().serving, now() + LIFETIME, "the former one is still in use");
        assert_eq!(
            read.times().next,
            Some(NextCertificate { ends: later + LIFETIME, since: later })
        );
        assert!(read.bundle().starts_with(&first) && read.bundle().len() > first.len());
        let promoted = Held::read(&written(&read.promote()), &names()).unwrap();
        assert_eq!(promoted.times().serving, later + LIFETIME);
        assert!(promoted.bundle().starts_with(&first), "a replica may serve the former one");
        let pruned = promoted.prune(now() + LIFETIME);
        assert!(!pruned.bundle().starts_with(&first));
        assert!(Held::read(&written(&pruned), &names()).is_some());
    }

    #[test]
    fn what_could_not_be_served_is_not_held() {
        let held = Held::create(make(now()), &Data::new(), now()).unwrap();
        let good = written(&held);
        assert!(Held::read(&good, &["b.ns.svc".to_owned()]).is_none(), "another name");
        assert!(Held::read(&Data::new(), &names()).is_none());
        let other = written(&Held::create(make(now()), &Data::new(), now()).unwrap());
        for key in ["tls.crt", "tls.key", "ca.crt"] {
            let mut data = good.clone();
            data.insert(key.to_owned(), other[key].clone());
            assert!(Held::read(&data, &names()).is_none(), "{key} of another certificate");
            data.insert(key.to_owned(), ByteString(b"\xff nonsense".to_vec()));
            assert!(Held::read(&data, &names()).is_none(), "{key} is no text");
        }
    }

    #[test]
    fn nothing_but_certificates_is_taken_from_a_bundle_that_others_wrote() {
        let mut data = written(&Held::create(make(now()), &Data::new(), now()).unwrap());
        let (bundle, key) = (data["ca.crt"].0.clone(), data["tls.key"].0.clone());
        let notes = b"# ours\n".to_vec();
        data.insert("ca.crt".to_owned(), ByteString([notes, key, bundle.clone()].concat()));
        let held = Held::read(&data, &names()).unwrap();
        assert_eq!(held.bundle(), bundle);
    }

    #[test]
    fn a_certificate_made_anew_again_and_again_does_not_fill_the_secret() {
        let mut data = Data::new();
        for _ in 0..20 {
            Held::create(make(now()), &data, now()).unwrap().write(&mut data);
        }
        assert_eq!(authorities(&data).len(), MAX_LEFT_OVER + 1);
        assert!(Held::read(&data, &names()).is_some(), "the newest is among them");
    }

    #[test]
    fn repairing_keeps_the_authorities_that_may_still_be_trusted() {
        let mut broken = written(&Held::create(make(now()), &Data::new(), now()).unwrap());
        let before = broken["ca.crt"].0.clone();
        broken.remove("tls.key");
        broken.insert("kept".to_owned(), ByteString(vec![1]));
        let repaired = Held::create(make(now()), &broken, now()).unwrap();
        repaired.write(&mut broken);
        assert!(broken.contains_key("kept"));
        assert!(broken["ca.crt"].0.starts_with(&before));
        let later = now() + LIFETIME;
        let repaired = Held::create(make(later), &broken, later).unwrap();
        assert!(!repaired.bundle().starts_with(&before), "expired ones are not kept");
    }
}
