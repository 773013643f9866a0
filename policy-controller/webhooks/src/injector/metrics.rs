//! What the injector counts.

use crate::metric_names::{INJECTOR_LABEL_FAILURES, INJECTOR_PODS_WITHOUT, INJECTOR_RESPONSES};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Namespace {
    namespace: String,
}

/// Handles on the injector's metrics; clones share them.
#[derive(Clone, Debug, Default)]
pub struct InjectorMetrics {
    responses: Family<Answered, Counter>,
    without: Family<Namespace, Gauge>,
    label_failures: Counter,
}

impl InjectorMetrics {
    /// Makes them part of a page.
    pub fn register(&self, registry: &mut Registry) {
        let (name, help) = (INJECTOR_RESPONSES.name, INJECTOR_RESPONSES.help);
        registry.register(name, help, self.responses.clone());
        let (name, help) = (INJECTOR_PODS_WITHOUT.name, INJECTOR_PODS_WITHOUT.help);
        registry.register(name, help, self.without.clone());
        let (name, help) = (INJECTOR_LABEL_FAILURES.name, INJECTOR_LABEL_FAILURES.help);
        registry.register(name, help, self.label_failures.clone());
    }

    /// A review was answered.
    pub(super) fn answered(&self, outcome: &'static str) {
        self.responses.get_or_create(&Answered { outcome }).inc();
    }

    /// So many pods of each namespace lack a sidecar.
    pub(super) fn without(&self, namespaces: &BTreeMap<String, i64>) {
        self.without.clear();
        for (namespace, count) in namespaces {
            let labels = Namespace { namespace: namespace.clone() };
            self.without.get_or_create(&labels).set(*count);
        }
    }

    /// A label of a namespace could not be written.
    pub(super) fn label_failed(&self) {
        self.label_failures.inc();
    }
}
