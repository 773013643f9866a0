//! The parts of a JSON Web Token (RFC 7519), unverified.

use super::definition::ReviewError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Allowed clock skew.
const LEEWAY: Duration = Duration::from_secs(10);

/// A decoded token whose signature was not verified.
#[derive(Debug)]
pub struct UnverifiedToken<'a> {
    /// The header.
    pub header: Header,
    /// The claims.
    pub claims: Claims,
    /// The signed bytes.
    pub signed: &'a [u8],
    /// The signature.
    pub signature: Vec<u8>,
}

/// The header of a token.
#[derive(Debug, Deserialize)]
pub struct Header {
    /// The algorithm of the signature.
    pub alg: String,
    /// Id of the signing key.
    #[serde(default)]
    pub kid: Option<String>,
    /// Critical extensions. None are supported.
    #[serde(default)]
    pub crit: Option<serde_json::Value>,
}

/// The claims that are checked.
#[derive(Debug, Deserialize)]
pub struct Claims {
    /// The issuer.
    #[serde(default)]
    pub iss: String,
    /// The subject.
    #[serde(default)]
    pub sub: String,
    #[serde(default)]
    aud: Audience,
    #[serde(default)]
    exp: Option<f64>,
    #[serde(default)]
    nbf: Option<f64>,
}

/// One audience or several (RFC 7519 section 4.1.3).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Default for Audience {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

/// Decodes `token`.
///
/// # Errors
/// It is not a JSON Web Token.
pub fn parse(token: &str) -> Result<UnverifiedToken<'_>, ReviewError> {
    let refused = |what: &str| ReviewError::Refused(format!("it is not a JSON Web Token: {what}"));
    let (signed, signature) = token.rsplit_once('.').ok_or_else(|| refused("no dots"))?;
    let (header, claims) = signed.split_once('.').ok_or_else(|| refused("one dot"))?;
    let decoded = |part: &str, what| URL_SAFE_NO_PAD.decode(part).map_err(|_| refused(what));
    let header = decoded(header, "header")?;
    let claims = decoded(claims, "claims")?;
    let header: Header = serde_json::from_slice(&header).map_err(|_| refused("header"))?;
    if header.crit.is_some() {
        return Err(refused("it has critical extensions"));
    }
    Ok(UnverifiedToken {
        header,
        claims: serde_json::from_slice(&claims).map_err(|_| refused("claims"))?,
        signed: signed.as_bytes(),
        signature: decoded(signature, "signature")?,
    })
}

/// Returns the first audience of a token that is `accepted`. Verifies nothing.
///
/// # Errors
/// It is not a JSON Web Token.
pub fn audience_of(
    token: &str,
    accepted: impl Fn(&str) -> bool,
) -> Result<Option<String>, ReviewError> {
    let audiences = match parse(token)?.claims.aud {
        Audience::One(one) => vec![one],
        Audience::Several(several) => several,
    };
    Ok(audiences.into_iter().find(|audience| accepted(audience)))
}

impl Claims {
    /// Checks the audience and the times; returns the time when the token expires.
    ///
    /// # Errors
    /// The reason why the token is not valid.
    pub fn check(&self, audience: &str, now: SystemTime) -> Result<SystemTime, ReviewError> {
        let ours = match &self.aud {
            Audience::One(one) => one == audience,
            Audience::Several(several) => several.iter().any(|one| one == audience),
        };
        if !ours {
            return Err(ReviewError::Refused(format!("its audience is not `{audience}`")));
        }
        let expires = self
            .exp
            .and_then(time)
            .ok_or_else(|| ReviewError::Refused("it has no expiry (exp)".to_owned()))?;
        if expires <= now {
            return Err(ReviewError::Refused("it has expired".to_owned()));
        }
        let early = |from: SystemTime| from.duration_since(now).is_ok_and(|wait| wait > LEEWAY);
        match self.nbf.map(time) {
            None => Ok(expires),
            Some(Some(from)) if !early(from) => Ok(expires),
            Some(_) => Err(ReviewError::Refused("it is not valid yet (nbf)".to_owned())),
        }
    }
}

/// Converts a NumericDate (RFC 7519 section 2). `None`: before 1970, or out of range.
fn time(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn claims(text: &str) -> Claims {
        serde_json::from_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        match claims(text).check("ours", at(1000)) {
            Err(ReviewError::Refused(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn audience_and_time_have_to_fit() {
        let good = |text: &str| claims(text).check("ours", at(1000));
        assert_eq!(good(r#"{"aud":"ours","exp":2000}"#), Ok(at(2000)));
        assert_eq!(good(r#"{"aud":["other","ours"],"exp":2000,"nbf":1005}"#), Ok(at(2000)));
        for audience in [r#""other""#, "[]", r#"["ours.example"]"#, r#""""#] {
            let text = format!("{{\"aud\":{audience},\"exp\":2000}}");
            assert_eq!(refusal(&text), "its audience is not `ours`");
        }
        assert_eq!(refusal(r#"{"exp":2000}"#), "its audience is not `ours`");
        assert_eq!(refusal(r#"{"aud":"ours","exp":1000}"#), "it has expired");
        assert_eq!(refusal(r#"{"aud":"ours"}"#), "it has no expiry (exp)");
        assert_eq!(refusal(r#"{"aud":"ours","exp":-1}"#), "it has no expiry (exp)");
        assert_eq!(refusal(r#"{"aud":"ours","exp":2000,"nbf":1500}"#), "it is not valid yet (nbf)");
        assert_eq!(
            refusal(r#"{"aud":"ours","exp":2000,"nbf":1e300}"#),
            "it is not valid yet (nbf)"
        );
    }

    #[test]
    fn what_is_not_a_token_is_told() {
        for text in ["", "a", "a.b", "a.b.c", "e30.e30.e30", "eyJhbGciOiJub25lIn0.e30.!"] {
            assert!(matches!(parse(text), Err(ReviewError::Refused(_))), "{text}");
        }
        // {"alg":"none"}.{}. with an empty signature can be decoded, and proves nothing.
        let unsigned = parse("eyJhbGciOiJub25lIn0.e30.").unwrap();
        assert_eq!((&*unsigned.header.alg, unsigned.signature.len()), ("none", 0));
    }
}
