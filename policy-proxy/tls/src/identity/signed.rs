//! Roots that others may have tampered with on their way: a document whose statements the mesh's own
//! authorities vouch for.
//!
//! ```text
//! serial: 1764000000000      a statement, older ones first: when it was made, in milliseconds,
//! roots:                     always later than the one before
//! (certificates, PEM)        whom everybody is to trust from then on
//! proof:
//! (certificates, PEM)        a certificate of an authority whose one DNS name is the digest of the
//!                            above, and what leads from it to a root
//! ```
//! The signature is a certificate, so that the rules by which the mesh verifies certificates decide on
//! it, authorities in between and expiry included, and there is no second kind of signature. Nobody
//! keeps its key.
//!
//! **Invariants.** A statement counts for whoever trusts a root that its proof leads to, and is later
//! than what they know. One statement leads to the next, so that a process that begins with roots of
//! long ago follows every rotation since; the last statement alone says what is in force.

use super::credentials::{root_store, verify_chain};
use super::pem::certificates;
use crate::x509::{Certificate, DNS_NAME};
use aws_lc_rs::digest::{Context, SHA256};
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// The domain of the names of proofs. No workload has a name in it: identities end with the trust
/// domain, and `invalid` is nobody's (RFC 2606 section 2).
const PROOF_DOMAIN: &str = "roots.portcullis.invalid";

/// What the digest begins with, so that no digest of anything else is one of roots.
const DIGEST_PREFIX: &[u8] = b"portcullis roots 1\0";

/// The most statements.
const MOST_STATEMENTS: usize = 16;

/// The most roots of one statement, and the most certificates of its proof: a document with more is
/// not read.
pub const MOST_ROOTS: usize = 64;

/// A list of certificates, DER.
type Certificates = Vec<CertificateDer<'static>>;

/// Whom everybody is to trust from a point in time on, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    serial: u64,
    roots: Certificates,
    proof: Certificates,
}

/// Statements, older ones first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRoots(Vec<Statement>);

/// Whom a process trusts, and since which statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    roots: Certificates,
    serial: u64,
}

/// The name that a proof of these roots has.
pub fn proof_name(serial: u64, roots: &[CertificateDer<'_>]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(DIGEST_PREFIX);
    context.update(&serial.to_be_bytes());
    for root in roots {
        context.update(&u64::try_from(root.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(root);
    }
    let digest = context.finish();
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    // A label has 63 characters at most (RFC 1035 section 2.3.4).
    let (first, second) = hex.split_at_checked(32).unwrap_or((&hex, ""));
    format!("{first}.{second}.{PROOF_DOMAIN}")
}

impl Statement {
    /// A statement with the proof that somebody has got for it.
    pub fn new(serial: u64, roots: Certificates, proof: Certificates) -> Self {
        Self { serial, roots, proof }
    }

    /// When it was made, in milliseconds since 1970, or later.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Whom everybody is to trust, DER.
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// The certificates that vouch for it, leaf first, DER.
    pub fn proof(&self) -> &[CertificateDer<'static>] {
        &self.proof
    }

    /// Checks that one of these roots vouches for it at this time.
    ///
    /// # Errors
    /// Why none does.
    pub fn verify(&self, roots: &[CertificateDer<'static>], at: SystemTime) -> Result<(), String> {
        let (leaf, others) = self.proof.split_first().ok_or("proof: no certificate")?;
        let store = root_store(roots.to_vec()).map_err(|error| error.to_string())?;
        verify_chain(leaf, others, &store, at)?;
        let names = Certificate::read(leaf).and_then(|leaf| leaf.alternative_names());
        let names = names.unwrap_or_default();
        let expected = proof_name(self.serial, &self.roots);
        match names.as_slice() {
            [(DNS_NAME, name)] if *name == expected.as_bytes() => Ok(()),
            _ => Err("the proof is of other roots or of another serial".to_owned()),
        }
    }

    /// Those of its own roots that vouch for it at this time.
    fn verifying_roots(&self, at: SystemTime) -> Vec<&CertificateDer<'static>> {
        let vouches =
            |root: &&CertificateDer<'static>| self.verify(std::slice::from_ref(*root), at).is_ok();
        self.roots.iter().filter(vouches).collect()
    }
}

impl SignedRoots {
    /// Reads a document. Nothing in it has been verified.
    ///
    /// # Errors
    /// What is not as it should be, and where.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "not a text".to_owned())?;
        let mut statements = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let number = statements.len().saturating_add(1);
            if number > MOST_STATEMENTS {
                return Err(format!("more than {MOST_STATEMENTS} statements"));
            }
            let wrong = |what: String| format!("statement {number}: {what}");
            let (statement, after) = parse_statement(rest).map_err(wrong)?;
            statements.push(statement);
            rest = after;
        }
        if statements.is_empty() {
            return Err("holds no statement".to_owned());
        }
        Ok(Self(statements))
    }

    /// The statement that came first, and has nothing before it.
    pub fn first(statement: Statement) -> Self {
        Self(vec![statement])
    }

    /// The same with one more, at the end. Left out is what the new one makes needless: a statement
    /// that nobody accepts who would not accept the new one as well.
    #[must_use]
    pub fn then(self, statement: Statement, now: SystemTime) -> Self {
        let verifying = statement.verifying_roots(now);
        let needed = |former: &Statement| {
            let held = former.verifying_roots(now);
            !held.iter().all(|root| verifying.contains(root))
        };
        let mut all: Vec<_> = self.0.into_iter().filter(needed).collect();
        let excess = all.len().saturating_add(1).saturating_sub(MOST_STATEMENTS);
        all.drain(..excess.min(all.len()));
        all.push(statement);
        Self(all)
    }

    /// The statements, older ones first.
    pub fn statements(&self) -> &[Statement] {
        &self.0
    }

    /// The statement that is in force.
    pub fn last(&self) -> Option<&Statement> {
        self.0.last()
    }
}

impl Trust {
    /// These roots, and nothing known of any statement.
    pub fn new(roots: Certificates) -> Self {
        Self { roots, serial: 0 }
    }

    /// Whom it trusts, DER.
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Whom to trust after a document.
    ///
    /// # Errors
    /// The document's last statement is older than what is known, or nobody who is trusted vouches
    /// for it.
    pub fn after(&self, document: &SignedRoots, now: SystemTime) -> Result<Self, String> {
        let mut trust = self.clone();
        let mut error = None;
        for statement in &document.0 {
            if statement.serial <= trust.serial {
                let known = trust.serial;
                error = (statement.roots != trust.roots).then(|| {
                    format!(
                        "serial {} says other roots than {known}, which is known",
                        statement.serial
                    )
                });
                continue;
            }
            match statement.verify(&trust.roots, now) {
                Ok(()) => {
                    error = None;
                    trust = Self { roots: statement.roots.clone(), serial: statement.serial };
                }
                Err(cause) => {
                    let serial = statement.serial;
                    error = Some(format!("nobody who is trusted vouches for {serial}: {cause}"));
                }
            }
        }
        match error {
            None => Ok(trust),
            Some(error) => Err(error),
        }
    }
}

/// The statement that a text begins with, and what follows it.
fn parse_statement(text: &str) -> Result<(Statement, &str), String> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let serial = line.strip_prefix("serial: ").and_then(|number| number.trim().parse().ok());
    let serial = serial.ok_or("it does not begin with `serial: NUMBER`")?;
    let rest = rest.strip_prefix("roots:\n").ok_or("`roots:` does not follow `serial:`")?;
    let (roots, rest) = rest.split_once("\nproof:\n").ok_or("there is no `proof:`")?;
    let end = rest.find("\nserial: ").and_then(|at| at.checked_add(1)).unwrap_or(rest.len());
    let (proof, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let part = |name: &str, text: &str| {
        let list = certificates(text.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
        match list.len() {
            0..=MOST_ROOTS => Ok(list),
            many => Err(format!("{name}: {many} certificates")),
        }
    };
    Ok((Statement { serial, roots: part("roots", roots)?, proof: part("proof", proof)? }, rest))
}

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "tests of small numbers"
)]
mod tests;
