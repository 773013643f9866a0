//! Conversion between a Lease object and a [`LeaderElectionRecord`].

use super::decision::LeaderElectionRecord;
use super::settings::LeaseSettings;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use policy_crds::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The annotation of the Lease that names the custom kinds in use, `plural.group` separated by
/// commas: a replica that starts without the definition of one of them is not ready.
pub const KINDS_IN_USE: &str = "portcullis.dev/kinds-in-use";

/// The kinds that the value of [`KINDS_IN_USE`] names.
pub(crate) fn kinds_of(value: &str) -> BTreeSet<Kind> {
    let names: BTreeSet<&str> = value.split(',').map(str::trim).collect();
    let custom = Kind::ALL.into_iter().filter(|kind| kind.is_custom());
    custom.filter(|kind| names.contains(definition_of(*kind).as_str())).collect()
}

/// Name of the definition of a kind.
fn definition_of(kind: Kind) -> String {
    format!("{}.{}", kind.plural(), kind.group())
}

/// Writes the kinds in use.
pub(super) fn write_kinds(lease: &mut Lease, kinds: &BTreeSet<Kind>) {
    let names: Vec<String> = kinds.iter().map(|kind| definition_of(*kind)).collect();
    let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
    annotations.insert(KINDS_IN_USE.to_owned(), names.join(","));
}

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
