//! Every object of a cluster, once.

use super::api::{self, Api, Failure};
use super::config::Scope;
use super::decode;
use super::discover::discover;
use crate::source::WatchKey;
use futures_util::future::join_all;
use policy_crds::{Kind, Object};
use std::sync::Arc;

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// One kind in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What, and where.
    pub key: WatchKey,
    /// What there is.
    pub outcome: Outcome,
}

/// What a list says.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// These objects.
    Objects {
        /// The version they were read in, without the group.
        version: &'static str,
        /// All of them, valid or not.
        objects: Vec<Arc<Object>>,
    },
    /// The cluster does not have the kind.
    Absent,
    /// It may not be listed.
    Forbidden(String),
    /// It cannot be listed.
    Failed(String),
}

/// Lists every kind of the registry, each consistently.
pub async fn list_once(client: kube::Client, scope: &Scope) -> Vec<Listed> {
    let api = Api::new(client);
    let lists = scope.watches().into_iter().map(|(key, _)| {
        let api = api.clone();
        async move {
            let outcome = match list(&api, &key).await {
                Ok(outcome) => outcome,
                Err(failure) if failure.is_forbidden() => Outcome::Forbidden(failure.to_string()),
                Err(failure) if failure.is_missing() => Outcome::Absent,
                Err(failure) => Outcome::Failed(failure.to_string()),
            };
            Listed { key, outcome }
        }
    });
    join_all(lists).await
}

async fn list(api: &Api, key: &WatchKey) -> Result<Outcome, Failure> {
    let Some(reading) = discover(api, key.kind).await? else { return Ok(Outcome::Absent) };
    let version = reading.version;
    if let (Kind::Namespace, Some(name)) = (key.kind, &key.namespace) {
        let objects = match api.get(&format!("/api/v1/namespaces/{name}")).await {
            Ok(body) => vec![Arc::new(decode::single(&reading, &body)?.0)],
            Err(failure) if failure.is_missing() => Vec::new(),
            Err(failure) => return Err(failure),
        };
        return Ok(Outcome::Objects { version, objects });
    }
    let collection = api::collection(key.kind, version, key.namespace.as_deref());
    let (mut objects, mut next) = (Vec::new(), None);
    loop {
        let uri = api::page_uri(&collection, PAGE, next.as_deref());
        let page = decode::page(&reading, &api.get(&uri).await?)?;
        objects.extend(page.objects.into_iter().map(Arc::new));
        next = page.next;
        if next.is_none() {
            return Ok(Outcome::Objects { version, objects });
        }
    }
}
