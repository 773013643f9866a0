//! Reads and writes the Secret of a rotation, by optimistic writes: every replica attempts the same
//! step, the first write wins, and the others read again.

use super::secret::Data;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use std::time::Duration;

/// Number of attempts at a write that conflicts.
pub const ATTEMPTS: u32 = 5;

/// Time limit of a request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// A Secret of the API server.
#[derive(Clone)]
pub struct SecretStore {
    api: Api<Secret>,
    namespace: String,
    name: String,
    manager: Option<&'static str>,
}

/// Error of reading or writing the Secret.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The API server refuses, or cannot be reached.
    #[error("the API server: {0}")]
    Api(#[from] Error),
    /// The API server did not respond in time.
    #[error("the API server did not respond in time")]
    Late,
    /// The Secret does not exist, and may not be created.
    #[error(
        "Secret {0} does not exist, and this controller may not create it: `helm upgrade` makes it, \
         and so does `kubectl create secret generic`, without data"
    )]
    Absent(String),
    /// All attempts conflicted.
    #[error("every write of the Secret conflicted with another client's")]
    Contended,
}

impl std::fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretStore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SecretStore {
    /// The Secret `name` of `namespace`. Where it is created here, a label names `manager`.
    pub fn new(client: Client, namespace: &str, name: &str, manager: Option<&'static str>) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), name: name.to_owned(), manager }
    }

    /// Reads the Secret, if there is one.
    ///
    /// # Errors
    /// The API server refuses, or does not respond in time.
    pub async fn read(&self) -> Result<Option<Secret>, StoreError> {
        let reading = tokio::time::timeout(REQUEST_TIMEOUT, self.api.get_opt(&self.name));
        Ok(reading.await.map_err(|_| StoreError::Late)??)
    }

    /// Changes the Secret that was read. False: another client wrote first, and nothing is changed.
    ///
    /// # Errors
    /// The API server refuses, or does not respond in time.
    pub async fn write(
        &self,
        read: Option<Secret>,
        change: impl FnOnce(&mut Data),
    ) -> Result<bool, StoreError> {
        let exists = read.is_some();
        let mut secret = read.unwrap_or_else(|| self.new_secret());
        change(secret.data.get_or_insert_default());
        let params = PostParams::default();
        let writing = async {
            match exists {
                // Includes the version that was read: a change in between is a conflict.
                true => self.api.replace(&self.name, &params, &secret).await,
                false => self.api.create(&params, &secret).await,
            }
        };
        let written = tokio::time::timeout(REQUEST_TIMEOUT, writing).await;
        match written.map_err(|_| StoreError::Late)? {
            Ok(_) => Ok(true),
            Err(Error::Api(status)) => match status.code {
                CONFLICT => Ok(false),
                // Deleted since it was read: the next attempt creates it.
                NOT_FOUND if exists => Ok(false),
                FORBIDDEN if !exists => {
                    Err(StoreError::Absent(format!("{}/{}", self.namespace, self.name)))
                }
                _ => Err(Error::Api(status).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn new_secret(&self) -> Secret {
        let mut secret =
            Secret { type_: Some("kubernetes.io/tls".to_owned()), ..Secret::default() };
        secret.metadata.name = Some(self.name.clone());
        secret.metadata.namespace = Some(self.namespace.clone());
        secret.metadata.labels = self.manager.map(|manager| {
            [("app.kubernetes.io/managed-by".to_owned(), manager.to_owned())].into()
        });
        secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{client, refused};

    fn store(code: u16) -> SecretStore {
        SecretStore::new(client(move |_| refused(code)), "mesh", "own", None)
    }

    async fn write(code: u16, exists: bool) -> Result<bool, String> {
        let read = exists.then(Secret::default);
        store(code).write(read, |_| {}).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_write_that_came_too_late_is_no_error() {
        for exists in [false, true] {
            assert_eq!(write(409, exists).await, Ok(false));
        }
        assert_eq!(write(404, true).await, Ok(false));
        assert!(write(404, false).await.is_err() && write(500, true).await.is_err());
    }

    #[tokio::test]
    async fn a_secret_that_may_not_be_made_is_named() {
        let error = write(403, false).await.unwrap_err();
        assert!(error.starts_with("Secret mesh/own does not exist, and"), "{error}");
        let error = write(403, true).await.unwrap_err();
        assert!(error.starts_with("the API server: "), "{error}");
    }
}
