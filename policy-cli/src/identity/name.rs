//! Whom a token stands for, and how the mesh calls it.

use policy_engine::ControllerConfig;
use policy_server::review::{ReviewError, jwt};
use std::sync::Arc;

/// What identities of the mesh end in.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    /// Namespace of the control plane.
    pub(crate) namespace: Arc<str>,
    /// Trust domain.
    pub(crate) trust_domain: Arc<str>,
}

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

impl Account {
    /// Whom a token says that it stands for. Nothing of it is verified: the issuer does that.
    ///
    /// # Errors
    /// It is no token, or stands for something else than a ServiceAccount.
    pub(crate) fn of_token(token: &str) -> anyhow::Result<Self> {
        let parsed = jwt::parse(token.trim()).map_err(|error| match error {
            ReviewError::Refused(why) | ReviewError::Unavailable(why) => anyhow::anyhow!(why),
        })?;
        let subject = parsed.claims.sub;
        let account = subject.strip_prefix("system:serviceaccount:");
        let account = account.and_then(|account| account.split_once(':'));
        let Some((namespace, name)) = account else {
            anyhow::bail!("the token stands for `{subject}`, which is no ServiceAccount");
        };
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl Domain {
    /// The identity of a ServiceAccount.
    pub(crate) fn identity(&self, namespace: &str, name: &str) -> Arc<str> {
        let config = ControllerConfig {
            control_plane_namespace: Arc::clone(&self.namespace),
            identity_domain: Arc::clone(&self.trust_domain),
            ..ControllerConfig::default()
        };
        config.service_account_identity(namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_whom_it_stands_for() {
        // {"alg":"none"} and {"sub":"system:serviceaccount:shop:cart"}
        let token =
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c2hvcDpjYXJ0In0.AA\n";
        let account = Account::of_token(token).unwrap();
        assert_eq!(account, Account { namespace: "shop".to_owned(), name: "cart".to_owned() });
        let domain = Domain { namespace: "mesh".into(), trust_domain: "example.org".into() };
        let identity = domain.identity(&account.namespace, &account.name);
        assert_eq!(&*identity, "cart.shop.serviceaccount.identity.mesh.example.org");
    }

    #[test]
    fn a_token_of_a_user_is_refused() {
        // {"sub":"alice"}
        let error = Account::of_token("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.AA").unwrap_err();
        assert_eq!(error.to_string(), "the token stands for `alice`, which is no ServiceAccount");
        assert!(Account::of_token("nothing").is_err());
    }
}
