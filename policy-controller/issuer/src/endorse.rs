//! Vouches for roots, so that proxies take over the next ones from a ConfigMap that others may write:
//! what is published beside the roots, and when it has to be made anew.
//!
//! The control plane's own copy is where it is kept: nobody but the issuer writes there, and every
//! replica goes on from what it says.

use super::authority::{Authority, AuthorityError, FOREVER};
use policy_tls::identity::{SignedRoots, Statement, certificates, pem, validity};
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// The difference between two ends of certificates that counts as none: they are whole seconds.
const EXACT: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether `document` says what is to be said: these roots, by a proof that lasts as long as one of
/// this authority would.
pub(super) fn is_current(
    document: &SignedRoots,
    bundle: &str,
    authority: &Authority,
    now: SystemTime,
) -> bool {
    let Some(last) = document.last() else { return false };
    let roots = certificates(bundle.as_bytes()).unwrap_or_default();
    let times = last.proof().first().and_then(|leaf| validity(leaf));
    // As long as one that was made when this one was: until the end of the authority, or for ever.
    let lasts = times.is_some_and(|(begins, ends)| {
        let most = begins.checked_add(FOREVER).unwrap_or(authority.ends());
        ends.checked_add(EXACT).is_some_and(|ends| ends >= authority.ends().min(most))
    });
    last.roots() == roots && lasts && last.verify(authority.roots(), now).is_ok()
}

/// The document that says these roots after everything that `before` says.
///
/// # Errors
/// Why the authority cannot vouch for them: above all that whoever has followed `before` would not
/// follow it. Once published, such a statement could not be taken back, because no older one counts.
pub(super) fn endorse(
    before: Option<SignedRoots>,
    bundle: &str,
    authority: &Authority,
    now: SystemTime,
) -> Result<SignedRoots, AuthorityError> {
    let last = before.as_ref().and_then(SignedRoots::last).cloned();
    let document = begin_anew(before, bundle, authority, now)?;
    match (&last, document.last()) {
        (Some(last), Some(next)) if breaks(last, next, now) => Err(authority.unvouched()),
        _ => Ok(document),
    }
}

/// The document that says these roots after everything that `before` says, whether those who have
/// followed it will or not: for an authority in place of one whose key is lost.
///
/// # Errors
/// Why the authority cannot vouch for them.
pub(super) fn begin_anew(
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
    // Later than the one before, whatever the clock says.
    let serial = last.map_or(clock, |last| clock.max(last.saturating_add(1)));
    let statement = authority.vouch(serial, roots, now)?;
    Ok(match before {
        Some(before) => before.then(statement, now),
        None => SignedRoots::first(statement),
    })
}

/// Whether nobody who knows `last` would accept `next`, though somebody could still vouch for it. Once
/// the authority of `last` has expired nobody can, and all that it signed has expired with it.
fn breaks(last: &Statement, next: &Statement, now: SystemTime) -> bool {
    next.verify(last.roots(), now).is_err() && last.verify(last.roots(), now).is_ok()
}

/// The one of two documents that goes further.
pub(super) fn later(one: Option<SignedRoots>, other: Option<SignedRoots>) -> Option<SignedRoots> {
    let serial = |document: &Option<SignedRoots>| Some(document.as_ref()?.last()?.serial());
    if serial(&one) >= serial(&other) { one } else { other }
}

/// A document as it is published.
pub(super) fn text(document: &SignedRoots) -> String {
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
    use super::super::authority::{Places, make};
    use super::*;
    use policy_tls::identity::Trust;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    fn authority(now: SystemTime) -> (Authority, String) {
        valid_for(24 * HOUR, now)
    }

    fn valid_for(lifetime: Duration, now: SystemTime) -> (Authority, String) {
        let made = make("a", now, lifetime).unwrap();
        let places = Places { certificate: "c".into(), key: "k".into(), roots: "r".into() };
        let (certificate, key) = (made.certificate.as_bytes(), made.key.as_bytes());
        (Authority::read(places, certificate, key, certificate).unwrap(), made.certificate)
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
        let read = SignedRoots::read(text(&document).as_bytes()).unwrap();
        assert_eq!(read, document);
        let begin = Trust::new(certificates(first.as_bytes()).unwrap());
        let reached = begin.after(&read, now).unwrap();
        assert_eq!(reached.roots(), certificates(second.as_bytes()).unwrap());
        // A clock that was set back does not make it older.
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
            assert_eq!(refused, Err(AuthorityError::Unvouched { certificate: "c".into() }));
        }
        // In two steps everybody follows.
        let both = endorse(Some(known.clone()), &format!("{second}{first}"), &old, now).unwrap();
        assert!(endorse(Some(both), &second, &new, now).is_ok());
        // Nobody could vouch any more once the former one has expired.
        let later = now + 30 * HOUR;
        let (late, third) = authority(later);
        assert!(endorse(Some(known), &third, &late, later).is_ok());
    }

    #[test]
    fn an_authority_of_centuries_vouches_once() {
        let now = SystemTime::now();
        let (long, root) = valid_for(3 * FOREVER, now);
        let document = endorse(None, &root, &long, now).unwrap();
        assert!(is_current(&document, &root, &long, now));
        assert!(is_current(&document, &root, &long, now + 24 * HOUR));
    }
}
