//! Metrics of each port's policy state.

use super::names;
use policy_core::Revision;
use policy_tls::metric::Labels;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::num::NonZeroU16;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Status of one port, for metrics and messages.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// The port.
    pub port: NonZeroU16,
    /// True if the workload declares the port.
    pub declared: bool,
    /// Name of the state.
    pub state: &'static str,
    /// Duration for which the policy may have been out of date; zero while it is the latest.
    pub age: Duration,
    /// Generation of the last change.
    pub generation: u64,
    /// Revision of the last good policy.
    pub revision: Option<Revision>,
}

/// Returns gauges with the state of `ports`, created for each scrape.
pub(super) fn registry(ports: &[PortStatus]) -> Registry {
    let age = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    let state = Family::<Labels, Gauge>::default();
    let generation = Family::<Labels, Gauge<u64, AtomicU64>>::default();
    let revision = Family::<Labels, Gauge>::default();
    for status in ports {
        let port = status.port.to_string();
        let mut labels = Labels::default();
        labels.push("port", port);
        age.get_or_create_owned(&labels).set(status.age.as_secs_f64());
        generation.get_or_create_owned(&labels).set(status.generation);
        if let Some(held) = &status.revision {
            let mut labels = labels.clone();
            labels.push("content", format!("{:016x}", held.content));
            revision.get_or_create_owned(&labels).set(1);
        }
        labels.push("declared", if status.declared { "true" } else { "false" });
        labels.push("state", status.state);
        state.get_or_create_owned(&labels).set(1);
    }
    let mut registry = Registry::default();
    registry.register(names::AGE.name, names::AGE.help, age);
    registry.register(names::STATE.name, names::STATE.help, state);
    registry.register(names::GENERATION.name, names::GENERATION.help, generation);
    registry.register(names::REVISION.name, names::REVISION.help, revision);
    registry
}
