//! Follows objects that the issuer publishes roots for, with kube's client and without its runtime, as
//! the controller's source does.

use futures_util::{Stream, TryStreamExt as _};
use kube::api::{Api, ListParams, ObjectList, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::sleep;

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// How long the API server is asked to keep a watch open, in seconds.
const WATCH_SECONDS: u32 = 290;

/// After how long of silence, bookmarks included, a watch is given up.
const SILENCE: Duration = Duration::from_secs(150);

/// How long to wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of it.
pub(super) enum Told<K> {
    /// All there is.
    All(Vec<K>),
    /// It is there, new or changed.
    There(K),
    /// It is gone.
    Gone(K),
}

/// Events of a watch.
type Events<'a, K> = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send + 'a>>;

/// How objects are asked for: whole, or their metadata alone.
pub(super) trait Ask: Send + Sync {
    /// What comes.
    type Object: Clone + Debug + Resource + Send + Sync;
    fn list(
        &self,
        params: &ListParams,
    ) -> impl Future<Output = kube::Result<ObjectList<Self::Object>>> + Send;
    fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<Events<'static, Self::Object>>> + Send;
}

/// Asks for whole objects.
pub(super) struct Whole<K>(pub(super) Api<K>);

/// Asks for the metadata of objects.
pub(super) struct Metadata<K>(pub(super) Api<K>);

impl<K> Ask for Whole<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    type Object = K;

    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        self.0.list(params).await
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<Events<'static, K>> {
        let api = self.0.clone();
        Ok(Box::pin(api.watch(params, version).await?))
    }
}

impl<K> Ask for Metadata<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    PartialObjectMeta<K>: Resource,
{
    type Object = PartialObjectMeta<K>;

    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<Self::Object>> {
        self.0.list_metadata(params).await
    }

    async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> kube::Result<Events<'static, Self::Object>> {
        let api = self.0.clone();
        Ok(Box::pin(api.watch_metadata(params, version).await?))
    }
}

/// Why following ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Refused(String),
    #[error("the API server said nothing for too long")]
    Silent,
}

/// Follows what `fields` and `labels` select, for ever; `tell` hears of it. `what`: for the log.
pub(super) async fn list_and_watch<A: Ask>(
    what: &'static str,
    ask: A,
    (fields, labels): (Option<&str>, Option<&str>),
    mut tell: impl FnMut(Told<A::Object>) + Send,
) {
    let mut failing = false;
    loop {
        let mut version = None;
        let ended = loop {
            let step = match version.take() {
                None => list(&ask, fields, labels).await.map(|(all, version)| {
                    failing = false;
                    tell(Told::All(all));
                    version
                }),
                Some(version) => observe(&ask, fields, labels, version, &mut tell).await,
            };
            match step {
                Ok(seen) => version = Some(seen),
                Err(ended) => break ended,
            }
        };
        if failing {
            tracing::debug!(error = %ended, "the look at {what} fails");
        } else {
            tracing::warn!(error = %ended, "the look at {what} begins anew");
        }
        failing = true;
        sleep(RETRY).await;
    }
}

async fn list<A: Ask>(
    ask: &A,
    fields: Option<&str>,
    labels: Option<&str>,
) -> Result<(Vec<A::Object>, String), Ended> {
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = fields.map(str::to_owned);
    params.label_selector = labels.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        let page = tokio::time::timeout(PATIENCE, ask.list(&params));
        let page = page.await.map_err(|_| Ended::Silent)??;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok((all, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

/// Until the watch ends by itself: the version to go on from.
async fn observe<A: Ask>(
    ask: &A,
    fields: Option<&str>,
    labels: Option<&str>,
    mut version: String,
    tell: &mut (impl FnMut(Told<A::Object>) + Send),
) -> Result<String, Ended> {
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    params.field_selector = fields.map(str::to_owned);
    params.label_selector = labels.map(str::to_owned);
    let opening = tokio::time::timeout(PATIENCE, ask.watch(&params, &version));
    let mut events = opening.await.map_err(|_| Ended::Silent)??;
    loop {
        let event = tokio::time::timeout(SILENCE, events.try_next());
        let Some(event) = event.await.map_err(|_| Ended::Silent)?? else { return Ok(version) };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version = object.resource_version().unwrap_or(version);
                tell(Told::There(object));
            }
            WatchEvent::Deleted(object) => {
                version = object.resource_version().unwrap_or(version);
                tell(Told::Gone(object));
            }
            WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(Ended::Refused(status.message.clone())),
        }
    }
}
