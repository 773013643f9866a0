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
    /// The version that was told last, if there is one.
    held: Option<Option<Version>>,
    told: Option<u64>,
    backoff: Backoff,
}

impl Poll {
    /// A namespace of which nothing is known yet.
    pub(super) fn new(shared: Shared, place: usize, namespace: Arc<str>) -> Self {
        let key = WatchKey { kind: Kind::Namespace, namespace: Some(namespace.clone()) };
        let backoff = Backoff::default();
        Self { shared, place, key, namespace, held: None, told: None, backoff }
    }

    /// Runs until nobody listens.
    pub(super) async fn run(mut self) {
        while !self.shared.told.is_closed() {
            let wait = match self.ask().await {
                Ok(()) => {
                    self.backoff.reset();
                    jittered(POLL)
                }
                Err(failure) => self.failed(&failure),
            };
            tokio::select! {
                () = sleep(wait) => {}
                changed = self.shared.refresh.changed() => {
                    self.shared.refresh.mark_changed();
                    if changed.is_err() {
                        return;
                    }
                    // A refresh does not shorten the wait after a failure by much.
                    sleep(wait.min(Duration::from_millis(100))).await;
                }
            }
        }
    }

    async fn ask(&mut self) -> Result<(), Failure> {
        let refresh = *self.shared.refresh.borrow_and_update();
        let reading = Reading { kind: Kind::Namespace, version: "v1" };
        let uri = format!("/api/v1/namespaces/{}", self.namespace);
        let (changes, version) = match self.shared.api.get(&uri).await {
            Ok(body) => {
                let (object, version) = decode::single(&reading, &body)?;
                let known = self.held.as_ref().is_some_and(|held| *held == version);
                self.held = Some(version.clone());
                let change = (!known).then(|| Change::Apply(Arc::new(object)));
                (change.into_iter().collect(), version)
            }
            Err(failure) if failure.is_missing() => {
                let key = ObjectKey {
                    kind: Kind::Namespace,
                    namespace: "".into(),
                    name: self.namespace.clone(),
                };
                let gone = self.held.take().map(|_| Change::Delete(key));
                (gone.into_iter().collect::<Vec<_>>(), None)
            }
            Err(failure) => return Err(failure),
        };
        self.shared.board.listed(&self.key);
        let number = version.as_ref().and_then(Version::number);
        if !changes.is_empty() || self.told != Some(refresh) {
            self.told = Some(refresh);
            let (watch, kind) = (self.place, Kind::Namespace);
            let told = Told { watch, kind, changes, version: number, listed: Some(refresh) };
            // Nobody listens any more if this fails.
            let _ = self.shared.told.send(told).await;
        }
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
