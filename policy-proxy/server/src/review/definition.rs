//! The interface of token reviews.

use crate::client_network::ClientNetwork;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The subject of a token, as the API server describes users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// User name.
    pub user: String,
    /// Its unique id; may be empty.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further attributes for authorizers.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The subject of the token.
    pub subject: Arc<Subject>,
    /// Time when the token expires.
    pub expires: SystemTime,
}

/// Error of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewError {
    /// The token is not valid, for this reason.
    Refused(String),
    /// The review could not be performed, for this reason.
    Unavailable(String),
}

/// Reviews tokens and the rights of their subjects.
pub trait Reviewer: fmt::Debug + Send + Sync + 'static {
    /// Authenticates `token`, which a client of the network `from` presents.
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        from: ClientNetwork,
    ) -> BoxFuture<'a, Result<Authenticated, ReviewError>>;

    /// Returns true if the token was accepted recently, so that [`Self::authenticate`] needs no
    /// review.
    fn is_cached(&self, _token: &str) -> bool {
        false
    }

    /// Returns true if `subject`, a client of the network `from`, may view the policies of
    /// `namespace`; `None` stands for all namespaces.
    fn may_view<'a>(
        &'a self,
        subject: &'a Arc<Subject>,
        namespace: Option<&'a str>,
        from: ClientNetwork,
    ) -> BoxFuture<'a, Result<bool, ReviewError>>;
}
