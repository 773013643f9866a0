//! Whose an identity is: a service account that is named, or the one that a token is of.

use k8s_openapi::ByteString;
use serde_json::Value;

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

impl Account {
    /// The account that a token says it is of. Nothing is verified: the issuer does that, and refuses
    /// a name that is not the token's.
    pub(crate) fn of_token(token: &str) -> Option<Self> {
        let claims = token.trim().split('.').nth(1)?;
        // A JWT has base64 for URLs without padding (RFC 7515 section 2).
        let mut text: String = claims
            .chars()
            .map(|c| match c {
                '-' => '+',
                '_' => '/',
                c => c,
            })
            .collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        let bytes: ByteString = serde_json::from_value(Value::String(text)).ok()?;
        let claims: Value = serde_json::from_slice(&bytes.0).ok()?;
        let subject = claims.get("sub")?.as_str()?.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = subject.split_once(':')?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_whose_it_is() {
        let token = |claims: &str| {
            let text = serde_json::to_value(ByteString(claims.as_bytes().to_vec())).unwrap();
            let text = text.as_str().unwrap().trim_end_matches('=').replace('+', "-");
            format!("header.{}.signature\n", text.replace('/', "_"))
        };
        let of = |claims: &str| Account::of_token(&token(claims));
        let account = Account { namespace: "shop".to_owned(), name: "web".to_owned() };
        assert_eq!(of(r#"{"sub":"system:serviceaccount:shop:web"}"#), Some(account.clone()));
        assert_eq!(of(r#"{"n":"~~~???","sub":"system:serviceaccount:shop:web"}"#), Some(account));
        assert_eq!(of(r#"{"sub":"alice"}"#), None);
        for wrong in ["", ".", "a.b.c", "a.!.c"] {
            assert_eq!(Account::of_token(wrong), None, "{wrong}");
        }
    }
}
