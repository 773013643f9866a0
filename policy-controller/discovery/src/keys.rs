//! Verification of tokens by configured public keys, for the case that the API server cannot review
//! them.
//!
//! The key decides which algorithm is used (RFC 8725 section 3.1), never the token.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{self, BoxFuture, FutureExt};
use policy_server::ClientNetwork;
use policy_server::review::{Authenticated, ReviewError, Reviewer, Subject, jwt};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Authenticates tokens by the keys of their issuer. It grants no permissions: only users on the list
/// of viewers see anything.
#[derive(Debug)]
pub struct KeyReviewer {
    keys: Vec<Key>,
    issuer: String,
    audience: String,
}

/// Error of loading the keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("--viewer-token-keys: cannot read `{file}`: {error}")]
    Read {
        /// The file.
        file: String,
        /// The cause.
        error: std::io::Error,
    },
    /// The file does not hold usable keys.
    #[error(
        "--viewer-token-keys: `{file}`: {what}; allowed are a JSON Web Key Set and PEM public keys, \
         RSA of 2048 bits or more, P-256 and P-384"
    )]
    Unusable {
        /// The file.
        file: String,
        /// Description of the problem.
        what: String,
    },
}

struct Key {
    id: Option<String>,
    algorithm: &'static str,
    public: Public,
}

enum Public {
    Parsed(ParsedPublicKey),
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).field("algorithm", &self.algorithm).finish()
    }
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

/// A JSON Web Key (RFC 7517), as far as signatures of tokens need it.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

impl KeyReviewer {
    /// Reads keys from `file`. Tokens have to be of `issuer` and for `audience`.
    ///
    /// # Errors
    /// [`KeyError`]: the file holds no key that can be used.
    pub fn load(file: &Path, issuer: &str, audience: &str) -> Result<Self, KeyError> {
        let name = file.display().to_string();
        let text =
            std::fs::read(file).map_err(|error| KeyError::Read { file: name.clone(), error })?;
        let keys = match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => key_set(&text),
            Some(_) | None => pem(&text),
        };
        let keys = keys.map_err(|what| KeyError::Unusable { file: name, what })?;
        Ok(Self { keys, issuer: issuer.to_owned(), audience: audience.to_owned() })
    }

    fn review(&self, token: &str, now: SystemTime) -> Result<Authenticated, ReviewError> {
        let refused = |reason: &str| ReviewError::Refused(reason.to_owned());
        let parts = jwt::parse(token)?;
        let id = parts.header.kid.as_deref();
        // A key without a name may be anyone's; a token that names none tries all.
        let fits = |key: &&Key| {
            key.algorithm == parts.header.alg
                && (id.is_none() || key.id.is_none() || key.id.as_deref() == id)
        };
        let verifies = |key: &Key| key.verifies(parts.signed, &parts.signature);
        if !self.keys.iter().filter(fits).any(verifies) {
            return Err(refused("its signature matches no configured key"));
        }
        if parts.claims.iss != self.issuer {
            return Err(refused(&format!("its issuer is not `{}`", self.issuer)));
        }
        let expires = parts.claims.check(&self.audience, now)?;
        if parts.claims.sub.is_empty() {
            return Err(refused("it has no subject (sub)"));
        }
        let subject = Subject { user: parts.claims.sub, ..Subject::default() };
        Ok(Authenticated { subject: Arc::new(subject), expires })
    }
}

impl Reviewer for KeyReviewer {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        _: ClientNetwork,
    ) -> BoxFuture<'a, Result<Authenticated, ReviewError>> {
        future::ready(self.review(token, SystemTime::now())).boxed()
    }

    fn may_view<'a>(
        &'a self,
        _: &'a Arc<Subject>,
        _: Option<&'a str>,
        _: ClientNetwork,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        future::ready(Ok(false)).boxed()
    }
}

impl Key {
    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            Public::Parsed(key) => key.verify_sig(signed, signature).is_ok(),
            Public::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok(),
        }
    }
}

fn key_set(text: &[u8]) -> Result<Vec<Key>, String> {
    let set: KeySet = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut keys = Vec::new();
    for (index, key) in set.keys.into_iter().enumerate() {
        // Keys for encryption are skipped.
        if key.usage.as_deref().is_none_or(|usage| usage == "sig") {
            keys.push(key.read().map_err(|what| format!("keys[{index}]: {what}"))?);
        }
    }
    some(keys)
}

impl Jwk {
    fn read(self) -> Result<Key, String> {
        let number = |name: &str, text: &str| {
            let bytes =
                URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("{name}: not base64url"))?;
            if bytes.is_empty() { Err(format!("{name}: empty")) } else { Ok(bytes) }
        };
        let (algorithm, public) = match (&*self.kty, &*self.crv) {
            ("RSA", _) => {
                let (n, e) = (number("n", &self.n)?, number("e", &self.e)?);
                ("RS256", Public::Rsa(RsaPublicKeyComponents { n, e }))
            }
            ("EC", curve @ ("P-256" | "P-384")) => {
                let (x, y) = (number("x", &self.x)?, number("y", &self.y)?);
                let point: Vec<u8> = std::iter::once(4).chain(x).chain(y).collect();
                match curve {
                    "P-256" => ("ES256", parsed(&ECDSA_P256_SHA256_FIXED, &point)?),
                    _ => ("ES384", parsed(&ECDSA_P384_SHA384_FIXED, &point)?),
                }
            }
            (kind, curve) => return Err(format!("kty `{kind}` {curve} is not known")),
        };
        Ok(Key { id: self.kid, algorithm, public })
    }
}

fn pem(text: &[u8]) -> Result<Vec<Key>, String> {
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(text) {
        let key = key.map_err(|error| error.to_string())?;
        let algorithms: [(&str, &'static dyn VerificationAlgorithm); 3] = [
            ("RS256", &RSA_PKCS1_2048_8192_SHA256),
            ("ES256", &ECDSA_P256_SHA256_FIXED),
            ("ES384", &ECDSA_P384_SHA384_FIXED),
        ];
        // The key says of which kind it is; only one of these takes it.
        let read = algorithms.into_iter().find_map(|(algorithm, verification)| {
            let public = ParsedPublicKey::new(verification, key.as_ref()).ok()?;
            Some(Key { id: None, algorithm, public: Public::Parsed(public) })
        });
        keys.push(read.ok_or_else(|| "a key of a kind that is not known".to_owned())?);
    }
    some(keys)
}

fn parsed(algorithm: &'static dyn VerificationAlgorithm, key: &[u8]) -> Result<Public, String> {
    let key = ParsedPublicKey::new(algorithm, key);
    key.map(Public::Parsed).map_err(|_| "x, y: not a point of the curve".to_owned())
}

fn some(keys: Vec<Key>) -> Result<Vec<Key>, String> {
    if keys.is_empty() { Err("no public key in it".to_owned()) } else { Ok(keys) }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
