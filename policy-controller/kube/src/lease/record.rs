//! Between a Lease as the API server has it and a [`Record`].

use super::elect::Record;
use super::settings::LeaseSettings;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use std::collections::BTreeMap;
use std::time::Duration;

/// A Lease that nobody holds.
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

pub(super) fn read(lease: &Lease) -> Record {
    let Some(spec) = &lease.spec else { return Record::default() };
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.as_deref().unwrap_or_default().into(),
        promised: seconds.map(Duration::from_secs),
        acquired: spec.acquire_time.as_ref().map(|time| time.0),
        renewed: spec.renew_time.as_ref().map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// Writes the record and leaves everything else as it is.
pub(super) fn write(lease: &mut Lease, record: &Record) {
    let seconds = record.promised.map(|promised| {
        // The API server takes at least a second.
        i32::try_from(promised.as_secs().max(1)).unwrap_or(i32::MAX)
    });
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(record.holder.to_string());
    spec.lease_duration_seconds = seconds;
    spec.acquire_time = record.acquired.map(MicroTime);
    spec.renew_time = record.renewed.map(MicroTime);
    spec.lease_transitions = Some(record.transitions);
}
