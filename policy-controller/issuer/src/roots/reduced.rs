//! The parts of watched objects that are kept. Editors of a namespace decide how large its pods and
//! its ConfigMap of roots are, and every object of the cluster counts against the issuer's memory.

use crate::map_writer::CONTROL_PLANE;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use std::collections::BTreeMap;

/// The label, and the annotation of the same name, of namespaces with injection.
pub(super) const INJECT: &str = "portcullis.dev/inject";

/// Maximum size of the data that is kept of a ConfigMap; roots take less.
const MAX_DATA: usize = 384 * 1024;

/// Maximum size of the metadata that is kept of a ConfigMap.
const MAX_METADATA: usize = 32 * 1024;

/// Reduces an object to its name and what it says about injection.
pub(super) fn to_injection<K: Resource>(object: &mut K) {
    let injection = |texts: Option<BTreeMap<String, String>>| {
        texts.and_then(|mut texts| texts.remove_entry(INJECT)).map(|entry| [entry].into())
    };
    let metadata = std::mem::take(object.meta_mut());
    *object.meta_mut() = ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        resource_version: metadata.resource_version,
        deletion_timestamp: metadata.deletion_timestamp,
        labels: injection(metadata.labels),
        annotations: injection(metadata.annotations),
        ..ObjectMeta::default()
    };
}

/// Drops what is too large to be a ConfigMap of roots, so that it is not equal to one and is written
/// again. Labels, annotations and finalizers of other clients are kept up to a bound.
pub(super) fn to_roots(map: &mut ConfigMap) {
    map.metadata.managed_fields = None;
    let binary = map.binary_data.iter().flatten().map(|(key, data)| size_of_entry(key, &data.0));
    let text = map.data.iter().flatten().map(|(key, text)| size_of_entry(key, text.as_bytes()));
    if binary.chain(text).fold(0, usize::saturating_add) > MAX_DATA {
        (map.data, map.binary_data) = (None, None);
    }
    let ObjectMeta { labels, annotations, finalizers, owner_references, .. } = &map.metadata;
    let texts = labels.iter().chain(annotations).flatten();
    let texts = texts.map(|(key, text)| size_of_entry(key, text.as_bytes()));
    let finalizers = finalizers.iter().flatten().map(|text| size_of_entry(text, b""));
    let owners = owner_references.iter().flatten().map(|owner| {
        size_of_entry(&owner.name, owner.kind.as_bytes()).saturating_add(owner.api_version.len())
    });
    if texts.chain(finalizers).chain(owners).fold(0, usize::saturating_add) > MAX_METADATA {
        let metadata = &mut map.metadata;
        let own = |labels: BTreeMap<String, String>| {
            labels.into_iter().filter(|(key, _)| key == CONTROL_PLANE).collect()
        };
        metadata.labels = metadata.labels.take().map(own);
        (metadata.annotations, metadata.finalizers, metadata.owner_references) = (None, None, None);
    }
}

fn size_of_entry(key: &str, value: &[u8]) -> usize {
    key.len().saturating_add(value.len())
}
