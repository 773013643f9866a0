//! Watches the objects that the issuer publishes roots for, with kube's client and without its
//! runtime, as the controller's source does.

use futures_util::{Stream, TryStreamExt as _};
use kube::api::{Api, ListParams, ObjectList, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::sleep;

/// Maximum number of objects in one page of a list, which is held as a whole: whole objects have more
/// than a mebibyte at most, metadata a quarter of one.
const PAGE: u32 = 16;
const METADATA_PAGE: u32 = 64;

/// Timeout of a watch that is sent to the API server, in seconds.
const WATCH_SECONDS: u32 = 290;

/// Time without events or bookmarks after which a watch is reopened.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);

/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// Timeout of a list page and of opening a watch.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A change of the watched objects.
pub(super) enum ObjectEvent<K> {
    /// All objects, after a list.
    Listed(Vec<K>),
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
}

/// Stream of watch events.
type WatchStream<'a, K> = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send + 'a>>;

/// Lists and watches objects, whole or their metadata alone.
pub(super) trait ListWatch: Send + Sync {
    /// Type of the received objects.
    type Object: Clone + Debug + Resource + Send + Sync;
    /// Maximum number of objects in one page.
    const PAGE: u32;
    fn list(
        &self,
        params: &ListParams,
    ) -> impl Future<Output = kube::Result<ObjectList<Self::Object>>> + Send;
    fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<WatchStream<'static, Self::Object>>> + Send;
}

/// Lists and watches whole objects.
pub(super) struct WholeObjects<K>(pub(super) Api<K>);

/// Lists and watches the metadata of objects.
pub(super) struct MetadataOnly<K>(pub(super) Api<K>);

impl<K> ListWatch for WholeObjects<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    type Object = K;
    const PAGE: u32 = PAGE;

    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        self.0.list(params).await
    }

    async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> kube::Result<WatchStream<'static, K>> {
        let api = self.0.clone();
        Ok(Box::pin(api.watch(params, version).await?))
    }
}

impl<K> ListWatch for MetadataOnly<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    PartialObjectMeta<K>: Resource,
{
    type Object = PartialObjectMeta<K>;
    const PAGE: u32 = METADATA_PAGE;

    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<Self::Object>> {
        self.0.list_metadata(params).await
    }

    async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> kube::Result<WatchStream<'static, Self::Object>> {
        let api = self.0.clone();
        Ok(Box::pin(api.watch_metadata(params, version).await?))
    }
}

/// Error that ends a list or watch.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Status(String),
    #[error("the API server did not respond in time")]
    TimedOut,
}

/// Lists and watches the objects that `fields` and `labels` select, forever, and passes changes to
/// `handle`, each as `reduce` leaves it. `what`: the objects' name in the log.
pub(super) async fn list_and_watch<A: ListWatch>(
    what: &'static str,
    source: A,
    (fields, labels): (Option<&str>, Option<&str>),
    reduce: impl Fn(&mut A::Object) + Send + Sync,
    mut handle: impl FnMut(ObjectEvent<A::Object>) + Send,
) {
    let reduced = |mut object: A::Object| {
        reduce(&mut object);
        object
    };
    let mut handle = |event: ObjectEvent<A::Object>| match event {
        ObjectEvent::Applied(object) => handle(ObjectEvent::Applied(reduced(object))),
        ObjectEvent::Listed(_) | ObjectEvent::Deleted(_) => handle(event),
    };
    let mut failing = false;
    loop {
        let mut version = None;
        let error = loop {
            let step = match version.take() {
                None => list(&source, (fields, labels), &reduced).await.map(|(all, version)| {
                    failing = false;
                    handle(ObjectEvent::Listed(all));
                    version
                }),
                Some(version) => watch(&source, fields, labels, version, &mut handle).await,
            };
            match step {
                Ok(seen) => version = Some(seen),
                Err(error) => break error,
            }
        };
        if failing {
            tracing::debug!(error = %error, "watch of {what} failed again, relisting");
        } else {
            tracing::warn!(error = %error, "watch of {what} failed, relisting");
        }
        failing = true;
        sleep(RETRY).await;
    }
}

async fn list<A: ListWatch>(
    source: &A,
    (fields, labels): (Option<&str>, Option<&str>),
    reduced: &(impl Fn(A::Object) -> A::Object + Sync),
) -> Result<(Vec<A::Object>, String), WatchError> {
    let mut params = ListParams::default().limit(A::PAGE);
    params.field_selector = fields.map(str::to_owned);
    params.label_selector = labels.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        let page = tokio::time::timeout(REQUEST_TIMEOUT, source.list(&params));
        let page = page.await.map_err(|_| WatchError::TimedOut)??;
        all.extend(page.items.into_iter().map(reduced));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok((all, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

/// Watches until the API server ends the watch. Returns the resourceVersion to continue from.
async fn watch<A: ListWatch>(
    source: &A,
    fields: Option<&str>,
    labels: Option<&str>,
    mut version: String,
    handle: &mut (impl FnMut(ObjectEvent<A::Object>) + Send),
) -> Result<String, WatchError> {
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    params.field_selector = fields.map(str::to_owned);
    params.label_selector = labels.map(str::to_owned);
    let opening = tokio::time::timeout(REQUEST_TIMEOUT, source.watch(&params, &version));
    let mut events = opening.await.map_err(|_| WatchError::TimedOut)??;
    loop {
        let event = tokio::time::timeout(IDLE_TIMEOUT, events.try_next());
        let Some(event) = event.await.map_err(|_| WatchError::TimedOut)?? else {
            return Ok(version);
        };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version = object.resource_version().unwrap_or(version);
                handle(ObjectEvent::Applied(object));
            }
            WatchEvent::Deleted(object) => {
                version = object.resource_version().unwrap_or(version);
                handle(ObjectEvent::Deleted(object));
            }
            WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(WatchError::Status(status.message.clone())),
        }
    }
}
