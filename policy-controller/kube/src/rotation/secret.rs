//! The data of a Secret during rotation: the certificate in use, the roots that verify it, and the
//! staged one.

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
/// The roots that verify the certificate in use and the staged one.
pub const ROOTS: &str = "ca.crt";
/// The staged certificate.
pub const NEXT_CERTIFICATE: &str = "next.crt";
/// Its key.
pub const NEXT_KEY: &str = "next.key";
/// The time since which it is announced.
const NEXT_SINCE: &str = "next.since";

/// A certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, followed by its chain to a root.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// The value of a key.
pub fn bytes(data: &Data, key: &str) -> Option<Vec<u8>> {
    data.get(key).map(|bytes| bytes.0.clone())
}

/// Sets the value of a key, or removes it.
pub fn put(data: &mut Data, key: &str, bytes: Option<Vec<u8>>) {
    match bytes {
        Some(bytes) => _ = data.insert(key.to_owned(), ByteString(bytes)),
        None => _ = data.remove(key),
    }
}

/// The time in a key.
pub fn time(data: &Data, key: &str) -> Option<SystemTime> {
    let text = std::str::from_utf8(&data.get(key)?.0).ok()?;
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

/// Sets the time in a key, or removes it.
pub fn put_time(data: &mut Data, key: &str, at: Option<SystemTime>) {
    put(data, key, at.map(|at| timestamp(at).to_string().into_bytes()));
}

/// Converts a time, and clamps it to the latest that can be written.
pub fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::try_from(at).unwrap_or(Timestamp::MAX)
}

impl Pair {
    /// The pair in use.
    pub fn in_use(data: &Data) -> Option<Self> {
        Some(Self { certificate: bytes(data, CERTIFICATE)?, key: bytes(data, KEY)? })
    }

    /// The staged pair, and the time since which it is announced.
    pub fn staged(data: &Data) -> Option<(Self, SystemTime)> {
        let pair =
            Self { certificate: bytes(data, NEXT_CERTIFICATE)?, key: bytes(data, NEXT_KEY)? };
        Some((pair, time(data, NEXT_SINCE)?))
    }

    /// Writes this pair as the one in use, and `next` as the staged one.
    pub fn write(&self, next: Option<(&Self, NextCertificate)>, data: &mut Data) {
        put(data, CERTIFICATE, Some(self.certificate.clone()));
        put(data, KEY, Some(self.key.clone()));
        put(data, NEXT_CERTIFICATE, next.map(|(pair, _)| pair.certificate.clone()));
        put(data, NEXT_KEY, next.map(|(pair, _)| pair.key.clone()));
        put_time(data, NEXT_SINCE, next.map(|(_, next)| next.since));
    }
}

impl std::fmt::Debug for Pair {
    /// Omits the key, because it must not be logged.
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

    /// Secrets outlive the program that wrote them: later versions have to read everything.
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
