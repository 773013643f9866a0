//! Metrics of the injector.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NamespaceLabels {
    namespace: String,
}

policy_core::metrics! {
    /// Handles on the injector's metrics; clones share them.
    #[derive(Clone, Debug)]
    pub struct InjectorMetrics {
        responses: Family<OutcomeLabels, Counter> = "injector_responses",
            "Reviews of pods by the injector, by outcome";
        without: Family<NamespaceLabels, Gauge> = "injector_pods_without_sidecar",
            "Running pods that should have a sidecar but have none, by namespace; counted by the leader";
        label_failures: Counter = "injector_label_failures",
            "Failed attempts to write the injection label of a namespace";
    }
}

impl InjectorMetrics {
    /// Counts a response.
    pub(super) fn answered(&self, outcome: &'static str) {
        self.responses.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Sets the number of pods without a sidecar in each namespace.
    pub(super) fn without(&self, namespaces: &BTreeMap<String, i64>) {
        self.without.clear();
        for (namespace, count) in namespaces {
            let labels = NamespaceLabels { namespace: namespace.clone() };
            self.without.get_or_create(&labels).set(*count);
        }
    }

    /// Counts a failed write of a namespace's label.
    pub(super) fn label_failed(&self) {
        self.label_failures.inc();
    }
}
