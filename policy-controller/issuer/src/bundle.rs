//! Content of a ConfigMap of roots.

use k8s_openapi::api::core::v1::ConfigMap;
use policy_tls::identity::SignedRoots;
use std::collections::BTreeMap;

/// The ConfigMap's key for PEM certificates, for clients that trust every writer of the ConfigMap.
pub const BUNDLE: &str = "ca-bundle.crt";

/// The ConfigMap's key for the same roots with their endorsement, for clients that trust the
/// endorsement alone.
pub const SIGNED: &str = "ca-bundle.signed";

/// The data that a ConfigMap of roots should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) bundle: String,
    /// The endorsed roots; absent if no roots have been endorsed yet.
    pub(super) signed: Option<String>,
}

impl Bundle {
    pub(super) fn data(&self) -> BTreeMap<String, String> {
        let signed = self.signed.iter().map(|text| (SIGNED.to_owned(), text.clone()));
        signed.chain([(BUNDLE.to_owned(), self.bundle.clone())]).collect()
    }

    pub(super) fn is(&self, map: &ConfigMap) -> bool {
        let plain = map.binary_data.as_ref().is_none_or(BTreeMap::is_empty);
        plain && map.data.as_ref() == Some(&self.data())
    }
}

/// Returns the endorsed roots in a ConfigMap.
pub(super) fn signed_of(map: &ConfigMap) -> Option<SignedRoots> {
    SignedRoots::read(map.data.as_ref()?.get(SIGNED)?.as_bytes()).ok()
}
