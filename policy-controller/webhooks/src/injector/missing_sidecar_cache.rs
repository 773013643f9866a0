//! Finds the pods without a sidecar incrementally: an update costs work only for objects that have
//! changed since the last one.
//!
//! **Invariant.** The cached result of a pod equals a new evaluation: it is dropped with the pod,
//! with another version of it, and when its namespace changes what it says about injection.

use super::element::owned;
use super::missing_sidecar::{MissingSidecar, PodFacts, missing_sidecar};
use super::opt_in::NamespaceContext;
use super::sidecar::INBOUND_PORT;
use policy_crds::annotation::{PROXY_INJECTED, PROXY_LABEL};
use policy_crds::resource::PodSidecar;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::collections::HashMap;
use std::sync::Arc;

/// Results of the last update.
#[derive(Debug, Default)]
pub(super) struct MissingSidecarCache {
    namespaces: HashMap<Arc<str>, CachedNamespace>,
    pods: HashMap<ObjectKey, CachedPod>,
    /// Number of updates.
    turn: u64,
    #[cfg(test)]
    evaluated: usize,
}

/// A namespace, and the update that last changed what it says about injection.
#[derive(Debug)]
struct CachedNamespace {
    object: Arc<Object>,
    context: NamespaceContext,
    since: u64,
    seen: u64,
}

#[derive(Debug)]
struct CachedPod {
    object: Arc<Object>,
    missing: Option<MissingSidecar>,
    at: u64,
    seen: u64,
}

impl MissingSidecarCache {
    /// Updates the cache to these objects; `control_plane` is the namespace of the control plane.
    /// `reads_linkerd`: Linkerd's annotation asks, too.
    pub(super) fn update(
        &mut self,
        namespaces: &[Arc<Object>],
        pods: &[Arc<Object>],
        control_plane: &str,
        reads_linkerd: bool,
    ) {
        self.turn = self.turn.saturating_add(1);
        let turn = self.turn;
        for namespace in namespaces {
            self.namespace(namespace, reads_linkerd);
        }
        self.namespaces.retain(|_, namespace| namespace.seen == turn);
        for pod in pods {
            self.pod(pod, control_plane);
        }
        self.pods.retain(|_, cached| cached.seen == turn);
    }

    /// Returns the pods without a sidecar, and the reason why they should have one.
    pub(super) fn found(&self) -> impl Iterator<Item = (&Arc<Object>, MissingSidecar)> {
        self.pods.values().filter_map(|cached| Some((&cached.object, cached.missing?)))
    }

    fn namespace(&mut self, object: &Arc<Object>, reads_linkerd: bool) {
        let turn = self.turn;
        match self.namespaces.get_mut(&object.meta.key.name) {
            Some(cached) if Arc::ptr_eq(&cached.object, object) => cached.seen = turn,
            Some(cached) => {
                let context = namespace_context(object, reads_linkerd);
                // Other changes of a namespace do not affect its pods.
                if context != cached.context {
                    (cached.context, cached.since) = (context, turn);
                }
                (cached.object, cached.seen) = (object.clone(), turn);
            }
            None => {
                let context = namespace_context(object, reads_linkerd);
                let object = object.clone();
                let name = object.meta.key.name.clone();
                let cached = CachedNamespace { object, context, since: turn, seen: turn };
                self.namespaces.insert(name, cached);
            }
        }
    }

    fn pod(&mut self, object: &Arc<Object>, control_plane: &str) {
        let turn = self.turn;
        let Some(namespace) = self.namespaces.get(&object.meta.key.namespace) else { return };
        if let Some(cached) = self.pods.get_mut(&object.meta.key)
            && Arc::ptr_eq(&cached.object, object)
            && cached.at >= namespace.since
        {
            cached.seen = turn;
            return;
        }
        #[cfg(test)]
        {
            self.evaluated = self.evaluated.saturating_add(1);
        }
        let missing = missing_sidecar(&facts(object), &namespace.context, control_plane);
        let cached = CachedPod { object: object.clone(), missing, at: turn, seen: turn };
        self.pods.insert(object.meta.key.clone(), cached);
    }
}

fn namespace_context(namespace: &Object, reads_linkerd: bool) -> NamespaceContext {
    NamespaceContext {
        namespace: namespace.meta.key.name.to_string(),
        annotations: owned(&namespace.meta.annotations),
        labels: owned(&namespace.meta.labels),
        default_enabled: false,
        is_assumed: false,
        reads_linkerd,
    }
}

/// Reads the properties of a pod in the index. A pod with its node's addresses uses the host
/// network. The sidecar's label, which any client can write, and its container, which copies of a pod
/// have without the label, count only together with its port.
fn facts(object: &Object) -> PodFacts {
    let mut labels = owned(&object.meta.labels);
    let (host_network, running) = match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            let shared = pod.addresses.iter().any(|own| pod.host_addresses.contains(own));
            let listens = pod.ports.iter().any(|port| port.number.get() == INBOUND_PORT);
            if listens && pod.sidecar != PodSidecar::None {
                labels.insert(PROXY_LABEL.to_owned(), PROXY_INJECTED.to_owned());
            } else {
                labels.remove(PROXY_LABEL);
            }
            (shared, pod.running)
        }
        Body::Valid(_) | Body::Invalid(_) => (false, false),
    };
    PodFacts {
        labels,
        annotations: owned(&object.meta.annotations),
        host_network,
        running,
        containers: None,
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use policy_engine::testing::object;

    #[test]
    fn a_label_without_the_port_of_a_sidecar_is_no_sidecar() {
        let lacks = |container: &str| {
            let pod = object(&format!(
                "{{apiVersion: v1, kind: Pod, \
                  metadata: {{name: web, namespace: shop, labels: {{portcullis.dev/proxy: injected}}}}, \
                  spec: {{containers: [{{name: web, {container}}}]}}, status: {{phase: Running}}}}"
            ));
            let annotations = [("portcullis.dev/inject".to_owned(), "enabled".to_owned())];
            let context = NamespaceContext {
                annotations: annotations.into(),
                ..NamespaceContext::unknown("shop")
            };
            missing_sidecar(&facts(&pod), &context, "portcullis")
        };
        assert_eq!(lacks("ports: []"), Some(MissingSidecar::ByNamespace));
        assert_eq!(lacks("ports: [{containerPort: 4143}]"), None);
    }

    #[test]
    fn a_copy_of_a_pod_without_its_labels_has_the_sidecar_that_it_has() {
        let copy = |name: &str| {
            let pod = object(&format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: copy, namespace: shop}}, \
                  spec: {{containers: [{{name: web}}], initContainers: \
                  [{{name: {name}, ports: [{{containerPort: 4143}}]}}]}}, status: {{phase: Running}}}}"
            ));
            let annotations = [("portcullis.dev/inject".to_owned(), "enabled".to_owned())];
            let context = NamespaceContext {
                annotations: annotations.into(),
                ..NamespaceContext::unknown("shop")
            };
            missing_sidecar(&facts(&pod), &context, "portcullis")
        };
        assert_eq!(copy("portcullis-proxy"), None);
        assert_eq!(copy("another"), Some(MissingSidecar::ByNamespace));
    }

    fn pod(name: &str) -> Arc<Object> {
        object(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop}}, \
              spec: {{containers: [{{name: web}}]}}, status: {{phase: Running}}}}"
        ))
    }

    fn namespace(annotations: &str) -> Arc<Object> {
        let meta = format!("{{name: shop, annotations: {{{annotations}}}}}");
        object(&format!("{{apiVersion: v1, kind: Namespace, metadata: {meta}}}"))
    }

    #[test]
    fn a_change_among_ten_thousand_pods_is_one_pod_that_is_looked_at() {
        let (mut cache, mut namespaces) = (MissingSidecarCache::default(), vec![namespace("")]);
        let mut pods: Vec<_> = (0..10_000).map(|number| pod(&format!("web-{number}"))).collect();
        let evaluated = |cache: &mut MissingSidecarCache, namespaces: &[_], pods: &[_]| {
            let before = cache.evaluated;
            cache.update(namespaces, pods, "portcullis", false);
            (cache.evaluated - before, cache.found().count())
        };
        assert_eq!(evaluated(&mut cache, &namespaces, &pods), (10_000, 0));
        assert_eq!(evaluated(&mut cache, &namespaces, &pods), (0, 0), "nothing has changed");
        pods[7] = pod("web-7");
        assert_eq!(evaluated(&mut cache, &namespaces, &pods), (1, 0));
        // An unrelated change of a namespace evaluates nothing; opting in evaluates every pod.
        namespaces[0] = namespace("team: a");
        cache.update(&namespaces, &pods, "portcullis", false);
        namespaces[0] = namespace("team: a, portcullis.dev/inject: enabled");
        assert_eq!(evaluated(&mut cache, &namespaces, &pods), (10_000, 10_000));
        pods.pop();
        assert_eq!(evaluated(&mut cache, &namespaces, &pods), (0, 9_999), "it is gone");
        namespaces.clear();
        assert_eq!(evaluated(&mut cache, &namespaces, &pods), (0, 0));
    }
}
