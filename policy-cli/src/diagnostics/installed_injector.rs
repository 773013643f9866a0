//! The injector of an installation, as far as the answers about namespaces and pods depend on its flags.

use policy_webhooks::injector::{NamespaceContext, is_exempt};
use serde_json::Value;

/// The injector of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstalledInjector<'a> {
    /// The namespace of the control plane, whose pods have no sidecars.
    pub(crate) home: &'a str,
    /// True if `linkerd.io/inject` asks it, too (`injector.linkerdInject` of the chart).
    pub(crate) reads_linkerd: bool,
}

impl InstalledInjector<'_> {
    /// Reads the JSON of a Namespace as this injector does; `None` if it is of another kind.
    pub(crate) fn context(&self, namespace: &Value) -> Option<NamespaceContext> {
        let context = NamespaceContext::of(namespace)?;
        Some(NamespaceContext { reads_linkerd: self.reads_linkerd, ..context })
    }

    /// Returns a namespace of which only the name is known.
    pub(crate) fn unknown(&self, namespace: &str) -> NamespaceContext {
        let reads_linkerd = self.reads_linkerd;
        NamespaceContext { reads_linkerd, ..NamespaceContext::unknown(namespace) }
    }

    /// True if the API server sends it no pod of a namespace.
    pub(crate) fn leaves_alone(&self, namespace: &Value) -> bool {
        self.context(namespace).is_none_or(|context| is_exempt(&context, self.home))
    }

    /// True if a namespace asks it for sidecars and may get them. One that is being deleted gets no pods any
    /// more, however long a finalizer holds it back.
    pub(crate) fn is_asked_by(&self, namespace: &Value) -> bool {
        let asks = self.context(namespace).is_some_and(|context| context.is_enabled());
        let is_ending = namespace.pointer("/metadata/deletionTimestamp").is_some();
        asks && !is_ending && !self.leaves_alone(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn linkerds_annotation_asks_for_a_sidecar_only_where_the_installation_says_so() {
        let asks = |reads_linkerd: bool, annotations: Value, labels: Value| {
            let metadata = json!({"name": "shop", "annotations": annotations, "labels": labels});
            let injector = InstalledInjector { home: "mesh", reads_linkerd };
            injector.is_asked_by(&json!({"kind": "Namespace", "metadata": metadata}))
        };
        let (theirs, ours) =
            (json!({"linkerd.io/inject": "enabled"}), json!({"portcullis.dev/inject": "enabled"}));
        let none = || json!({});
        for (reads_linkerd, annotations, labels, expected) in [
            (false, theirs.clone(), none(), false),
            (true, theirs.clone(), none(), true),
            (false, theirs.clone(), ours.clone(), true),
            (false, ours.clone(), none(), true),
            (true, ours.clone(), none(), true),
            (false, none(), ours, true),
            (true, none(), none(), false),
            (true, json!({"linkerd.io/inject": "disabled"}), none(), false),
        ] {
            let case = (reads_linkerd, annotations.clone(), labels.clone());
            assert_eq!(asks(reads_linkerd, annotations, labels), expected, "{case:?}");
        }
    }
}
