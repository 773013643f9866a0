//! Content of the webhook's Secret: reading, rotation and writing.

use super::issue::IssuedCertificate;
use super::pair::{CertificateError, PemSources, certified_key, chain};
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

/// Maximum number of authorities that are kept when a certificate is issued anew. Replicas with
/// different names (two installations that share a Secret) take turns in issuing one, and the
/// Secret must not grow by it.
const MAX_RETAINED: usize = 7;

/// The content of the Secret, all of it usable.
pub(super) struct CertSecret {
    serving: ServingPair,
    next: Option<(ServingPair, SystemTime)>,
    /// The CA bundle: the authorities of every certificate that may be in use, newest last.
    authorities: Vec<Authority>,
}

/// A usable serving certificate.
struct ServingPair {
    texts: secret::Pair,
    not_before: SystemTime,
    not_after: SystemTime,
}

/// An authority of the CA bundle.
struct Authority {
    certificate: CertificateDer<'static>,
    not_after: SystemTime,
}

impl CertSecret {
    /// Reads a Secret's data. `None` if it has no usable certificate for all `names`, or the CA
    /// bundle does not verify it.
    pub(super) fn read(data: &Data, names: &[String]) -> Option<Self> {
        let authorities = authorities(data);
        let serving = serving_pair(secret::Pair::in_use(data)?, &authorities, names)?;
        let next = secret::Pair::staged(data);
        let next =
            next.and_then(|(next, since)| Some((serving_pair(next, &authorities, names)?, since)));
        Some(Self { serving, next, authorities })
    }

    /// Returns the authorities in a Secret's data that may still be needed, even if the rest is
    /// unusable.
    fn retained_authorities(data: &Data, now: SystemTime) -> Vec<Authority> {
        let mut bundle = authorities(data);
        bundle.retain(|authority| authority.not_after > now);
        let newest = bundle.len().saturating_sub(MAX_RETAINED);
        bundle.split_off(newest)
    }

    /// Creates the content with a certificate that is used at once. Clients that trust the CA
    /// bundle in `before` still verify theirs.
    pub(super) fn create(
        issued: IssuedCertificate,
        before: &Data,
        now: SystemTime,
    ) -> Option<Self> {
        let mut held = Self {
            serving: ServingPair::of(&issued)?,
            next: None,
            authorities: Self::retained_authorities(before, now),
        };
        held.authorities.push(Authority::of(&issued)?);
        Some(held)
    }

    /// Stages the next certificate, in place of one that was staged before.
    pub(super) fn stage(mut self, issued: &IssuedCertificate, now: SystemTime) -> Option<Self> {
        self.next = Some((ServingPair::of(issued)?, now));
        self.authorities.retain(|authority| authority.not_after > now);
        self.authorities.push(Authority::of(issued)?);
        Some(self)
    }

    /// Puts the staged certificate in use.
    pub(super) fn promote(mut self) -> Self {
        if let Some((next, _)) = self.next.take() {
            self.serving = next;
        }
        self
    }

    /// Removes expired authorities.
    pub(super) fn prune(mut self, now: SystemTime) -> Self {
        self.authorities.retain(|authority| authority.not_after > now);
        self
    }

    /// Returns the times that the next step is planned by.
    pub(super) fn times(&self) -> Times {
        let oldest = self.authorities.iter().map(|authority| authority.not_after).min();
        Times {
            begins: self.serving.not_before,
            serving: self.serving.not_after,
            next: self.next.as_ref().map(|(pair, since)| pair.staged(*since)),
            oldest_authority: oldest.unwrap_or(self.serving.not_after),
        }
    }

    /// Returns the CA bundle that clients must trust.
    pub(super) fn bundle(&self) -> Vec<u8> {
        self.authorities.iter().map(|one| pem(&one.certificate)).collect::<String>().into()
    }

    /// Returns the certificate in use with its key.
    pub(super) fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        certified_key(&SOURCES, &self.serving.texts)
    }

    /// Writes the content into a Secret's data. Other keys stay as they are.
    pub(super) fn write(&self, data: &mut Data) {
        let next = self.next.as_ref().map(|(pair, since)| (&pair.texts, pair.staged(*since)));
        self.serving.texts.write(next, data);
        secret::put(data, ROOTS, Some(self.bundle()));
    }
}

const SOURCES: PemSources<'_> = PemSources { certificates: CERTIFICATE, key: KEY };

impl ServingPair {
    fn of(issued: &IssuedCertificate) -> Option<Self> {
        let certificate = issued.certificate.clone().into_bytes();
        let (not_before, not_after) = validity(chain(CERTIFICATE, &certificate).ok()?.first()?)?;
        let texts = secret::Pair { certificate, key: issued.key.clone().into_bytes() };
        Some(Self { texts, not_before, not_after })
    }

    /// Returns its times as a certificate that has been staged since then.
    fn staged(&self, since: SystemTime) -> NextCertificate {
        NextCertificate { ends: self.not_after, since }
    }
}

impl Authority {
    fn of(issued: &IssuedCertificate) -> Option<Self> {
        readable(issued.authority.as_bytes()).pop().and_then(Self::read)
    }

    fn read(certificate: CertificateDer<'static>) -> Option<Self> {
        let (_, not_after) = validity(&certificate)?;
        Some(Self { certificate, not_after })
    }
}

/// Reads a certificate and its key. `None` if they do not match or the CA bundle does not verify
/// every name.
fn serving_pair(
    texts: secret::Pair,
    authorities: &[Authority],
    names: &[String],
) -> Option<ServingPair> {
    let usable = certified_key(&SOURCES, &texts).ok()?;
    let leaf = usable.cert.first()?;
    let (not_before, not_after) = validity(leaf)?;
    // Verified at its last second, because clocks differ and the plan handles its expiry.
    let last = not_after.checked_sub(Duration::from_secs(1))?;
    let last = UnixTime::since_unix_epoch(last.duration_since(SystemTime::UNIX_EPOCH).ok()?);
    let verifier = verifier(authorities)?;
    let rest = usable.cert.get(1..).unwrap_or_default();
    let vouched = names.iter().all(|name| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| verifier.verify_server_cert(leaf, rest, &name, &[], last).is_ok())
    });
    vouched.then_some(ServingPair { texts, not_before, not_after })
}

fn verifier(authorities: &[Authority]) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().map(|one| one.certificate.clone()));
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()
}

/// Returns the certificates of a Secret's CA bundle. Anything else in it, such as a private key, is
/// never published.
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

    fn make(at: SystemTime) -> IssuedCertificate {
        issue(&names(), at, LIFETIME).unwrap()
    }

    fn written(held: &CertSecret) -> Data {
        let mut data = Data::new();
        held.write(&mut data);
        data
    }

    #[test]
    fn what_is_written_is_read_back() {
        let held = CertSecret::create(make(now()), &Data::new(), now()).unwrap();
        let data = written(&held);
        let read = CertSecret::read(&data, &names()).unwrap();
        assert_eq!(read.times().serving, now() + LIFETIME);
        assert_eq!(written(&read), data);
        assert!(read.certified_key().is_ok());
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    }

    #[test]
    fn a_renewal_keeps_both_authorities_until_the_former_certificate_has_expired() {
        let held = CertSecret::create(make(now()), &Data::new(), now()).unwrap();
        let first = held.bundle();
        let later = now() + Duration::from_secs(60 * 86_400);
        let staged = held.stage(&make(later), later).unwrap();
        let read = CertSecret::read(&written(&staged), &names()).unwrap();
        assert_eq!(read.times().serving, now() + LIFETIME, "the former one is still in use");
        assert_eq!(
            read.times().next,
            Some(NextCertificate { ends: later + LIFETIME, since: later })
        );
        assert!(read.bundle().starts_with(&first) && read.bundle().len() > first.len());
        let promoted = CertSecret::read(&written(&read.promote()), &names()).unwrap();
        assert_eq!(promoted.times().serving, later + LIFETIME);
        assert!(promoted.bundle().starts_with(&first), "a replica may serve the former one");
        let pruned = promoted.prune(now() + LIFETIME);
        assert!(!pruned.bundle().starts_with(&first));
        assert!(CertSecret::read(&written(&pruned), &names()).is_some());
    }

    #[test]
    fn what_could_not_be_served_is_not_held() {
        let held = CertSecret::create(make(now()), &Data::new(), now()).unwrap();
        let good = written(&held);
        assert!(CertSecret::read(&good, &["b.ns.svc".to_owned()]).is_none(), "another name");
        assert!(CertSecret::read(&Data::new(), &names()).is_none());
        let other = written(&CertSecret::create(make(now()), &Data::new(), now()).unwrap());
        for key in ["tls.crt", "tls.key", "ca.crt"] {
            let mut data = good.clone();
            data.insert(key.to_owned(), other[key].clone());
            assert!(CertSecret::read(&data, &names()).is_none(), "{key} of another certificate");
            data.insert(key.to_owned(), ByteString(b"\xff nonsense".to_vec()));
            assert!(CertSecret::read(&data, &names()).is_none(), "{key} is no text");
        }
    }

    #[test]
    fn nothing_but_certificates_is_taken_from_a_bundle_that_others_wrote() {
        let mut data = written(&CertSecret::create(make(now()), &Data::new(), now()).unwrap());
        let (bundle, key) = (data["ca.crt"].0.clone(), data["tls.key"].0.clone());
        let notes = b"# ours\n".to_vec();
        data.insert("ca.crt".to_owned(), ByteString([notes, key, bundle.clone()].concat()));
        let held = CertSecret::read(&data, &names()).unwrap();
        assert_eq!(held.bundle(), bundle);
    }

    #[test]
    fn a_certificate_made_anew_again_and_again_does_not_fill_the_secret() {
        let mut data = Data::new();
        for _ in 0..20 {
            CertSecret::create(make(now()), &data, now()).unwrap().write(&mut data);
        }
        assert_eq!(authorities(&data).len(), MAX_RETAINED + 1);
        assert!(CertSecret::read(&data, &names()).is_some(), "the newest is among them");
    }

    #[test]
    fn repairing_keeps_the_authorities_that_may_still_be_trusted() {
        let mut broken = written(&CertSecret::create(make(now()), &Data::new(), now()).unwrap());
        let before = broken["ca.crt"].0.clone();
        broken.remove("tls.key");
        broken.insert("kept".to_owned(), ByteString(vec![1]));
        let repaired = CertSecret::create(make(now()), &broken, now()).unwrap();
        repaired.write(&mut broken);
        assert!(broken.contains_key("kept"));
        assert!(broken["ca.crt"].0.starts_with(&before));
        let later = now() + LIFETIME;
        let repaired = CertSecret::create(make(later), &broken, later).unwrap();
        assert!(!repaired.bundle().starts_with(&before), "expired ones are not kept");
    }
}
