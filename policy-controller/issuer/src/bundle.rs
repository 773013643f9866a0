//! What a ConfigMap of the roots holds.

use k8s_openapi::api::core::v1::ConfigMap;
use policy_tls::identity::SignedRoots;
use std::collections::BTreeMap;

/// Its key: PEM certificates, for whoever may rely on the ConfigMap.
pub const BUNDLE: &str = "ca-bundle.crt";

/// Its other key: the same roots, and who vouches for them, for whoever may not.
pub const SIGNED: &str = "ca-bundle.signed";

/// What a ConfigMap is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) bundle: String,
    /// Absent: nobody has vouched for any roots yet.
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

/// What a ConfigMap says of who vouches for its roots.
pub(super) fn signed_of(map: &ConfigMap) -> Option<SignedRoots> {
    SignedRoots::read(map.data.as_ref()?.get(SIGNED)?.as_bytes()).ok()
}
