//! Authenticates tokens as service accounts by TokenReview.

use policy_kube::ClusterReviewer;
use policy_server::ClientNetwork;
use policy_server::review::jwt::audience_of;
use policy_server::review::{Authenticated, CachedReviewer, ReviewError, Reviewer};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum size of a token in bytes. Tokens of API servers have about one kilobyte.
const MAX_BYTES: usize = 16 * 1024;

/// Prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Key of the extra information of a TokenReview with the pod that the token is bound to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// An authenticated service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The pod that the token is bound to. The API server refuses a token whose pod is gone.
    pub pod: Option<String>,
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, pod } = self;
        match pod {
            Some(pod) => write!(f, "pod {namespace}/{pod} of service account {name}"),
            None => write!(f, "service account {namespace}/{name}"),
        }
    }
}

/// Error of a token that authenticates no service account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is invalid.
    #[error("the token is refused: {0}")]
    Refused(String),
    /// The TokenReview failed.
    #[error("the token could not be reviewed: {0}")]
    Unavailable(String),
}

/// Authenticates tokens by TokenReview.
pub(super) struct Tokens {
    /// Reviewers by audience.
    reviewers: BTreeMap<String, Box<dyn Reviewer>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Accepts tokens for any of `audiences`.
    pub(super) fn new(client: &kube::Client, audiences: &[String]) -> Self {
        let reviewer = |audience: &String| {
            let reviewer = CachedReviewer::new(ClusterReviewer::new(client.clone(), audience));
            (audience.clone(), Box::new(reviewer) as Box<dyn Reviewer>)
        };
        Self { reviewers: audiences.iter().map(reviewer).collect() }
    }

    /// Returns the service account of this token, which a client of the network `from` presents.
    pub(super) async fn review(
        &self,
        token: &[u8],
        from: ClientNetwork,
    ) -> Result<ServiceAccount, TokenError> {
        let refused = |why: &str| TokenError::Refused(why.to_owned());
        if token.len() > MAX_BYTES {
            return Err(TokenError::Refused(format!(
                "it has {} bytes (allowed: {MAX_BYTES})",
                token.len()
            )));
        }
        let text = std::str::from_utf8(token).map_err(|_| refused("it is not UTF-8"))?.trim();
        if text.is_empty() {
            return Err(refused("there is none"));
        }
        // The unverified audience only selects the reviewer; the TokenReview decides.
        let named = |audience: &str| self.reviewers.contains_key(audience);
        let audience = audience_of(text, named).map_err(TokenError::from)?;
        let Some(reviewer) = audience.and_then(|audience| self.reviewers.get(&audience)) else {
            let allowed: Vec<_> = self.reviewers.keys().map(|key| format!("`{key}`")).collect();
            return Err(TokenError::Refused(format!(
                "it is for another audience (allowed: {})",
                allowed.join(", ")
            )));
        };
        service_account(&reviewer.authenticate(text, from).await?)
    }
}

impl From<ReviewError> for TokenError {
    fn from(error: ReviewError) -> Self {
        match error {
            ReviewError::Refused(why) => Self::Refused(why),
            ReviewError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

fn service_account(token: &Authenticated) -> Result<ServiceAccount, TokenError> {
    let Authenticated { subject, .. } = token;
    let parts = subject.user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let Some((namespace, name)) = parts.filter(|(_, name)| !name.contains(':')) else {
        return Err(TokenError::Refused(format!(
            "it is of `{}`, which is not a service account",
            subject.user
        )));
    };
    let pod = subject.extra.get(POD_NAME).and_then(|names| names.first()).cloned();
    Ok(ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned(), pod })
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_server::review::Subject;
    use std::sync::Arc;
    use std::time::SystemTime;

    fn of(user: &str, pod: Option<&str>) -> Result<ServiceAccount, TokenError> {
        let extra = pod.map(|pod| (POD_NAME.to_owned(), vec![pod.to_owned()])).into_iter();
        let subject =
            Subject { user: user.to_owned(), extra: extra.collect(), ..Subject::default() };
        service_account(&Authenticated {
            subject: Arc::new(subject),
            expires: SystemTime::UNIX_EPOCH,
        })
    }

    #[test]
    fn only_service_accounts_have_identities() {
        let web = ServiceAccount {
            namespace: "shop".to_owned(),
            name: "web.a".to_owned(),
            pod: Some("web-0".to_owned()),
        };
        assert_eq!(of("system:serviceaccount:shop:web.a", Some("web-0")), Ok(web));
        for user in [
            "admin",
            "system:node:a",
            "system:serviceaccount:shop",
            "system:serviceaccount:a:b:c",
            "",
        ] {
            let error = of(user, None).unwrap_err().to_string();
            assert!(error.contains(&format!("it is of `{user}`, which is not")), "{error}");
        }
    }
}
