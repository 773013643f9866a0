//! Metrics of the index: number of objects, and cost of changes.

use crate::delegations::DelegationCounts;
use crate::index::Index;
use crate::metric_names as names;
use parking_lot::Mutex;
use policy_core::metric::Metric;
use policy_crds::{Kind, ObjectKey};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The metrics by which Linkerd counts objects by namespace. The table of kinds says which kinds each
/// of them counts.
const BY_NAMESPACE: [Metric; 8] = [
    names::INDEX_MESH_TLS_AUTHENTICATION,
    names::INDEX_NETWORK_AUTHENTICATION,
    names::INDEX_POD,
    names::INDEX_EXTERNAL_WORKLOAD,
    names::INDEX_SERVER,
    names::INDEX_SERVER_AUTHORIZATION,
    names::INDEX_AUTHORIZATION_POLICY,
    names::INDEX_HTTP_ROUTE,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NamespaceLabels {
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// Number of objects by kind and namespace.
type ObjectCounts = BTreeMap<Kind, BTreeMap<Arc<str>, usize>>;

/// Handles on the metrics of the index; clones share them.
#[derive(Clone, Debug)]
pub struct IndexMetrics {
    by_namespace: [Family<NamespaceLabels, Gauge>; BY_NAMESPACE.len()],
    objects: Family<KindLabels, Gauge>,
    counted: Arc<Mutex<ObjectCounts>>,
    changes: Histogram,
    seconds: Family<StageLabels, Histogram, fn() -> Histogram>,
    answered: Family<StageLabels, Counter>,
    answers: Gauge,
    waiting: Gauge,
    batches_waiting: Gauge,
    claims: Family<StateLabels, Gauge>,
    denied_rules: Gauge,
    orphans: Gauge,
    pods_outside: Gauge,
    kept: Family<KindLabels, Gauge>,
}

impl Default for IndexMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new([0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]);
        Self {
            by_namespace: Default::default(),
            objects: Family::default(),
            counted: Arc::default(),
            changes: Histogram::new([1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]),
            seconds: Family::new_with_constructor(seconds),
            answered: Family::default(),
            answers: Gauge::default(),
            waiting: Gauge::default(),
            batches_waiting: Gauge::default(),
            claims: Family::default(),
            denied_rules: Gauge::default(),
            orphans: Gauge::default(),
            pods_outside: Gauge::default(),
            kept: Family::default(),
        }
    }
}

/// The work of the engine so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// Answers that are kept.
    pub(crate) answers: usize,
    /// Query executions while resolving.
    pub(crate) resolved: u64,
    /// The same while compiling.
    pub(crate) compiled: u64,
}

impl IndexMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        for (metric, family) in BY_NAMESPACE.iter().zip(&self.by_namespace) {
            registry.register(metric.name, metric.help, family.clone());
        }
        let Metric { name, help, .. } = names::INDEX_OBJECTS;
        registry.register(name, help, self.objects.clone());
        let Metric { name, help, .. } = names::INDEX_BATCH_CHANGES;
        registry.register(name, help, self.changes.clone());
        let Metric { name, help, .. } = names::INDEX_SECONDS;
        registry.register(name, help, self.seconds.clone());
        let Metric { name, help, .. } = names::INDEX_ANSWERED;
        registry.register(name, help, self.answered.clone());
        let Metric { name, help, .. } = names::INDEX_ANSWERS;
        registry.register(name, help, self.answers.clone());
        let Metric { name, help, .. } = names::INDEX_LOOKUPS_WAITING;
        registry.register(name, help, self.waiting.clone());
        let Metric { name, help, .. } = names::INDEX_BATCHES_WAITING;
        registry.register(name, help, self.batches_waiting.clone());
        let Metric { name, help, .. } = names::INDEX_CLAIMS;
        registry.register(name, help, self.claims.clone());
        let Metric { name, help, .. } = names::INDEX_DENIED_RULES;
        registry.register(name, help, self.denied_rules.clone());
        let Metric { name, help, .. } = names::INDEX_ORPHANS;
        registry.register(name, help, self.orphans.clone());
        let Metric { name, help, .. } = names::INDEX_PODS_OUTSIDE;
        registry.register(name, help, self.pods_outside.clone());
        let Metric { name, help, .. } = names::INDEX_KEPT;
        registry.register(name, help, self.kept.clone());
    }

    /// Records a batch: the number of changes, and the duration of each stage.
    pub(crate) fn applied(&self, changes: usize, resolve: Duration, publish: Duration) {
        self.changes.observe(f64::from(u32::try_from(changes).unwrap_or(u32::MAX)));
        for (stage, time) in [("resolve", resolve), ("publish", publish)] {
            self.seconds.get_or_create(&StageLabels { stage }).observe(time.as_secs_f64());
        }
    }

    /// Records the lengths of the queues.
    pub(crate) fn waiting(&self, batches: usize, lookups: usize) {
        set(&self.batches_waiting, batches);
        set(&self.waiting, lookups);
    }

    /// Records the query executions of a batch.
    pub(crate) fn effort(&self, before: Effort, after: Effort) {
        let stages = [
            ("resolve", before.resolved, after.resolved),
            ("compile", before.compiled, after.compiled),
        ];
        for (stage, before, after) in stages {
            let answered = self.answered.get_or_create(&StageLabels { stage });
            answered.inc_by(after.saturating_sub(before));
        }
        set(&self.answers, after.answers);
    }

    /// Records the numbers of claims, vertices and rules of InboundRoutes.
    pub(crate) fn delegations(&self, counts: DelegationCounts) {
        for (state, number) in [("active", counts.active), ("inactive", counts.inactive)] {
            set(&self.claims.get_or_create(&StateLabels { state }), number);
        }
        set(&self.denied_rules, counts.denied);
        set(&self.orphans, counts.orphans);
    }

    /// Records the number of pods with an address that no sidecar looks up.
    pub(crate) fn pods_outside(&self, number: usize) {
        set(&self.pods_outside, number);
    }

    /// Records the objects that are in force although the definitions of their kinds are gone.
    pub(crate) fn kept<'a>(&self, kept: impl Iterator<Item = &'a ObjectKey>) {
        let mut numbers: BTreeMap<Kind, usize> = BTreeMap::new();
        for key in kept {
            let number = numbers.entry(key.kind).or_default();
            *number = number.saturating_add(1);
        }
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_custom()) {
            let labels = KindLabels { kind: kind.as_str() };
            match numbers.get(&kind) {
                Some(number) => set(&self.kept.get_or_create(&labels), *number),
                None => _ = self.kept.remove(&labels),
            }
        }
    }

    /// Counts the objects of these kinds and namespaces again.
    pub(crate) fn count(&self, index: &Index, touched: &BTreeSet<(Kind, Arc<str>)>) {
        let mut counted = self.counted.lock();
        for (kind, namespace) in touched {
            let number = index.count(*kind, namespace);
            let of_kind = counted.entry(*kind).or_default();
            let before = of_kind.get(namespace).copied().unwrap_or_default();
            if number == 0 {
                of_kind.remove(namespace);
            } else {
                of_kind.insert(namespace.clone(), number);
            }
            let gauge = self.objects.get_or_create(&KindLabels { kind: kind.as_str() });
            gauge.inc_by(signed(number).saturating_sub(signed(before)));
        }
        for (kind, namespace) in touched {
            let Some(name) = kind.spec().linkerd_metric else { continue };
            let families = BY_NAMESPACE.iter().zip(&self.by_namespace);
            for (_, family) in families.filter(|(metric, _)| metric.name == name) {
                let kinds =
                    Kind::ALL.iter().filter(|kind| kind.spec().linkerd_metric == Some(name));
                let numbers = kinds.filter_map(|kind| counted.get(kind)?.get(namespace));
                let number = numbers.fold(0_usize, |sum, number| sum.saturating_add(*number));
                let label = NamespaceLabels { namespace: namespace.to_string() };
                if number == 0 {
                    family.remove(&label);
                } else {
                    set(&family.get_or_create(&label), number);
                }
            }
        }
    }
}

fn set(gauge: &Gauge, number: usize) {
    gauge.set(signed(number));
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Batch, Change};
    use crate::testing;

    fn text(metrics: &IndexMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn the_kinds_that_linkerd_counts_have_its_metrics_and_no_metric_is_without_a_kind() {
        let counted = Kind::ALL.into_iter().filter_map(|kind| kind.spec().linkerd_metric);
        let registered = BY_NAMESPACE.map(|metric| metric.name);
        assert_eq!(counted.collect::<BTreeSet<_>>(), BTreeSet::from(registered));
    }

    #[test]
    fn objects_are_counted_by_namespace_and_a_namespace_without_any_is_not_named() {
        let (metrics, mut index) = (IndexMetrics::default(), Index::default());
        let mut apply = |change: Change| {
            index.apply(&Batch {
                changes: vec![change],
                versions: BTreeMap::new(),
                ..Batch::default()
            });
            metrics.count(&index, &BTreeSet::from([(Kind::Server, "shop".into())]));
            text(&metrics)
        };
        apply(Change::Apply(testing::server("shop", "a", 80)));
        let two = apply(Change::Apply(testing::server("shop", "b", 80)));
        assert!(two.contains("inbound_index_server_index_size{namespace=\"shop\"} 2\n"), "{two}");
        assert!(two.contains("policy_index_objects{kind=\"Server\"} 2\n"), "{two}");
        for name in ["a", "b"] {
            apply(Change::Delete(testing::key(Kind::Server, "shop", name)));
        }
        let none = text(&metrics);
        assert!(!none.contains("shop"), "{none}");
        assert!(none.contains("policy_index_objects{kind=\"Server\"} 0\n"), "{none}");
    }

    #[test]
    fn work_is_told_by_stage() {
        let metrics = IndexMetrics::default();
        let after = Effort { answers: 9, resolved: 7, compiled: 2 };
        metrics.effort(Effort::default(), after);
        metrics.applied(3, Duration::from_millis(2), Duration::from_micros(20));
        metrics.waiting(4, 5);
        let text = text(&metrics);
        for line in [
            "policy_index_answered_total{stage=\"resolve\"} 7",
            "policy_index_answered_total{stage=\"compile\"} 2",
            "policy_index_answers 9",
            "policy_index_batch_changes_sum 3.0",
            "policy_index_seconds_count{stage=\"publish\"} 1",
            "policy_index_batches_waiting 4",
            "policy_index_lookups_waiting 5",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
