//! What a Secret holds while a certificate rotates: the one in use, what vouches for it, and the one
//! that waits.

use super::step::NextCertificate;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The data of a Secret.
pub type Data = BTreeMap<String, ByteString>;

/// The certificate in use, as every Secret of type `kubernetes.io/tls` has it.
pub const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub const KEY: &str = "tls.key";
/// The roots that vouch for what is in use and for what waits.
pub const ROOTS: &str = "ca.crt";
/// The certificate that waits.
pub const NEXT_CERTIFICATE: &str = "next.crt";
/// Its key.
pub const NEXT_KEY: &str = "next.key";
/// The time since which it is announced.
const NEXT_SINCE: &str = "next.since";

/// A certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, what leads to a root after it.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// The bytes under a key.
pub fn bytes(data: &Data, key: &str) -> Option<Vec<u8>> {
    data.get(key).map(|bytes| bytes.0.clone())
}

/// Puts bytes under a key, or leaves nothing there.
pub fn put(data: &mut Data, key: &str, bytes: Option<Vec<u8>>) {
    match bytes {
        Some(bytes) => _ = data.insert(key.to_owned(), ByteString(bytes)),
        None => _ = data.remove(key),
    }
}

/// The time under a key.
pub fn time(data: &Data, key: &str) -> Option<SystemTime> {
    let text = std::str::from_utf8(&data.get(key)?.0).ok()?;
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

/// Puts a time under a key, or leaves nothing there.
pub fn put_time(data: &mut Data, key: &str, at: Option<SystemTime>) {
    put(data, key, at.map(|at| timestamp(at).to_string().into_bytes()));
}

/// A time as it is written; the latest there is for what is later.
pub fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::try_from(at).unwrap_or(Timestamp::MAX)
}

impl Pair {
    /// The pair in use.
    pub fn in_use(data: &Data) -> Option<Self> {
        Some(Self { certificate: bytes(data, CERTIFICATE)?, key: bytes(data, KEY)? })
    }

    /// The pair that waits, and since when.
    pub fn staged(data: &Data) -> Option<(Self, SystemTime)> {
        let pair =
            Self { certificate: bytes(data, NEXT_CERTIFICATE)?, key: bytes(data, NEXT_KEY)? };
        Some((pair, time(data, NEXT_SINCE)?))
    }

    /// Puts this pair in use, and `next` where the one that waits is.
    pub fn write(&self, next: Option<(&Self, NextCertificate)>, data: &mut Data) {
        put(data, CERTIFICATE, Some(self.certificate.clone()));
        put(data, KEY, Some(self.key.clone()));
        put(data, NEXT_CERTIFICATE, next.map(|(pair, _)| pair.certificate.clone()));
        put(data, NEXT_KEY, next.map(|(pair, _)| pair.key.clone()));
        put_time(data, NEXT_SINCE, next.map(|(_, next)| next.since));
    }
}

impl std::fmt::Debug for Pair {
    /// Without the key, which no log gets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use std::time::Duration;

    fn pair(name: &str) -> Pair {
        Pair { certificate: format!("{name}-crt").into(), key: format!("{name}-key").into() }
    }

    /// Secrets outlive the program that wrote them: the one after it has to find everything.
    #[test]
    fn a_secret_is_written_as_it_has_always_been() {
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_250);
        let next = NextCertificate { ends: since, since };
        let mut data = Data::new();
        put(&mut data, "other", Some(b"kept".to_vec()));
        pair("a").write(Some((&pair("b"), next)), &mut data);
        let texts: Vec<_> = data
            .iter()
            .map(|(key, text)| format!("{key}={}", String::from_utf8_lossy(&text.0)))
            .collect();
        assert_eq!(
            texts,
            [
                "next.crt=b-crt",
                "next.key=b-key",
                "next.since=2027-01-15T08:00:00.25Z",
                "other=kept",
                "tls.crt=a-crt",
                "tls.key=a-key",
            ]
        );
        assert_eq!(Pair::in_use(&data), Some(pair("a")));
        assert_eq!(Pair::staged(&data), Some((pair("b"), since)));
        pair("b").write(None, &mut data);
        assert_eq!(data.keys().collect::<Vec<_>>(), ["other", "tls.crt", "tls.key"]);
        assert_eq!(Pair::staged(&data), None);
    }

    #[test]
    fn no_log_gets_a_key() {
        assert_eq!(format!("{:?}", pair("a")), "Pair { .. }");
    }
}
