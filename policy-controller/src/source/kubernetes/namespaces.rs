//! A Namespace that is asked for by name again and again: to list or watch namespaces takes a
//! ClusterRole, to get one a Role in it.

use super::api::Failure;
use super::backoff::{Backoff, jittered};
use super::decode::{self, Reading, Version};
use super::gather::Told;
use super::watch::Shared;
use crate::source::{Change, WatchKey};
use policy_crds::{Kind, ObjectKey};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// How often it is asked for.
const POLL: Duration = Duration::from_secs(10);

/// One namespace.
pub(super) struct Poll {
    shared: Shared,
    place: usize,
    key: WatchKey,
    namespace: Arc<str>,
    backoff: Backoff,
}

impl Poll {
    /// A namespace of which nothing is known yet.
    pub(super) fn new(shared: Shared, place: usize, namespace: Arc<str>) -> Self {
        let key = WatchKey { kind: Kind::Namespace, namespace: Some(namespace.clone()) };
        let backoff = Backoff::default();
        Self { shared, place, key, namespace, backoff }
    }

    /// Runs until nobody listens.
    pub(super) async fn run(mut self) {
        while !self.shared.told.is_closed() {
            if let Err(failure) = self.ask().await {
                let wait = self.failed(&failure);
                sleep(wait).await;
                continue;
            }
            self.backoff.reset();
            tokio::select! {
                () = sleep(jittered(POLL)) => {}
                changed = self.shared.refresh.changed() => {
                    self.shared.refresh.mark_changed();
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Asks, and tells what there is: what is as it was stops at the index.
    async fn ask(&mut self) -> Result<(), Failure> {
        let refresh = *self.shared.refresh.borrow_and_update();
        // Versions number the whole storage, which is what answers: the answer is not older than
        // what any watch has told before. Its own version tells only when it was last changed.
        let before = self.shared.newest.load(Ordering::Relaxed);
        let reading = Reading { kind: Kind::Namespace, version: "v1" };
        let uri = format!("/api/v1/namespaces/{}", self.namespace);
        let (change, own) = match self.shared.api.get(&uri).await {
            Ok(body) => {
                let (object, version) = decode::single(&reading, &body)?;
                (Change::Apply(Arc::new(object)), version)
            }
            Err(failure) if failure.is_missing() => {
                let (namespace, name) = ("".into(), self.namespace.clone());
                (Change::Delete(ObjectKey { kind: Kind::Namespace, namespace, name }), None)
            }
            Err(failure) => return Err(failure),
        };
        self.shared.board.listed(&self.key);
        let own = own.as_ref().and_then(Version::number);
        let version = own.max(Some(before).filter(|before| *before > 0));
        let (watch, kind, changes) = (self.place, Kind::Namespace, vec![change]);
        let told = Told { watch, kind, changes, version, listed: Some(refresh) };
        // Nobody listens any more if this fails.
        let _ = self.shared.told.send(told).await;
        Ok(())
    }

    fn failed(&mut self, failure: &Failure) -> Duration {
        self.shared.metrics.error(&self.key, failure.label());
        let namespace = &self.namespace;
        let words = if failure.is_forbidden() {
            format!("may not get namespace {namespace}: grant `get` on namespaces there; {failure}")
        } else {
            failure.to_string()
        };
        self.shared.board.fails(&self.key, words.into());
        self.backoff.next(failure.retry_after())
    }
}
