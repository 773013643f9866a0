//! An identity from an issuer, by Linkerd's Certify API (docs/spec/proxy.md 5.1).
//!
//! A certificate is requested with a token that is read for every request. It is renewed after
//! about 70 % of the remaining lifetime, or at once if the roots no longer verify the current one.
//! A response is accepted only as a whole: exactly our name, our key, valid now, and verified
//! against our roots in both roles. Until then the current certificate stays, and the next attempt
//! waits with exponential, jittered backoff.

use super::contents::contents;
use super::credentials::{Credentials, TlsIdentity, anonymous_client};
use super::error::{AttemptError, SourceError};
use super::publish::Publisher;
use super::request::KeyAndRequest;
use super::roots::{RootsReader, RootsSnapshot, TrustAnchors};
use super::state::FailureKind;
use crate::control::{self, Backoff, Bounds, ControllerAddress, TlsSource, chain, random};
use crate::datetime::rfc3339_seconds;
use crate::x509::{Certificate, DNS_NAME, validity};
use policy_proto::linkerd::identity::identity_client::IdentityClient;
use policy_proto::linkerd::identity::{CertifyRequest, CertifyResponse};
use rustls::pki_types::CertificateDer;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Configuration of an identity from an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifyConfig {
    /// Address and identity of the issuer. Plaintext is for loopback only.
    pub issuer: ControllerAddress,
    /// Our identity, a DNS name, which clients send as SNI.
    pub name: Arc<str>,
    /// The file with our token, read for every request.
    pub token: PathBuf,
    /// The mesh's roots, which verify the issuer and its certificates.
    pub roots: TrustAnchors,
    /// A folder with `key.p8` and `csr.der`, as Linkerd's helper creates them; `None` for a
    /// generated key, which is never written anywhere.
    pub folder: Option<PathBuf>,
    /// Minimum and maximum time until a renewal.
    pub refresh: (Duration, Duration),
    /// Timeout of an attempt, from name resolution to the response.
    pub timeout: Duration,
    /// First and longest delay after a failure.
    pub backoff: (Duration, Duration),
    /// Interval of the checks of roots and clock.
    pub interval: Duration,
}

impl CertifyConfig {
    /// Creates the default configuration: renewal after 10 s to 24 h (docs/spec/proxy.md 5.1), 10 s
    /// per attempt, delays of 200 ms to 30 s.
    pub fn new(issuer: ControllerAddress, name: &str, token: PathBuf, roots: TrustAnchors) -> Self {
        Self {
            issuer,
            name: name.to_ascii_lowercase().into(),
            token,
            roots,
            folder: None,
            refresh: (Duration::from_secs(10), Duration::from_secs(86_400)),
            timeout: Duration::from_secs(10),
            backoff: (Duration::from_millis(200), Duration::from_secs(30)),
            interval: Duration::from_secs(10),
        }
    }
}

/// The client of the issuer.
#[derive(Debug)]
pub(super) struct Certify {
    config: CertifyConfig,
    own: KeyAndRequest,
    reader: RootsReader,
    /// The roots as last read.
    roots: Vec<CertificateDer<'static>>,
    backoff: Backoff,
}

/// Time of the next certificate request.
#[derive(Clone, Copy, Debug)]
enum Renewal {
    /// By the wall clock, as certificates are dated.
    At(SystemTime),
    /// After a delay.
    After(Instant),
}

/// Limits on reads, in bytes, and on the certificates of a chain; our certificates have about 700
/// bytes.
const MAX_TOKEN: u64 = 64 << 10;
const MAX_FILE: u64 = 64 << 10;
const MAX_ANSWER: usize = 128 << 10;
const MAX_CERTIFICATE: usize = 16 << 10;
const MAX_INTERMEDIATES: usize = 8;
/// Interval of HTTP/2 PINGs; a connection lives for one call.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

impl Certify {
    /// Reads or generates the key and the request.
    ///
    /// # Errors
    /// [`SourceError`] names the one that cannot be used.
    pub(super) async fn open(config: CertifyConfig) -> Result<Self, SourceError> {
        let own = match &config.folder {
            None => KeyAndRequest::generate(&config.name).map_err(SourceError::Request)?,
            Some(folder) => {
                let key = contents(&folder.join("key.p8"), MAX_FILE).await?;
                let request = contents(&folder.join("csr.der"), MAX_FILE).await?;
                let place = folder.display().to_string();
                KeyAndRequest::supplied(key, request)
                    .map_err(|message| SourceError::Pem { place, message })?
            }
        };
        let backoff = Backoff::new(config.backoff.0, config.backoff.1);
        let reader = RootsReader::new(config.roots.clone());
        Ok(Self { config, own, reader, roots: Vec::new(), backoff })
    }

    /// Returns the identity of the issuer.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.config.issuer.server().map(|server| &*server.name)
    }

    /// Keeps the identity current until it is dropped.
    pub(super) async fn run(mut self, publisher: &Publisher) {
        let mut due = Renewal::After(Instant::now());
        loop {
            if self.follow_roots(publisher).await {
                due = Renewal::After(Instant::now());
            }
            if due.is_now() {
                due = self.renew(publisher).await;
            }
            tokio::time::sleep(due.wait().min(self.config.interval)).await;
            // After the clock was set back, the certificate is not valid yet and far from renewal.
            if publisher.check() && matches!(due, Renewal::At(_)) {
                due = Renewal::After(Instant::now());
            }
        }
    }

    /// Puts changed roots in force. Returns true if a new certificate is required.
    async fn follow_roots(&mut self, publisher: &Publisher) -> bool {
        let RootsSnapshot { roots, error: read_error } = match self.reader.read().await {
            Ok(known) => known,
            Err(error) => {
                publisher.fail(FailureKind::Roots, &error.to_string());
                return false;
            }
        };
        let changed = roots != self.roots;
        let needs_certificate = changed && self.replace_roots(roots, publisher);
        match read_error {
            // The current roots stay, and so does the failure.
            Some(error) => publisher.fail(FailureKind::Roots, &error.to_string()),
            None if !changed => publisher.clear_roots_failure(),
            None => {}
        }
        needs_certificate
    }

    /// Puts these roots in force. Returns true if a new certificate is required.
    fn replace_roots(
        &mut self,
        roots: Vec<CertificateDer<'static>>,
        publisher: &Publisher,
    ) -> bool {
        let current = publisher.identity().current().clone();
        let rerooted = current.map(|own| own.with_roots(roots.clone()));
        match rerooted {
            None => {}
            Some(Ok(identity)) => publisher.replace_roots(identity),
            Some(Err(error)) => {
                publisher.fail(FailureKind::Roots, &error.to_string());
                return false;
            }
        }
        self.roots = roots;
        publisher.check()
    }

    /// Requests a certificate and puts it in force; returns the time of the next request.
    async fn renew(&mut self, publisher: &Publisher) -> Renewal {
        if self.roots.is_empty() {
            // The failure was published when the roots were read.
            return self.retry_later();
        }
        let late = |_| {
            let message =
                format!("{}: no answer within {:?}", self.config.issuer, self.config.timeout);
            AttemptError::new(FailureKind::Refused, message)
        };
        let requested = tokio::time::timeout(self.config.timeout, self.request_certificate()).await;
        let accepted =
            requested.map_err(late).and_then(|answer| self.accept(answer?, SystemTime::now()));
        match accepted {
            Ok((identity, until)) => {
                self.backoff = Backoff::new(self.config.backoff.0, self.config.backoff.1);
                publisher.renew(identity);
                Renewal::At(refresh_at(SystemTime::now(), until, self.config.refresh, random()))
            }
            Err(AttemptError { kind, message }) => {
                publisher.fail(kind, &message);
                self.retry_later()
            }
        }
    }

    fn retry_later(&mut self) -> Renewal {
        let now = Instant::now();
        Renewal::After(now.checked_add(self.backoff.delay(random())).unwrap_or(now))
    }

    async fn request_certificate(&self) -> Result<CertifyResponse, AttemptError> {
        let CertifyConfig { issuer, timeout, .. } = &self.config;
        let token = self.token().await?;
        let bounds = Bounds { connect: *timeout, keep_alive: KEEP_ALIVE };
        let roots = self.roots.clone();
        // No client certificate: there is none for the first call, and the token identifies us.
        let tls: TlsSource = Arc::new(move |expected| {
            anonymous_client(roots.clone(), expected).map_err(std::io::Error::other)
        });
        let channel = control::connect(issuer, bounds, tls).await.map_err(|error| {
            AttemptError::new(FailureKind::Unreachable, format!("{issuer}: {}", chain(&error)))
        })?;
        let mut client = IdentityClient::new(channel).max_decoding_message_size(MAX_ANSWER);
        let request = CertifyRequest {
            identity: self.config.name.to_string(),
            token,
            certificate_signing_request: self.own.request.clone(),
        };
        let answer = client.certify(request).await.map_err(|status| {
            let message = format!("{issuer}: {:?}: {}", status.code(), status.message());
            AttemptError::new(FailureKind::Refused, message)
        })?;
        Ok(answer.into_inner())
    }

    async fn token(&self) -> Result<Vec<u8>, AttemptError> {
        let path = &self.config.token;
        let token = contents(path, MAX_TOKEN).await;
        let token =
            token.map_err(|error| AttemptError::new(FailureKind::Token, error.to_string()))?;
        let token = token.trim_ascii();
        if token.is_empty() {
            let message = format!("`{}`: empty; expected a token", path.display());
            return Err(AttemptError::new(FailureKind::Token, message));
        }
        Ok(token.to_vec())
    }

    /// Builds the identity of a response; returns it with its expiry.
    fn accept(
        &self,
        answer: CertifyResponse,
        now: SystemTime,
    ) -> Result<(TlsIdentity, SystemTime), AttemptError> {
        let refuse = |message: String| {
            AttemptError::new(FailureKind::Answer, format!("{}: {message}", self.config.issuer))
        };
        let CertifyResponse {
            leaf_certificate: leaf,
            intermediate_certificates: others,
            valid_until,
        } = answer;
        if others.len() > MAX_INTERMEDIATES {
            return Err(refuse(format!("{} intermediate certificates", others.len())));
        }
        if std::iter::once(&leaf).chain(&others).any(|der| der.len() > MAX_CERTIFICATE) {
            return Err(refuse(format!("a certificate of more than {MAX_CERTIFICATE} bytes")));
        }
        check_name(&leaf, &self.config.name).map_err(refuse)?;
        let until = valid_until.and_then(|at| SystemTime::try_from(at).ok());
        let until = check_times(&leaf, until, now).map_err(refuse)?;
        let chain = std::iter::once(leaf).chain(others).map(CertificateDer::from).collect();
        let server_name = Arc::clone(&self.config.name);
        let (roots, key) = (self.roots.clone(), self.own.key.clone_key());
        let identity = TlsIdentity::new(Credentials { server_name, roots, chain, key })
            .map_err(|error| refuse(error.to_string()))?;
        identity.verify(now).map_err(refuse)?;
        Ok((identity, until))
    }
}

/// Checks that the certificate has our name and no other.
fn check_name(leaf: &[u8], name: &str) -> Result<(), String> {
    let names = Certificate::read(leaf).and_then(|leaf| leaf.alternative_names());
    let names = names.ok_or_else(|| "not a certificate; expected X.509 in DER".to_owned())?;
    let ours = |(tag, found): &(u8, &[u8])| {
        *tag == DNS_NAME && found.eq_ignore_ascii_case(name.as_bytes())
    };
    if names.len() == 1 && names.iter().all(ours) {
        return Ok(());
    }
    let shown: Vec<_> =
        names.iter().take(4).map(|(_, name)| name.escape_ascii().to_string()).collect();
    Err(format!("a certificate for [{}]; expected exactly `{name}`", shown.join(", ")))
}

/// Returns the expiry of a response. The certificate has to be valid now, and the response has to
/// agree with it.
fn check_times(
    leaf: &[u8],
    until: Option<SystemTime>,
    now: SystemTime,
) -> Result<SystemTime, String> {
    let (begins, ends) =
        validity(leaf).ok_or_else(|| "a certificate without readable validity".to_owned())?;
    let until = until.ok_or_else(|| "valid_until: not set, or not a time".to_owned())?;
    if begins > now {
        let (begins, now) = (rfc3339_seconds(begins), rfc3339_seconds(now));
        return Err(format!(
            "a certificate that is not valid before {begins}, and it is {now} here: this clock or the issuer's is wrong"
        ));
    }
    if ends <= now || until <= now {
        let (ends, now) = (rfc3339_seconds(ends.min(until)), rfc3339_seconds(now));
        return Err(format!(
            "a certificate that expired at {ends}, and it is {now} here: this clock or the issuer's is wrong"
        ));
    }
    // Certificates are dated to the second.
    if until.duration_since(ends).is_ok_and(|longer| longer >= Duration::from_secs(1)) {
        let (until, ends) = (rfc3339_seconds(until), rfc3339_seconds(ends));
        return Err(format!("valid_until: {until}, later than the certificate's notAfter {ends}"));
    }
    Ok(until.min(ends))
}

/// Returns the time to renew: after 70 % of the remaining lifetime less up to a tenth of that, so
/// that workloads that started together are not renewed together, within the limits.
fn refresh_at(
    now: SystemTime,
    until: SystemTime,
    (least, most): (Duration, Duration),
    random: u64,
) -> SystemTime {
    let remaining = until.duration_since(now).unwrap_or_default();
    let parts = u32::try_from(random.checked_rem(71).unwrap_or(0)).unwrap_or(0);
    let share = 700_u32.saturating_sub(parts);
    let after = remaining.saturating_mul(share).checked_div(1000).unwrap_or(remaining);
    now.checked_add(after.min(most).max(least)).unwrap_or(UNIX_EPOCH)
}

impl Renewal {
    fn is_now(self) -> bool {
        self.wait().is_zero()
    }

    fn wait(self) -> Duration {
        match self {
            Self::At(at) => at.duration_since(SystemTime::now()).unwrap_or_default(),
            Self::After(at) => at.saturating_duration_since(Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(86_400));

    #[test]
    fn a_day_is_renewed_after_two_thirds_of_it() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let day = Duration::from_secs(86_400);
        let after =
            |random| refresh_at(now, now + day, BOUNDS, random).duration_since(now).unwrap();
        assert_eq!(after(0), Duration::from_secs(60_480));
        assert_eq!(after(70), Duration::from_secs(54_432));
        let short = refresh_at(now, now + Duration::from_secs(3), BOUNDS, 0);
        assert_eq!(short.duration_since(now).unwrap(), BOUNDS.0);
        let long = refresh_at(now, now + 30 * day, BOUNDS, 0);
        assert_eq!(long.duration_since(now).unwrap(), BOUNDS.1);
    }

    proptest! {
        #[test]
        fn renewal_is_always_within_its_bounds(life: u32, random: u64) {
            let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
            let life = Duration::from_secs(life.into());
            let after = refresh_at(now, now + life, BOUNDS, random).duration_since(now).unwrap();
            prop_assert!(after >= BOUNDS.0 && after <= BOUNDS.1);
            if life > Duration::from_secs(100) && life < Duration::from_secs(86_400) {
                prop_assert!(after <= life * 7 / 10 && after >= life * 62 / 100, "{after:?} of {life:?}");
            }
        }

        #[test]
        fn no_certificate_panics(leaf: Vec<u8>, until: Option<u32>) {
            let until = until.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds.into()));
            let _ = check_name(&leaf, "web.example");
            let _ = check_times(&leaf, until, SystemTime::now());
        }
    }
}
