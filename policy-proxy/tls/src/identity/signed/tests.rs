//! Tests of statements by generated authorities.

use super::*;
use base64_of::pem;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::time::Duration;

/// An authority, its own root.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), root }
    }

    fn state(&self, serial: u64, roots: &[&Authority]) -> Statement {
        let roots: Certificates = roots.iter().map(|one| one.root.clone()).collect();
        let name = proof_name(serial, &roots);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name]).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        Statement::new(serial, roots, vec![leaf.der().clone()])
    }

    fn trust(&self) -> Trust {
        Trust::new(vec![self.root.clone()])
    }
}

/// PEM of what tests make.
mod base64_of {
    use super::CertificateDer;

    pub(super) fn pem(der: &CertificateDer<'_>) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in der.chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
            for place in 0..4 {
                let letter = usize::try_from((bits >> (18 - 6 * place)) & 63).unwrap();
                let used = place <= u32::try_from(three.len()).unwrap();
                text.push(if used { char::from(LETTERS[letter]) } else { '=' });
            }
        }
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }
}

fn text(document: &SignedRoots) -> String {
    let one = |statement: &Statement| {
        let part = |list: &[CertificateDer<'static>]| list.iter().map(pem).collect::<String>();
        let (roots, proof) = (part(statement.roots()), part(statement.proof()));
        format!("serial: {}\nroots:\n{roots}proof:\n{proof}", statement.serial())
    };
    document.statements().iter().map(one).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let now = SystemTime::now();
    let document = SignedRoots::first(one.state(1, &[&one, &two]));
    let document = document.then(two.state(2, &[&two]), now);
    assert_eq!(document.statements().len(), 2);
    assert_eq!(SignedRoots::read(text(&document).as_bytes()), Ok(document));
}

#[test]
fn what_cannot_be_read_is_named() {
    let one = Authority::new("one");
    let good = text(&SignedRoots::first(one.state(1, &[&one])));
    for (text, error) in [
        (String::new(), "holds no statement"),
        ("forged".to_owned(), "statement 1: it does not begin with `serial: NUMBER`"),
        (good.replace("serial: 1", "serial: -1"), "statement 1: it does not begin with"),
        (good.replace("roots:", "root:"), "statement 1: `roots:` does not follow `serial:`"),
        (good.replace("proof:", ""), "statement 1: there is no `proof:`"),
        (format!("{good}serial: 2\n"), "statement 2: `roots:` does not follow"),
        (good.repeat(17), "more than 16 statements"),
        ("serial: 1\nroots:\n\nproof:\n".to_owned(), "statement 1: roots: holds no certificate"),
    ] {
        let said = SignedRoots::read(text.as_bytes()).unwrap_err();
        assert!(said.starts_with(error), "{said}");
    }
}

#[test]
fn only_an_authority_that_is_trusted_says_whom_to_trust() {
    let (own, other) = (Authority::new("own"), Authority::new("other"));
    let now = SystemTime::now();
    let trust = own.trust();
    // The statement of an untrusted authority, for itself and for both.
    for roots in [&[&other][..], &[&own, &other]] {
        let forged = SignedRoots::first(other.state(1, roots));
        let said = trust.after(&forged, now).unwrap_err();
        assert!(said.starts_with("no trusted root verifies serial 1"), "{said}");
    }
    // A good proof with other roots, or another serial, than it was made for.
    let good = own.state(5, &[&own]);
    let mut changed = good.clone();
    changed.roots.push(other.root.clone());
    let later = Statement { serial: 6, ..good.clone() };
    for forged in [changed, later] {
        let said = trust.after(&SignedRoots::first(forged), now).unwrap_err();
        assert!(said.ends_with("the proof does not match the roots and the serial"), "{said}");
    }
    let reached = trust.after(&SignedRoots::first(good), now).unwrap();
    assert_eq!(reached.roots(), std::slice::from_ref(&own.root));
}

#[test]
fn a_root_that_was_taken_out_does_not_come_back_with_an_older_statement() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let now = SystemTime::now();
    let old = SignedRoots::first(two.state(1, &[&one, &two]));
    let new = SignedRoots::first(two.state(2, &[&two]));
    let before = Trust::new(vec![one.root.clone(), two.root.clone()]);
    let reached = before.after(&old, now).unwrap().after(&new, now).unwrap();
    assert_eq!(reached.roots(), std::slice::from_ref(&two.root));
    let said = reached.after(&old, now).unwrap_err();
    assert_eq!(said, "serial 1 has other roots than the known serial 2");
    let mut forged = new.clone();
    forged.0[0].roots = vec![one.root.clone()];
    let said = reached.after(&forged, now).unwrap_err();
    assert_eq!(said, "serial 2 has other roots than the known serial 2");
    assert_eq!(reached.after(&new, now), Ok(reached.clone()), "the same again is no mistake");
}

#[test]
fn whoever_begins_with_a_root_of_long_ago_follows_every_rotation_since() {
    let all: Vec<Authority> = (0..5).map(|n| Authority::new(&format!("root {n}"))).collect();
    let now = SystemTime::now();
    let mut document = SignedRoots::first(all[0].state(1, &[&all[0]]));
    let mut serial = 1;
    for pair in all.windows(2) {
        let [former, next] = pair else { unreachable!() };
        for (by, roots) in
            [(former, vec![former, next]), (next, vec![next, former]), (next, vec![next])]
        {
            serial += 1;
            document = document.then(by.state(serial, &roots), now);
        }
    }
    // One for each authority so far.
    assert_eq!(document.statements().len(), 5);
    for authority in &all {
        let reached = authority.trust().after(&document, now).unwrap();
        assert_eq!(reached.roots(), std::slice::from_ref(&all[4].root));
    }
    Authority::new("stranger").trust().after(&document, now).unwrap_err();
    // Without one of the links those before it are cut off, and the others are not.
    let mut cut = document.clone();
    cut.0.remove(2);
    all[1].trust().after(&cut, now).unwrap_err();
    all[3].trust().after(&cut, now).unwrap();
}

#[test]
fn a_proof_that_has_expired_proves_nothing() {
    let own = Authority::new("own");
    let document = SignedRoots::first(own.state(1, &[&own]));
    let later = SystemTime::now() + Duration::from_secs(86_400 * 365 * 5000);
    own.trust().after(&document, later).unwrap_err();
}
