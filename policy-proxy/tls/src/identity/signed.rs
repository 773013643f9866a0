//! Roots that are distributed by an untrusted channel: a document whose statements are proved by
//! the mesh's own authorities.
//!
//! ```text
//! serial: 1764000000000      a statement, older ones first: when it was made, in milliseconds,
//! roots:                     always later than the one before
//! (certificates, PEM)        whom everybody is to trust from then on
//! proof:
//! (certificates, PEM)        a certificate of an authority whose one DNS name is the digest of the
//!                            above, and what leads from it to a root
//! ```
//! The signature is a certificate, so the mesh's rules for verifying certificates apply to it,
//! including intermediates and expiry, and there is no second kind of signature. Its key is not
//! kept.
//!
//! **Invariants.** A statement is accepted by a process that trusts a root of its proof, if it is
//! later than the process's own. Each statement leads to the next, so a process that starts with
//! old roots follows every rotation since; the last statement is the one in force.

use super::credentials::{root_store, verify_chain};
use super::pem::certificates;
use crate::x509::{Certificate, DNS_NAME};
use aws_lc_rs::digest::{Context, SHA256};
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// Domain of the names of proofs. No workload has a name in it: identities end with the trust
/// domain, and `invalid` is reserved (RFC 2606 section 2).
const PROOF_DOMAIN: &str = "roots.portcullis.invalid";

/// Prefix of the digest's input, so that no digest of other data is one of roots.
const DIGEST_PREFIX: &[u8] = b"portcullis roots 1\0";

/// Maximum number of statements.
const MAX_STATEMENTS: usize = 16;

/// Maximum number of roots of one statement, and of certificates of its proof: a document with more
/// is rejected.
pub const MAX_ROOTS: usize = 64;

/// A list of certificates, DER.
type Certificates = Vec<CertificateDer<'static>>;

/// The roots to trust from a point in time on, with their proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    serial: u64,
    roots: Certificates,
    proof: Certificates,
}

/// Statements, oldest first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRoots(Vec<Statement>);

/// The trusted roots, and the serial of their statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    roots: Certificates,
    serial: u64,
}

/// Returns the name in a proof of these roots.
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
    /// Creates a statement with its proof.
    pub fn new(serial: u64, roots: Certificates, proof: Certificates) -> Self {
        Self { serial, roots, proof }
    }

    /// Returns the serial: the time of creation in milliseconds since 1970, or later.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the roots to trust, DER.
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Returns the certificates of the proof, leaf first, DER.
    pub fn proof(&self) -> &[CertificateDer<'static>] {
        &self.proof
    }

    /// Verifies the proof against these roots at this time.
    ///
    /// # Errors
    /// The reason why none of them verifies it.
    pub fn verify(&self, roots: &[CertificateDer<'static>], at: SystemTime) -> Result<(), String> {
        let (leaf, others) = self.proof.split_first().ok_or("proof: no certificate")?;
        let store = root_store(roots.to_vec()).map_err(|error| error.to_string())?;
        verify_chain(leaf, others, &store, at)?;
        let names = Certificate::read(leaf).and_then(|leaf| leaf.alternative_names());
        let names = names.unwrap_or_default();
        let expected = proof_name(self.serial, &self.roots);
        match names.as_slice() {
            [(DNS_NAME, name)] if *name == expected.as_bytes() => Ok(()),
            _ => Err("the proof does not match the roots and the serial".to_owned()),
        }
    }

    /// Returns the statement's own roots that verify its proof at this time.
    fn verifying_roots(&self, at: SystemTime) -> Vec<&CertificateDer<'static>> {
        let vouches =
            |root: &&CertificateDer<'static>| self.verify(std::slice::from_ref(*root), at).is_ok();
        self.roots.iter().filter(vouches).collect()
    }
}

impl SignedRoots {
    /// Parses a document. Verifies nothing.
    ///
    /// # Errors
    /// The error and its place.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "not UTF-8 text".to_owned())?;
        let mut statements = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let number = statements.len().saturating_add(1);
            if number > MAX_STATEMENTS {
                return Err(format!("more than {MAX_STATEMENTS} statements"));
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

    /// Creates a document of the first statement.
    pub fn first(statement: Statement) -> Self {
        Self(vec![statement])
    }

    /// Appends a statement. Drops statements that the new one makes needless: those that are
    /// accepted only by processes that accept the new one too.
    #[must_use]
    pub fn then(self, statement: Statement, now: SystemTime) -> Self {
        let verifying = statement.verifying_roots(now);
        let needed = |former: &Statement| {
            let held = former.verifying_roots(now);
            !held.iter().all(|root| verifying.contains(root))
        };
        let mut all: Vec<_> = self.0.into_iter().filter(needed).collect();
        let excess = all.len().saturating_add(1).saturating_sub(MAX_STATEMENTS);
        all.drain(..excess.min(all.len()));
        all.push(statement);
        Self(all)
    }

    /// Returns the statements, oldest first.
    pub fn statements(&self) -> &[Statement] {
        &self.0
    }

    /// Returns the statement in force.
    pub fn last(&self) -> Option<&Statement> {
        self.0.last()
    }
}

impl Trust {
    /// Trusts these roots, without any statement.
    pub fn new(roots: Certificates) -> Self {
        Self { roots, serial: 0 }
    }

    /// Returns the trusted roots, DER.
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Returns the roots to trust after a document.
    ///
    /// # Errors
    /// The document's last statement is older than the known one, or no trusted root verifies it.
    pub fn after(&self, document: &SignedRoots, now: SystemTime) -> Result<Self, String> {
        let mut trust = self.clone();
        let mut error = None;
        for statement in &document.0 {
            if statement.serial <= trust.serial {
                let known = trust.serial;
                error = (statement.roots != trust.roots).then(|| {
                    format!(
                        "serial {} has other roots than the known serial {known}",
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
                    error = Some(format!("no trusted root verifies serial {serial}: {cause}"));
                }
            }
        }
        match error {
            None => Ok(trust),
            Some(error) => Err(error),
        }
    }
}

/// Parses the statement at the start of a text; the statement and the rest.
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
            0..=MAX_ROOTS => Ok(list),
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
