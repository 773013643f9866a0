//! Service account of an identity: one that is named, or the subject of a token.

use policy_server::review::jwt;

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

impl Account {
    /// Returns the account in a token's `sub` claim. Nothing is verified here: the issuer does
    /// that, and rejects a name that is not the token's.
    pub(crate) fn of_token(token: &str) -> Option<Self> {
        let subject = jwt::parse(token.trim()).ok()?.claims.sub;
        let subject = subject.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = subject.split_once(':')?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    #[test]
    fn a_token_says_whose_it_is() {
        let token = |claims: &str| {
            let text = serde_json::to_value(ByteString(claims.as_bytes().to_vec())).unwrap();
            let text = text.as_str().unwrap().trim_end_matches('=').replace('+', "-");
            // The header is {"alg":"none"}.
            format!("eyJhbGciOiJub25lIn0.{}.AA\n", text.replace('/', "_"))
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
