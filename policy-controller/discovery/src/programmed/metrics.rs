//! How far objects are in force, as numbers.

use crate::metric_names::{
    OBJECTS_NOT_PROGRAMMED, PROGRAMMED_SECONDS, REPLICAS_ANSWERING, REPLICAS_KNOWN,
};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// Handles on the metrics of counting; clones share them.
#[derive(Clone, Debug)]
pub struct ProgrammedMetrics {
    seconds: Histogram,
    not_programmed: Gauge,
    known: Gauge,
    answering: Gauge,
}

impl Default for ProgrammedMetrics {
    fn default() -> Self {
        let bounds = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];
        Self {
            seconds: Histogram::new(bounds),
            not_programmed: Gauge::default(),
            known: Gauge::default(),
            answering: Gauge::default(),
        }
    }
}

impl ProgrammedMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let of = PROGRAMMED_SECONDS;
        registry.register(of.name, of.help, self.seconds.clone());
        let of = OBJECTS_NOT_PROGRAMMED;
        registry.register(of.name, of.help, self.not_programmed.clone());
        registry.register(REPLICAS_KNOWN.name, REPLICAS_KNOWN.help, self.known.clone());
        registry.register(REPLICAS_ANSWERING.name, REPLICAS_ANSWERING.help, self.answering.clone());
    }

    pub(super) fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    pub(super) fn not_programmed(&self, objects: usize) {
        self.not_programmed.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    pub(super) fn replicas(&self, known: usize, answering: usize) {
        self.known.set(i64::try_from(known).unwrap_or(i64::MAX));
        self.answering.set(i64::try_from(answering).unwrap_or(i64::MAX));
    }
}
