//! Polls a Namespace by name, because listing or watching namespaces requires a ClusterRole, and
//! getting one only a Role in it.

use super::api::ApiError;
use super::backoff::{Backoff, jittered};
use super::decode::{self, KindVersion, Version};
use super::pending_batch::WatchUpdate;
use super::watch::WatchContext;
use policy_crds::{Kind, ObjectKey};
use policy_engine::source::{Change, WatchKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// One namespace.
pub(super) struct NamespacePoller {
    shared: WatchContext,
    index: usize,
    key: WatchKey,
    namespace: Arc<str>,
    /// The refresh that it was last read for, and the version that it had then.
    own: Option<(u64, u64)>,
    backoff: Backoff,
}

impl NamespacePoller {
    /// Creates the poller of a namespace that has not been read yet.
    pub(super) fn new(shared: WatchContext, index: usize, namespace: Arc<str>) -> Self {
        let key = WatchKey { kind: Kind::Namespace, namespace: Some(namespace.clone()) };
        let backoff = Backoff::default();
        Self { shared, index, key, namespace, own: None, backoff }
    }

    /// Runs until the receiver of updates is dropped.
    pub(super) async fn run(mut self) {
        while !self.shared.updates.is_closed() {
            if let Err(failure) = self.poll().await {
                let wait = self.handle_failure(&failure);
                sleep(wait).await;
                continue;
            }
            self.backoff.reset();
            tokio::select! {
                () = sleep(jittered(POLL_INTERVAL)) => {}
                changed = self.shared.refresh.changed() => {
                    self.shared.refresh.mark_changed();
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Reads the Namespace and sends it. The index drops an update without a change.
    async fn poll(&mut self) -> Result<(), ApiError> {
        let refresh = *self.shared.refresh.borrow_and_update();
        // Versions number the whole storage, so the response is not older than what watches of the
        // same storage have sent before. Namespaces are stored where custom resources are. The
        // version of the Namespace itself shows only its last change.
        let before = self.shared.latest_versions.get(refresh, Kind::Server);
        let resource = KindVersion { kind: Kind::Namespace, version: "v1" };
        let uri = format!("/api/v1/namespaces/{}", self.namespace);
        let (change, own) = match self.shared.api.get(&uri).await {
            Ok(body) => {
                let (object, version) = decode::object(&resource, &body)?;
                (Change::Apply(Arc::new(object)), version)
            }
            Err(failure) if failure.is_not_found() => {
                let (namespace, name) = ("".into(), self.namespace.clone());
                (Change::Delete(ObjectKey { kind: Kind::Namespace, namespace, name }), None)
            }
            Err(failure) => return Err(failure),
        };
        let own = own.as_ref().and_then(Version::number);
        let (watch, kind, changes) = (self.index, Kind::Namespace, vec![change]);
        let update = if self.has_regressed(refresh, own) {
            WatchUpdate::regression(watch, kind, refresh)
        } else {
            self.shared.watch_status.note_listed(&self.key);
            let (version, listed) = (own.max(before), Some(refresh));
            WatchUpdate { watch, kind, changes, version, listed, since: refresh, regressed: false }
        };
        // Fails only if the receiver is dropped.
        let _ = self.shared.updates.send(update).await;
        Ok(())
    }

    /// True if the namespace had a newer version before, in the same epoch. Otherwise records this
    /// one.
    fn has_regressed(&mut self, refresh: u64, own: Option<u64>) -> bool {
        let Some(own) = own else { return false };
        if let Some((since, before)) = self.own
            && own < before
            && self.shared.latest_versions.is_current(since)
        {
            return true;
        }
        self.own = Some((refresh, own));
        false
    }

    fn handle_failure(&mut self, failure: &ApiError) -> Duration {
        self.shared.metrics.error(&self.key, failure.label());
        let namespace = &self.namespace;
        let error = if failure.is_forbidden() {
            format!("may not get namespace {namespace}: grant `get` on namespaces there; {failure}")
        } else {
            failure.to_string()
        };
        self.shared.watch_status.note_failure(&self.key, error.into());
        self.backoff.next(failure.retry_after())
    }
}
