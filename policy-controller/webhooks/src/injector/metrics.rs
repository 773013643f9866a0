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
            "Pods that the injector was asked about, by what became of them";
        without: Family<NamespaceLabels, Gauge> = "injector_pods_without_sidecar",
            "Running pods that ought to have a sidecar and have none, by namespace; the leader counts";
        label_failures: Counter = "injector_label_failures",
            "Attempts to write the label of a namespace that asks for injection that failed";
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
