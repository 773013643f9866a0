//! Publishes the roots: one ConfigMap in every namespace with proxies, restored if another client
//! changes or deletes it.
//!
//! Namespaces with injection have the label that the controller maintains or the annotations that
//! the label stands for. A pod may opt in on its own, so a namespace with an injected pod counts
//! too. A ConfigMap that this control plane created is maintained in any namespace. None is deleted,
//! because pods may have it mounted, except to be created again at once where it is immutable.

mod reduced;

use super::authority::Authority;
use super::bundle::{Bundle, signed_of};
use super::endorse::{self, is_current, later};
use super::error::CaError;
use super::map_writer::{MapWriter, REQUEST_TIMEOUT, WriteResult};
use super::publish_result::PublishResult;
use super::watch::{MetadataOnly, ObjectEvent, WholeObjects, list_and_watch};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::Api;
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use policy_tls::identity::SignedRoots;
use reduced::{INJECT, to_injection, to_roots};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Notify;

/// Default name of the ConfigMap of the roots.
pub const CONFIG_MAP: &str = policy_kube::names::TRUST_ROOTS;

/// The label selector of injected pods.
const INJECTED: &str = "portcullis.dev/proxy=injected";

/// Maximum number of concurrent writes.
const CONCURRENT_WRITES: usize = 8;

/// The namespaces in which roots are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootsScope {
    /// Namespaces with injection, and the control plane's.
    Injected,
    /// These namespaces and the control plane's. No cluster-wide watch is needed.
    Named(BTreeSet<String>),
}

/// Cache of the watched objects.
#[derive(Debug, Default)]
struct RootsCache {
    namespaces: BTreeMap<String, NamespaceState>,
    /// Names of injected pods by namespace.
    pods: BTreeMap<String, BTreeSet<String>>,
    /// ConfigMaps of roots by namespace.
    maps: BTreeMap<String, ConfigMap>,
    /// The document that was published last.
    signed: Option<SignedRoots>,
    /// True if the next authority may endorse itself.
    unchecked: bool,
    listed: BTreeSet<&'static str>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NamespaceState {
    wants_roots: bool,
    terminating: bool,
}

/// Publishes roots; clones share the cache.
#[derive(Clone)]
pub struct Roots {
    writer: MapWriter,
    to: RootsScope,
    cache: Arc<Mutex<RootsCache>>,
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Roots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roots").field("name", &self.writer.name).finish_non_exhaustive()
    }
}

impl Roots {
    /// Publishes in ConfigMaps called `name`, among them the one in the control plane's namespace
    /// `home`.
    pub(super) fn new(client: Client, name: &str, home: &str, to: RootsScope) -> Self {
        let writer = MapWriter { client, name: name.to_owned(), home: home.to_owned() };
        Self { writer, to, cache: Arc::default(), changed: Arc::default() }
    }

    /// Returns the control plane's own namespace.
    pub(super) fn home(&self) -> &String {
        &self.writer.home
    }

    /// Waits until a ConfigMap may have to be written.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// True if the cache has everything that publishing everywhere needs.
    fn is_listed(&self) -> bool {
        matches!(self.to, RootsScope::Named(_)) || self.cache.lock().listed.len() == 3
    }

    /// Watches namespaces, pods and ConfigMaps forever. With given namespaces there is nothing to
    /// watch.
    pub async fn watch(self) {
        if matches!(self.to, RootsScope::Named(_)) {
            return std::future::pending().await;
        }
        let namespaces = MetadataOnly::<Namespace>(Api::all(self.writer.client.clone()));
        let pods = MetadataOnly::<Pod>(Api::all(self.writer.client.clone()));
        let maps = WholeObjects::<ConfigMap>(Api::all(self.writer.client.clone()));
        let named = format!("metadata.name={}", self.writer.name);
        tokio::join!(
            list_and_watch("namespaces", namespaces, (None, None), to_injection, |event| self
                .namespace(event)),
            list_and_watch("injected pods", pods, (None, Some(INJECTED)), to_injection, |event| {
                self.pod(event)
            }),
            list_and_watch("ConfigMaps of roots", maps, (Some(&named), None), to_roots, |event| {
                self.map(event)
            }),
        );
    }

    fn namespace<K: Resource>(&self, event: ObjectEvent<K>) {
        let mut cache = self.cache.lock();
        match event {
            ObjectEvent::Listed(all) => {
                cache.namespaces =
                    all.iter().map(|one| (one.name_any(), NamespaceState::of(one))).collect();
                cache.listed.insert("namespaces");
            }
            ObjectEvent::Applied(one) => {
                _ = cache.namespaces.insert(one.name_any(), NamespaceState::of(&one))
            }
            ObjectEvent::Deleted(one) => _ = cache.namespaces.remove(&one.name_any()),
        }
        self.changed.notify_one();
    }

    fn pod<K: Resource>(&self, event: ObjectEvent<K>) {
        let at = |pod: &K| (pod.namespace().unwrap_or_default(), pod.name_any());
        let mut cache = self.cache.lock();
        match event {
            ObjectEvent::Listed(all) => {
                cache.pods.clear();
                for (namespace, name) in all.iter().map(at) {
                    cache.pods.entry(namespace).or_default().insert(name);
                }
                cache.listed.insert("pods");
                self.changed.notify_one();
            }
            ObjectEvent::Applied(one) => {
                let (namespace, name) = at(&one);
                let pods = cache.pods.entry(namespace).or_default();
                // Only the first pod of a namespace changes anything.
                if pods.is_empty() {
                    self.changed.notify_one();
                }
                pods.insert(name);
            }
            ObjectEvent::Deleted(one) => {
                let (namespace, name) = at(&one);
                if let Some(pods) = cache.pods.get_mut(&namespace) {
                    pods.remove(&name);
                    if pods.is_empty() {
                        cache.pods.remove(&namespace);
                    }
                }
            }
        }
    }

    fn map(&self, event: ObjectEvent<ConfigMap>) {
        let mut cache = self.cache.lock();
        match event {
            ObjectEvent::Listed(all) => {
                let by_namespace = |map: ConfigMap| (map.namespace().unwrap_or_default(), map);
                cache.maps = all.into_iter().map(by_namespace).collect();
                cache.listed.insert("maps");
            }
            ObjectEvent::Applied(one) => {
                _ = cache.maps.insert(one.namespace().unwrap_or_default(), one)
            }
            ObjectEvent::Deleted(one) => {
                _ = cache.maps.remove(&one.namespace().unwrap_or_default())
            }
        }
        self.changed.notify_one();
    }

    /// Allows the next authority to endorse itself, because the key of the previous one is lost and
    /// no authority can endorse it. Workloads that began with its roots have to be restarted.
    pub(super) fn allow_unchecked_endorsement(&self) {
        self.cache.lock().unchecked = true;
    }

    /// Lets `authority` endorse these roots in the control plane's own copy. Other replicas do the
    /// same: the first write wins, and the others continue from it.
    ///
    /// # Errors
    /// Why there is nothing new that could be published.
    pub(super) async fn endorse(
        &self,
        bundle: &str,
        authority: &Authority,
        now: SystemTime,
    ) -> Result<Bundle, CaError> {
        if let Some(current) = self.still_current(bundle, authority, now) {
            return Ok(current);
        }
        let home = self.writer.maps(self.home());
        let found = tokio::time::timeout(REQUEST_TIMEOUT, home.get_opt(&self.writer.name));
        let found = found.await.map_err(|_| CaError::Timeout)??;
        let found = found.filter(|map| self.writer.is_ours(map));
        let there = found.as_ref().and_then(signed_of);
        let known = later(there, self.cache.lock().signed.clone());
        let document = match known {
            Some(known) if is_current(&known, bundle, authority, now) => known,
            before if self.cache.lock().unchecked => {
                endorse::endorse_unchecked(before, bundle, authority, now)?
            }
            before => endorse::endorse(before, bundle, authority, now)?,
        };
        let copy = Bundle { bundle: bundle.to_owned(), signed: Some(endorse::encode(&document)) };
        if !found.as_ref().is_some_and(|map| copy.is(map)) {
            match self.writer.write(self.home(), found, &copy).await {
                WriteResult::Created(map) | WriteResult::Restored(map) => {
                    self.cache.lock().maps.insert(self.home().clone(), map);
                }
                WriteResult::Missing => {
                    self.forget(self.home());
                    return Err(CaError::Contended);
                }
                WriteResult::Terminating => return Err(CaError::Contended),
                WriteResult::Refused(why) | WriteResult::Failed(why) => {
                    return Err(CaError::Roots(why));
                }
            }
        }
        let mut cache = self.cache.lock();
        (cache.signed, cache.unchecked) = (Some(document), false);
        drop(cache);
        Ok(copy)
    }

    /// Returns the control plane's own copy if it is current.
    fn still_current(
        &self,
        bundle: &str,
        authority: &Authority,
        now: SystemTime,
    ) -> Option<Bundle> {
        let cache = self.cache.lock();
        let document = cache.signed.as_ref()?;
        let signed = Some(endorse::encode(document));
        let wanted = Bundle { bundle: bundle.to_owned(), signed };
        let there = cache.maps.get(self.home()).is_some_and(|map| wanted.is(map));
        (there && is_current(document, bundle, authority, now)).then_some(wanted)
    }

    /// Returns these roots with the last known endorsement; `None` if that is not known, so that
    /// published ConfigMaps stay as they are.
    pub(super) fn last_endorsed(&self, bundle: &str) -> Option<Bundle> {
        let cache = self.cache.lock();
        let home = cache.maps.get(self.home()).filter(|map| self.writer.is_ours(map));
        let document = later(home.and_then(signed_of), cache.signed.clone())?;
        Some(Bundle { bundle: bundle.to_owned(), signed: Some(endorse::encode(&document)) })
    }

    /// Writes these roots into every namespace that needs them.
    pub(super) async fn publish(&self, copy: &Bundle) -> PublishResult {
        if let RootsScope::Named(namespaces) = &self.to {
            self.fetch(namespaces).await;
        }
        let (right, wrong) = self.compare(copy);
        let writing = futures_util::stream::iter(wrong).map(|(namespace, map)| async move {
            let written = self.writer.write(&namespace, map, copy).await;
            (namespace, written)
        });
        let written: Vec<_> = writing.buffer_unordered(CONCURRENT_WRITES).collect().await;
        let mut published = PublishResult { namespaces: right, ..PublishResult::default() };
        for (namespace, written) in written {
            match written {
                WriteResult::Created(map) => {
                    self.cache.lock().maps.insert(namespace.clone(), map);
                    published.namespaces.insert(namespace);
                }
                WriteResult::Restored(map) => {
                    self.cache.lock().maps.insert(namespace.clone(), map);
                    published.restored.push(namespace.clone());
                    published.namespaces.insert(namespace);
                }
                // The watch reports it, and the ConfigMap is created again.
                WriteResult::Missing => self.forget(&namespace),
                WriteResult::Terminating => {}
                WriteResult::Refused(why) => published.refused.push((namespace, why)),
                WriteResult::Failed(why) => published.pending.push((namespace, why)),
            }
        }
        if !self.is_listed() {
            let why = "namespaces, pods and ConfigMaps have not all been listed".to_owned();
            published.pending.push(("*".to_owned(), why));
        }
        published
    }

    /// Forgets a ConfigMap that was deleted since it was cached.
    fn forget(&self, namespace: &str) {
        self.cache.lock().maps.remove(namespace);
        self.changed.notify_one();
    }

    /// Returns the namespaces with these roots, and the others with their current ConfigMap.
    fn compare(&self, copy: &Bundle) -> (BTreeSet<String>, Vec<(String, Option<ConfigMap>)>) {
        let cache = self.cache.lock();
        let mut wanted: BTreeSet<&str> = [self.home().as_str()].into();
        let asking = cache.namespaces.iter().filter(|(_, state)| state.wants_roots);
        wanted.extend(asking.map(|(name, _)| name.as_str()));
        wanted.extend(cache.pods.keys().map(String::as_str));
        if let RootsScope::Named(namespaces) = &self.to {
            wanted.extend(namespaces.iter().map(String::as_str));
        }
        let ours = cache.maps.iter().filter(|(_, map)| self.writer.is_ours(map));
        wanted.extend(ours.map(|(name, _)| name.as_str()));
        let terminating =
            |name: &str| cache.namespaces.get(name).is_some_and(|state| state.terminating);
        let (mut right, mut wrong) = (BTreeSet::new(), Vec::new());
        for name in wanted.into_iter().filter(|name| !terminating(name)) {
            match cache.maps.get(name) {
                Some(map) if copy.is(map) && self.writer.is_ours(map) => {
                    right.insert(name.to_owned());
                }
                other => wrong.push((name.to_owned(), other.cloned())),
            }
        }
        (right, wrong)
    }

    async fn fetch(&self, namespaces: &BTreeSet<String>) {
        for namespace in namespaces.iter().chain([self.home()]) {
            let maps = self.writer.maps(namespace);
            let found =
                tokio::time::timeout(REQUEST_TIMEOUT, maps.get_opt(&self.writer.name)).await;
            let mut cache = self.cache.lock();
            match found {
                Ok(Ok(Some(mut map))) => {
                    to_roots(&mut map);
                    cache.maps.insert(namespace.clone(), map);
                }
                Ok(Ok(None)) => _ = cache.maps.remove(namespace),
                // The write that follows reports the error.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}

impl NamespaceState {
    fn of<K: Resource>(namespace: &K) -> Self {
        let enabled = |texts: &BTreeMap<String, String>, key: &str| {
            texts.get(key).is_some_and(|value| value == "enabled")
        };
        let wants_roots =
            enabled(namespace.labels(), INJECT) || enabled(namespace.annotations(), INJECT);
        Self { wants_roots, terminating: namespace.meta().deletion_timestamp.is_some() }
    }
}

#[cfg(test)]
mod tests;
