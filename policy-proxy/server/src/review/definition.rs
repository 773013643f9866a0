//! Says whom tokens stand for: what is asked, and what is answered.

use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Whom a token stands for, in the terms of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// User name.
    pub user: String,
    /// Its unique id; may be empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Whatever else authorizers look at.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A token that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// Whose it is.
    pub subject: Arc<Subject>,
    /// When it stops to hold.
    pub expires: SystemTime,
}

/// Why a token or a right could not be affirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewError {
    /// It does not hold, for this reason.
    Refused(String),
    /// Nobody could be asked, for this reason.
    Unavailable(String),
}

/// Says whom tokens stand for and what those may see.
pub trait Reviewer: fmt::Debug + Send + Sync + 'static {
    /// Whom `token` stands for.
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Authenticated, ReviewError>>;

    /// Whether the token was accepted a moment ago, so that authenticating it asks nobody.
    fn is_cached(&self, _token: &str) -> bool {
        false
    }

    /// Whether `subject` may see the policies of `namespace`; `None`: of all namespaces.
    fn may_view<'a>(
        &'a self,
        subject: &'a Arc<Subject>,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, ReviewError>>;
}
