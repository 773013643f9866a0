//! Tokens signed by keys of each kind, and every way in which one can fail.

use super::*;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use std::time::{Duration, UNIX_EPOCH};

const ISSUER: &str = "https://kubernetes.default.svc";
const SUBJECT: &str = "system:serviceaccount:ops:viewer";

struct Signer {
    pair: EcdsaKeyPair,
}

impl Signer {
    fn new() -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { pair }
    }

    fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn jwk(&self, id: &str) -> String {
        let (x, y) = self.point()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        format!(r#"{{"kty":"EC","crv":"P-256","kid":"{id}","use":"sig","x":"{x}","y":"{y}"}}"#)
    }

    fn token(&self, header: &str, claims: &str) -> String {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn good(&self) -> String {
        self.token(r#"{"alg":"ES256","kid":"one"}"#, &claims(ISSUER, "aud", 2000))
    }
}

fn claims(issuer: &str, audience: &str, expires: u64) -> String {
    format!(r#"{{"iss":"{issuer}","aud":["{audience}"],"exp":{expires},"sub":"{SUBJECT}"}}"#)
}

fn reviewer(text: &str) -> Result<KeyReviewer, KeyError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    std::fs::write(&file, text).unwrap();
    KeyReviewer::load(&file, ISSUER, "aud")
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1000)
}

#[track_caller]
fn refused(reviewer: &KeyReviewer, token: &str, why: &str) {
    assert_eq!(reviewer.review(token, now()), Err(ReviewError::Refused(why.to_owned())));
}

#[test]
fn a_token_of_a_supplied_key_stands_for_its_subject() {
    let signer = Signer::new();
    let keys = reviewer(&format!(r#"{{"keys":[{}]}}"#, signer.jwk("one"))).unwrap();
    let authenticated = keys.review(&signer.good(), now()).unwrap();
    let subject = Subject { user: SUBJECT.to_owned(), ..Subject::default() };
    let expires = UNIX_EPOCH + Duration::from_secs(2000);
    assert_eq!(authenticated, Authenticated { subject: Arc::new(subject), expires });
}

#[test]
fn a_pem_key_is_as_good() {
    let key = rcgen::KeyPair::generate().unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der());
    let signer = Signer { pair: pair.unwrap() };
    let keys = reviewer(&key.public_key_pem()).unwrap();
    keys.review(&signer.good(), now()).unwrap();
    refused(&keys, &Signer::new().good(), "its signature matches no configured key");
}

#[test]
fn an_rsa_token_is_checked_by_its_key() {
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    // RSAPublicKey (RFC 8017 appendix A.1.1): headers, 256 bytes of modulus, a header, the exponent.
    let der = pair.public_key().as_ref();
    let [n, e] = [&der[9..265], &der[267..]].map(|number| URL_SAFE_NO_PAD.encode(number));
    let keys = reviewer(&format!(r#"{{"keys":[{{"kty":"RSA","n":"{n}","e":"{e}"}}]}}"#)).unwrap();
    let [header, claims] = [r#"{"alg":"RS256"}"#.to_owned(), claims(ISSUER, "aud", 2000)]
        .map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{header}.{claims}");
    let mut signature = vec![0; pair.public_modulus_len()];
    let random = SystemRandom::new();
    pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(&signature));
    keys.review(&token, now()).unwrap();
    signature[7] ^= 1;
    let broken = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(&signature));
    refused(&keys, &broken, "its signature matches no configured key");
}

#[test]
fn what_does_not_fit_is_refused() {
    let signer = Signer::new();
    let keys = reviewer(&format!(r#"{{"keys":[{}]}}"#, signer.jwk("one"))).unwrap();
    let unsigned = "its signature matches no configured key";
    let header = r#"{"alg":"ES256"}"#;
    refused(&keys, &Signer::new().good(), unsigned);
    // Neither an algorithm of the token's choice nor none at all.
    let good = claims(ISSUER, "aud", 2000);
    for alg in ["none", "HS256", "RS256", "es256"] {
        refused(&keys, &signer.token(&format!(r#"{{"alg":"{alg}"}}"#), &good), unsigned);
    }
    refused(&keys, &signer.token(r#"{"alg":"ES256","kid":"two"}"#, &good), unsigned);
    let (signed, _) = signer.good().rsplit_once('.').map(|(a, b)| (a.to_owned(), b.len())).unwrap();
    refused(&keys, &format!("{signed}."), unsigned);
    let other = claims("https://other", "aud", 2000);
    refused(&keys, &signer.token(header, &other), &format!("its issuer is not `{ISSUER}`"));
    let other = claims(ISSUER, "https://kubernetes.default.svc", 2000);
    refused(&keys, &signer.token(header, &other), "its audience is not `aud`");
    refused(&keys, &signer.token(header, &claims(ISSUER, "aud", 999)), "it has expired");
    let nobody = format!(r#"{{"iss":"{ISSUER}","aud":"aud","exp":2000}}"#);
    refused(&keys, &signer.token(header, &nobody), "it has no subject (sub)");
    let critical = r#"{"alg":"ES256","crit":["b64"],"b64":false}"#;
    let why = "it is not a JSON Web Token: it has critical extensions";
    refused(&keys, &signer.token(critical, &good), why);
}

#[test]
fn keys_that_cannot_be_used_are_told_at_start() {
    for text in ["", "{}", r#"{"keys":[]}"#, "nothing", r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#] {
        let error = reviewer(text).unwrap_err().to_string();
        assert!(error.starts_with("--viewer-token-keys: `"), "{error}");
    }
    let off = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}"#;
    let error = reviewer(off).unwrap_err().to_string();
    assert!(error.contains("keys[0]: x, y: not a point of the curve"), "{error}");
}
