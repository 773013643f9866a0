//! Endorses roots, so that proxies accept new ones from a ConfigMap that other clients may write:
//! the document published beside the roots, and when it must be renewed.
//!
//! The control plane's own copy is the authoritative one: only the issuer writes there, and every
//! replica continues from it.

use super::authority::{Authority, AuthorityError, MAX_LIFETIME};
use policy_tls::identity::{SignedRoots, Statement, certificates, pem, validity};
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// Difference between two expiries that is ignored, because certificates have whole seconds.
const EXPIRY_TOLERANCE: std::time::Duration = std::time::Duration::from_secs(1);

/// True if `document` endorses exactly these roots with a proof that lasts as long as a new one
/// would.
pub(super) fn is_current(
    document: &SignedRoots,
    bundle: &str,
    authority: &Authority,
    now: SystemTime,
) -> bool {
    let Some(last) = document.last() else { return false };
    let roots = certificates(bundle.as_bytes()).unwrap_or_default();
    let times = last.proof().first().and_then(|leaf| validity(leaf));
    // As long as a proof made at the same time: until the authority expires, or for the maximum
    // lifetime.
    let lasts = times.is_some_and(|(begins, ends)| {
        let most = begins.checked_add(MAX_LIFETIME).unwrap_or(authority.not_after());
        ends.checked_add(EXPIRY_TOLERANCE)
            .is_some_and(|ends| ends >= authority.not_after().min(most))
    });
    last.roots() == roots && lasts && last.verify(authority.roots(), now).is_ok()
}

/// Returns `before` extended by an endorsement of these roots.
///
/// # Errors
/// The authority cannot endorse them, above all because proxies that follow `before` would reject
/// it. A published endorsement cannot be taken back, because proxies accept no older one.
pub(super) fn endorse(
    before: Option<SignedRoots>,
    bundle: &str,
    authority: &Authority,
    now: SystemTime,
) -> Result<SignedRoots, AuthorityError> {
    let last = before.as_ref().and_then(SignedRoots::last).cloned();
    let document = endorse_unchecked(before, bundle, authority, now)?;
    match (&last, document.last()) {
        (Some(last), Some(next)) if breaks_chain(last, next, now) => Err(authority.not_endorsed()),
        _ => Ok(document),
    }
}

/// Returns `before` extended by an endorsement of these roots, even if proxies that follow `before`
/// will reject it: for an authority that replaces one with a lost key.
///
/// # Errors
/// The authority cannot endorse them.
pub(super) fn endorse_unchecked(
    before: Option<SignedRoots>,
    bundle: &str,
    authority: &Authority,
    now: SystemTime,
) -> Result<SignedRoots, AuthorityError> {
    let unreadable =
        |message| AuthorityError::Text { place: "the roots to publish".to_owned(), message };
    let roots = certificates(bundle.as_bytes()).map_err(unreadable)?;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let clock = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let last = before.as_ref().and_then(SignedRoots::last).map(Statement::serial);
    // Always later than the one before, even if the clock was set back.
    let serial = last.map_or(clock, |last| clock.max(last.saturating_add(1)));
    let statement = authority.endorse(serial, roots, now)?;
    Ok(match before {
        Some(before) => before.then(statement, now),
        None => SignedRoots::first(statement),
    })
}

/// True if proxies that follow `last` would reject `next` although an authority could still endorse
/// it. Once the authority of `last` has expired, no authority can, and all its certificates have
/// expired too.
fn breaks_chain(last: &Statement, next: &Statement, now: SystemTime) -> bool {
    next.verify(last.roots(), now).is_err() && last.verify(last.roots(), now).is_ok()
}

/// Returns the document with the later serial.
pub(super) fn later(one: Option<SignedRoots>, other: Option<SignedRoots>) -> Option<SignedRoots> {
    let serial = |document: &Option<SignedRoots>| Some(document.as_ref()?.last()?.serial());
    if serial(&one) >= serial(&other) { one } else { other }
}

/// Encodes a document as it is published.
pub(super) fn encode(document: &SignedRoots) -> String {
    let part = |list: &[CertificateDer<'static>]| list.iter().map(pem).collect::<String>();
    let one = |statement: &Statement| {
        let (serial, roots) = (statement.serial(), part(statement.roots()));
        format!("serial: {serial}\nroots:\n{roots}proof:\n{}", part(statement.proof()))
    };
    document.statements().iter().map(one).collect()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::super::authority::{PemSources, generate};
    use super::*;
    use policy_tls::identity::Trust;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    fn authority(now: SystemTime) -> (Authority, String) {
        valid_for(24 * HOUR, now)
    }

    fn valid_for(lifetime: Duration, now: SystemTime) -> (Authority, String) {
        let made = generate("a", now, lifetime).unwrap();
        let sources = PemSources { certificate: "c".into(), key: "k".into(), roots: "r".into() };
        let (certificate, key) = (made.certificate.as_bytes(), made.key.as_bytes());
        (Authority::read(sources, certificate, key, certificate).unwrap(), made.certificate)
    }

    #[test]
    fn what_is_published_is_read_by_proxies_and_lasts_until_something_changes() {
        let now = SystemTime::now();
        let ((one, first), (two, second)) = (authority(now), authority(now));
        let both = format!("{first}{second}");
        let document = endorse(None, &first, &one, now).unwrap();
        assert!(is_current(&document, &first, &one, now + HOUR));
        assert!(!is_current(&document, &both, &one, now), "other roots");
        assert!(!is_current(&document, &first, &two, now), "another authority");
        let document = endorse(Some(document), &both, &one, now).unwrap();
        let document = endorse(Some(document), &second, &two, now).unwrap();
        let read = SignedRoots::read(encode(&document).as_bytes()).unwrap();
        assert_eq!(read, document);
        let begin = Trust::new(certificates(first.as_bytes()).unwrap());
        let reached = begin.after(&read, now).unwrap();
        assert_eq!(reached.roots(), certificates(second.as_bytes()).unwrap());
        // A clock that is set back makes no older document.
        let earlier = endorse(Some(read.clone()), &second, &two, now - HOUR / 2).unwrap();
        assert!(earlier.last().unwrap().serial() > read.last().unwrap().serial());
        assert_eq!(later(Some(read), Some(earlier.clone())), Some(earlier));
    }

    #[test]
    fn an_authority_that_nobody_has_vouched_for_says_nothing() {
        let now = SystemTime::now();
        let ((old, first), (new, second)) = (authority(now), authority(now));
        let known = endorse(None, &first, &old, now).unwrap();
        for bundle in [second.clone(), format!("{second}{first}")] {
            let refused = endorse(Some(known.clone()), &bundle, &new, now);
            assert_eq!(refused, Err(AuthorityError::NotEndorsed { certificate: "c".into() }));
        }
        // In two steps every proxy follows.
        let both = endorse(Some(known.clone()), &format!("{second}{first}"), &old, now).unwrap();
        assert!(endorse(Some(both), &second, &new, now).is_ok());
        // No authority can endorse it once the former one has expired.
        let later = now + 30 * HOUR;
        let (late, third) = authority(later);
        assert!(endorse(Some(known), &third, &late, later).is_ok());
    }

    #[test]
    fn an_authority_of_centuries_vouches_once() {
        let now = SystemTime::now();
        let (long, root) = valid_for(3 * MAX_LIFETIME, now);
        let document = endorse(None, &root, &long, now).unwrap();
        assert!(is_current(&document, &root, &long, now));
        assert!(is_current(&document, &root, &long, now + 24 * HOUR));
    }
}
