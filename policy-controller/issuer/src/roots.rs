//! Brings the roots to pods: one ConfigMap in every namespace where there are proxies, as it should be
//! whoever changes or deletes it.
//!
//! Namespaces that ask for injection are those with the label that the controller keeps, or with the
//! annotations that the label stands for; a pod may ask on its own, so that a namespace with a pod that
//! was injected is one of them too. A ConfigMap that this control plane has made is kept right wherever
//! it is; none is ever deleted, because pods may still have it mounted.

use super::authority::Authority;
use super::bundle::{Bundle, signed_of};
use super::endorse::{self, is_current, later};
use super::error::CaError;
use super::spread::Published;
use super::watch::{Metadata, Told, Whole, list_and_watch};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use policy_tls::identity::SignedRoots;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// The ConfigMap of the roots, unless another name is configured.
pub const CONFIG_MAP: &str = policy_kube::names::TRUST_ROOTS;

/// The label of namespaces with injection, which is the name of its annotation too.
const INJECT: &str = "portcullis.dev/inject";

/// The annotation of Linkerd that means the same.
const LINKERD_INJECT: &str = "linkerd.io/inject";

/// The mark of pods that carry a proxy.
const INJECTED: &str = "portcullis.dev/proxy=injected";

/// The label of ConfigMaps that says whose roots they hold: the namespace of a control plane.
const CONTROL_PLANE: &str = "portcullis.dev/control-plane-ns";

/// Writes under way at a time.
const AT_ONCE: usize = 8;

/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(10);

const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;
const FORBIDDEN: u16 = 403;

/// Which namespaces get the roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootsScope {
    /// Those with injection, and the control plane's.
    Injected,
    /// These, and the control plane's. No object of the whole cluster is looked at.
    Named(BTreeSet<String>),
}

/// What is known of namespaces.
#[derive(Debug, Default)]
struct Seen {
    namespaces: BTreeMap<String, Ns>,
    /// Names of injected pods by namespace.
    pods: BTreeMap<String, BTreeSet<String>>,
    /// By namespace.
    maps: BTreeMap<String, ConfigMap>,
    /// The document that was published last.
    signed: Option<SignedRoots>,
    /// Whether the next authority vouches for itself.
    anew: bool,
    listed: BTreeSet<&'static str>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ns {
    asks: bool,
    ends: bool,
}

/// Publishes roots; clones share what is known.
#[derive(Clone)]
pub struct Roots {
    client: Client,
    name: String,
    home: String,
    to: RootsScope,
    seen: Arc<Mutex<Seen>>,
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Roots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roots").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What became of one ConfigMap.
enum Written {
    Made(ConfigMap),
    Restored(ConfigMap),
    /// The namespace is gone or going.
    Needless,
    Failed(String),
}

impl Roots {
    /// Publishes in ConfigMaps called `name`, one of them in the namespace `home`.
    pub(super) fn new(client: Client, name: &str, home: &str, to: RootsScope) -> Self {
        let (name, home) = (name.to_owned(), home.to_owned());
        Self { client, name, home, to, seen: Arc::default(), changed: Arc::default() }
    }

    /// Waits until something may have to be written.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether all that has to be known to publish everywhere has been seen.
    fn is_listed(&self) -> bool {
        matches!(self.to, RootsScope::Named(_)) || self.seen.lock().listed.len() == 3
    }

    /// Follows namespaces, pods and ConfigMaps, for ever. Where the namespaces are given there is
    /// nothing to be followed.
    pub async fn watch(self) {
        if matches!(self.to, RootsScope::Named(_)) {
            return std::future::pending().await;
        }
        let namespaces = Metadata::<Namespace>(Api::all(self.client.clone()));
        let pods = Metadata::<Pod>(Api::all(self.client.clone()));
        let maps = Whole::<ConfigMap>(Api::all(self.client.clone()));
        let named = format!("metadata.name={}", self.name);
        tokio::join!(
            list_and_watch("namespaces", namespaces, (None, None), |told| self.namespace(told)),
            list_and_watch("injected pods", pods, (None, Some(INJECTED)), |told| self.pod(told)),
            list_and_watch("ConfigMaps of roots", maps, (Some(&named), None), |told| self
                .map(told)),
        );
    }

    fn namespace<K: Resource>(&self, told: Told<K>) {
        let mut seen = self.seen.lock();
        match told {
            Told::All(all) => {
                seen.namespaces = all.iter().map(|one| (one.name_any(), Ns::of(one))).collect();
                seen.listed.insert("namespaces");
            }
            Told::There(one) => _ = seen.namespaces.insert(one.name_any(), Ns::of(&one)),
            Told::Gone(one) => _ = seen.namespaces.remove(&one.name_any()),
        }
        self.changed.notify_one();
    }

    fn pod<K: Resource>(&self, told: Told<K>) {
        let at = |pod: &K| (pod.namespace().unwrap_or_default(), pod.name_any());
        let mut seen = self.seen.lock();
        match told {
            Told::All(all) => {
                seen.pods.clear();
                for (namespace, name) in all.iter().map(at) {
                    seen.pods.entry(namespace).or_default().insert(name);
                }
                seen.listed.insert("pods");
                self.changed.notify_one();
            }
            Told::There(one) => {
                let (namespace, name) = at(&one);
                let pods = seen.pods.entry(namespace).or_default();
                // Only the first pod of a namespace changes anything.
                if pods.is_empty() {
                    self.changed.notify_one();
                }
                pods.insert(name);
            }
            Told::Gone(one) => {
                let (namespace, name) = at(&one);
                if let Some(pods) = seen.pods.get_mut(&namespace) {
                    pods.remove(&name);
                    if pods.is_empty() {
                        seen.pods.remove(&namespace);
                    }
                }
            }
        }
    }

    fn map(&self, told: Told<ConfigMap>) {
        let mut seen = self.seen.lock();
        match told {
            Told::All(all) => {
                let by_namespace = |map: ConfigMap| (map.namespace().unwrap_or_default(), map);
                seen.maps = all.into_iter().map(by_namespace).collect();
                seen.listed.insert("maps");
            }
            Told::There(one) => _ = seen.maps.insert(one.namespace().unwrap_or_default(), one),
            Told::Gone(one) => _ = seen.maps.remove(&one.namespace().unwrap_or_default()),
        }
        self.changed.notify_one();
    }

    /// Lets the next authority vouch for itself: the key of the one before it is lost, and nobody can
    /// vouch any more. Workloads that began with its roots have to be started anew.
    pub(super) fn begin_anew(&self) {
        self.seen.lock().anew = true;
    }

    /// Has `authority` vouch for these roots, in the control plane's own copy. Other replicas do the
    /// same: whoever writes first wins, and the others go on from that.
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
        let home: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.home);
        let found = tokio::time::timeout(PATIENCE, home.get_opt(&self.name));
        let found = found.await.map_err(|_| CaError::Late)??.filter(|map| self.is_ours(map));
        let there = found.as_ref().and_then(signed_of);
        let known = later(there, self.seen.lock().signed.clone());
        let document = match known {
            Some(known) if is_current(&known, bundle, authority, now) => known,
            before if self.seen.lock().anew => endorse::begin_anew(before, bundle, authority, now)?,
            before => endorse::endorse(before, bundle, authority, now)?,
        };
        let copy = Bundle { bundle: bundle.to_owned(), signed: Some(endorse::text(&document)) };
        if !found.as_ref().is_some_and(|map| copy.is(map)) {
            match self.write(&self.home, found, &copy).await {
                Written::Made(map) | Written::Restored(map) => {
                    self.seen.lock().maps.insert(self.home.clone(), map);
                }
                Written::Needless => return Err(CaError::Contended),
                Written::Failed(why) => return Err(CaError::Roots(why)),
            }
        }
        let mut seen = self.seen.lock();
        (seen.signed, seen.anew) = (Some(document), false);
        drop(seen);
        Ok(copy)
    }

    /// What the control plane's own copy says, where that is what is to be said.
    fn still_current(
        &self,
        bundle: &str,
        authority: &Authority,
        now: SystemTime,
    ) -> Option<Bundle> {
        let seen = self.seen.lock();
        let document = seen.signed.as_ref()?;
        let signed = Some(endorse::text(document));
        let wanted = Bundle { bundle: bundle.to_owned(), signed };
        let there = seen.maps.get(&self.home).is_some_and(|map| wanted.is(map));
        (there && is_current(document, bundle, authority, now)).then_some(wanted)
    }

    /// These roots with what vouched for roots last; `None`: what that was is not known, so that what
    /// is published already stays.
    pub(super) fn as_they_were(&self, bundle: &str) -> Option<Bundle> {
        let seen = self.seen.lock();
        let home = seen.maps.get(&self.home).filter(|map| self.is_ours(map));
        let document = later(home.and_then(signed_of), seen.signed.clone())?;
        Some(Bundle { bundle: bundle.to_owned(), signed: Some(endorse::text(&document)) })
    }

    /// Brings these roots wherever they are to be.
    pub(super) async fn publish(&self, copy: &Bundle) -> Published {
        if let RootsScope::Named(namespaces) = &self.to {
            self.look_at(namespaces).await;
        }
        let (right, wrong) = self.compare(copy);
        let writing = futures_util::stream::iter(wrong).map(|(namespace, map)| async move {
            let written = self.write(&namespace, map, copy).await;
            (namespace, written)
        });
        let written: Vec<_> = writing.buffer_unordered(AT_ONCE).collect().await;
        let mut published = Published { namespaces: right, ..Published::default() };
        for (namespace, written) in written {
            match written {
                Written::Made(map) => {
                    self.seen.lock().maps.insert(namespace, map);
                    published.namespaces = published.namespaces.saturating_add(1);
                }
                Written::Restored(map) => {
                    self.seen.lock().maps.insert(namespace.clone(), map);
                    published.namespaces = published.namespaces.saturating_add(1);
                    published.restored.push(namespace);
                }
                Written::Needless => {}
                Written::Failed(why) => published.pending.push((namespace, why)),
            }
        }
        if !self.is_listed() {
            let why = "namespaces, pods and ConfigMaps have not all been listed".to_owned();
            published.pending.push(("*".to_owned(), why));
        }
        published
    }

    /// How many namespaces have these roots, and which have not, with what they have instead.
    fn compare(&self, copy: &Bundle) -> (usize, Vec<(String, Option<ConfigMap>)>) {
        let seen = self.seen.lock();
        let mut wanted: BTreeSet<&str> = [self.home.as_str()].into();
        let asking = seen.namespaces.iter().filter(|(_, ns)| ns.asks);
        wanted.extend(asking.map(|(name, _)| name.as_str()));
        wanted.extend(seen.pods.keys().map(String::as_str));
        if let RootsScope::Named(namespaces) = &self.to {
            wanted.extend(namespaces.iter().map(String::as_str));
        }
        let ours = seen.maps.iter().filter(|(_, map)| self.is_ours(map));
        wanted.extend(ours.map(|(name, _)| name.as_str()));
        let ends = |name: &str| seen.namespaces.get(name).is_some_and(|ns| ns.ends);
        let (mut right, mut wrong) = (0_usize, Vec::new());
        for name in wanted.into_iter().filter(|name| !ends(name)) {
            match seen.maps.get(name) {
                Some(map) if copy.is(map) && self.is_ours(map) => right = right.saturating_add(1),
                other => wrong.push((name.to_owned(), other.cloned())),
            }
        }
        (right, wrong)
    }

    /// Another control plane of the cluster has its own.
    fn is_ours(&self, map: &ConfigMap) -> bool {
        map.labels().get(CONTROL_PLANE) == Some(&self.home)
    }

    async fn look_at(&self, namespaces: &BTreeSet<String>) {
        for namespace in namespaces.iter().chain([&self.home]) {
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
            let found = tokio::time::timeout(PATIENCE, api.get_opt(&self.name)).await;
            let mut seen = self.seen.lock();
            match found {
                Ok(Ok(Some(map))) => _ = seen.maps.insert(namespace.clone(), map),
                Ok(Ok(None)) => _ = seen.maps.remove(namespace),
                // Writing tells what is wrong.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    async fn write(&self, namespace: &str, held: Option<ConfigMap>, copy: &Bundle) -> Written {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let (exists, map) = (held.is_some(), self.map_of(held, copy));
        let params = PostParams::default();
        let writing = async {
            match exists {
                // With the version that was seen: what others wrote meanwhile is looked at first.
                true => api.replace(&self.name, &params, &map).await,
                false => api.create(&params, &map).await,
            }
        };
        match tokio::time::timeout(PATIENCE, writing).await {
            Ok(Ok(map)) if exists => Written::Restored(map),
            Ok(Ok(map)) => Written::Made(map),
            Ok(Err(kube::Error::Api(status))) => self.refused(namespace, &status),
            Ok(Err(error)) => Written::Failed(error.to_string()),
            Err(_) => Written::Failed("the API server did not answer in time".to_owned()),
        }
    }

    fn refused(&self, namespace: &str, status: &kube::core::Status) -> Written {
        let ending = status.code == FORBIDDEN && status.message.contains("being terminated");
        match status.code {
            NOT_FOUND => {
                // Deleted since it was seen; the watch tells, and then it is made again.
                self.seen.lock().maps.remove(namespace);
                self.changed.notify_one();
                Written::Needless
            }
            FORBIDDEN if ending => Written::Needless,
            CONFLICT => Written::Failed("it is being changed by others".to_owned()),
            _ => Written::Failed(status.message.clone()),
        }
    }

    /// The ConfigMap as it should be: what others have put beside the roots is taken out, their labels
    /// and annotations are theirs.
    fn map_of(&self, held: Option<ConfigMap>, copy: &Bundle) -> ConfigMap {
        let mut metadata = held.map(|held| held.metadata).unwrap_or_else(|| ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        });
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "portcullis-issuer".to_owned());
        labels.insert(CONTROL_PLANE.to_owned(), self.home.clone());
        metadata.managed_fields = None;
        ConfigMap { metadata, data: Some(copy.data()), ..ConfigMap::default() }
    }
}

impl Ns {
    fn of<K: Resource>(namespace: &K) -> Self {
        let enabled = |texts: &BTreeMap<String, String>, key: &str| {
            texts.get(key).is_some_and(|value| value == "enabled")
        };
        let asks = enabled(namespace.labels(), INJECT)
            || enabled(namespace.annotations(), INJECT)
            || enabled(namespace.annotations(), LINKERD_INJECT);
        Self { asks, ends: namespace.meta().deletion_timestamp.is_some() }
    }
}

#[cfg(test)]
mod tests;
