//! Conversion between a Lease object and a [`LeaderElectionRecord`].

use super::decision::LeaderElectionRecord;
use super::settings::LeaseSettings;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use std::collections::BTreeMap;
use std::time::Duration;

/// A Lease without a holder.
pub(super) fn object(settings: &LeaseSettings) -> Lease {
    let label = ("app.kubernetes.io/part-of".to_owned(), "portcullis".to_owned());
    Lease {
        metadata: ObjectMeta {
            name: Some(settings.name.to_string()),
            namespace: Some(settings.namespace.to_string()),
            labels: Some(BTreeMap::from([label])),
            ..ObjectMeta::default()
        },
        spec: None,
    }
}

pub(super) fn read(lease: &Lease) -> LeaderElectionRecord {
    let Some(spec) = &lease.spec else { return LeaderElectionRecord::default() };
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    LeaderElectionRecord {
        holder: spec.holder_identity.as_deref().unwrap_or_default().into(),
        lease_duration: seconds.map(Duration::from_secs),
        acquire_time: spec.acquire_time.as_ref().map(|time| time.0),
        renew_time: spec.renew_time.as_ref().map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// Writes the record and leaves all other fields as they are.
pub(super) fn write(lease: &mut Lease, record: &LeaderElectionRecord) {
    let seconds = record.lease_duration.map(|lease_duration| {
        // The API server requires at least a second.
        i32::try_from(lease_duration.as_secs().max(1)).unwrap_or(i32::MAX)
    });
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(record.holder.to_string());
    spec.lease_duration_seconds = seconds;
    spec.acquire_time = record.acquire_time.map(MicroTime);
    spec.renew_time = record.renew_time.map(MicroTime);
    spec.lease_transitions = Some(record.transitions);
}
